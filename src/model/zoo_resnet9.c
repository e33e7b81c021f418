/* SPDX-License-Identifier: Apache-2.0
 *
 * ResNet-9 for CIFAR (D. Page, "How to train your ResNet", 2018, the network of
 * DAWNBench): convolutions of width, 2, 4 and 8 times width, the last three
 * followed by a pool, with a residual pair after the second and the fourth. */
#include "model_priv.h"

enum { WIDTH, INPUT, CHANNELS, CLASSES, NPARAMS };

static const struct model_param params[NPARAMS] = {
    [WIDTH] = {"width", "channels of the first layer", NULL, 64, 1, 1 << 12},
    [INPUT] = {"input", "height and width of the image", NULL, 32, 8, 1 << 16},
    [CHANNELS] = {"channels", "of the image", NULL, 3, 1, 1 << 16},
    [CLASSES] = {"classes", "outputs", NULL, 10, 1, 1 << 24},
};

static int conv_bn(pdl_build *b, const char *name, int x, int64_t f)
{
    x = model_conv(b, model_label("%s.conv", name).s, x,
                   (struct model_conv){.f = f, .k = 3, .p = 1});
    x = model_unary(b, "batch_norm", model_label("%s.bn", name).s, x);
    return model_unary(b, "relu", model_label("%s.relu", name).s, x);
}

static int residual(pdl_build *b, const char *name, int x, int64_t f)
{
    int y = conv_bn(b, model_label("%s.0", name).s, x, f);

    y = conv_bn(b, model_label("%s.1", name).s, y, f);
    return model_binary(b, "add", model_label("%s.add", name).s, x, y);
}

static void build(pdl_build *b, const int64_t *v)
{
    int64_t w = v[WIDTH];
    int x = model_image(b, v[CHANNELS], v[INPUT], 2);

    x = conv_bn(b, "prep", x, w);
    for (int i = 1; i <= 3; i++) {
        x = conv_bn(b, model_label("layer%d", i).s, x, w << i);
        x = model_pool(b, "max_pool", model_label("layer%d.pool", i).s, x, 2, 2,
                       0);
        if (i != 2)
            x = residual(b, model_label("res%d", i).s, x, w << i);
    }
    x = model_unary(b, "global_max_pool", "pool", x);
    x = model_unary(b, "flatten", "flatten", x);
    model_linear(b, "fc", x, v[CLASSES]);
}

static const struct pdl_zoo_entry entries[] = {
    {"resnet9", "davidnet", NULL, "ResNet-9, CIFAR-10"},
};

const struct model_family model_zoo_resnet9 = {
    .self = {"davidnet", NULL, NULL, "the small residual network of DAWNBench"},
    .source = "Page 2018, How to train your ResNet",
    .kind = "cnn",
    .params = params,
    .nparams = NPARAMS,
    .build = build,
    .entries = entries,
    .nentries = sizeof entries / sizeof entries[0],
    .divide_up = 0.7,
};
