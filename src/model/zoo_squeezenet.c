/* SPDX-License-Identifier: Apache-2.0
 *
 * SqueezeNet (Iandola et al., 2016), versions 1.0 and 1.1, with torchvision's
 * names. A fire module narrows to few channels and widens with 1x1 and 3x3
 * filters side by side; the classifier is a convolution and a mean. */
#include "model_priv.h"

enum { VERSION, INPUT, CHANNELS, CLASSES, DROPOUT, NPARAMS };
enum { V1_0, V1_1 };

static const struct model_param params[NPARAMS] = {
    [VERSION] = {"version", "1.0 or 1.1", "v1.0|v1.1", V1_0, 0, 1},
    [INPUT] = {"input", "height and width of the image", NULL, 224, 32,
               1 << 16},
    [CHANNELS] = {"channels", "of the image", NULL, 3, 1, 1 << 16},
    [CLASSES] = {"classes", "outputs", NULL, 1000, 1, 1 << 24},
    [DROPOUT] = {"dropout", "per cent of the last features", NULL, 50, 0, 99},
};

/* Narrow widths of fire modules, 0: a pool; they widen to eight (the first
 * four: four times two) times that. */
static const int fires[2][10] = {
    [V1_0] = {16, 16, 32, 0, 32, 48, 48, 64, 0, 64},
    [V1_1] = {16, 16, 0, 32, 32, 0, 48, 48, 64, 64},
};

static int fire(pdl_build *b, const char *name, int x, int64_t narrow)
{
    int y[2];

    x = model_conv(b, model_label("%s.squeeze", name).s, x,
                   (struct model_conv){.f = narrow, .bias = true});
    x = model_unary(b, "relu", model_label("%s.squeeze_activation", name).s, x);
    y[0] = model_conv(b, model_label("%s.expand1x1", name).s, x,
                      (struct model_conv){.f = 4 * narrow, .bias = true});
    y[0] = model_unary(b, "relu",
                       model_label("%s.expand1x1_activation", name).s, y[0]);
    y[1] = model_conv(
        b, model_label("%s.expand3x3", name).s, x,
        (struct model_conv){.f = 4 * narrow, .k = 3, .p = 1, .bias = true});
    y[1] = model_unary(b, "relu",
                       model_label("%s.expand3x3_activation", name).s, y[1]);
    return model_concat(b, model_label("%s.Concat", name).s, y, 2);
}

static void build(pdl_build *b, const int64_t *v)
{
    bool first = v[VERSION] == V1_0;
    int x = model_image(b, v[CHANNELS], v[INPUT], 2);

    x = model_conv(
        b, "features.0", x,
        (struct model_conv){
            .f = first ? 96 : 64, .k = first ? 7 : 3, .s = 2, .bias = true});
    x = model_unary(b, "relu", "features.1", x);
    x = model_pool_ceil(b, "features.2", x, 3);
    for (int i = 0; i < 10; i++) {
        struct model_label name = model_label("features.%d", i + 3);
        int narrow = fires[v[VERSION] == V1_1][i];

        x = narrow ? fire(b, name.s, x, narrow)
                   : model_pool_ceil(b, name.s, x, 3);
    }
    x = model_dropout(b, "classifier.0", x, v[DROPOUT]);
    x = model_conv(b, "classifier.1", x,
                   (struct model_conv){.f = v[CLASSES], .bias = true});
    x = model_unary(b, "relu", "classifier.2", x);
    x = model_unary(b, "global_avg_pool", "classifier.3", x);
    model_unary(b, "flatten", "Flatten", x);
}

static const struct pdl_zoo_entry entries[] = {
    {"squeezenet1.0", "squeezenet", "version=v1.0", "SqueezeNet 1.0"},
    {"squeezenet1.1", "squeezenet", "version=v1.1",
     "SqueezeNet 1.1, fewer FLOPs"},
};

const struct model_family model_zoo_squeezenet = {
    .self = {"squeezenet", NULL, NULL, "SqueezeNet, as in torchvision"},
    .source = "Iandola et al., arXiv 1602.07360; torchvision",
    .kind = "cnn",
    .params = params,
    .nparams = NPARAMS,
    .build = build,
    .entries = entries,
    .nentries = sizeof entries / sizeof entries[0],
};
