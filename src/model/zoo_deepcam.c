/* SPDX-License-Identifier: Apache-2.0
 *
 * DeepCAM: extreme weather in climate simulations (Kurth et al., SC 2018), in
 * the form of the MLPerf HPC reference: DeepLabv3+ with output stride 16 on a
 * modified aligned Xception, 16 input channels, 3 classes, 768x1152, upsampled
 * by transposed convolutions. The pooled branch of the pyramid has a learned
 * scale and shift instead of a norm and is tiled back to the image. The 16
 * equal blocks of the middle flow are one repeated block. */
#include "model_priv.h"

#include <stdio.h>

enum { HEIGHT, WIDTH, CHANNELS, CLASSES, NPARAMS };

static const struct model_param params[NPARAMS] = {
    [HEIGHT] = {"height", "of the image, a multiple of 16", NULL, 768, 16,
                1 << 16},
    [WIDTH] = {"width", "of the image, a multiple of 16", NULL, 1152, 16,
               1 << 16},
    [CHANNELS] = {"channels", "of the image", NULL, 16, 1, 1 << 16},
    [CLASSES] = {"classes", "outputs a pixel", NULL, 3, 1, 1 << 16},
};

#define X "xception_features."

static int norm(pdl_build *b, const char *name, int x)
{
    return model_unary(b, "batch_norm", name, x);
}

static int relu(pdl_build *b, const char *name, int x)
{
    return model_unary(b, "relu", name, x);
}

static int64_t channels(const pdl_build *b, int x)
{
    const struct pdl_tensor *t = pdl_build_get(b, x);

    return t ? t->dim[0] : 1;
}

/* A 3x3 convolution of each channel alone, then a 1x1 over all. */
static int separable(pdl_build *b, const char *name, int x, int64_t f,
                     int64_t s, int64_t dilation)
{
    x = model_conv(b, model_label("%s.conv1", name).s, x,
                   (struct model_conv){.k = 3,
                                       .f = channels(b, x),
                                       .groups = channels(b, x),
                                       .s = s,
                                       .p = dilation,
                                       .dilation = dilation});
    return model_conv(b, model_label("%s.pointwise", name).s, x,
                      (struct model_conv){.f = f});
}

struct block {
    const char *name; /* "block1" */
    int64_t out, stride;
    int reps;
    bool grow_first, is_last, end_relu;
};

/* The main path: separable, norm and relu in turn, numbered as they stand in
 * the reference's list. */
static int block_path(pdl_build *b, const struct block *k, int x)
{
    int64_t in = channels(b, x);
    int n = 0;

    for (int i = 0; i < k->reps; i++) {
        bool grown = k->grow_first || i == k->reps - 1;

        x = separable(b, model_label(X "%s.rep.%d", k->name, n).s, x,
                      grown ? k->out : in, 1, 1);
        x = norm(b, model_label(X "%s.rep.%d", k->name, n + 1).s, x);
        if (i < k->reps - 1)
            x = relu(b, model_label(X "%s.rep.%d", k->name, n + 2).s, x);
        n += 3;
    }
    if (k->stride != 1 || k->is_last)
        x = separable(b, model_label(X "%s.rep.%d", k->name, n - 1).s, x,
                      k->out, k->stride, 1);
    return x;
}

static int block(pdl_build *b, const struct block *k, int x)
{
    int y = block_path(b, k, x), skip = x;

    if (k->out != channels(b, x) || k->stride != 1) {
        skip = model_conv(b, model_label(X "%s.skip", k->name).s, x,
                          (struct model_conv){.f = k->out, .s = k->stride});
        skip = norm(b, model_label(X "%s.skipbn", k->name).s, skip);
    }
    y = model_binary(b, "add", model_label(X "%s.Add", k->name).s, y, skip);
    return k->end_relu ? relu(b, model_label(X "%s.relu", k->name).s, y) : y;
}

static int entry_flow(pdl_build *b, int x, int *low)
{
    static const struct block blocks[] = {
        {"block1", 128, 2, 2, true, false, false},
        {"block2", 256, 2, 2, true, false, true},
        {"block3", 728, 2, 2, true, true, true},
    };

    x = model_conv(b, X "conv1", x,
                   (struct model_conv){.f = 32, .k = 3, .s = 2, .p = 1});
    x = relu(b, X "relu", norm(b, X "bn1", x));
    x = model_conv(b, X "conv2", x,
                   (struct model_conv){.f = 64, .k = 3, .p = 1});
    x = relu(b, X "relu_1", norm(b, X "bn2", x));
    *low = block(b, &blocks[0], x);
    x = relu(b, X "relu_2", *low);
    x = block(b, &blocks[1], x);
    return block(b, &blocks[2], x);
}

static int exit_flow(pdl_build *b, int x)
{
    static const struct block last = {"block20", 1024, 1,    2,
                                      false,     true, false};
    static const int64_t widths[] = {1536, 1536, 2048};

    x = block(b, &last, x);
    for (int i = 0; i < 3; i++) {
        x = separable(b, model_label(X "conv%d", i + 3).s, x, widths[i], 1, 2);
        x = norm(b, model_label(X "bn%d", i + 3).s, x);
        x = relu(b, model_label(X "relu_%d", i + 3).s, x);
    }
    return x;
}

/* "mul" or "add" with a learned [f,1,1]. */
static int affine(pdl_build *b, const char *op, const char *weight, int x,
                  int64_t f)
{
    struct model_label name = model_label("bottleneck.global_avg_pool.%s", op);
    int64_t dim[3] = {f, 1, 1};
    int w = pdl_build_tensor(
        b, model_label("bottleneck.global_avg_pool.%s", weight).s,
        PDL_TENSOR_WEIGHT, PDL_F32, 3, dim);

    return pdl_build_node(b, &(struct pdl_build_spec){.op = op,
                                                      .name = name.s,
                                                      .in = &x,
                                                      .nin = 1,
                                                      .weights = &w,
                                                      .nweights = 1});
}

static int pooled(pdl_build *b, int x)
{
    const struct pdl_tensor *t = pdl_build_get(b, x);
    struct pdl_attr tile = {.ndims = 2};
    int y;

    if (t) {
        tile.dims[0] = t->dim[1];
        tile.dims[1] = t->dim[2];
    }
    y = model_unary(b, "global_avg_pool", "bottleneck.global_avg_pool.pool", x);
    y = model_conv(b, "bottleneck.global_avg_pool.conv", y,
                   (struct model_conv){.f = 256});
    y = affine(b, "mul", "weights", y, 256);
    y = affine(b, "add", "bias", y, 256);
    y = relu(b, "bottleneck.global_avg_pool.relu", y);
    return pdl_build_op(b, "resize", "bottleneck.tile", &tile, &y, 1);
}

static int pyramid(pdl_build *b, int x)
{
    static const int64_t rates[] = {1, 6, 12, 18};
    int all[5];

    for (int i = 0; i < 4; i++) {
        struct model_label name = model_label("bottleneck.aspp%d", i + 1);
        int64_t r = rates[i];
        struct model_conv c = {
            .f = 256, .k = r == 1 ? 1 : 3, .p = r == 1 ? 0 : r, .dilation = r};
        int y =
            model_conv(b, model_label("%s.atrous_convolution", name.s).s, x, c);

        y = norm(b, model_label("%s.bn", name.s).s, y);
        all[i] = relu(b, model_label("%s.relu", name.s).s, y);
    }
    all[4] = pooled(b, x);
    x = model_concat(b, "bottleneck.Concat", all, 5);
    x = model_conv(b, "bottleneck.conv", x, (struct model_conv){.f = 256});
    return relu(b, "bottleneck.relu", norm(b, "bottleneck.bn", x));
}

static int deconv(pdl_build *b, const char *name, int x, int64_t f)
{
    struct pdl_attr attr = {.features = f,
                            .kernel = {3, 3},
                            .stride = {2, 2},
                            .pad = {1, 1},
                            .pad_end = {1, 1},
                            .output_pad = {1, 1},
                            .no_bias = true};

    return pdl_build_op(b, "conv_transpose", name, &attr, &x, 1);
}

static void upsample(pdl_build *b, int x, int low, int64_t classes)
{
    int both[2];

    for (int i = 0; i < 2; i++) {
        x = deconv(b, model_label("upsample.deconv1.%d", 3 * i).s, x, 256);
        x = norm(b, model_label("upsample.deconv1.%d", 3 * i + 1).s, x);
        x = relu(b, model_label("upsample.deconv1.%d", 3 * i + 2).s, x);
    }
    both[0] = x;
    both[1] = low;
    x = model_concat(b, "upsample.Concat", both, 2);
    for (int i = 0; i < 2; i++) {
        x = model_conv(b, model_label("upsample.conv1.%d", 3 * i).s, x,
                       (struct model_conv){.f = 256, .k = 3, .p = 1});
        x = norm(b, model_label("upsample.conv1.%d", 3 * i + 1).s, x);
        x = relu(b, model_label("upsample.conv1.%d", 3 * i + 2).s, x);
    }
    x = model_conv(b, "upsample.conv1.6", x,
                   (struct model_conv){.f = 256, .bias = true});
    x = deconv(b, "upsample.deconv2.0", x, 256);
    x = norm(b, "upsample.deconv2.1", x);
    x = relu(b, "upsample.deconv2.2", x);
    deconv(b, "upsample.last_deconv.0", x, classes);
}

static void build(pdl_build *b, const int64_t *v)
{
    static const struct block middle = {"block{i}", 728,   1,   3,
                                        true,       false, true};
    int64_t dim[3] = {v[CHANNELS], v[HEIGHT], v[WIDTH]};
    int x = pdl_build_tensor(b, "input", PDL_TENSOR_INPUT, PDL_F32, 3, dim);
    int low;

    if (v[HEIGHT] % 16 || v[WIDTH] % 16)
        pdl_build_fail(b, PDL_EINVAL,
                       "height and width must be multiples of 16");
    x = entry_flow(b, x, &low);
    pdl_build_repeat(b, 16, 4, x);
    x = pdl_build_repeat_end(b, block(b, &middle, x));
    x = exit_flow(b, x);
    x = pyramid(b, x);
    low = model_conv(b, "conv2", low, (struct model_conv){.f = 48});
    low = relu(b, "relu", norm(b, "bn2", low));
    upsample(b, x, low, v[CLASSES]);
}

const struct model_family model_zoo_deepcam = {
    .self = {"deepcam", NULL, NULL,
             "DeepCAM, MLPerf HPC: DeepLabv3+ on Xception"},
    .source = "Kurth et al., SC 2018; MLPerf HPC reference",
    .kind = "cnn",
    .params = params,
    .nparams = NPARAMS,
    .build = build,
};
