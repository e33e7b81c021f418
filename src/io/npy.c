/* SPDX-License-Identifier: Apache-2.0
 *
 * NumPy's array files (NEP 1, "A simple file format for NumPy arrays"): the
 * magic, a version, the length of the header and the header, a Python
 * dictionary {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), },
 * then the data. Versions 1 to 3; C order only. */
#include "io_priv.h"

#include <string.h>

static const struct {
    const char *code, *elem;
} types[] = {
    {"u1", "u8"},  {"i1", "i8"},  {"b1", "u8"},  {"u2", "u16"}, {"i2", "i16"},
    {"u4", "u32"}, {"i4", "i32"}, {"i8", "i64"}, {"f4", "f32"}, {"f8", "f64"},
};

static bool magic(struct pdl_bytes in)
{
    return in.len >= 10 && memcmp(in.data, "\x93NUMPY", 6) == 0;
}

/* The text after 'key': in the header, or NULL. */
static const char *value_of(const char *header, const char *key)
{
    const char *p = strstr(header, key);

    if (!p)
        return NULL;
    p += strlen(key);
    p += strspn(p, "'\" ");
    if (*p != ':')
        return NULL;
    return p + 1 + strspn(p + 1, " ");
}

static enum pdl_status read_type(const char *text, const char *name,
                                 struct io_array *a, struct pdl_err *err)
{
    const char *end;

    if (text && (*text == '\'' || *text == '"') && strlen(text) > 4)
        for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
            if (strchr("<>|=", text[1]) &&
                strncmp(text + 2, types[i].code, 2) == 0 &&
                text[4] == text[0]) {
                a->elem = io_elem_find(types[i].elem);
                a->swap = text[1] == '>';
                return PDL_OK;
            }
    end = text && *text ? strchr(text + 1, *text) : NULL;
    return pdl_fail(err, PDL_EPARSE,
                    "%s: a type of numbers that is not read: %.*s", name,
                    end && end - text < 12 ? (int)(end - text) + 1 : 12,
                    text ? text : "none");
}

static enum pdl_status read_shape(const char *p, const char *name, int64_t *dim,
                                  int *n, struct pdl_err *err)
{
    *n = 0;
    if (!p || *p != '(')
        return pdl_fail(err, PDL_EPARSE, "%s: the header has no shape", name);
    for (p++; *p != ')'; p += strspn(p, " ,")) {
        int64_t v = 0;

        if (*n > PDL_DATA_RANK || *p < '0' || *p > '9')
            return pdl_fail(err, PDL_EPARSE,
                            "%s: the shape is malformed, or "
                            "of more than %d dimensions",
                            name, PDL_DATA_RANK + 1);
        for (; *p >= '0' && *p <= '9'; p++)
            if (!pdl_mul64(v, 10, &v) || !pdl_add64(v, *p - '0', &v))
                return pdl_fail(err, PDL_EPARSE, "%s: the shape overflows",
                                name);
        dim[(*n)++] = v;
    }
    return PDL_OK;
}

static enum pdl_status read_header(const char *text, struct pdl_bytes data,
                                   const char *name, struct io_array *out,
                                   struct pdl_err *err)
{
    const char *order = value_of(text, "fortran_order");
    int64_t dim[PDL_DATA_RANK + 1];
    struct io_array a = {.swap = false};
    int n = 0;
    enum pdl_status st = read_type(value_of(text, "descr"), name, &a, err);

    if (st == PDL_OK && (!order || strncmp(order, "False", 5) != 0))
        st = pdl_fail(err, PDL_EPARSE, "%s: only C order is read", name);
    if (st == PDL_OK)
        st = read_shape(value_of(text, "shape"), name, dim, &n, err);
    if (st == PDL_OK)
        st = io_array_lay(&a, data, dim, n, name, err);
    if (st == PDL_OK)
        *out = a;
    return st;
}

enum pdl_status io_npy_parse(struct pdl_bytes in, const char *name,
                             struct io_array *out, struct pdl_err *err)
{
    const unsigned char *p = (const unsigned char *)in.data;
    char text[1024];
    size_t start, n;

    if (!magic(in) || p[6] < 1 || p[6] > 3 || (p[6] > 1 && in.len < 12))
        return pdl_fail(err, PDL_EPARSE, "%s: not a NumPy array", name);
    start = p[6] == 1 ? 10 : 12;
    n = p[8] | (size_t)p[9] << 8;
    if (p[6] > 1)
        n |= (size_t)p[10] << 16 | (size_t)p[11] << 24;
    if (n >= sizeof text || n > in.len - start)
        return pdl_fail(err, PDL_EPARSE, "%s: a header of %zu bytes", name, n);
    memcpy(text, in.data + start, n);
    text[n] = '\0';
    return read_header(
        text, (struct pdl_bytes){in.data + start + n, in.len - start - n}, name,
        out, err);
}

static bool npy_probe(const struct io_source *src)
{
    if (!src->folder)
        return magic(src->head);
    for (int i = 0; i < src->nnames; i++)
        if (io_has_suffix(src->name[i], ".npy"))
            return true;
    return false;
}

static enum pdl_status npy_open(pdl_io *io, const struct io_source *src,
                                struct pdl_err *err)
{
    return io_pairs_open(io, src, ".npy", io_npy_parse, err);
}

const struct io_format io_format_npy = {
    .pub = {"npy", "a folder of NumPy arrays, x_train.npy and y_train.npy ..."},
    .probe = npy_probe,
    .open = npy_open,
};
