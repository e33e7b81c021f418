/* SPDX-License-Identifier: Apache-2.0
 *
 * LeNet-5 (LeCun et al., Proc. IEEE 1998) as it is used today: 28x28 images
 * padded to 32x32, every map of the second convolution connected to all of
 * the first (the paper leaves some out), mean pooling without weights, a
 * linear output instead of Gaussian units. */
#include "model_priv.h"

enum { INPUT, CHANNELS, CLASSES, NPARAMS };

static const struct model_param params[NPARAMS] = {
    [INPUT] = {"input", "height and width of the image", NULL, 28, 12, 1 << 16},
    [CHANNELS] = {"channels", "of the image", NULL, 1, 1, 1 << 16},
    [CLASSES] = {"classes", "outputs", NULL, 10, 1, 1 << 24},
};

static void build(pdl_build *b, const int64_t *v)
{
    static const int64_t widths[] = {120, 84};
    int x = model_image(b, v[CHANNELS], v[INPUT], 2);

    x = model_conv(b, "conv1", x,
                   (struct model_conv){.f = 6, .k = 5, .p = 2, .bias = true});
    x = model_unary(b, "tanh", "tanh1", x);
    x = model_pool(b, "avg_pool", "pool1", x, 2, 2, 0);
    x = model_conv(b, "conv2", x,
                   (struct model_conv){.f = 16, .k = 5, .bias = true});
    x = model_unary(b, "tanh", "tanh2", x);
    x = model_pool(b, "avg_pool", "pool2", x, 2, 2, 0);
    x = model_unary(b, "flatten", "flatten", x);
    for (int i = 0; i < 2; i++) {
        x = model_linear(b, model_label("fc%d", i + 3).s, x, widths[i]);
        x = model_unary(b, "tanh", model_label("tanh%d", i + 3).s, x);
    }
    model_linear(b, "fc5", x, v[CLASSES]);
}

static const struct pdl_zoo_entry entries[] = {
    {"lenet5", "lenet", NULL, "LeNet-5, fully connected maps, 28x28 digits"},
};

const struct model_family model_zoo_lenet = {
    .self = {"lenet", NULL, NULL, "the first convolutional network"},
    .source = "LeCun et al., Proc. IEEE 86(11), 1998",
    .kind = "cnn",
    .params = params,
    .nparams = NPARAMS,
    .build = build,
    .entries = entries,
    .nentries = sizeof entries / sizeof entries[0],
};
