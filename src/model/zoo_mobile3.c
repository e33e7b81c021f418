/* SPDX-License-Identifier: Apache-2.0
 *
 * MobileNetV3 (Howard et al., ICCV 2019), large and small, with torchvision's
 * names: inverted bottlenecks, some of which weigh channels, ReLU first and
 * hard swish in the deeper ones. Its norms have an epsilon of 1e-3 and a
 * momentum of 0.01. */
#include "model_priv.h"

enum { SIZE, INPUT, CHANNELS, CLASSES, DROPOUT, NPARAMS };
enum { LARGE, SMALL };

static const struct model_param params[NPARAMS] = {
    [SIZE] = {"size", "which of the two", "large|small", LARGE, 0, 1},
    [INPUT] = {"input", "height and width of the image", NULL, 224, 32,
               1 << 16},
    [CHANNELS] = {"channels", "of the image", NULL, 3, 1, 1 << 16},
    [CLASSES] = {"classes", "outputs", NULL, 1000, 1, 1 << 24},
    [DROPOUT] = {"dropout", "per cent of the last features", NULL, 20, 0, 99},
};

/* kernel, inner width, width, squeeze, hard swish, stride: table 1 and 2 */
struct block {
    int k, inner, out;
    bool squeeze, swish;
    int s;
};

static const struct block large[] = {
    {3, 16, 16, 0, 0, 1},   {3, 64, 24, 0, 0, 2},   {3, 72, 24, 0, 0, 1},
    {5, 72, 40, 1, 0, 2},   {5, 120, 40, 1, 0, 1},  {5, 120, 40, 1, 0, 1},
    {3, 240, 80, 0, 1, 2},  {3, 200, 80, 0, 1, 1},  {3, 184, 80, 0, 1, 1},
    {3, 184, 80, 0, 1, 1},  {3, 480, 112, 1, 1, 1}, {3, 672, 112, 1, 1, 1},
    {5, 672, 160, 1, 1, 2}, {5, 960, 160, 1, 1, 1}, {5, 960, 160, 1, 1, 1},
};
static const struct block small[] = {
    {3, 16, 16, 1, 0, 2},  {3, 72, 24, 0, 0, 2},  {3, 88, 24, 0, 0, 1},
    {5, 96, 40, 1, 1, 2},  {5, 240, 40, 1, 1, 1}, {5, 240, 40, 1, 1, 1},
    {5, 120, 48, 1, 1, 1}, {5, 144, 48, 1, 1, 1}, {5, 288, 96, 1, 1, 2},
    {5, 576, 96, 1, 1, 1}, {5, 576, 96, 1, 1, 1},
};

#define NORM .epsilon = 1e-3, .momentum = 0.01

/* A quarter, as a multiple of 8 and no less than nine tenths of it. */
static int64_t quarter(int64_t inner)
{
    int64_t v = inner / 4, n = (v + 4) / 8 * 8;

    n = n < 8 ? 8 : n;
    return 10 * n < 9 * v ? n + 8 : n;
}

static int add_block(pdl_build *b, const char *name, int x,
                     const struct block *g)
{
    const char *act = g->swish ? "hard_swish" : "relu";
    int64_t in = model_channels(b, x);
    int y = x, n = 0;

    if (g->inner != in)
        y = model_conv_norm(b, model_label("%s.block.%d", name, n++).s, y,
                            (struct model_conv){.f = g->inner, NORM}, act);
    y = model_conv_norm(b, model_label("%s.block.%d", name, n++).s, y,
                        (struct model_conv){.f = g->inner,
                                            .k = g->k,
                                            .s = g->s,
                                            .p = g->k / 2,
                                            .groups = g->inner,
                                            NORM},
                        act);
    if (g->squeeze)
        y = model_squeeze(b, model_label("%s.block.%d", name, n++).s, y,
                          quarter(g->inner), "relu", "hard_sigmoid");
    y = model_conv_norm(b, model_label("%s.block.%d", name, n).s, y,
                        (struct model_conv){.f = g->out, NORM}, NULL);
    if (g->s == 1 && in == g->out)
        y = model_binary(b, "add", model_label("%s.Add", name).s, y, x);
    return y;
}

static void build(pdl_build *b, const int64_t *v)
{
    bool is_large = v[SIZE] == LARGE;
    const struct block *blocks = is_large ? large : small;
    int count = is_large ? sizeof large / sizeof large[0]
                         : sizeof small / sizeof small[0];
    int x = model_image(b, v[CHANNELS], v[INPUT], 2);

    x = model_conv_norm(
        b, "features.0", x,
        (struct model_conv){.f = 16, .k = 3, .s = 2, .p = 1, NORM},
        "hard_swish");
    for (int i = 0; i < count; i++)
        x = add_block(b, model_label("features.%d", i + 1).s, x, &blocks[i]);
    x = model_conv_norm(
        b, model_label("features.%d", count + 1).s, x,
        (struct model_conv){.f = 6 * model_channels(b, x), NORM}, "hard_swish");
    x = model_unary(b, "global_avg_pool", "avgpool", x);
    x = model_unary(b, "flatten", "Flatten", x);
    x = model_linear(b, "classifier.0", x, is_large ? 1280 : 1024);
    x = model_unary(b, "hard_swish", "classifier.1", x);
    x = model_dropout(b, "classifier.2", x, v[DROPOUT]);
    model_linear(b, "classifier.3", x, v[CLASSES]);
}

static const struct pdl_zoo_entry entries[] = {
    {"mobilenet-v3-large", "mobilenet3", "size=large", "MobileNetV3 large"},
    {"mobilenet-v3-small", "mobilenet3", "size=small", "MobileNetV3 small"},
};

const struct model_family model_zoo_mobilenet3 = {
    .self = {"mobilenet3", NULL, NULL, "MobileNetV3, as in torchvision"},
    .source = "Howard et al., ICCV 2019; torchvision",
    .kind = "cnn",
    .params = params,
    .nparams = NPARAMS,
    .build = build,
    .entries = entries,
    .nentries = sizeof entries / sizeof entries[0],
};
