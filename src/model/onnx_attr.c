/* SPDX-License-Identifier: Apache-2.0
 *
 * Attributes of an ONNX node. Inside a model function an attribute may refer
 * to one of the call (ref_attr_name); the frames of calls are followed up. */
#include "onnx_priv.h"

#include <math.h>

static bool is(ProtobufCBinaryData b, const char *s)
{
    size_t n = strlen(s);

    return b.len == n && (n == 0 || memcmp(b.data, s, n) == 0);
}

static const Onnx__Attribute *find(Onnx__Attribute *const *list, size_t n,
                                   const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (list[i]->has_name && is(list[i]->name, name))
            return list[i];
    return NULL;
}

/* The attribute of the call, of a call further up, or the default. */
static const Onnx__Attribute *refer(const Onnx__Attribute *a,
                                    const struct onnx_frame *f)
{
    while (a && a->has_ref_attr_name && f) {
        char name[256];
        const Onnx__Attribute *found;

        if (a->ref_attr_name.len >= sizeof name)
            return NULL;
        memcpy(name, a->ref_attr_name.data, a->ref_attr_name.len);
        name[a->ref_attr_name.len] = '\0';
        found = find(f->call->attribute, f->call->n_attribute, name);
        if (!found)
            return find(f->function->attribute_proto,
                        f->function->n_attribute_proto, name);
        a = found;
        f = f->up;
    }
    return a && a->has_ref_attr_name ? NULL : a;
}

const Onnx__Attribute *model_onnx_attr(const struct onnx_node *n,
                                       const char *name)
{
    return refer(find(n->src->attribute, n->src->n_attribute, name), n->frame);
}

int64_t model_onnx_int(const struct onnx_node *n, const char *name,
                       int64_t otherwise)
{
    const Onnx__Attribute *a = model_onnx_attr(n, name);

    return a && a->has_i ? a->i : otherwise;
}

/* The seven digits that a float was written with: 0.2, not 0.200000003. */
static double as_written(double v)
{
    double unit =
        v == 0 || !isfinite(v) ? 0 : pow(10, 6 - floor(log10(fabs(v))));

    return unit > 0 && unit < 1e30 ? round(v * unit) / unit : v;
}

double model_onnx_float(const struct onnx_node *n, const char *name,
                        double otherwise)
{
    const Onnx__Attribute *a = model_onnx_attr(n, name);

    return a && a->has_f ? as_written((double)a->f) : otherwise;
}

int model_onnx_ints(const struct onnx_node *n, const char *name, int64_t *out,
                    int cap)
{
    const Onnx__Attribute *a = model_onnx_attr(n, name);
    int count;

    if (!a || a->has_dropped_bytes || a->n_ints > INT32_MAX)
        return -1;
    count = (int)a->n_ints;
    for (int i = 0; i < count && i < cap; i++)
        out[i] = a->ints[i];
    return count;
}

bool model_onnx_is(const struct onnx_node *n, const char *name,
                   const char *value)
{
    const Onnx__Attribute *a = model_onnx_attr(n, name);

    return a && a->has_s && is(a->s, value);
}

const char *model_onnx_str(const struct onnx_node *n, const char *name,
                           size_t *len)
{
    const Onnx__Attribute *a = model_onnx_attr(n, name);

    *len = a && a->has_s ? a->s.len : 0;
    return a && a->has_s ? (const char *)a->s.data : NULL;
}
