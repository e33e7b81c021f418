/* SPDX-License-Identifier: Apache-2.0
 *
 * Normalisations. Over channels (the first dimension): batch, group and
 * instance norm, local response. Over features (the last dimension, or where
 * `features` says another number, that many at a time: the norm of each head,
 * or of several trailing dimensions): layer and RMS norm. */
#include "model_priv.h"

static int affine(const struct pdl_attr *attr, int64_t n, struct pdl_tensor *w)
{
    model_weight(&w[0], "weight", PDL_TENSOR_WEIGHT, 1, &n);
    if (attr->no_bias)
        return 1;
    model_weight(&w[1], "bias", PDL_TENSOR_WEIGHT, 1, &n);
    return 2;
}

static int64_t channels(const struct pdl_tensor *x)
{
    return x->rank > 0 ? x->dim[0] : 0;
}

static int64_t features(const struct pdl_attr *attr, const struct pdl_tensor *x)
{
    if (attr->features)
        return attr->features;
    return x->rank > 0 ? x->dim[x->rank - 1] : 0;
}

static int channel_weights(const struct pdl_attr *attr,
                           const struct pdl_tensor *x, struct pdl_tensor *w)
{
    return affine(attr, channels(x), w);
}

static int batch_weights(const struct pdl_attr *attr,
                         const struct pdl_tensor *x, struct pdl_tensor *w)
{
    int64_t c = channels(x);
    int n = affine(attr, c, w);

    model_weight(&w[n++], "running_mean", PDL_TENSOR_BUFFER, 1, &c);
    model_weight(&w[n++], "running_var", PDL_TENSOR_BUFFER, 1, &c);
    return n;
}

static int feature_weights(const struct pdl_attr *attr,
                           const struct pdl_tensor *x, struct pdl_tensor *w)
{
    return affine(attr, features(attr, x), w);
}

static int rms_weights(const struct pdl_attr *attr, const struct pdl_tensor *x,
                       struct pdl_tensor *w)
{
    int64_t n = features(attr, x);

    model_weight(&w[0], "weight", PDL_TENSOR_WEIGHT, 1, &n);
    return 1;
}

static enum pdl_status channel_infer(const struct pdl_op_use *u,
                                     struct pdl_tensor *out, int *nout,
                                     struct pdl_err *err)
{
    if (u->in[0]->rank < 1)
        return pdl_fail(err, PDL_EINVAL, "needs an input [C,...]");
    if (u->attr->groups < 0 || channels(u->in[0]) % model_or1(u->attr->groups))
        return pdl_fail(
            err, PDL_EINVAL, "%lld groups do not divide %lld channels",
            (long long)u->attr->groups, (long long)channels(u->in[0]));
    out[0] = model_like(u->in[0]);
    *nout = 1;
    return PDL_OK;
}

static enum pdl_status feature_infer(const struct pdl_op_use *u,
                                     struct pdl_tensor *out, int *nout,
                                     struct pdl_err *err)
{
    const struct pdl_tensor *x = u->in[0];
    int64_t n = features(u->attr, x);

    if (x->rank < 1)
        return pdl_fail(err, PDL_EINVAL, "needs an input [...,E]");
    if (n < 1 || pdl_tensor_elements(x) % n)
        return pdl_fail(err, PDL_EINVAL,
                        "features %lld do not divide the input of %lld",
                        (long long)n, (long long)pdl_tensor_elements(x));
    out[0] = model_like(x);
    *nout = 1;
    return PDL_OK;
}

static const struct pdl_op rows[] = {
    {"batch_norm", "normalisation over the batch, by channel", 1, 1,
     PDL_OP_SAVES_X | PDL_OP_NORM | PDL_OP_IS(BATCH_NORM), batch_weights,
     channel_infer, NULL},
    {"group_norm", "normalisation over groups of channels", 1, 1,
     PDL_OP_SAVES_X | PDL_OP_NORM, channel_weights, channel_infer, NULL},
    {"instance_norm", "normalisation of each channel of each sample", 1, 1,
     PDL_OP_SAVES_X | PDL_OP_NORM | PDL_OP_IS(INSTANCE_NORM), channel_weights,
     channel_infer, NULL},
    {"lrn", "local response normalisation over channels", 1, 1,
     PDL_OP_SAVES_X | PDL_OP_SAVES_Y | PDL_OP_IS(LRN), NULL, channel_infer,
     NULL},
    {"layer_norm", "normalisation over the last dimension", 1, 1,
     PDL_OP_SAVES_X | PDL_OP_NORM | PDL_OP_IS(LAYER_NORM), feature_weights,
     feature_infer, NULL},
    {"rms_norm", "division by the root mean square of the last dimension", 1, 1,
     PDL_OP_SAVES_X | PDL_OP_NORM | PDL_OP_IS(RMS_NORM), rms_weights,
     feature_infer, NULL},
};

const struct model_ops model_ops_norm = {rows, sizeof rows / sizeof rows[0]};
