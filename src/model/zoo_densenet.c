/* SPDX-License-Identifier: Apache-2.0
 *
 * DenseNet-BC (Huang et al., CVPR 2017) with torchvision's names: each layer
 * reads everything the block has made so far. */
#include "model_priv.h"

enum { DEPTH, INPUT, CHANNELS, CLASSES, NPARAMS };

static const struct model_param params[NPARAMS] = {
    [DEPTH] = {"depth", "layers with weights", "121|161|169|201", 121, 121,
               201},
    [INPUT] = {"input", "height and width of the image", NULL, 224, 32,
               1 << 16},
    [CHANNELS] = {"channels", "of the image", NULL, 3, 1, 1 << 16},
    [CLASSES] = {"classes", "outputs", NULL, 1000, 1, 1 << 24},
};

static const struct {
    int64_t depth, growth, first;
    int blocks[4];
} shapes[] = {
    {121, 32, 64, {6, 12, 24, 16}},
    {161, 48, 96, {6, 12, 36, 24}},
    {169, 32, 64, {6, 12, 32, 32}},
    {201, 32, 64, {6, 12, 48, 32}},
};
enum { MOST_LAYERS = 48 };

static int norm_relu(pdl_build *b, const char *name, const char *i, int x)
{
    x = model_unary(b, "batch_norm", model_label("%s.norm%s", name, i).s, x);
    return model_unary(b, "relu", model_label("%s.relu%s", name, i).s, x);
}

static int dense_layer(pdl_build *b, const char *name, const int *in, int nin,
                       int64_t growth)
{
    int x = in[0];

    if (nin > 1)
        x = model_concat(b, model_label("%s.Concat", name).s, in, nin);
    x = norm_relu(b, name, "1", x);
    x = model_conv(b, model_label("%s.conv1", name).s, x,
                   (struct model_conv){.f = 4 * growth});
    x = norm_relu(b, name, "2", x);
    return model_conv(b, model_label("%s.conv2", name).s, x,
                      (struct model_conv){.f = growth, .k = 3, .p = 1});
}

static int dense_block(pdl_build *b, int index, int layers, int64_t growth,
                       int x)
{
    int made[MOST_LAYERS + 1] = {x};

    for (int i = 0; i < layers; i++)
        made[i + 1] = dense_layer(
            b,
            model_label("features.denseblock%d.denselayer%d", index, i + 1).s,
            made, i + 1, growth);
    return model_concat(b, model_label("features.denseblock%d.Concat", index).s,
                        made, layers + 1);
}

static int transition(pdl_build *b, int index, int x, int64_t *channels)
{
    struct model_label name = model_label("features.transition%d", index);

    *channels /= 2;
    x = norm_relu(b, name.s, "", x);
    x = model_conv(b, model_label("%s.conv", name.s).s, x,
                   (struct model_conv){.f = *channels});
    return model_pool(b, "avg_pool", model_label("%s.pool", name.s).s, x, 2, 2,
                      0);
}

static void build(pdl_build *b, const int64_t *v)
{
    int x = model_image(b, v[CHANNELS], v[INPUT], 2), s = 0;
    int64_t channels;

    while (shapes[s].depth != v[DEPTH])
        s++;
    channels = shapes[s].first;
    x = model_conv(b, "features.conv0", x,
                   (struct model_conv){.f = channels, .k = 7, .s = 2, .p = 3});
    x = norm_relu(b, "features", "0", x);
    x = model_pool(b, "max_pool", "features.pool0", x, 3, 2, 1);
    for (int i = 0; i < 4; i++) {
        x = dense_block(b, i + 1, shapes[s].blocks[i], shapes[s].growth, x);
        channels += shapes[s].growth * shapes[s].blocks[i];
        if (i < 3)
            x = transition(b, i + 1, x, &channels);
    }
    x = model_unary(b, "batch_norm", "features.norm5", x);
    x = model_unary(b, "relu", "Relu", x);
    x = model_unary(b, "global_avg_pool", "GlobalAveragePool", x);
    x = model_unary(b, "flatten", "Flatten", x);
    model_linear(b, "classifier", x, v[CLASSES]);
}

static const struct pdl_zoo_entry entries[] = {
    {"densenet121", "densenet", "depth=121", "DenseNet-121, growth 32"},
    {"densenet161", "densenet", "depth=161", "DenseNet-161, growth 48"},
    {"densenet169", "densenet", "depth=169", "DenseNet-169, growth 32"},
    {"densenet201", "densenet", "depth=201", "DenseNet-201, growth 32"},
};

const struct model_family model_zoo_densenet = {
    .self = {"densenet", NULL, NULL, "densely connected networks (BC)"},
    .source = "Huang et al., CVPR 2017; torchvision",
    .kind = "cnn",
    .params = params,
    .nparams = NPARAMS,
    .build = build,
    .entries = entries,
    .nentries = sizeof entries / sizeof entries[0],
};
