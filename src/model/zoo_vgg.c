/* SPDX-License-Identifier: Apache-2.0
 *
 * Plain stacks of convolutions: AlexNet (the one-column variant of Krizhevsky,
 * 2014, as torchvision has it) and VGG-16 and -19 (configurations D and E of
 * Simonyan and Zisserman, 2015). Layers are called conv1, relu1, ..., pool5,
 * fc6, fc7, fc8. VGG has no adaptive pool: another input resizes fc6. */
#include "model_priv.h"

enum { INPUT, CHANNELS, CLASSES, DEPTH, NPARAMS };

#define IMAGE                                                            \
    {                                                                    \
        "input", "height and width of the image", NULL, 224, 32, 1 << 16 \
    }
#define OUTPUTS                                      \
    {                                                \
        "classes", "outputs", NULL, 1000, 1, 1 << 24 \
    }

static const struct model_param params[NPARAMS] = {
    [INPUT] = IMAGE,
    [CHANNELS] = {"channels", "of the image", NULL, 3, 1, 1 << 16},
    [CLASSES] = OUTPUTS,
    [DEPTH] = {"depth", "layers with weights", "16|19", 16, 16, 19},
};

/* dropout, fc, relu twice, then the output layer */
static void classifier(pdl_build *b, int x, int64_t classes)
{
    x = model_unary(b, "flatten", "flatten", x);
    for (int i = 6; i < 8; i++) {
        x = model_linear(b, model_label("fc%d", i).s, x, 4096);
        x = model_unary(b, "relu", model_label("relu_fc%d", i).s, x);
        x = model_unary(b, "dropout", model_label("drop%d", i).s, x);
    }
    model_linear(b, "fc8", x, classes);
}

/* An odd row is pooled too where the input does not divide by 32, as the
 * original (Caffe) does and Chainer: fc6 of a 226 x 226 input then reads
 * 8 x 8 pixels, 169.8 M weights in all. */
static void build_vgg(pdl_build *b, const int64_t *v)
{
    struct pdl_attr half = {.kernel = {2, 2},
                            .stride = {2, 2},
                            .dilation = {1, 1},
                            .ceil_mode = v[INPUT] % 32 != 0};
    int x = model_image(b, v[CHANNELS], v[INPUT], 2), n = 1;

    for (int stage = 0; stage < 5; stage++) {
        int convs = stage < 2 ? 2 : v[DEPTH] == 19 ? 4 : 3;
        int64_t f = stage < 3 ? (int64_t)64 << stage : 512;

        for (int i = 0; i < convs; i++, n++) {
            x = model_conv(
                b, model_label("conv%d", n).s, x,
                (struct model_conv){.f = f, .k = 3, .p = 1, .bias = true});
            x = model_unary(b, "relu", model_label("relu%d", n).s, x);
        }
        x = pdl_build_op(b, "max_pool", model_label("pool%d", stage + 1).s,
                         &half, &x, 1);
    }
    classifier(b, x, v[CLASSES]);
}

static void build_alexnet(pdl_build *b, const int64_t *v)
{
    static const struct {
        struct model_conv conv;
        bool pool;
    } layers[] = {
        {{.f = 64, .k = 11, .s = 4, .p = 2, .bias = true}, true},
        {{.f = 192, .k = 5, .p = 2, .bias = true}, true},
        {{.f = 384, .k = 3, .p = 1, .bias = true}, false},
        {{.f = 256, .k = 3, .p = 1, .bias = true}, false},
        {{.f = 256, .k = 3, .p = 1, .bias = true}, true},
    };
    struct pdl_attr six = {.ndims = 2, .dims = {6, 6}};
    int x = model_image(b, v[CHANNELS], v[INPUT], 2);

    for (int i = 0; i < 5; i++) {
        x = model_conv(b, model_label("conv%d", i + 1).s, x, layers[i].conv);
        x = model_unary(b, "relu", model_label("relu%d", i + 1).s, x);
        if (layers[i].pool)
            x = model_pool(b, "max_pool", model_label("pool%d", i + 1).s, x, 3,
                           2, 0);
    }
    x = pdl_build_op(b, "adaptive_avg_pool", "avgpool", &six, &x, 1);
    x = model_unary(b, "dropout", "drop5", x);
    classifier(b, x, v[CLASSES]);
}

static const struct pdl_zoo_entry vgg_entries[] = {
    {"vgg16", "vgg", "depth=16", "VGG-16, configuration D"},
    {"vgg19", "vgg", "depth=19", "VGG-19, configuration E"},
};

const struct model_family model_zoo_vgg = {
    .self = {"vgg", NULL, NULL, "deep stacks of 3x3 convolutions"},
    .source = "Simonyan and Zisserman, ICLR 2015",
    .kind = "cnn",
    .params = params,
    .nparams = NPARAMS,
    .build = build_vgg,
    .entries = vgg_entries,
    .nentries = sizeof vgg_entries / sizeof vgg_entries[0],
};

const struct model_family model_zoo_alexnet = {
    .self = {"alexnet", NULL, NULL, "AlexNet, one column, as in torchvision"},
    .source = "Krizhevsky, arXiv 1404.5997; torchvision",
    .kind = "cnn",
    .params = params,
    .nparams = CLASSES + 1,
    .build = build_alexnet,
};
