/* SPDX-License-Identifier: Apache-2.0
 *
 * GoogLeNet (Szegedy et al., CVPR 2015) as torchvision has it: with norms
 * (epsilon 1e-3), without the two auxiliary classifiers, and with 3x3 in place
 * of the 5x5 convolutions. */
#include "model_priv.h"

enum { INPUT, CHANNELS, CLASSES, DROPOUT, NPARAMS };

static const struct model_param params[NPARAMS] = {
    [INPUT] = {"input", "height and width of the image", NULL, 224, 32,
               1 << 16},
    [CHANNELS] = {"channels", "of the image", NULL, 3, 1, 1 << 16},
    [CLASSES] = {"classes", "outputs", NULL, 1000, 1, 1 << 24},
    [DROPOUT] = {"dropout", "per cent of the last features", NULL, 20, 0, 99},
};

/* Filters of the four branches: 1x1; 1x1, 3x3; 1x1, "5x5"; pool, 1x1. */
struct inception {
    const char *name;
    int one, red3, three, red5, five, pool;
    int then; /* kernel of a pool that follows, 0: none */
};

static const struct inception blocks[] = {
    {"3a", 64, 96, 128, 16, 32, 32, 0},
    {"3b", 128, 128, 192, 32, 96, 64, 3},
    {"4a", 192, 96, 208, 16, 48, 64, 0},
    {"4b", 160, 112, 224, 24, 64, 64, 0},
    {"4c", 128, 128, 256, 24, 64, 64, 0},
    {"4d", 112, 144, 288, 32, 64, 64, 0},
    {"4e", 256, 160, 320, 32, 128, 128, 2},
    {"5a", 256, 160, 320, 32, 128, 128, 0},
    {"5b", 384, 192, 384, 48, 128, 128, 0},
};

static int conv(pdl_build *b, const char *name, int x, struct model_conv c)
{
    struct pdl_attr norm = {.epsilon = 1e-3};

    x = model_conv(b, model_label("%s.conv", name).s, x, c);
    x = pdl_build_op(b, "batch_norm", model_label("%s.bn", name).s, &norm, &x,
                     1);
    return model_unary(b, "relu", model_label("%s.relu", name).s, x);
}

/* A 1x1 and a 3x3 convolution. */
static int two(pdl_build *b, const char *name, int x, int red, int out)
{
    x = conv(b, model_label("%s.0", name).s, x, (struct model_conv){.f = red});
    return conv(b, model_label("%s.1", name).s, x,
                (struct model_conv){.f = out, .k = 3, .p = 1});
}

static int add_inception(pdl_build *b, const struct inception *g, int x)
{
    struct model_label name = model_label("inception%s", g->name);
    int y[4];

    y[0] = conv(b, model_label("%s.branch1", name.s).s, x,
                (struct model_conv){.f = g->one});
    y[1] = two(b, model_label("%s.branch2", name.s).s, x, g->red3, g->three);
    y[2] = two(b, model_label("%s.branch3", name.s).s, x, g->red5, g->five);
    y[3] = model_pool(b, "max_pool", model_label("%s.branch4.0", name.s).s, x,
                      3, 1, 1);
    y[3] = conv(b, model_label("%s.branch4.1", name.s).s, y[3],
                (struct model_conv){.f = g->pool});
    return model_concat(b, model_label("%s.Concat", name.s).s, y, 4);
}

static void build(pdl_build *b, const int64_t *v)
{
    int x = model_image(b, v[CHANNELS], v[INPUT], 2), pool = 3;

    x = conv(b, "conv1", x,
             (struct model_conv){.f = 64, .k = 7, .s = 2, .p = 3});
    x = model_pool_ceil(b, "maxpool1", x, 3);
    x = conv(b, "conv2", x, (struct model_conv){.f = 64});
    x = conv(b, "conv3", x, (struct model_conv){.f = 192, .k = 3, .p = 1});
    x = model_pool_ceil(b, "maxpool2", x, 3);
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        x = add_inception(b, &blocks[i], x);
        if (blocks[i].then)
            x = model_pool_ceil(b, model_label("maxpool%d", pool++).s, x,
                                blocks[i].then);
    }
    x = model_unary(b, "global_avg_pool", "avgpool", x);
    x = model_unary(b, "flatten", "Flatten", x);
    x = model_dropout(b, "dropout", x, v[DROPOUT]);
    model_linear(b, "fc", x, v[CLASSES]);
}

const struct model_family model_zoo_googlenet = {
    .self = {"googlenet", NULL, NULL, "GoogLeNet with norms, one classifier"},
    .source = "Szegedy et al., CVPR 2015; torchvision",
    .kind = "cnn",
    .params = params,
    .nparams = NPARAMS,
    .build = build,
};
