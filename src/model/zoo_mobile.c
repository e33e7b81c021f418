/* SPDX-License-Identifier: Apache-2.0
 *
 * Networks of inverted bottlenecks, with torchvision's names: MobileNetV2
 * (Sandler et al., CVPR 2018) and EfficientNet-B0 (Tan and Le, ICML 2019).
 * A bottleneck widens `expand` times with a 1x1 convolution, filters each
 * channel alone, and narrows again; EfficientNet weighs channels in between
 * (squeeze and excitation). Stochastic depth costs nothing and is left out. */
#include "model_priv.h"

enum { INPUT, CHANNELS, CLASSES, NPARAMS };

static const struct model_param params[NPARAMS] = {
    [INPUT] = {"input", "height and width of the image", NULL, 224, 32,
               1 << 16},
    [CHANNELS] = {"channels", "of the image", NULL, 3, 1, 1 << 16},
    [CLASSES] = {"classes", "outputs", NULL, 1000, 1, 1 << 24},
};

struct stage {
    int expand, k, s, out, n;
};

static int mobile_block(pdl_build *b, const char *name, int x,
                        const struct stage *g, int64_t s)
{
    int64_t in = model_channels(b, x), wide = in * g->expand;
    int y = x, n = 0;

    if (g->expand != 1)
        y = model_conv_norm(b, model_label("%s.conv.%d", name, n++).s, y,
                            (struct model_conv){.f = wide}, "relu6");
    y = model_conv_norm(
        b, model_label("%s.conv.%d", name, n++).s, y,
        (struct model_conv){.f = wide, .k = 3, .s = s, .p = 1, .groups = wide},
        "relu6");
    y = model_conv(b, model_label("%s.conv.%d", name, n++).s, y,
                   (struct model_conv){.f = g->out});
    y = model_unary(b, "batch_norm", model_label("%s.conv.%d", name, n).s, y);
    if (s == 1 && in == g->out)
        y = model_binary(b, "add", model_label("%s.Add", name).s, x, y);
    return y;
}

static void build_mobilenet(pdl_build *b, const int64_t *v)
{
    static const struct stage stages[] = {
        {1, 3, 1, 16, 1}, {6, 3, 2, 24, 2},  {6, 3, 2, 32, 3}, {6, 3, 2, 64, 4},
        {6, 3, 1, 96, 3}, {6, 3, 2, 160, 3}, {6, 3, 1, 320, 1}};
    int x = model_image(b, v[CHANNELS], v[INPUT], 2), n = 1;

    x = model_conv_norm(b, "features.0", x,
                        (struct model_conv){.f = 32, .k = 3, .s = 2, .p = 1},
                        "relu6");
    for (size_t g = 0; g < sizeof stages / sizeof stages[0]; g++)
        for (int i = 0; i < stages[g].n; i++)
            x = mobile_block(b, model_label("features.%d", n++).s, x,
                             &stages[g], i == 0 ? stages[g].s : 1);
    x = model_conv_norm(b, model_label("features.%d", n).s, x,
                        (struct model_conv){.f = 1280}, "relu6");
    x = model_unary(b, "global_avg_pool", "GlobalAveragePool", x);
    x = model_unary(b, "flatten", "Flatten", x);
    x = model_dropout(b, "classifier.0", x, 20);
    model_linear(b, "classifier.1", x, v[CLASSES]);
}

static int efficient_block(pdl_build *b, const char *name, int x,
                           const struct stage *g, int64_t s)
{
    int64_t in = model_channels(b, x), wide = in * g->expand;
    int y = x, n = 0;

    if (g->expand != 1)
        y = model_conv_norm(b, model_label("%s.block.%d", name, n++).s, y,
                            (struct model_conv){.f = wide}, "silu");
    y = model_conv_norm(
        b, model_label("%s.block.%d", name, n++).s, y,
        (struct model_conv){
            .f = wide, .k = g->k, .s = s, .p = g->k / 2, .groups = wide},
        "silu");
    y = model_squeeze(b, model_label("%s.block.%d", name, n++).s, y,
                      in < 4 ? 1 : in / 4, "silu", "sigmoid");
    y = model_conv_norm(b, model_label("%s.block.%d", name, n).s, y,
                        (struct model_conv){.f = g->out}, NULL);
    if (s == 1 && in == g->out)
        y = model_binary(b, "add", model_label("%s.Add", name).s, y, x);
    return y;
}

static void build_efficientnet(pdl_build *b, const int64_t *v)
{
    static const struct stage stages[] = {{1, 3, 1, 16, 1},  {6, 3, 2, 24, 2},
                                          {6, 5, 2, 40, 2},  {6, 3, 2, 80, 3},
                                          {6, 5, 1, 112, 3}, {6, 5, 2, 192, 4},
                                          {6, 3, 1, 320, 1}};
    enum { NSTAGES = sizeof stages / sizeof stages[0] };
    int x = model_image(b, v[CHANNELS], v[INPUT], 2);

    x = model_conv_norm(b, "features.0", x,
                        (struct model_conv){.f = 32, .k = 3, .s = 2, .p = 1},
                        "silu");
    for (int g = 0; g < NSTAGES; g++)
        for (int i = 0; i < stages[g].n; i++)
            x = efficient_block(b, model_label("features.%d.%d", g + 1, i).s, x,
                                &stages[g], i == 0 ? stages[g].s : 1);
    x = model_conv_norm(b, model_label("features.%d", NSTAGES + 1).s, x,
                        (struct model_conv){.f = 1280}, "silu");
    x = model_unary(b, "global_avg_pool", "avgpool", x);
    x = model_unary(b, "flatten", "Flatten", x);
    x = model_dropout(b, "classifier.0", x, 20);
    model_linear(b, "classifier.1", x, v[CLASSES]);
}

static const struct pdl_zoo_entry efficientnet_entries[] = {
    {"efficientnet-b0", "efficientnet", NULL, "EfficientNet-B0"},
};
static const struct pdl_zoo_entry mobilenet_entries[] = {
    {"mobilenet-v2", "mobilenet", NULL, "MobileNetV2, width 1.0"},
};

const struct model_family model_zoo_mobilenet = {
    .self = {"mobilenet", NULL, NULL, "MobileNetV2, as in torchvision"},
    .source = "Sandler et al., CVPR 2018; torchvision",
    .kind = "cnn",
    .params = params,
    .nparams = NPARAMS,
    .build = build_mobilenet,
    .entries = mobilenet_entries,
    .nentries = 1,
};

const struct model_family model_zoo_efficientnet = {
    .self = {"efficientnet", NULL, NULL, "EfficientNet-B0, as in torchvision"},
    .source = "Tan and Le, ICML 2019; torchvision",
    .kind = "cnn",
    .params = params,
    .nparams = NPARAMS,
    .build = build_efficientnet,
    .entries = efficientnet_entries,
    .nentries = 1,
};
