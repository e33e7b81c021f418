/* SPDX-License-Identifier: Apache-2.0
 *
 * RegNet X and Y (Radosavovic et al., CVPR 2020), with torchvision's names: a
 * stem and four stages of bottlenecks whose 3x3 convolutions have groups of
 * one width; Y weighs channels. Depths and widths are those that the paper's
 * linear rule gives for each size (its tables 9 and 10). */
#include "model_priv.h"

enum { NET, INPUT, CHANNELS, CLASSES, NPARAMS };

static const struct model_param params[NPARAMS] = {
    [NET] = {"net", "which of them",
             "x400mf|x800mf|x1.6gf|x3.2gf|x8gf|"
             "y400mf|y800mf|y1.6gf|y3.2gf|y8gf",
             0, 0, 9},
    [INPUT] = {"input", "height and width of the image", NULL, 224, 32,
               1 << 16},
    [CHANNELS] = {"channels", "of the image", NULL, 3, 1, 1 << 16},
    [CLASSES] = {"classes", "outputs", NULL, 1000, 1, 1 << 24},
};

/* In the order of the choices. */
static const struct net {
    int depth[4], width[4], group;
    bool squeeze;
} nets[] = {
    {{1, 2, 7, 12}, {32, 64, 160, 400}, 16, false},
    {{1, 3, 7, 5}, {64, 128, 288, 672}, 16, false},
    {{2, 4, 10, 2}, {72, 168, 408, 912}, 24, false},
    {{2, 6, 15, 2}, {96, 192, 432, 1008}, 48, false},
    {{2, 5, 15, 1}, {80, 240, 720, 1920}, 120, false},
    {{1, 3, 6, 6}, {48, 104, 208, 440}, 8, true},
    {{1, 3, 8, 2}, {64, 144, 320, 784}, 16, true},
    {{2, 6, 17, 2}, {48, 120, 336, 888}, 24, true},
    {{2, 5, 13, 1}, {72, 216, 576, 1512}, 24, true},
    {{2, 4, 10, 1}, {224, 448, 896, 2016}, 56, true},
};

static int block(pdl_build *b, const char *name, int x, const struct net *n,
                 int64_t width, int64_t s)
{
    int64_t in = model_channels(b, x);
    int64_t groups = width < n->group ? 1 : width / n->group;
    int y = x, shortcut = x;

    if (in != width || s != 1)
        shortcut =
            model_conv_norm(b, model_label("%s.proj", name).s, x,
                            (struct model_conv){.f = width, .s = s}, NULL);
    y = model_conv_norm(b, model_label("%s.f.a", name).s, y,
                        (struct model_conv){.f = width}, "relu");
    y = model_conv_norm(
        b, model_label("%s.f.b", name).s, y,
        (struct model_conv){
            .f = width, .k = 3, .s = s, .p = 1, .groups = groups},
        "relu");
    if (n->squeeze) /* a quarter of what comes in, to the even */
        y = model_squeeze(b, model_label("%s.f.se", name).s, y,
                          in / 4 + (in % 4 == 3 || (in % 8 == 6)), "relu",
                          "sigmoid");
    y = model_conv_norm(b, model_label("%s.f.c", name).s, y,
                        (struct model_conv){.f = width}, NULL);
    y = model_binary(b, "add", model_label("%s.Add", name).s, shortcut, y);
    return model_unary(b, "relu", model_label("%s.activation", name).s, y);
}

static void build(pdl_build *b, const int64_t *v)
{
    const struct net *n = &nets[v[NET]];
    int x = model_image(b, v[CHANNELS], v[INPUT], 2);

    x = model_conv_norm(b, "stem", x,
                        (struct model_conv){.f = 32, .k = 3, .s = 2, .p = 1},
                        "relu");
    for (int g = 0; g < 4; g++)
        for (int i = 0; i < n->depth[g]; i++)
            x = block(
                b,
                model_label("trunk_output.block%d.block%d-%d", g + 1, g + 1, i)
                    .s,
                x, n, n->width[g], i == 0 ? 2 : 1);
    x = model_unary(b, "global_avg_pool", "avgpool", x);
    x = model_unary(b, "flatten", "Flatten", x);
    model_linear(b, "fc", x, v[CLASSES]);
}

static const struct pdl_zoo_entry entries[] = {
    {"regnet-x-400mf", "regnet", "net=x400mf", "RegNetX, 400 MF"},
    {"regnet-x-800mf", "regnet", "net=x800mf", "RegNetX, 800 MF"},
    {"regnet-x-1.6gf", "regnet", "net=x1.6gf", "RegNetX, 1.6 GF"},
    {"regnet-x-3.2gf", "regnet", "net=x3.2gf", "RegNetX, 3.2 GF"},
    {"regnet-x-8gf", "regnet", "net=x8gf", "RegNetX, 8 GF"},
    {"regnet-y-400mf", "regnet", "net=y400mf", "RegNetY, 400 MF"},
    {"regnet-y-800mf", "regnet", "net=y800mf", "RegNetY, 800 MF"},
    {"regnet-y-1.6gf", "regnet", "net=y1.6gf", "RegNetY, 1.6 GF"},
    {"regnet-y-3.2gf", "regnet", "net=y3.2gf", "RegNetY, 3.2 GF"},
    {"regnet-y-8gf", "regnet", "net=y8gf", "RegNetY, 8 GF"},
};

const struct model_family model_zoo_regnet = {
    .self = {"regnet", NULL, NULL, "RegNet X and Y, as in torchvision"},
    .source = "Radosavovic et al., CVPR 2020; torchvision",
    .kind = "cnn",
    .params = params,
    .nparams = NPARAMS,
    .build = build,
    .entries = entries,
    .nentries = sizeof entries / sizeof entries[0],
};
