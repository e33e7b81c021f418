/* SPDX-License-Identifier: Apache-2.0
 *
 * ResNet (He et al., CVPR 2016), with the names and the order of layers that
 * torchvision's export has. stride says where a bottleneck that halves the
 * image has its stride: on the 3x3 convolution (v1.5, the network everybody
 * trains) or on the first 1x1 (the paper's). */
#include "model_priv.h"

enum { DEPTH, STRIDE, INPUT, CHANNELS, CLASSES, NPARAMS };
enum { ON_3X3, ON_1X1 };

static const struct model_param params[NPARAMS] = {
    [DEPTH] = {"depth", "layers with weights", "18|34|50|101|152", 50, 18, 152},
    [STRIDE] = {"stride", "where a bottleneck has its stride", "3x3|1x1",
                ON_3X3, 0, 1},
    [INPUT] = {"input", "height and width of the image", NULL, 224, 1, 1 << 20},
    [CHANNELS] = {"channels", "of the image", NULL, 3, 1, 1 << 16},
    [CLASSES] = {"classes", "outputs", NULL, 1000, 1, 1 << 24},
};

static const struct {
    int64_t depth;
    bool bottleneck;
    int blocks[4];
} shapes[] = {
    {18, false, {2, 2, 2, 2}},  {34, false, {3, 4, 6, 3}},
    {50, true, {3, 4, 6, 3}},   {101, true, {3, 4, 23, 3}},
    {152, true, {3, 8, 36, 3}},
};

struct block {
    const char *name; /* "layer1.0" */
    int64_t width, out, stride;
    bool shortcut, on_1x1;
};

static int conv_bn(pdl_build *b, const struct block *k, int i, int x,
                   struct model_conv c)
{
    x = model_conv(b, model_label("%s.conv%d", k->name, i).s, x, c);
    return model_unary(b, "batch_norm", model_label("%s.bn%d", k->name, i).s,
                       x);
}

/* The sum with the input, which a 1x1 convolution brings to shape. */
static int join(pdl_build *b, const struct block *k, int x, int y)
{
    if (k->shortcut) {
        x = model_conv(b, model_label("%s.downsample.0", k->name).s, x,
                       (struct model_conv){.f = k->out, .s = k->stride});
        x = model_unary(b, "batch_norm",
                        model_label("%s.downsample.1", k->name).s, x);
    }
    return model_binary(b, "add", model_label("%s.Add", k->name).s, y, x);
}

static int basic(pdl_build *b, const struct block *k, int x)
{
    int y;

    y = conv_bn(
        b, k, 1, x,
        (struct model_conv){.f = k->width, .k = 3, .s = k->stride, .p = 1});
    y = model_unary(b, "relu", model_label("%s.relu", k->name).s, y);
    y = conv_bn(b, k, 2, y, (struct model_conv){.f = k->width, .k = 3, .p = 1});
    y = join(b, k, x, y);
    return model_unary(b, "relu", model_label("%s.relu_1", k->name).s, y);
}

static int bottleneck(pdl_build *b, const struct block *k, int x)
{
    int64_t first = k->on_1x1 ? k->stride : 1;
    int y;

    y = conv_bn(b, k, 1, x, (struct model_conv){.f = k->width, .s = first});
    y = model_unary(b, "relu", model_label("%s.relu", k->name).s, y);
    y = conv_bn(b, k, 2, y,
                (struct model_conv){
                    .f = k->width, .k = 3, .s = k->stride / first, .p = 1});
    y = model_unary(b, "relu", model_label("%s.relu_1", k->name).s, y);
    y = conv_bn(b, k, 3, y, (struct model_conv){.f = k->out});
    y = join(b, k, x, y);
    return model_unary(b, "relu", model_label("%s.relu_2", k->name).s, y);
}

static int stages(pdl_build *b, int shape, bool on_1x1, int x)
{
    bool deep = shapes[shape].bottleneck;

    for (int stage = 0; stage < 4; stage++)
        for (int i = 0; i < shapes[shape].blocks[stage]; i++) {
            struct model_label name = model_label("layer%d.%d", stage + 1, i);
            int64_t width = (int64_t)64 << stage;
            struct block k = {
                .name = name.s,
                .width = width,
                .out = deep ? 4 * width : width,
                .stride = stage > 0 && i == 0 ? 2 : 1,
                .shortcut = i == 0 && (deep || stage > 0),
                .on_1x1 = on_1x1,
            };

            x = deep ? bottleneck(b, &k, x) : basic(b, &k, x);
        }
    return x;
}

static void build(pdl_build *b, const int64_t *v)
{
    int shape = 0, x = model_image(b, v[CHANNELS], v[INPUT], 2);

    while (shapes[shape].depth != v[DEPTH])
        shape++;
    x = model_conv(b, "conv1", x,
                   (struct model_conv){.f = 64, .k = 7, .s = 2, .p = 3});
    x = model_unary(b, "batch_norm", "bn1", x);
    x = model_unary(b, "relu", "relu", x);
    x = model_pool(b, "max_pool", "maxpool", x, 3, 2, 1);
    x = stages(b, shape, v[STRIDE] == ON_1X1, x);
    x = model_unary(b, "global_avg_pool", "avgpool", x);
    x = model_unary(b, "flatten", "Flatten", x);
    model_linear(b, "fc", x, v[CLASSES]);
}

static const struct pdl_zoo_entry entries[] = {
    {"resnet18", "resnet", "depth=18", "ResNet-18"},
    {"resnet34", "resnet", "depth=34", "ResNet-34"},
    {"resnet50", "resnet", "depth=50", "ResNet-50 v1.5"},
    {"resnet101", "resnet", "depth=101", "ResNet-101 v1.5"},
    {"resnet152", "resnet", "depth=152", "ResNet-152 v1.5"},
};

const struct model_family model_zoo_resnet = {
    .self = {"resnet", NULL, NULL, "residual networks for ImageNet"},
    .source = "He et al., CVPR 2016; torchvision",
    .kind = "cnn",
    .params = params,
    .nparams = NPARAMS,
    .build = build,
    .entries = entries,
    .nentries = sizeof entries / sizeof entries[0],
};
