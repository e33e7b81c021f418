/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrays of samples in memory: one table of number types, and a strided copy
 * of a box of one sample. IDX, NumPy and CIFAR files are such arrays with
 * different headers. */
#include "io_priv.h"

#include <string.h>

/* ---- numbers ---- */

static uint64_t bits_of(const unsigned char *p, int bytes, bool swap)
{
    uint64_t v = 0;

    for (int i = 0; i < bytes; i++)
        v |= (uint64_t)p[swap ? bytes - 1 - i : i] << (8 * i);
    return v;
}

static double get_u8(const unsigned char *p, bool swap)
{
    (void)swap;
    return *p;
}

static double get_i8(const unsigned char *p, bool swap)
{
    (void)swap;
    return (int8_t)*p;
}

static double get_u16(const unsigned char *p, bool swap)
{
    return (double)bits_of(p, 2, swap);
}

static double get_i16(const unsigned char *p, bool swap)
{
    return (int16_t)(uint16_t)bits_of(p, 2, swap);
}

static double get_u32(const unsigned char *p, bool swap)
{
    return (double)bits_of(p, 4, swap);
}

static double get_i32(const unsigned char *p, bool swap)
{
    return (int32_t)(uint32_t)bits_of(p, 4, swap);
}

static double get_i64(const unsigned char *p, bool swap)
{
    return (double)(int64_t)bits_of(p, 8, swap);
}

static double get_f32(const unsigned char *p, bool swap)
{
    uint32_t u = (uint32_t)bits_of(p, 4, swap);
    float f;

    memcpy(&f, &u, sizeof f);
    return f;
}

static double get_f64(const unsigned char *p, bool swap)
{
    uint64_t u = bits_of(p, 8, swap);
    double f;

    memcpy(&f, &u, sizeof f);
    return f;
}

static const struct io_elem elems[] = {
    // clang-format off
    {"u8",  1, true,  1.0 / 255, get_u8 },
    {"i8",  1, true,  1,         get_i8 },
    {"u16", 2, true,  1,         get_u16},
    {"i16", 2, true,  1,         get_i16},
    {"u32", 4, true,  1,         get_u32},
    {"i32", 4, true,  1,         get_i32},
    {"i64", 8, true,  1,         get_i64},
    {"f32", 4, false, 1,         get_f32},
    {"f64", 8, false, 1,         get_f64},
    {"whole", 4, true, 1,        get_f32}, /* labels among floats */
    // clang-format on
};

const struct io_elem *io_elem_find(const char *name)
{
    for (size_t i = 0; i < sizeof elems / sizeof elems[0]; i++)
        if (strcmp(elems[i].name, name) == 0)
            return &elems[i];
    return NULL;
}

/* ---- shapes ---- */

enum { MOST_CHANNELS = 4 }; /* gray, colour, with alpha */

static bool channels_are_last(const int64_t *dim, int ndims)
{
    return ndims >= 4 && dim[ndims - 1] <= MOST_CHANNELS &&
           dim[1] > MOST_CHANNELS;
}

/* Fills rank, dim and step from the file's order of dimensions. */
static void arrange(struct io_array *a, const int64_t *dim, int ndims)
{
    int64_t step[PDL_DATA_RANK + 1] = {0}, at = a->elem->bytes;
    bool last = channels_are_last(dim, ndims);

    for (int i = ndims - 1; i >= 1; at *= dim[i--])
        step[i] = at;
    a->stride = at;
    a->rank = 0;
    if (ndims == 3 || last) { /* the channel comes first */
        a->dim[0] = last ? dim[ndims - 1] : 1;
        a->step[0] = last ? step[ndims - 1] : at;
        a->rank = 1;
    }
    for (int i = 1; i < ndims - (last ? 1 : 0); i++) {
        a->dim[a->rank] = dim[i];
        a->step[a->rank++] = step[i];
    }
}

enum pdl_status io_array_lay(struct io_array *a, struct pdl_bytes in,
                             const int64_t *dim, int ndims, const char *name,
                             struct pdl_err *err)
{
    int64_t bytes;

    if (ndims < 1 || ndims > PDL_DATA_RANK + 1)
        return pdl_fail(err, PDL_EPARSE, "%s: %d dimensions; 1 to %d are read",
                        name, ndims, PDL_DATA_RANK + 1);
    for (int i = 0; i < ndims; i++)
        if (dim[i] < 1)
            return pdl_fail(err, PDL_EPARSE, "%s: dimension %d is %lld", name,
                            i, (long long)dim[i]);
    if (!pdl_prod64(dim, ndims, &bytes) ||
        !pdl_mul64(bytes, a->elem->bytes, &bytes))
        return pdl_fail(err, PDL_EPARSE, "%s: the dimensions overflow", name);
    if (bytes != (int64_t)in.len)
        return pdl_fail(err, PDL_EPARSE,
                        "%s: the header announces %lld bytes of data, the file "
                        "has %zu",
                        name, (long long)bytes, in.len);
    a->at = (const unsigned char *)in.data;
    a->count = dim[0];
    a->scale = a->elem->scale;
    arrange(a, dim, ndims);
    return PDL_OK;
}

/* ---- copies ---- */

static void row(const struct io_array *a, const unsigned char *p, int64_t n,
                int64_t step, bool integer, void *dst)
{
    if (integer) {
        for (int64_t i = 0; i < n; i++, p += step)
            ((int32_t *)dst)[i] = (int32_t)a->elem->get(p, a->swap);
    } else if (a->elem->bytes == 1 && a->elem->get == get_u8) {
        for (int64_t i = 0; i < n; i++, p += step)
            ((float *)dst)[i] = (float)(*p * a->scale);
    } else {
        for (int64_t i = 0; i < n; i++, p += step)
            ((float *)dst)[i] = (float)(a->elem->get(p, a->swap) * a->scale);
    }
}

void io_array_read(const struct io_array *a, int64_t i,
                   const struct pdl_box *box, bool integer, void *dst)
{
    const unsigned char *base = a->at + i * a->stride;
    int64_t n = 1, step = 0, at[PDL_DATA_RANK] = {0};
    int outer = a->rank > 0 ? a->rank - 1 : 0, d;
    char *out = dst;

    if (pdl_box_empty(box))
        return;
    if (a->rank > 0) {
        n = box->hi[outer] - box->lo[outer];
        step = a->step[outer];
        base += box->lo[outer] * step;
    }
    memcpy(at, box->lo, sizeof at);
    do {
        const unsigned char *p = base;

        for (d = 0; d < outer; d++)
            p += at[d] * a->step[d];
        row(a, p, n, step, integer, out);
        out += n * 4; /* both kinds have four bytes */
        for (d = outer - 1; d >= 0 && ++at[d] == box->hi[d]; d--)
            at[d] = box->lo[d];
    } while (d >= 0);
}

int64_t io_array_max(const struct io_array *a)
{
    int64_t n = 1, max = -1;

    for (int d = 0; d < a->rank; d++)
        n *= a->dim[d];
    for (int64_t i = 0; i < a->count; i++)
        for (int64_t j = 0; j < n; j++) {
            const unsigned char *p = a->at + i * a->stride + j * a->elem->bytes;
            double v = a->elem->get(p, a->swap);

            if (!(v >= 0 && v < INT32_MAX))
                return -1 - i;
            if ((int64_t)v > max)
                max = (int64_t)v;
        }
    return max;
}
