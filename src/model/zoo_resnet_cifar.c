/* SPDX-License-Identifier: Apache-2.0
 *
 * ResNet for CIFAR (He et al., CVPR 2016, section 4.2): a 3x3 convolution and
 * three stages of n basic blocks each, `width`, twice and four times as wide,
 * 6n + 2 layers with weights. A shortcut that changes shape is a 1x1
 * convolution (the paper's option B); the paper itself pads with zeros. */
#include "model_priv.h"

enum { DEPTH, WIDTH, INPUT, CHANNELS, CLASSES, NPARAMS };

static const struct model_param params[NPARAMS] = {
    [DEPTH] = {"depth", "layers, 6n + 2", NULL, 20, 8, 1202},
    [WIDTH] = {"width", "channels of the first stage", NULL, 16, 1, 1 << 12},
    [INPUT] = {"input", "height and width of the image", NULL, 32, 4, 1 << 16},
    [CHANNELS] = {"channels", "of the image", NULL, 3, 1, 1 << 16},
    [CLASSES] = {"classes", "outputs", NULL, 10, 1, 1 << 24},
};

static int conv_bn(pdl_build *b, const char *name, int i, int x, int64_t f,
                   int64_t s)
{
    x = model_conv(b, model_label("%s.conv%d", name, i).s, x,
                   (struct model_conv){.f = f, .k = 3, .s = s, .p = 1});
    return model_unary(b, "batch_norm", model_label("%s.bn%d", name, i).s, x);
}

static int block(pdl_build *b, const char *name, int x, int64_t f, int64_t s)
{
    int y = conv_bn(b, name, 1, x, f, s);

    y = model_unary(b, "relu", model_label("%s.relu", name).s, y);
    y = conv_bn(b, name, 2, y, f, 1);
    if (s > 1) {
        x = model_conv(b, model_label("%s.downsample.0", name).s, x,
                       (struct model_conv){.f = f, .s = s});
        x = model_unary(b, "batch_norm", model_label("%s.downsample.1", name).s,
                        x);
    }
    y = model_binary(b, "add", model_label("%s.add", name).s, y, x);
    return model_unary(b, "relu", model_label("%s.relu_1", name).s, y);
}

static void build(pdl_build *b, const int64_t *v)
{
    int x = model_image(b, v[CHANNELS], v[INPUT], 2);

    if ((v[DEPTH] - 2) % 6)
        pdl_build_fail(b, PDL_EINVAL, "depth must be 6n + 2, like 110");
    x = model_conv(b, "conv1", x,
                   (struct model_conv){.f = v[WIDTH], .k = 3, .p = 1});
    x = model_unary(b, "batch_norm", "bn1", x);
    x = model_unary(b, "relu", "relu", x);
    for (int stage = 0; stage < 3; stage++)
        for (int i = 0; i < (int)(v[DEPTH] - 2) / 6; i++)
            x = block(b, model_label("layer%d.%d", stage + 1, i).s, x,
                      v[WIDTH] << stage, stage > 0 && i == 0 ? 2 : 1);
    x = model_unary(b, "global_avg_pool", "avgpool", x);
    x = model_unary(b, "flatten", "flatten", x);
    model_linear(b, "fc", x, v[CLASSES]);
}

static const struct pdl_zoo_entry entries[] = {
    {"resnet20", "resnet-cifar", "depth=20", "ResNet-20, CIFAR-10"},
    {"resnet56", "resnet-cifar", "depth=56", "ResNet-56, CIFAR-10"},
    {"resnet110", "resnet-cifar", "depth=110", "ResNet-110, CIFAR-10"},
};

const struct model_family model_zoo_resnet_cifar = {
    .self = {"resnet-cifar", NULL, NULL, "residual networks for CIFAR"},
    .source = "He et al., CVPR 2016, section 4.2, option B",
    .kind = "cnn",
    .params = params,
    .nparams = NPARAMS,
    .build = build,
    .entries = entries,
    .nentries = sizeof entries / sizeof entries[0],
    .divide_up = 0.7,
};
