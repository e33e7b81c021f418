/* SPDX-License-Identifier: Apache-2.0
 *
 * Residual networks with pre-activation (He et al., ECCV 2016): bottlenecks in
 * which norm and rectifier come before each convolution, and nothing behind the
 * sum. For CIFAR three stages of (depth - 2) / 9 blocks, 16, 32 and 64 wide
 * inside; for ImageNet the stem and the stages of ResNet. A shortcut that
 * changes shape is a 1x1 convolution of the activated input. */
#include "model_priv.h"

enum { DEPTH, STEM, INPUT, CHANNELS, CLASSES, NPARAMS };
enum { CIFAR, IMAGENET };

static const struct model_param params[NPARAMS] = {
    [DEPTH] = {"depth", "layers; 9n + 2, of ImageNet's 50, 101, 152 or 200",
               NULL, 164, 11, 2000},
    [STEM] = {"stem", "first layers, and stages", "cifar|imagenet", CIFAR, 0,
              1},
    [INPUT] = {"input", "height and width of the image", NULL, 32, 4, 1 << 16},
    [CHANNELS] = {"channels", "of the image", NULL, 3, 1, 1 << 16},
    [CLASSES] = {"classes", "outputs", NULL, 10, 1, 1 << 24},
};

static const struct {
    int64_t depth;
    int blocks[4];
} shapes[] = {
    {50, {3, 4, 6, 3}},
    {101, {3, 4, 23, 3}},
    {152, {3, 8, 36, 3}},
    {200, {3, 24, 36, 3}},
};

static int bn_relu(pdl_build *b, const char *name, int i, int x)
{
    x = model_unary(b, "batch_norm", model_label("%s.bn%d", name, i).s, x);
    return model_unary(b, "relu", model_label("%s.relu%d", name, i).s, x);
}

static int block(pdl_build *b, const char *name, int x, int64_t width,
                 int64_t stride, bool shortcut)
{
    int active = bn_relu(b, name, 1, x), y;

    y = model_conv(b, model_label("%s.conv1", name).s, active,
                   (struct model_conv){.f = width});
    y = bn_relu(b, name, 2, y);
    y = model_conv(
        b, model_label("%s.conv2", name).s, y,
        (struct model_conv){.f = width, .k = 3, .s = stride, .p = 1});
    y = bn_relu(b, name, 3, y);
    y = model_conv(b, model_label("%s.conv3", name).s, y,
                   (struct model_conv){.f = 4 * width});
    if (shortcut)
        x = model_conv(b, model_label("%s.shortcut", name).s, active,
                       (struct model_conv){.f = 4 * width, .s = stride});
    return model_binary(b, "add", model_label("%s.add", name).s, y, x);
}

static int stages(pdl_build *b, int x, int n, const int *blocks, int64_t width)
{
    for (int stage = 0; stage < n; stage++)
        for (int i = 0; i < blocks[stage]; i++)
            x = block(b, model_label("layer%d.%d", stage + 1, i).s, x,
                      width << stage, stage > 0 && i == 0 ? 2 : 1, i == 0);
    return x;
}

static int cifar(pdl_build *b, const int64_t *v, int x)
{
    int n = (int)(v[DEPTH] - 2) / 9, blocks[3] = {n, n, n};

    if ((v[DEPTH] - 2) % 9)
        pdl_build_fail(b, PDL_EINVAL, "depth must be 9n + 2, like 164");
    x = model_conv(b, "conv1", x, (struct model_conv){.f = 16, .k = 3, .p = 1});
    return stages(b, x, 3, blocks, 16);
}

static int imagenet(pdl_build *b, const int64_t *v, int x)
{
    x = model_conv(b, "conv1", x,
                   (struct model_conv){.f = 64, .k = 7, .s = 2, .p = 3});
    x = model_unary(b, "batch_norm", "bn1", x);
    x = model_unary(b, "relu", "relu1", x);
    x = model_pool(b, "max_pool", "maxpool", x, 3, 2, 1);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        if (shapes[i].depth == v[DEPTH])
            return stages(b, x, 4, shapes[i].blocks, 64);
    pdl_build_fail(b, PDL_EINVAL, "depth must be 50, 101, 152 or 200");
    return x;
}

static void build(pdl_build *b, const int64_t *v)
{
    int x = model_image(b, v[CHANNELS], v[INPUT], 2);

    x = v[STEM] == IMAGENET ? imagenet(b, v, x) : cifar(b, v, x);
    x = model_unary(b, "batch_norm", "bn", x);
    x = model_unary(b, "relu", "relu", x);
    x = model_unary(b, "global_avg_pool", "avgpool", x);
    x = model_unary(b, "flatten", "flatten", x);
    model_linear(b, "fc", x, v[CLASSES]);
}

static const struct pdl_zoo_entry entries[] = {
    {"resnet200", "preact", "depth=200,stem=imagenet,input=224,classes=1000",
     "ResNet-200, ImageNet"},
    {"resnet1001", "preact", "depth=1001", "ResNet-1001, CIFAR-10"},
};

const struct model_family model_zoo_preact = {
    .self = {"preact", NULL, NULL, "residual networks with pre-activation"},
    .source = "He et al., ECCV 2016",
    .kind = "cnn",
    .params = params,
    .nparams = NPARAMS,
    .build = build,
    .entries = entries,
    .nentries = sizeof entries / sizeof entries[0],
};
