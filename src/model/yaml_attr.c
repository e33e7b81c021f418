/* SPDX-License-Identifier: Apache-2.0
 *
 * Attributes in our own format: one table says how each is called and what it
 * holds; the reader, the writer and the list of known keys follow it.
 *
 * Three are more than a field: `bias: false` is no_bias, `pad` alone means
 * both ends, and a spatial attribute written as one number holds for every
 * spatial dimension of the first input. */
#include "model_priv.h"

#include <stddef.h>
#include <string.h>

enum kind { INT, FLAG, NOT, NUM, SPATIAL, DIMS };

#define FIELD(f) offsetof(struct pdl_attr, f)

static const struct {
    const char *key;
    enum kind kind;
    size_t offset;
} fields[] = {
    {"features", INT, FIELD(features)},
    {"vocab", INT, FIELD(vocab)},
    {"kernel", SPATIAL, FIELD(kernel)},
    {"stride", SPATIAL, FIELD(stride)},
    {"dilation", SPATIAL, FIELD(dilation)},
    {"pad", SPATIAL, FIELD(pad)},
    {"pad_end", SPATIAL, FIELD(pad_end)},
    {"output_pad", SPATIAL, FIELD(output_pad)},
    {"groups", INT, FIELD(groups)},
    {"bias", NOT, FIELD(no_bias)},
    {"ceil_mode", FLAG, FIELD(ceil_mode)},
    {"count_pad", FLAG, FIELD(count_pad)},
    {"keep_dims", FLAG, FIELD(keep_dims)},
    {"heads", INT, FIELD(heads)},
    {"kv_heads", INT, FIELD(kv_heads)},
    {"head_dim", INT, FIELD(head_dim)},
    {"v_head_dim", INT, FIELD(v_head_dim)},
    {"window", INT, FIELD(window)},
    {"causal", FLAG, FIELD(causal)},
    {"experts", INT, FIELD(experts)},
    {"topk", INT, FIELD(topk)},
    {"ffn", INT, FIELD(ffn)},
    {"gated", FLAG, FIELD(gated)},
    {"axis", INT, FIELD(axis)},
    {"scale", NUM, FIELD(scale)},
    {"alpha", NUM, FIELD(alpha)},
    {"beta", NUM, FIELD(beta)},
    {"offset", NUM, FIELD(offset)},
    {"epsilon", NUM, FIELD(epsilon)},
    {"momentum", NUM, FIELD(momentum)},
    {"theta", NUM, FIELD(theta)},
    {"by_tanh", FLAG, FIELD(by_tanh)},
    {"dims", DIMS, FIELD(dims)},
};
enum { NFIELDS = sizeof fields / sizeof fields[0] };

const char *model_attr_key(int i)
{
    return i < NFIELDS ? fields[i].key : NULL;
}

/* ---- reading ---------------------------------------------------------- */

static enum pdl_status read_list(const struct pdl_doc *d, int max, int64_t *v,
                                 int *n, struct pdl_err *err)
{
    int i = 0;

    if (d->kind != PDL_DOC_LIST)
        return pdl_doc_fail(d, err, "%s: expected a list of whole numbers",
                            d->key);
    if (d->count > max)
        return pdl_doc_fail(d, err, "%s: more than %d entries", d->key, max);
    for (const struct pdl_doc *c = d->child; c; c = c->next) {
        enum pdl_status st = pdl_doc_int(c, INT64_MIN, INT64_MAX, &v[i++], err);

        if (st != PDL_OK)
            return st;
    }
    *n = i;
    return PDL_OK;
}

static enum pdl_status read_spatial(const struct pdl_doc *d, int spatial,
                                    int64_t *v, struct pdl_err *err)
{
    enum pdl_status st;
    int64_t one;
    int n;

    if (d->kind == PDL_DOC_LIST)
        return read_list(d, PDL_MAX_SPATIAL, v, &n, err);
    st = pdl_doc_int(d, INT64_MIN, INT64_MAX, &one, err);
    for (int i = 0; i < spatial && st == PDL_OK; i++)
        v[i] = one;
    return st;
}

static enum pdl_status read_field(const struct pdl_doc *d, int f, int spatial,
                                  struct pdl_attr *attr, struct pdl_err *err)
{
    char *at = (char *)attr + fields[f].offset;
    enum pdl_status st = PDL_OK;
    bool flag = false;

    switch (fields[f].kind) {
    case INT:
        return pdl_doc_int(d, INT64_MIN, INT64_MAX, (int64_t *)(void *)at, err);
    case NUM:
        return pdl_doc_num(d, PDL_UNIT_NONE, -1e300, 1e300,
                           (double *)(void *)at, err);
    case SPATIAL:
        return read_spatial(d, spatial, (int64_t *)(void *)at, err);
    case DIMS:
        return read_list(d, PDL_MAX_RANK, attr->dims, &attr->ndims, err);
    case FLAG:
    case NOT:
        st = pdl_doc_bool(d, &flag, err);
        if (st == PDL_OK)
            *(bool *)at = fields[f].kind == NOT ? !flag : flag;
    }
    return st;
}

enum pdl_status model_attr_read(const struct pdl_doc *map, int spatial,
                                struct pdl_attr *attr, struct pdl_err *err)
{
    if (spatial > PDL_MAX_SPATIAL)
        spatial = PDL_MAX_SPATIAL;
    for (int f = 0; f < NFIELDS; f++) {
        const struct pdl_doc *d = pdl_doc_get(map, fields[f].key);
        enum pdl_status st = d ? read_field(d, f, spatial, attr, err) : PDL_OK;

        if (st != PDL_OK)
            return st;
        if (d && fields[f].offset == FIELD(pad))
            memcpy(attr->pad_end, attr->pad, sizeof attr->pad);
        if (d && fields[f].offset == FIELD(pad_end) && d->kind == PDL_DOC_LIST)
            for (int i = d->count; i < PDL_MAX_SPATIAL; i++)
                attr->pad_end[i] = 0;
    }
    return PDL_OK;
}

/* ---- writing ---------------------------------------------------------- */

void model_write_list(struct pdl_sink *out, const int64_t *v, int n)
{
    for (int i = 0; i < n; i++)
        pdl_printf(out, "%s%lld", i ? ", " : "[", (long long)v[i]);
    pdl_puts(out, n ? "]" : "[]");
}

static void write_spatial(struct pdl_sink *out, const int64_t *v, int spatial)
{
    int n = PDL_MAX_SPATIAL;
    bool same = true;

    while (n > 0 && v[n - 1] == 0)
        n--;
    for (int i = 1; i < n; i++)
        same = same && v[i] == v[0];
    if (same && n > 0 && n == spatial)
        pdl_printf(out, "%lld", (long long)v[0]);
    else
        model_write_list(out, v, n);
}

/* Ones for as many dimensions as the kernel has: what the builder fills in. */
static bool all_ones(const int64_t *v, const int64_t *kernel)
{
    for (int i = 0; i < PDL_MAX_SPATIAL; i++)
        if (v[i] != (kernel[i] ? 1 : 0))
            return false;
    return kernel[0] != 0;
}

/* Whether a field says something that its absence does not. */
static bool says(const struct pdl_attr *attr, int f)
{
    static const int64_t zero[PDL_MAX_SPATIAL];
    const char *at = (const char *)attr + fields[f].offset;

    switch (fields[f].kind) {
    case INT:
        if (fields[f].offset == FIELD(groups) && attr->kernel[0] &&
            attr->features)
            return attr->groups != 1;
        return *(const int64_t *)(const void *)at != 0;
    case NUM:
        return *(const double *)(const void *)at != 0;
    case FLAG:
    case NOT:
        return *(const bool *)at;
    case DIMS:
        return attr->ndims > 0;
    case SPATIAL:
        if (fields[f].offset == FIELD(pad_end))
            return memcmp(attr->pad, attr->pad_end, sizeof attr->pad) != 0;
        if ((fields[f].offset == FIELD(stride) ||
             fields[f].offset == FIELD(dilation)) &&
            all_ones((const int64_t *)(const void *)at, attr->kernel))
            return false;
        return memcmp(at, zero, sizeof zero) != 0;
    }
    return false;
}

static void write_field(struct pdl_sink *out, const struct pdl_attr *attr,
                        int f, int spatial)
{
    const char *at = (const char *)attr + fields[f].offset;
    char text[64];

    pdl_printf(out, ", %s: ", fields[f].key);
    switch (fields[f].kind) {
    case INT:
        pdl_printf(out, "%lld", (long long)*(const int64_t *)(const void *)at);
        break;
    case NUM:
        pdl_puts(out, pdl_unit_print(*(const double *)(const void *)at,
                                     PDL_UNIT_NONE, text, sizeof text));
        break;
    case FLAG:
        pdl_puts(out, "true");
        break;
    case NOT:
        pdl_puts(out, "false");
        break;
    case SPATIAL:
        write_spatial(out, (const int64_t *)(const void *)at, spatial);
        break;
    case DIMS:
        model_write_list(out, attr->dims, attr->ndims);
    }
}

void model_attr_write(struct pdl_sink *out, const struct pdl_attr *attr,
                      int spatial)
{
    for (int f = 0; f < NFIELDS; f++)
        if (says(attr, f))
            write_field(out, attr, f, spatial);
}
