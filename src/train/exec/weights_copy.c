/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of a weight of ours to or from a tensor of others: another order of
 * rows, transposed, a part of a fused one, another type of numbers. */
#include "train/exec/weights.h"
#include "train/train_priv.h"

#include <math.h>
#include <string.h>

/* ---- numbers ---------------------------------------------------------- */

static double from_half(uint16_t h)
{
    int e = h >> 10 & 31, m = h & 1023;
    double v = e == 0    ? ldexp(m, -24)
               : e == 31 ? (m ? NAN : INFINITY)
                         : ldexp(1024 + m, e - 25);

    return h >> 15 ? -v : v;
}

bool train_weights_type(enum pdl_dtype t)
{
    return t == PDL_F32 || t == PDL_F64 || t == PDL_F16 || t == PDL_BF16;
}

static double get(enum pdl_dtype t, const void *p, int64_t i)
{
    uint32_t u;
    float f;

    if (t == PDL_F32)
        return (double)((const float *)p)[i];
    if (t == PDL_F64)
        return ((const double *)p)[i];
    if (t == PDL_F16)
        return from_half(((const uint16_t *)p)[i]);
    u = (uint32_t)((const uint16_t *)p)[i] << 16;
    memcpy(&f, &u, sizeof f);
    return (double)f;
}

static void put(enum pdl_dtype t, void *p, int64_t i, double v)
{
    if (t == PDL_F64)
        ((double *)p)[i] = v;
    else if (t == PDL_BF16)
        ((uint16_t *)p)[i] = pdl_to_bf16((float)v);
    else
        ((float *)p)[i] = (float)v;
}

/* n numbers at distances of their own. */
struct line {
    enum pdl_dtype dtype;
    void *data;
    int64_t at, step;
};

static void copy_line(const struct line *from, const struct line *to, int64_t n)
{
    size_t size = (size_t)pdl_dtype_bits(from->dtype) / 8;

    if (from->dtype == to->dtype && from->step == 1 && to->step == 1) {
        memcpy((char *)to->data + (size_t)to->at * size,
               (const char *)from->data + (size_t)from->at * size,
               (size_t)n * size);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        put(to->dtype, to->data, to->at + i * to->step,
            get(from->dtype, from->data, from->at + i * from->step));
}

/* ---- rows ------------------------------------------------------------- */

static int64_t extent(const struct pdl_box *b, int d)
{
    return b->hi[d] - b->lo[d];
}

/* Dimension of ours whose index is a row. */
static int row_of(const struct pdl_weight_place *p)
{
    return p->expert >= 0 ? 1 : 0;
}

bool train_weights_run(const struct pdl_weight_place *p,
                       const struct pdl_train_part *ours,
                       struct train_weights_run *out)
{
    int r = row_of(p), d = p->transposed ? 1 : p->lead;
    const struct pdl_box *b = &ours->box;
    struct pdl_box *t = &out->theirs.box;
    int64_t first = 0, last = 0;

    *out = (struct train_weights_run){.lo = 0, .hi = 1};
    if (p->expert >= 0 && (p->expert < b->lo[0] || p->expert >= b->hi[0]))
        return false;
    t->ndims = p->rank;
    for (int k = 0; k < p->lead; k++)
        t->hi[k] = 1;
    if (b->ndims <= r)
        return true; /* a number */
    out->lo = b->lo[r] > p->to ? b->lo[r] - p->to : 0;
    out->hi = b->hi[r] - p->to < p->n ? b->hi[r] - p->to : p->n;
    if (out->lo >= out->hi)
        return false;
    for (int64_t i = out->lo; i < out->hi; i++) {
        int64_t row = pdl_weight_row(p, i);

        first = i == out->lo || row < first ? row : first;
        last = i == out->lo || row > last ? row : last;
    }
    for (int k = r + 1; k < b->ndims; k++) {
        int at = p->transposed ? 0 : k - r + p->lead;

        t->lo[at] = b->lo[k];
        t->hi[at] = b->hi[k];
    }
    t->lo[d] = first;
    t->hi[d] = last + 1;
    return true;
}

void train_weights_copy(const struct pdl_weight_place *p,
                        const struct train_weights_run *run,
                        const struct pdl_train_part *ours, bool in)
{
    const struct pdl_box *b = &ours->box, *t = &run->theirs.box;
    int r = row_of(p);
    int64_t inner = 1, before = 0;

    for (int k = r + 1; k < b->ndims; k++)
        inner *= extent(b, k);
    if (p->expert >= 0)
        before = (p->expert - b->lo[0]) * extent(b, 1);
    for (int64_t i = run->lo; i < run->hi; i++) {
        int64_t row = pdl_weight_row(p, i) - t->lo[p->transposed ? 1 : p->lead];
        int64_t mine = b->ndims > r ? before + p->to + i - b->lo[r] : 0;
        struct line a = {ours->dtype, ours->data, mine * inner, 1}, z;

        z = (struct line){run->theirs.dtype, run->theirs.data, row * inner, 1};
        if (p->transposed) {
            z.at = row;
            z.step = extent(t, 1);
        }
        if (b->ndims <= r)
            z.at = 0;
        copy_line(in ? &z : &a, in ? &a : &z, inner);
    }
}
