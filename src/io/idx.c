/* SPDX-License-Identifier: Apache-2.0
 *
 * IDX, the format of MNIST (Y. LeCun, C. Cortes, C. Burges, "The MNIST
 * database of handwritten digits"): two zero bytes, a type, the number of
 * dimensions, the sizes as big-endian 32-bit numbers, the data. Plain or
 * gzipped. */
#include "io_priv.h"

static const struct {
    unsigned char code;
    const char *elem;
} types[] = {
    {0x08, "u8"},  {0x09, "i8"},  {0x0B, "i16"},
    {0x0C, "i32"}, {0x0D, "f32"}, {0x0E, "f64"},
};

static const char *type_of(unsigned char code)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].code == code)
            return types[i].elem;
    return NULL;
}

enum pdl_status io_idx_parse(struct pdl_bytes in, const char *name,
                             struct io_array *out, struct pdl_err *err)
{
    const unsigned char *p = (const unsigned char *)in.data;
    int64_t dim[PDL_DATA_RANK + 1];
    size_t header;
    struct io_array a = {.swap = true};
    enum pdl_status st;

    if (in.len < 4 || p[0] != 0 || p[1] != 0 || !type_of(p[2]))
        return pdl_fail(err, PDL_EPARSE, "%s: not an IDX file", name);
    if (p[3] < 1 || p[3] > PDL_DATA_RANK + 1)
        return pdl_fail(err, PDL_EPARSE, "%s: %d dimensions; 1 to %d are read",
                        name, p[3], PDL_DATA_RANK + 1);
    header = 4 + 4 * (size_t)p[3];
    if (in.len < header)
        return pdl_fail(err, PDL_EPARSE, "%s: the header ends early", name);
    for (int i = 0; i < p[3]; i++) {
        const unsigned char *q = p + 4 + 4 * (ptrdiff_t)i;

        dim[i] = (int64_t)q[0] << 24 | q[1] << 16 | q[2] << 8 | q[3];
    }
    a.elem = io_elem_find(type_of(p[2]));
    st = io_array_lay(&a, (struct pdl_bytes){in.data + header, in.len - header},
                      dim, p[3], name, err);
    if (st == PDL_OK)
        *out = a;
    return st;
}

static bool idx_probe(const struct io_source *src)
{
    const unsigned char *p = (const unsigned char *)src->head.data;

    if (!src->folder)
        return src->head.len >= 8 && p[0] == 0 && p[1] == 0 && type_of(p[2]) &&
               p[3] >= 1 && p[3] <= PDL_DATA_RANK + 1;
    for (int i = 0; i < src->nnames; i++)
        if (io_has_suffix(src->name[i], "-ubyte") ||
            io_has_suffix(src->name[i], ".idx"))
            return true;
    return false;
}

static enum pdl_status idx_open(pdl_io *io, const struct io_source *src,
                                struct pdl_err *err)
{
    return io_pairs_open(io, src, "idx", io_idx_parse, err);
}

const struct io_format io_format_idx = {
    .pub = {"idx", "IDX arrays (MNIST), gzipped or not"},
    .probe = idx_probe,
    .open = idx_open,
};
