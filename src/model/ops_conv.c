/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolution and transposed convolution in 1 to 3 spatial dimensions, with
 * groups, strides, dilation and padding that may differ at the two ends.
 *
 *   conv:           y[f,s] = sum_{c,k} x[c, s*stride + k*dilation - pad]
 * w[f,c,k] conv_transpose: the same with the roles of x and y exchanged, so its
 *                   weight is [C, F/groups, k...] and its work is that of the
 *                   convolution it transposes.
 *
 * Multiply-adds with padding are counted like any other. */
#include "model_priv.h"

#include <string.h>

bool model_times(int64_t *total, int64_t factor)
{
    return pdl_mul64(*total, factor, total);
}

enum pdl_status model_check_spatial(const struct pdl_attr *attr,
                                    const struct pdl_tensor *x,
                                    struct pdl_err *err)
{
    int n = x->rank - 1;

    if (n < 1 || n > PDL_MAX_SPATIAL)
        return pdl_fail(err, PDL_EINVAL,
                        "needs an input of rank 2 to 4, [C,(D,(H,))W], found "
                        "rank %d",
                        x->rank);
    for (int i = 0; i < PDL_MAX_SPATIAL; i++) {
        if (i >= n && attr->kernel[i])
            return pdl_fail(err, PDL_EINVAL,
                            "the kernel has more dimensions than the input");
        if (i < n && attr->kernel[i] < 1)
            return pdl_fail(err, PDL_EINVAL,
                            "the kernel must be at least 1 in each of %d "
                            "dimensions",
                            n);
        if (attr->stride[i] < 0 || attr->dilation[i] < 0 || attr->pad[i] < 0 ||
            attr->pad_end[i] < 0 || attr->output_pad[i] < 0)
            return pdl_fail(err, PDL_EINVAL,
                            "stride, dilation and padding must not be "
                            "negative");
    }
    return PDL_OK;
}

/* The extent of a dilated kernel: (k - 1) * dilation + 1. */
static bool reach(const struct pdl_attr *attr, int i, int64_t *out)
{
    return pdl_mul64(attr->kernel[i] - 1, model_or1(attr->dilation[i]), out) &&
           pdl_add64(*out, 1, out);
}

static enum pdl_status too_large(struct pdl_err *err)
{
    return pdl_fail(err, PDL_EINVAL, "the output is too large to count");
}

/* With ceil_mode a last window that is only partly inside counts too, if it
 * starts inside the input or its low padding. */
enum pdl_status model_windows(const struct pdl_attr *attr, int i, int64_t x,
                              int64_t *out, struct pdl_err *err)
{
    int64_t stride = model_or1(attr->stride[i]), span, padded, n;

    if (!reach(attr, i, &span) || !pdl_add64(x, attr->pad[i], &padded) ||
        !pdl_add64(padded, attr->pad_end[i], &padded))
        return too_large(err);
    if (span > padded)
        return pdl_fail(err, PDL_EINVAL,
                        "the kernel reaches %lld, but the padded input is only "
                        "%lld",
                        (long long)span, (long long)padded);
    n = (padded - span) / stride + 1;
    if (attr->ceil_mode && (padded - span) % stride != 0 &&
        (x + attr->pad[i] - 1) / stride >= n)
        n++;
    *out = n;
    return PDL_OK;
}

static int64_t groups_of(const struct pdl_attr *attr)
{
    return attr->groups > 0 ? attr->groups : 1;
}

static int weights_of(const struct pdl_attr *attr, const struct pdl_tensor *x,
                      struct pdl_tensor *w, bool transposed)
{
    int64_t g = groups_of(attr), c = x->rank > 0 ? x->dim[0] : 0;
    int64_t dim[2 + PDL_MAX_SPATIAL] = {transposed ? c : attr->features,
                                        (transposed ? attr->features : c) / g};
    int n = x->rank - 1;

    if (n < 1 || n > PDL_MAX_SPATIAL)
        return 0;
    for (int i = 0; i < n; i++)
        dim[2 + i] = attr->kernel[i];
    model_weight(&w[0], "weight", PDL_TENSOR_WEIGHT, 2 + n, dim);
    if (attr->no_bias)
        return 1;
    model_weight(&w[1], "bias", PDL_TENSOR_WEIGHT, 1, &attr->features);
    return 2;
}

static int conv_weights(const struct pdl_attr *attr, const struct pdl_tensor *x,
                        struct pdl_tensor *w)
{
    return weights_of(attr, x, w, false);
}

static int transpose_weights(const struct pdl_attr *attr,
                             const struct pdl_tensor *x, struct pdl_tensor *w)
{
    return weights_of(attr, x, w, true);
}

static enum pdl_status check_channels(const struct pdl_op_use *u,
                                      struct pdl_err *err)
{
    int64_t g = groups_of(u->attr), c = u->in[0]->dim[0];

    if (u->attr->groups < 0)
        return pdl_fail(err, PDL_EINVAL, "groups must not be negative");
    if (u->attr->features < 1)
        return pdl_fail(err, PDL_EINVAL, "needs features (output channels)");
    if (c % g || u->attr->features % g)
        return pdl_fail(err, PDL_EINVAL,
                        "%lld groups do not divide %lld input and %lld output "
                        "channels",
                        (long long)g, (long long)c,
                        (long long)u->attr->features);
    if (u->nw < 1)
        return pdl_fail(err, PDL_EINVAL, "has no weight");
    return PDL_OK;
}

static enum pdl_status conv_infer(const struct pdl_op_use *u,
                                  struct pdl_tensor *out, int *nout,
                                  struct pdl_err *err)
{
    const struct pdl_tensor *x = u->in[0];
    enum pdl_status st = model_check_spatial(u->attr, x, err);

    if (st == PDL_OK)
        st = check_channels(u, err);
    out[0] = model_like(x);
    out[0].dim[0] = u->attr->features;
    for (int i = 1; i < x->rank && st == PDL_OK; i++)
        st = model_windows(u->attr, i - 1, x->dim[i], &out[0].dim[i], err);
    *nout = 1;
    return st;
}

static enum pdl_status transposed_extent(const struct pdl_attr *attr, int i,
                                         int64_t x, int64_t *out,
                                         struct pdl_err *err)
{
    int64_t span, v;

    if (x < 1)
        return pdl_fail(err, PDL_EINVAL, "the input is empty");
    if (!reach(attr, i, &span) ||
        !pdl_mul64(x - 1, model_or1(attr->stride[i]), &v) ||
        !pdl_add64(v, span, &v) || !pdl_add64(v, attr->output_pad[i], &v))
        return too_large(err);
    if (attr->pad[i] > v || attr->pad_end[i] > v - attr->pad[i])
        return pdl_fail(err, PDL_EINVAL, "the padding eats the whole output");
    *out = v - attr->pad[i] - attr->pad_end[i];
    return PDL_OK;
}

static enum pdl_status transpose_infer(const struct pdl_op_use *u,
                                       struct pdl_tensor *out, int *nout,
                                       struct pdl_err *err)
{
    const struct pdl_tensor *x = u->in[0];
    enum pdl_status st = model_check_spatial(u->attr, x, err);

    if (st == PDL_OK)
        st = check_channels(u, err);
    out[0] = model_like(x);
    out[0].dim[0] = u->attr->features;
    for (int i = 1; i < x->rank && st == PDL_OK; i++)
        st = transposed_extent(u->attr, i - 1, x->dim[i], &out[0].dim[i], err);
    *nout = 1;
    return st;
}

/* Every element of `of` meets every weight of one filter. */
static bool count(const struct pdl_attr *attr, const struct pdl_tensor *of,
                  int64_t per_group, int64_t *flops)
{
    int64_t n = pdl_tensor_elements(of);

    for (int i = 0; i < of->rank - 1; i++)
        if (!model_times(&n, attr->kernel[i]))
            return false;
    return model_times(&n, per_group) && pdl_mul64(n, 2, flops);
}

static bool conv_flops(const struct pdl_op_use *u, const struct pdl_tensor *out,
                       int64_t *flops)
{
    return count(u->attr, out, u->in[0]->dim[0] / groups_of(u->attr), flops);
}

static bool transpose_flops(const struct pdl_op_use *u,
                            const struct pdl_tensor *out, int64_t *flops)
{
    return count(u->attr, u->in[0], out->dim[0] / groups_of(u->attr), flops);
}

static const struct pdl_op rows[] = {
    {"conv", "convolution, 1-D to 3-D, grouped, dilated", 1, 1,
     PDL_OP_SAVES_DW | PDL_OP_IS(CONV), conv_weights, conv_infer, conv_flops},
    {"conv_transpose", "transposed convolution", 1, 1,
     PDL_OP_SAVES_DW | PDL_OP_IS(CONV_TRANSPOSE), transpose_weights,
     transpose_infer, transpose_flops},
};

const struct model_ops model_ops_conv = {rows, sizeof rows / sizeof rows[0]};
