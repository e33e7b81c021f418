/* SPDX-License-Identifier: Apache-2.0
 *
 * Stored tensors: initializers and constants. Their shape, their number of
 * elements, and, where the wire walk kept the payload, their value. The
 * payload's length must agree with the shape. A file of external data is never
 * opened: the dimensions say everything a planner needs. */
#include "onnx_priv.h"

#include <math.h>

static const struct {
    int bits;
    char kind; /* f float, i signed, u unsigned, o other */
    enum pdl_dtype dtype;
} types[ONNX_NTYPES] = {
    [ONNX_FLOAT] = {32, 'f', PDL_F32},
    [ONNX_UINT8] = {8, 'u', PDL_U8},
    [ONNX_INT8] = {8, 'i', PDL_I8},
    [ONNX_UINT16] = {16, 'u', PDL_U16},
    [ONNX_INT16] = {16, 'i', PDL_I16},
    [ONNX_INT32] = {32, 'i', PDL_I32},
    [ONNX_INT64] = {64, 'i', PDL_I64},
    [ONNX_STRING] = {0, 'o', PDL_OTHER},
    [ONNX_BOOL] = {8, 'u', PDL_BOOL},
    [ONNX_FLOAT16] = {16, 'f', PDL_F16},
    [ONNX_DOUBLE] = {64, 'f', PDL_F64},
    [ONNX_UINT32] = {32, 'u', PDL_U32},
    [ONNX_UINT64] = {64, 'u', PDL_U64},
    [ONNX_COMPLEX64] = {64, 'f', PDL_OTHER},
    [ONNX_COMPLEX128] = {128, 'f', PDL_OTHER},
    [ONNX_BFLOAT16] = {16, 'f', PDL_BF16},
    [ONNX_F8E4M3FN] = {8, 'f', PDL_F8},
    [ONNX_F8E4M3FNUZ] = {8, 'f', PDL_F8},
    [ONNX_F8E5M2] = {8, 'f', PDL_F8},
    [ONNX_F8E5M2FNUZ] = {8, 'f', PDL_F8},
    [ONNX_UINT4] = {4, 'u', PDL_OTHER},
    [ONNX_INT4] = {4, 'i', PDL_OTHER},
    [ONNX_F4E2M1] = {4, 'f', PDL_F4},
};

static bool known(int type)
{
    return type > 0 && type < ONNX_NTYPES && types[type].kind;
}

bool model_onnx_int_type(int type)
{
    return known(type) && (types[type].kind == 'i' || types[type].kind == 'u');
}

static int type_bits(int type)
{
    return known(type) ? types[type].bits : 0;
}

enum pdl_dtype model_onnx_dtype(int type)
{
    return known(type) ? types[type].dtype : PDL_OTHER;
}

/* An element of raw_data, little-endian. Types that nobody folds are NaN. */
static double raw_element(const uint8_t *p, int type)
{
    uint64_t u = 0;
    int bytes = type_bits(type) / 8;
    float f;
    double d;

    for (int i = 0; i < bytes && i < 8; i++)
        u |= (uint64_t)p[i] << (8 * i);
    switch (type) {
    case ONNX_FLOAT: {
        uint32_t w = (uint32_t)u;

        memcpy(&f, &w, sizeof f);
        return (double)f;
    }
    case ONNX_DOUBLE:
        memcpy(&d, &u, sizeof d);
        return d;
    case ONNX_INT64:
        return (double)(int64_t)u;
    case ONNX_INT32:
        return (double)(int32_t)u;
    case ONNX_INT16:
        return (double)(int16_t)u;
    case ONNX_INT8:
        return (double)(int8_t)u;
    case ONNX_UINT8:
    case ONNX_UINT16:
    case ONNX_UINT32:
    case ONNX_UINT64:
    case ONNX_BOOL:
        return (double)u;
    default:
        return (double)NAN;
    }
}

static bool read_raw(const Onnx__Tensor *t, int64_t n, double *val)
{
    size_t bytes = (size_t)type_bits(t->data_type) / 8;

    if (bytes == 0 || t->raw_data.len != bytes * (size_t)n)
        return false;
    for (int64_t i = 0; i < n; i++)
        val[i] =
            raw_element(t->raw_data.data + bytes * (size_t)i, t->data_type);
    return true;
}

/* Fills val when the payload is there; false: no value. */
static bool read_values(const Onnx__Tensor *t, int64_t n, double *val)
{
    size_t want = (size_t)n;

    if (t->has_raw_data)
        return read_raw(t, n, val);
    for (size_t i = 0; i < want; i++) {
        if (t->n_int64_data == want)
            val[i] = (double)t->int64_data[i];
        else if (t->n_int32_data == want && t->data_type != ONNX_FLOAT16 &&
                 t->data_type != ONNX_BFLOAT16)
            val[i] = (double)t->int32_data[i];
        else if (t->n_float_data == want)
            val[i] = (double)t->float_data[i];
        else if (t->n_double_data == want)
            val[i] = t->double_data[i];
        else if (t->n_uint64_data == want)
            val[i] = (double)t->uint64_data[i];
        else
            return false;
    }
    return want > 0;
}

static enum pdl_status bad(struct onnx_graph *g, const char *name,
                           const char *what)
{
    return pdl_fail(g->err, PDL_EPARSE, "%s: tensor '%.120s': %s", g->name,
                    name, what);
}

/* raw_data of the wrong length is a damaged file, wherever it went. */
static enum pdl_status check_payload(struct onnx_graph *g,
                                     const Onnx__Tensor *t, const char *name,
                                     int64_t elements)
{
    int bits = type_bits(t->data_type);
    int64_t total, have;

    if (t->has_raw_data)
        have = (int64_t)t->raw_data.len;
    else if (t->has_dropped_bytes && t->dropped_field == 9)
        have = t->dropped_bytes;
    else
        return PDL_OK;
    if (bits == 0 || !pdl_mul64(elements, bits, &total))
        return PDL_OK;
    if (have != (total + 7) / 8)
        return bad(g, name, "data does not have the length of its shape");
    return PDL_OK;
}

enum pdl_status model_onnx_tensor(struct onnx_graph *g, const Onnx__Tensor *t,
                                  const char *name, struct onnx_value *v)
{
    struct onnx_shape *s = &v->stored;
    int64_t n = 1;
    enum pdl_status st;

    *s = (struct onnx_shape){.type = t->data_type, .rank = -1, .nval = -1};
    v->kind = ONNX_STORED;
    v->tensor = t;
    for (size_t i = 0; i < t->n_dims; i++)
        if (t->dims[i] < 0)
            return bad(g, name, "a dimension is negative");
    for (size_t i = 0; i < t->n_dims; i++)
        if (!pdl_mul64(n, t->dims[i], &n))
            return bad(g, name, "more elements than can be counted");
    v->elements = n;
    st = check_payload(g, t, name, n);
    if (st || t->n_dims > PDL_MAX_RANK)
        return st;
    s->rank = (int)t->n_dims;
    for (int i = 0; i < s->rank; i++)
        s->dim[i] = t->dims[i];
    if (n > ONNX_MAX_FOLD || t->has_dropped_bytes || t->data_location == 1)
        return PDL_OK;
    s->val = PDL_NEW(g->arena, double, n + 1);
    if (!s->val)
        return pdl_fail(g->err, PDL_ENOMEM, "%s: out of memory", g->name);
    if (n == 0 || read_values(t, n, s->val))
        s->nval = (int)n;
    return PDL_OK;
}

/* value_int, value_ints, value_float, value_floats: vectors and scalars that
 * stand in the attribute itself. */
static enum pdl_status plain_constant(struct onnx_graph *g,
                                      const Onnx__Attribute *a, bool list,
                                      bool floats, struct onnx_value *v)
{
    struct onnx_shape *s = &v->stored;
    size_t kept = !list ? 1 : floats ? a->n_floats : a->n_ints;
    int64_t n = (int64_t)kept;

    v->kind = ONNX_STORED;
    *s = (struct onnx_shape){.rank = list ? 1 : 0, .nval = -1};
    s->type = floats ? ONNX_FLOAT : ONNX_INT64;
    if (a->has_dropped_bytes)
        n += floats ? a->dropped_bytes / 4 : a->dropped_bytes;
    v->elements = n;
    s->dim[0] = n;
    if (n > ONNX_MAX_FOLD)
        return PDL_OK;
    s->val = PDL_NEW(g->arena, double, n + 1);
    if (!s->val)
        return pdl_fail(g->err, PDL_ENOMEM, "%s: out of memory", g->name);
    for (int64_t i = 0; i < n; i++)
        s->val[i] = floats ? (double)(list ? a->floats[i] : a->f)
                           : (double)(list ? a->ints[i] : a->i);
    s->nval = (int)n;
    return PDL_OK;
}

/* A sparse tensor counts by its dense shape. */
enum pdl_status model_onnx_sparse(struct onnx_graph *g,
                                  const Onnx__SparseTensor *sp,
                                  struct onnx_value *v)
{
    Onnx__Tensor dense = ONNX__TENSOR__INIT;
    enum pdl_status st;

    if (sp->values)
        dense.data_type = sp->values->data_type;
    dense.n_dims = sp->n_dims;
    dense.dims = sp->dims;
    st = model_onnx_tensor(g, &dense, v->name, v);
    v->tensor = NULL;
    v->stored.nval = -1;
    return st;
}

enum pdl_status model_onnx_constant(struct onnx_graph *g,
                                    const struct onnx_node *n,
                                    struct onnx_value *v)
{
    static const struct {
        const char *name;
        bool list, floats;
    } plain[] = {{"value_int", false, false},
                 {"value_ints", true, false},
                 {"value_float", false, true},
                 {"value_floats", true, true}};
    const Onnx__Attribute *a = model_onnx_attr(n, "value");

    if (a && a->t)
        return model_onnx_tensor(g, a->t, v->name, v);
    a = model_onnx_attr(n, "sparse_value");
    if (a && a->sparse_tensor)
        return model_onnx_sparse(g, a->sparse_tensor, v);
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        a = model_onnx_attr(n, plain[i].name);
        if (a)
            return plain_constant(g, a, plain[i].list, plain[i].floats, v);
    }
    v->kind = ONNX_STORED; /* strings, or nothing: a value of no interest */
    v->stored = (struct onnx_shape){.rank = -1, .nval = -1};
    v->elements = 0;
    return PDL_OK;
}
