/* SPDX-License-Identifier: Apache-2.0
 *
 * The header of a safetensors file: names, types, shapes and places of its
 * tensors. What a model is made of (safetensors.c) and where weights are read
 * from (the io room) is this one list.
 *
 * File: eight bytes, the length N of the header, little-endian; N bytes of
 * JSON, {"name": {"dtype", "shape", "data_offsets": [begin, end]}, ...,
 * "__metadata__": {text: text}}; the data. Checked as the format's reference
 * implementation does: N at most 100 MB and within the file, each range as
 * long as its type and shape say, all ranges together tiling the data. */
#include "paradl/model.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_HEADER = 100 * 1000 * 1000, MAX_TENSORS = 1000 * 1000 };

static const struct {
    const char *name;
    enum pdl_dtype dtype;
    int bits;
} types[] = {
    {"F64", PDL_F64, 64},      {"F32", PDL_F32, 32},
    {"F16", PDL_F16, 16},      {"BF16", PDL_BF16, 16},
    {"F8_E4M3", PDL_F8, 8},    {"F8_E5M2", PDL_F8, 8},
    {"F8_E8M0", PDL_F8, 8},    {"F4", PDL_F4, 4},
    {"I64", PDL_I64, 64},      {"I32", PDL_I32, 32},
    {"I16", PDL_I16, 16},      {"I8", PDL_I8, 8},
    {"U64", PDL_U64, 64},      {"U32", PDL_U32, 32},
    {"U16", PDL_U16, 16},      {"U8", PDL_U8, 8},
    {"BOOL", PDL_BOOL, 8},     {"C64", PDL_OTHER, 64},
    {"F6_E2M3", PDL_OTHER, 6}, {"F6_E3M2", PDL_OTHER, 6},
};

struct range {
    int64_t begin, end;
    const struct pdl_doc *at;
};

struct reader {
    pdl_arena *arena;
    const char *name;
    struct pdl_err *err;
    struct pdl_safetensor *tensor;
    struct range *ranges;
    int64_t data; /* bytes behind the header */
    int n;
};

static enum pdl_status read_shape(struct reader *r, const struct pdl_doc *d,
                                  struct pdl_safetensor *t)
{
    enum pdl_status st;

    if (!d || d->kind != PDL_DOC_LIST)
        return pdl_doc_fail(d ? d : r->ranges[r->n].at, r->err,
                            "the tensor has no shape");
    if (d->count > PDL_MAX_RANK)
        return pdl_doc_fail(d, r->err,
                            "a tensor of rank %d; at most %d is read", d->count,
                            PDL_MAX_RANK);
    for (d = d->child; d; d = d->next) {
        st = pdl_doc_int(d, 0, INT64_MAX, &t->dim[t->rank++], r->err);
        if (st != PDL_OK)
            return st;
    }
    return PDL_OK;
}

static enum pdl_status read_range(struct reader *r, const struct pdl_doc *entry,
                                  struct range *out)
{
    const struct pdl_doc *d = pdl_doc_get(entry, "data_offsets");
    enum pdl_status st;

    if (!d || d->kind != PDL_DOC_LIST || d->count != 2)
        return pdl_doc_fail(d ? d : entry, r->err,
                            "the tensor needs data_offsets [begin, end]");
    st = pdl_doc_int(d->child, 0, INT64_MAX, &out->begin, r->err);
    if (st == PDL_OK)
        st = pdl_doc_int(d->child->next, 0, INT64_MAX, &out->end, r->err);
    if (st != PDL_OK)
        return st;
    if (out->begin > out->end || out->end > r->data)
        return pdl_doc_fail(d, r->err,
                            "data_offsets %lld to %lld do not lie within the "
                            "%lld bytes of data",
                            (long long)out->begin, (long long)out->end,
                            (long long)r->data);
    return PDL_OK;
}

/* The bytes a shape needs; false when they are not whole or overflow. */
static bool bytes_of(const struct pdl_safetensor *t, int bits, int64_t *out)
{
    int64_t n;

    if (!pdl_prod64(t->dim, t->rank, &n) || !pdl_mul64(n, bits, &n) || n % 8)
        return false;
    *out = n / 8;
    return true;
}

static enum pdl_status unknown_type(struct reader *r, const struct pdl_doc *d)
{
    struct pdl_suggest s;

    pdl_doc_fail(d, r->err, "unknown dtype '%.40s'", d->text);
    pdl_suggest_init(&s, d->text);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        pdl_suggest_try(&s, types[i].name);
    if (pdl_suggest_best(&s))
        pdl_hint(r->err, "did you mean '%s'?", pdl_suggest_best(&s));
    return PDL_EPARSE;
}

static enum pdl_status read_type(struct reader *r, const struct pdl_doc *entry,
                                 struct pdl_safetensor *t, int *bits)
{
    const struct pdl_doc *d = pdl_doc_get(entry, "dtype");

    if (!d || d->kind != PDL_DOC_SCALAR)
        return pdl_doc_fail(d ? d : entry, r->err, "the tensor has no dtype");
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(types[i].name, d->text) == 0) {
            t->dtype = types[i].dtype;
            *bits = types[i].bits;
            return PDL_OK;
        }
    return unknown_type(r, d);
}

static enum pdl_status read_tensor(struct reader *r, const struct pdl_doc *d)
{
    static const char *const keys[] = {"dtype", "shape", "data_offsets", NULL};
    struct pdl_safetensor t = {.name = d->key};
    struct range *range = &r->ranges[r->n];
    int64_t bytes = -1;
    int bits = 0;
    enum pdl_status st;

    if (d->kind != PDL_DOC_MAP)
        return pdl_doc_fail(d, r->err,
                            "'%.60s': expected {dtype, shape, data_offsets}",
                            d->key);
    range->at = d;
    st = pdl_doc_only(d, keys, r->err);
    if (st == PDL_OK)
        st = read_type(r, d, &t, &bits);
    if (st == PDL_OK)
        st = read_shape(r, pdl_doc_get(d, "shape"), &t);
    if (st == PDL_OK)
        st = read_range(r, d, range);
    if (st != PDL_OK)
        return st;
    if (!bytes_of(&t, bits, &bytes))
        return pdl_doc_fail(d, r->err,
                            "'%.60s': the shape is too large, or no whole "
                            "number of bytes",
                            d->key);
    if (bytes != range->end - range->begin)
        return pdl_doc_fail(d, r->err,
                            "'%.60s': the shape needs %lld bytes, data_offsets "
                            "span %lld",
                            d->key, (long long)bytes,
                            (long long)(range->end - range->begin));
    t.begin = range->begin;
    t.end = range->end;
    r->tensor[r->n++] = t;
    return PDL_OK;
}

static enum pdl_status read_metadata(struct reader *r, const struct pdl_doc *d)
{
    if (d->kind != PDL_DOC_MAP)
        return pdl_doc_fail(d, r->err, "__metadata__: expected a map of text");
    for (d = d->child; d; d = d->next)
        if (d->kind != PDL_DOC_SCALAR || !d->quoted)
            return pdl_doc_fail(d, r->err, "__metadata__: '%.60s' must be text",
                                d->key);
    return PDL_OK;
}

static int by_begin(const void *a, const void *b)
{
    const struct range *x = a, *y = b;

    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

/* Ranges tile the data: no overlap, no hole, nothing left over. */
static enum pdl_status check_ranges(struct reader *r)
{
    int64_t at = 0;

    qsort(r->ranges, (size_t)r->n, sizeof *r->ranges, by_begin);
    for (int i = 0; i < r->n; i++) {
        const struct range *x = &r->ranges[i];

        if (x->begin != at)
            return pdl_doc_fail(x->at, r->err,
                                "'%.60s' begins at byte %lld of the data, but "
                                "the tensor before it ends at %lld",
                                x->at->key, (long long)x->begin, (long long)at);
        at = x->end;
    }
    if (at != r->data)
        return pdl_fail(r->err, PDL_EPARSE,
                        "%s: the tensors end at byte %lld of %lld of the data",
                        r->name, (long long)at, (long long)r->data);
    return PDL_OK;
}

static enum pdl_status read_header(struct reader *r, const struct pdl_doc *root)
{
    enum pdl_status st = PDL_OK;

    if (root->kind != PDL_DOC_MAP)
        return pdl_doc_fail(root, r->err, "the header is not an object { }");
    if (root->count > MAX_TENSORS)
        return pdl_doc_fail(root, r->err, "more than %d tensors", MAX_TENSORS);
    r->ranges = PDL_NEW(r->arena, struct range, root->count + 1);
    r->tensor = PDL_NEW(r->arena, struct pdl_safetensor, root->count + 1);
    if (!r->ranges || !r->tensor)
        return pdl_fail(r->err, PDL_ENOMEM, "%s: out of memory", r->name);
    for (const struct pdl_doc *d = root->child; d && st == PDL_OK; d = d->next)
        st = strcmp(d->key, "__metadata__") == 0 ? read_metadata(r, d)
                                                 : read_tensor(r, d);
    return st == PDL_OK ? check_ranges(r) : st;
}

/* torch.save writes a zip, and a bare pickle before 1.6. */
static bool is_pickle(struct pdl_bytes in)
{
    return memcmp(in.data, "PK\3\4", 4) == 0 ||
           memcmp(in.data, "\x80\2", 2) == 0;
}

/* The header's JSON, with the checks of its length. */
static enum pdl_status open_header(struct reader *r, struct pdl_bytes in,
                                   int64_t file_bytes, struct pdl_bytes *out)
{
    uint64_t n = 0;

    if (in.len < 8 || file_bytes < 8)
        return pdl_fail(r->err, PDL_EPARSE,
                        "%s: too short for a safetensors file", r->name);
    for (int i = 7; i >= 0; i--)
        n = n << 8 | (unsigned char)in.data[i];
    if (n > MAX_HEADER) {
        pdl_fail(r->err, PDL_EPARSE,
                 "%s: a header of %llu bytes; at most %d are allowed", r->name,
                 (unsigned long long)n, MAX_HEADER);
        if (is_pickle(in))
            pdl_hint(r->err, "PyTorch's own format? save_file of "
                             "safetensors.torch writes what can be read");
        return PDL_EPARSE;
    }
    if ((int64_t)n > file_bytes - 8 || n > in.len - 8)
        return pdl_fail(r->err, PDL_EPARSE,
                        "%s: a header of %llu bytes in a file of %lld", r->name,
                        (unsigned long long)n, (long long)file_bytes);
    out->data = pdl_arena_strndup(r->arena, in.data + 8, (size_t)n);
    out->len = (size_t)n;
    r->data = file_bytes - 8 - (int64_t)n;
    if (!out->data)
        return pdl_fail(r->err, PDL_ENOMEM, "%s: out of memory", r->name);
    return PDL_OK;
}

bool pdl_safetensors_type(enum pdl_dtype t, const char **name)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].dtype == t && t != PDL_OTHER) {
            *name = types[i].name;
            return true;
        }
    return false;
}

enum pdl_status pdl_safetensors_header(pdl_arena *a, struct pdl_bytes in,
                                       int64_t file_bytes, const char *name,
                                       struct pdl_safetensors *out,
                                       struct pdl_err *err)
{
    struct reader r = {.arena = a, .name = name, .err = err};
    const struct pdl_doc *root = NULL;
    struct pdl_bytes header = {NULL, 0};
    enum pdl_status st = open_header(&r, in, file_bytes, &header);

    if (st == PDL_OK)
        st = pdl_doc_json(a, header, name, &root, err);
    if (st == PDL_OK)
        st = read_header(&r, root);
    if (st != PDL_OK)
        return st;
    *out = (struct pdl_safetensors){
        .tensor = r.tensor,
        .ntensors = r.n,
        .data_at = file_bytes - r.data,
        .data_bytes = r.data,
    };
    return PDL_OK;
}
