/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of tensors in memory: strides, copies of a box between two parts, and
 * the runs of bytes they fall into. Packing a message is a copy into an array
 * that holds just the region, so there is one copy routine. */
#include "train/train_priv.h"

#include <string.h>

bool train_same_box(const struct pdl_box *a, const struct pdl_box *b)
{
    bool same = a->ndims == b->ndims;

    for (int d = 0; same && d < a->ndims; d++)
        same = a->lo[d] == b->lo[d] && a->hi[d] == b->hi[d];
    return same;
}

/* Logical dimensions from the outermost to the innermost in memory. */
static void storage_order(const struct train_array *a, int *order)
{
    int n = 0, dims = a->box.ndims;

    for (int d = 0; d < dims; d++)
        if (!a->channels_last || dims < 3 || d != 1)
            order[n++] = d;
    if (a->channels_last && dims > 2)
        order[n] = 1;
}

static void join(struct train_walk *w)
{
    int n = 0;

    for (int i = 0; i < w->n; i++) {
        if (w->extent[i] == 1)
            continue;
        if (n > 0 && w->to[n - 1] == w->extent[i] * w->to[i] &&
            w->from[n - 1] == w->extent[i] * w->from[i]) {
            w->extent[n - 1] *= w->extent[i];
            w->to[n - 1] = w->to[i];
            w->from[n - 1] = w->from[i];
            continue;
        }
        w->extent[n] = w->extent[i];
        w->to[n] = w->to[i];
        w->from[n++] = w->from[i];
    }
    w->n = n;
}

void train_walk(struct train_walk *w, const struct train_array *to,
                const struct train_array *from, const struct pdl_box *region)
{
    int64_t ts[PDL_BOX_DIMS] = {0}, fs[PDL_BOX_DIMS] = {0};
    int order[PDL_BOX_DIMS] = {0};

    *w = (struct train_walk){.n = region->ndims};
    train_array_strides(to, ts);
    train_array_strides(from, fs);
    storage_order(to, order);
    for (int i = 0; i < w->n; i++) {
        int d = order[i];

        w->extent[i] = region->hi[d] - region->lo[d];
        w->to[i] = ts[d];
        w->from[i] = fs[d];
        w->to_first += (region->lo[d] - to->box.lo[d]) * ts[d];
        w->from_first += (region->lo[d] - from->box.lo[d]) * fs[d];
    }
    join(w);
}

static void copy_items(char *to, int64_t ts, const char *from, int64_t fs,
                       int64_t n, size_t size)
{
    if (ts == 1 && fs == 1) {
        memcpy(to, from, (size_t)n * size);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        memcpy(to + (size_t)(i * ts) * size, from + (size_t)(i * fs) * size,
               size);
}

static void copy_loops(const struct train_walk *w, int level, char *to,
                       const char *from, size_t size)
{
    if (level >= w->n - 1) {
        int i = w->n - 1;

        copy_items(to, i < 0 ? 1 : w->to[i], from, i < 0 ? 1 : w->from[i],
                   i < 0 ? 1 : w->extent[i], size);
        return;
    }
    for (int64_t i = 0; i < w->extent[level]; i++)
        copy_loops(w, level + 1, to + (size_t)(i * w->to[level]) * size,
                   from + (size_t)(i * w->from[level]) * size, size);
}

void train_copy(const struct train_array *to, void *dst,
                const struct train_array *from, const void *src,
                const struct pdl_box *region)
{
    size_t size = (size_t)pdl_dtype_bits(to->dtype) / 8;
    struct train_walk w;

    if (pdl_box_empty(region))
        return;
    train_walk(&w, to, from, region);
    copy_loops(&w, 0, (char *)dst + (size_t)w.to_first * size,
               (const char *)src + (size_t)w.from_first * size, size);
}

bool train_is_run(const struct train_array *a, const struct pdl_box *region,
                  int64_t *first)
{
    int64_t stride[PDL_BOX_DIMS] = {0}, at = 0;

    train_array_strides(a, stride);
    for (int d = 0; d < region->ndims; d++)
        at += (region->lo[d] - a->box.lo[d]) * stride[d];
    *first = at * pdl_dtype_bits(a->dtype) / 8;
    return pdl_box_run(&a->box, region, a->channels_last) ==
           pdl_box_volume(region);
}

/* Kernels of every backend store bfloat16 as its upper half of a float. */
static float from_bf16(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;

    memcpy(&f, &u, sizeof f);
    return f;
}

void train_scale(enum pdl_dtype t, void *data, int64_t n, double by)
{
    float f = (float)by;

    for (int64_t i = 0; i < n; i++)
        if (t == PDL_F64)
            ((double *)data)[i] *= by;
        else if (t == PDL_BF16)
            ((uint16_t *)data)[i] =
                pdl_to_bf16(from_bf16(((uint16_t *)data)[i]) * f);
        else
            ((float *)data)[i] *= f;
}

void train_plus(enum pdl_dtype t, void *to, const void *a, const void *b,
                int64_t n)
{
    pdl_comm_combine(to, a, b, n,
                     t == PDL_BF16  ? PDL_COMM_BF16
                     : t == PDL_F64 ? PDL_COMM_F64
                                    : PDL_COMM_F32,
                     PDL_COMM_SUM);
}

/* ---- for people and tests ------------------------------------------------ */

static int64_t place(const struct pdl_train_part *p, const int64_t *i)
{
    struct train_array a = {p->dtype, p->box, p->channels_last, 0};
    int64_t stride[PDL_BOX_DIMS] = {0}, at = 0;

    train_array_strides(&a, stride);
    for (int d = 0; d < p->box.ndims; d++)
        at += (i[d] - p->box.lo[d]) * stride[d];
    return at;
}

double pdl_train_get(const struct pdl_train_part *p, const int64_t *i)
{
    int64_t at = place(p, i);

    switch (p->dtype) {
    case PDL_F64:
        return ((const double *)p->data)[at];
    case PDL_I32:
        return ((const int32_t *)p->data)[at];
    case PDL_BF16:
        return (double)from_bf16(((const uint16_t *)p->data)[at]);
    case PDL_U8:
        return ((const uint8_t *)p->data)[at];
    default:
        return (double)((const float *)p->data)[at];
    }
}

void pdl_train_put(const struct pdl_train_part *p, const int64_t *i, double v)
{
    int64_t at = place(p, i);

    switch (p->dtype) {
    case PDL_F64:
        ((double *)p->data)[at] = v;
        break;
    case PDL_I32:
        ((int32_t *)p->data)[at] = (int32_t)v;
        break;
    case PDL_BF16:
        ((uint16_t *)p->data)[at] = pdl_to_bf16((float)v);
        break;
    case PDL_U8:
        ((uint8_t *)p->data)[at] = (uint8_t)v;
        break;
    default:
        ((float *)p->data)[at] = (float)v;
        break;
    }
}
