/* SPDX-License-Identifier: Apache-2.0
 *
 * U-Net (Ronneberger et al., MICCAI 2015) and 3-D U-Net (Cicek et al., MICCAI
 * 2016). Valid convolutions, as in the papers, cut the image at every step,
 * so what crosses the U is cropped; padding=same keeps it whole.
 *
 * The 3-D paper counts 19,069,955 parameters: convolutions with bias,
 * up-convolutions without, and batch normalisation without its 4,672 scales
 * and shifts, which are counted here. */
#include "model_priv.h"

enum { PADDING, INPUT, CHANNELS, CLASSES, BASE, DEPTH, NPARAMS };
enum { VALID, SAME };

#define WAY "whether convolutions keep the extents", "valid|same"

static const struct model_param params2[] = {
    [PADDING] = {"padding", WAY, VALID, 0, 1},
    [INPUT] = {"input", "height and width", NULL, 572, 16, 1 << 20},
    [CHANNELS] = {"channels", "of the image", NULL, 1, 1, 1 << 16},
    [CLASSES] = {"classes", "outputs a pixel", NULL, 2, 1, 1 << 16},
    [BASE] = {"base", "channels of the first level", NULL, 64, 1, 1 << 16},
};

static const struct model_param params3[] = {
    [PADDING] = {"padding", WAY, VALID, 0, 1},
    [INPUT] = {"input", "height and width", NULL, 132, 16, 1 << 20},
    [CHANNELS] = {"channels", "of the volume", NULL, 3, 1, 1 << 16},
    [CLASSES] = {"classes", "outputs a voxel", NULL, 3, 1, 1 << 16},
    [BASE] = {"base", "channels of the first convolution", NULL, 32, 1,
              1 << 16},
    [DEPTH] = {"depth", "slices of the volume", NULL, 116, 16, 1 << 20},
};

struct unet {
    pdl_build *b;
    bool norm; /* batch normalisation, as the 3-D network has it */
    bool same;
};

static int conv_relu(const struct unet *u, const char *level, int i, int x,
                     int64_t f)
{
    x = model_conv(
        u->b, model_label("%s.conv%d", level, i).s, x,
        (struct model_conv){.f = f, .k = 3, .p = u->same, .bias = true});
    if (u->norm)
        x = model_unary(u->b, "batch_norm", model_label("%s.bn%d", level, i).s,
                        x);
    return model_unary(u->b, "relu", model_label("%s.relu%d", level, i).s, x);
}

/* Cuts the border of `from` so that its extents are those of `like`. */
static int crop(const struct unet *u, const char *name, int from, int like)
{
    const struct pdl_tensor *x = pdl_build_get(u->b, from);
    const struct pdl_tensor *y = pdl_build_get(u->b, like);
    struct pdl_attr attr = {.groups = 0};
    bool any = false;

    for (int i = 1; x && y && i < x->rank; i++) {
        int64_t extra = x->dim[i] - y->dim[i];

        attr.pad[i - 1] = -(extra / 2);
        attr.pad_end[i - 1] = -(extra - extra / 2);
        any = any || extra != 0;
    }
    return any ? pdl_build_op(u->b, "pad", name, &attr, &from, 1) : from;
}

static int up(const struct unet *u, int level, int x, int skip, int64_t f)
{
    struct model_label name = model_label("up%d", level);
    int both[2];

    x = model_conv_transpose(
        u->b, model_label("%s.upconv", name.s).s, x,
        (struct model_conv){.f = f, .k = 2, .s = 2, .bias = !u->norm});
    both[0] = crop(u, model_label("%s.crop", name.s).s, skip, x);
    both[1] = x;
    return model_concat(u->b, model_label("%s.concat", name.s).s, both, 2);
}

static void build2(pdl_build *b, const int64_t *v)
{
    struct unet u = {.b = b, .same = v[PADDING] == SAME};
    int x = model_image(b, v[CHANNELS], v[INPUT], 2), skip[4];

    for (int i = 0; i < 5; i++) {
        struct model_label name = model_label("down%d", i + 1);
        int64_t f = v[BASE] << i;

        x = conv_relu(&u, name.s, 1, x, f);
        x = conv_relu(&u, name.s, 2, x, f);
        if (i == 4)
            break;
        skip[i] = x;
        x = model_pool(b, "max_pool", model_label("%s.pool", name.s).s, x, 2, 2,
                       0);
    }
    for (int i = 3; i >= 0; i--) {
        struct model_label name = model_label("up%d", i + 1);
        int64_t f = v[BASE] << i;

        x = up(&u, i + 1, x, skip[i], f);
        x = conv_relu(&u, name.s, 1, x, f);
        x = conv_relu(&u, name.s, 2, x, f);
    }
    model_conv(b, "out", x, (struct model_conv){.f = v[CLASSES], .bias = true});
}

/* Doubles the channels before each pool; up-convolutions keep them. */
static void build3(pdl_build *b, const int64_t *v)
{
    struct unet u = {.b = b, .norm = true, .same = v[PADDING] == SAME};
    int64_t dim[4] = {v[CHANNELS], v[DEPTH], v[INPUT], v[INPUT]};
    int x = pdl_build_tensor(b, "input", PDL_TENSOR_INPUT, PDL_F32, 4, dim);
    int skip[3];

    for (int i = 0; i < 4; i++) {
        struct model_label name = model_label("down%d", i + 1);

        x = conv_relu(&u, name.s, 1, x, v[BASE] << i);
        x = conv_relu(&u, name.s, 2, x, v[BASE] << (i + 1));
        if (i == 3)
            break;
        skip[i] = x;
        x = model_pool(b, "max_pool", model_label("%s.pool", name.s).s, x, 2, 2,
                       0);
    }
    for (int i = 2; i >= 0; i--) {
        struct model_label name = model_label("up%d", i + 1);

        x = up(&u, i + 1, x, skip[i], v[BASE] << (i + 2));
        x = conv_relu(&u, name.s, 1, x, v[BASE] << (i + 1));
        x = conv_relu(&u, name.s, 2, x, v[BASE] << (i + 1));
    }
    model_conv(b, "out", x, (struct model_conv){.f = v[CLASSES], .bias = true});
}

const struct model_family model_zoo_unet = {
    .self = {"unet", NULL, NULL, "U-Net of the paper, 572x572, valid"},
    .source = "Ronneberger et al., MICCAI 2015",
    .kind = "cnn",
    .params = params2,
    .nparams = sizeof params2 / sizeof params2[0],
    .build = build2,
};

const struct model_family model_zoo_unet3d = {
    .self = {"unet3d", NULL, NULL, "3-D U-Net of the paper, 116x132x132"},
    .source = "Cicek et al., MICCAI 2016",
    .kind = "cnn",
    .params = params3,
    .nparams = sizeof params3 / sizeof params3[0],
    .build = build3,
};
