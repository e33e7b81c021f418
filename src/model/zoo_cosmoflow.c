/* SPDX-License-Identifier: Apache-2.0
 *
 * CosmoFlow: cosmological parameters from a volume of dark matter, in two
 * variants.
 *
 * net=paradl (default): the network the ParaDL papers measured (its Chainer
 * code): seven convolutions without bias and three linear layers, after
 * Mathuriya et al., SC 2018, with 4 input channels and 4 outputs. The first
 * two convolutions are unpadded; those with kernel 2 are padded by 1 at both
 * ends and so grow by one; conv4 has stride 2. Larger volumes make fc1 larger.
 *
 * net=mlperf: the reference of MLPerf HPC (configuration of v0.7 and v1.0):
 * five convolutions of kernel 2 with bias, "same" padding (0 low, 1 high),
 * max pooling, 32 channels doubling, linear layers 128, 64, 4. */
#include "model_priv.h"

enum { SIZE, NET, NPARAMS };
enum { PARADL, MLPERF };

static const struct model_param params[NPARAMS] = {
    [SIZE] = {"size", "edge of the volume", NULL, 128, 64, 1 << 16},
    [NET] = {"net", "which network", "paradl|mlperf", PARADL, 0, 1},
};

static int leaky(pdl_build *b, int i, int x)
{
    return model_unary(b, "leaky_relu", model_label("relu%d", i).s, x);
}

/* fc1, fc2, fc3 with activations between; numbers go on from layer n */
static int linears(pdl_build *b, int x, int n, int64_t f1, int64_t f2)
{
    x = model_unary(b, "flatten", "flatten", x);
    x = leaky(b, n, model_linear(b, "fc1", x, f1));
    if (n == 6)
        x = model_unary(b, "dropout", "drop1", x);
    x = leaky(b, n + 1, model_linear(b, "fc2", x, f2));
    if (n == 6)
        x = model_unary(b, "dropout", "drop2", x);
    return model_linear(b, "fc3", x, 4);
}

static void paradl(pdl_build *b, int x)
{
    static const struct model_conv convs[] = {
        {.f = 16, .k = 3},          {.f = 32, .k = 3},
        {.f = 64, .k = 3, .p = 1},  {.f = 128, .k = 3, .s = 2, .p = 1},
        {.f = 256, .k = 2, .p = 1}, {.f = 256, .k = 2, .p = 1},
        {.f = 128, .k = 2, .p = 1},
    };
    enum { N = sizeof convs / sizeof convs[0] };

    for (int i = 1; i <= N; i++) {
        x = model_conv(b, model_label("conv%d", i).s, x, convs[i - 1]);
        x = leaky(b, i, x);
        if (i < N)
            x = model_pool(b, "avg_pool", model_label("pool%d", i).s, x, 2, 2,
                           0);
    }
    linears(b, x, N + 1, 2048, 256);
}

static void mlperf(pdl_build *b, int x)
{
    for (int i = 1; i <= 5; i++) {
        struct pdl_attr attr = {.features = (int64_t)16 << i,
                                .kernel = {2, 2, 2},
                                .pad_end = {1, 1, 1}};

        x = pdl_build_op(b, "conv", model_label("conv%d", i).s, &attr, &x, 1);
        x = leaky(b, i, x);
        x = model_pool(b, "max_pool", model_label("pool%d", i).s, x, 2, 2, 0);
    }
    x = linears(b, x, 6, 128, 64);
    model_unary(b, "tanh", "tanh", x);
}

static void build(pdl_build *b, const int64_t *v)
{
    int x = model_image(b, 4, v[SIZE], 3);

    if (v[NET] == MLPERF)
        mlperf(b, x);
    else
        paradl(b, x);
}

static const struct pdl_zoo_entry entries[] = {
    {"cosmoflow-mlperf", "cosmoflow", "net=mlperf",
     "MLPerf HPC reference, 128^3"},
};

const struct model_family model_zoo_cosmoflow = {
    .self = {"cosmoflow", NULL, NULL,
             "CosmoFlow as the ParaDL papers measured it"},
    .source = "Mathuriya et al., SC 2018; ParaDL; MLPerf HPC",
    .kind = "cnn",
    .params = params,
    .nparams = NPARAMS,
    .build = build,
    .entries = entries,
    .nentries = sizeof entries / sizeof entries[0],
};
