/* SPDX-License-Identifier: Apache-2.0
 *
 * Vision Transformer (Dosovitskiy et al., ICLR 2021) and DeiT (Touvron et al.,
 * ICML 2021): patches by convolution, a class token, learned positions, norms
 * before the branches, a linear classifier on the class token. */
#include "zoo_decoder.h"

static const char source[] = "Dosovitskiy et al., ICLR 2021";

enum { LAYERS, HIDDEN, HEADS, FFN, INPUT, PATCH, CHANNELS, CLASSES, NPARAMS };

static const struct model_param params[NPARAMS] = {
    [LAYERS] = {"layers", "layers", NULL, 12, 1, ZOO_LAYERS},
    [HIDDEN] = {"hidden", "width", NULL, 768, 1, ZOO_BIG},
    [HEADS] = {"heads", "attention heads", NULL, 12, 1, ZOO_BIG},
    [FFN] = {"ffn", "width of the feed-forward layer; 0: 4 hidden", NULL, 0, 0,
             ZOO_BIG},
    [INPUT] = {"input", "height and width of the image", NULL, 224, 1, 1 << 15},
    [PATCH] = {"patch", "height and width of a patch", NULL, 16, 1, 1 << 15},
    [CHANNELS] = {"channels", "of the image", NULL, 3, 1, 1 << 16},
    [CLASSES] = {"classes", "outputs", NULL, 1000, 1, ZOO_BIG},
};

static const struct pdl_zoo_entry entries[] = {
    {"vit-b16", "vit", "layers=12,hidden=768,heads=12", "ViT-B/16"},
    {"vit-b32", "vit", "layers=12,hidden=768,heads=12,patch=32", "ViT-B/32"},
    {"vit-l16", "vit", "layers=24,hidden=1024,heads=16", "ViT-L/16"},
    {"vit-h14", "vit", "layers=32,hidden=1280,heads=16,patch=14", "ViT-H/14"},
    {"deit-tiny", "vit", "layers=12,hidden=192,heads=3", "DeiT-Ti"},
    {"deit-small", "vit", "layers=12,hidden=384,heads=6", "DeiT-S"},
};

static void build(pdl_build *b, const int64_t *v)
{
    struct model_tf_run run = {.repeat = v[LAYERS]};
    struct model_tf tf = {.source = source,
                          .nstacks = 1,
                          .classes = v[CLASSES],
                          .class_bias = 1,
                          .epsilon = 1e-6};
    int64_t side = v[INPUT] / v[PATCH];

    if (v[INPUT] % v[PATCH])
        pdl_build_fail(b, PDL_EINVAL,
                       "input (%lld) is not divisible by patch (%lld)",
                       (long long)v[INPUT], (long long)v[PATCH]);
    run.layer = (struct model_tf_layer){
        .norm = TF_LAYER,
        .heads = v[HEADS],
        .kv_heads = v[HEADS],
        .head_dim = model_zoo_head_dim(b, v[HIDDEN], v[HEADS]),
        .q_bias = 1,
        .k_bias = 1,
        .v_bias = 1,
        .out_bias = 1,
        .ffn = v[FFN] ? v[FFN] : 4 * v[HIDDEN],
        .ffn_bias = 1,
    };
    run.layer.v_head_dim = run.layer.head_dim;
    tf.stack[0] = (struct model_tf_stack){
        .prefix = "",
        .hidden = v[HIDDEN],
        .tokens = side * side + 1,
        .norm = TF_LAYER,
        .positions = side * side + 1,
        .image = v[INPUT],
        .channels = v[CHANNELS],
        .patch = v[PATCH],
        .patch_bias = 1,
        .class_tokens = 1,
        .runs = &run,
        .nruns = 1,
        .final_norm = 1,
        .pool = 1,
    };
    model_tf_emit(b, &tf);
}

const struct model_family model_zoo_vit = {
    .self = {"vit", NULL, NULL, "vision transformers for ImageNet"},
    .source = source,
    .kind = "transformer",
    .params = params,
    .nparams = NPARAMS,
    .build = build,
    .entries = entries,
    .nentries = sizeof entries / sizeof entries[0],
};
