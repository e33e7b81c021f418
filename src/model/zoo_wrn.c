/* SPDX-License-Identifier: Apache-2.0
 *
 * Wide residual networks for CIFAR (Zagoruyko and Komodakis, BMVC 2016): three
 * stages of (depth - 4) / 6 pre-activation blocks, `width` times as wide as
 * ResNet. Without dropout; a shortcut that changes shape is a 1x1
 * convolution of the activated input. */
#include "model_priv.h"

enum { DEPTH, WIDTH, INPUT, CHANNELS, CLASSES, NPARAMS };

static const struct model_param params[NPARAMS] = {
    [DEPTH] = {"depth", "layers, 6n + 4", NULL, 28, 10, 1000},
    [WIDTH] = {"width", "widening factor", NULL, 10, 1, 1000},
    [INPUT] = {"input", "height and width of the image", NULL, 32, 4, 1 << 16},
    [CHANNELS] = {"channels", "of the image", NULL, 3, 1, 1 << 16},
    [CLASSES] = {"classes", "outputs", NULL, 10, 1, 1 << 24},
};

static int bn_relu(pdl_build *b, const char *name, int i, int x)
{
    x = model_unary(b, "batch_norm", model_label("%s.bn%d", name, i).s, x);
    return model_unary(b, "relu", model_label("%s.relu%d", name, i).s, x);
}

static int block(pdl_build *b, const char *name, int x, int64_t f, int64_t s,
                 bool shortcut)
{
    int active = bn_relu(b, name, 1, x), y;

    y = model_conv(b, model_label("%s.conv1", name).s, active,
                   (struct model_conv){.f = f, .k = 3, .s = s, .p = 1});
    y = bn_relu(b, name, 2, y);
    y = model_conv(b, model_label("%s.conv2", name).s, y,
                   (struct model_conv){.f = f, .k = 3, .p = 1});
    if (shortcut)
        x = model_conv(b, model_label("%s.shortcut", name).s, active,
                       (struct model_conv){.f = f, .s = s});
    return model_binary(b, "add", model_label("%s.add", name).s, y, x);
}

static void build(pdl_build *b, const int64_t *v)
{
    int x = model_image(b, v[CHANNELS], v[INPUT], 2);

    if ((v[DEPTH] - 4) % 6)
        pdl_build_fail(b, PDL_EINVAL, "depth must be 6n + 4, like 28");
    x = model_conv(b, "conv1", x, (struct model_conv){.f = 16, .k = 3, .p = 1});
    for (int stage = 0; stage < 3; stage++)
        for (int i = 0; i < (int)(v[DEPTH] - 4) / 6; i++)
            x = block(b, model_label("layer%d.%d", stage + 1, i).s, x,
                      v[WIDTH] * ((int64_t)16 << stage),
                      stage > 0 && i == 0 ? 2 : 1, i == 0);
    x = model_unary(b, "batch_norm", "bn", x);
    x = model_unary(b, "relu", "relu", x);
    x = model_unary(b, "global_avg_pool", "avgpool", x);
    x = model_unary(b, "flatten", "flatten", x);
    model_linear(b, "fc", x, v[CLASSES]);
}

static const struct pdl_zoo_entry entries[] = {
    {"wrn-28-10", "wrn", "depth=28,width=10",
     "WRN-28-10, CIFAR-10, no dropout"},
};

const struct model_family model_zoo_wrn = {
    .self = {"wrn", NULL, NULL, "wide residual networks for CIFAR"},
    .source = "Zagoruyko and Komodakis, BMVC 2016",
    .kind = "cnn",
    .params = params,
    .nparams = NPARAMS,
    .build = build,
    .entries = entries,
    .nentries = sizeof entries / sizeof entries[0],
    .divide_up = 0.4,
};
