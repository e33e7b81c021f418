/* SPDX-License-Identifier: Apache-2.0
 *
 * What the networks of the zoo are written with: short forms of the common
 * layers. All of them let a failure stick to the builder. */
#include "model_priv.h"

#include <stdarg.h>
#include <stdio.h>

struct model_label model_label(const char *fmt, ...)
{
    struct model_label label;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(label.s, sizeof label.s, fmt, ap);
    va_end(ap);
    return label;
}

static struct pdl_attr window(const pdl_build *b, int x, int64_t k, int64_t s,
                              int64_t p)
{
    const struct pdl_tensor *t = pdl_build_get(b, x);
    struct pdl_attr attr = {.groups = 0};

    for (int i = 0; t && i < t->rank - 1 && i < PDL_MAX_SPATIAL; i++) {
        attr.kernel[i] = model_or1(k);
        attr.stride[i] = model_or1(s);
        attr.pad[i] = attr.pad_end[i] = p;
    }
    return attr;
}

static int convolve(pdl_build *b, const char *op, const char *name, int x,
                    const struct model_conv *c)
{
    struct pdl_attr attr = window(b, x, c->k, c->s, c->p);

    attr.features = c->f;
    attr.groups = c->groups;
    attr.no_bias = !c->bias;
    for (int i = 0; i < PDL_MAX_SPATIAL && c->dilation > 1; i++)
        attr.dilation[i] = attr.kernel[i] ? c->dilation : 0;
    return pdl_build_op(b, op, name, &attr, &x, 1);
}

int model_conv(pdl_build *b, const char *name, int x, struct model_conv c)
{
    return convolve(b, "conv", name, x, &c);
}

int model_conv_transpose(pdl_build *b, const char *name, int x,
                         struct model_conv c)
{
    return convolve(b, "conv_transpose", name, x, &c);
}

int model_pool(pdl_build *b, const char *op, const char *name, int x, int64_t k,
               int64_t s, int64_t p)
{
    struct pdl_attr attr = window(b, x, k, s, p);

    return pdl_build_op(b, op, name, &attr, &x, 1);
}

int model_pool_ceil(pdl_build *b, const char *name, int x, int64_t k)
{
    struct pdl_attr attr = window(b, x, k, 2, 0);

    attr.ceil_mode = true;
    return pdl_build_op(b, "max_pool", name, &attr, &x, 1);
}

int model_conv_norm(pdl_build *b, const char *name, int x, struct model_conv c,
                    const char *act)
{
    struct pdl_attr norm = {.epsilon = c.epsilon, .momentum = c.momentum};

    x = model_conv(b, model_label("%s.0", name).s, x, c);
    x = pdl_build_op(b, "batch_norm", model_label("%s.1", name).s, &norm, &x,
                     1);
    return act ? model_unary(b, act, model_label("%s.2", name).s, x) : x;
}

int64_t model_channels(const pdl_build *b, int x)
{
    const struct pdl_tensor *t = pdl_build_get(b, x);

    return t ? t->dim[0] : 1;
}

int model_squeeze(pdl_build *b, const char *name, int x, int64_t narrow,
                  const char *act, const char *gate)
{
    int64_t wide = model_channels(b, x);
    int y =
        model_unary(b, "global_avg_pool", model_label("%s.avgpool", name).s, x);

    y = model_conv(b, model_label("%s.fc1", name).s, y,
                   (struct model_conv){.f = narrow, .bias = true});
    y = model_unary(b, act, model_label("%s.activation", name).s, y);
    y = model_conv(b, model_label("%s.fc2", name).s, y,
                   (struct model_conv){.f = wide, .bias = true});
    y = model_unary(b, gate, model_label("%s.scale_activation", name).s, y);
    return model_binary(b, "mul", model_label("%s.Mul", name).s, y, x);
}

int model_dropout(pdl_build *b, const char *name, int x, int64_t percent)
{
    struct pdl_attr attr = {.scale = (double)percent / 100};

    return percent > 0 ? pdl_build_op(b, "dropout", name, &attr, &x, 1) : x;
}

int model_linear(pdl_build *b, const char *name, int x, int64_t features)
{
    struct pdl_attr attr = {.features = features};

    return pdl_build_op(b, "linear", name, &attr, &x, 1);
}

int model_unary(pdl_build *b, const char *op, const char *name, int x)
{
    return pdl_build_op(b, op, name, NULL, &x, 1);
}

int model_binary(pdl_build *b, const char *op, const char *name, int x, int y)
{
    int in[2] = {x, y};

    return pdl_build_op(b, op, name, NULL, in, 2);
}

int model_concat(pdl_build *b, const char *name, const int *in, int nin)
{
    return pdl_build_op(b, "concat", name, NULL, in, nin);
}

int model_image(pdl_build *b, int64_t channels, int64_t size, int rank)
{
    int64_t dim[1 + PDL_MAX_SPATIAL] = {channels, size, size, size};

    return pdl_build_tensor(b, "input", PDL_TENSOR_INPUT, PDL_F32, 1 + rank,
                            dim);
}
