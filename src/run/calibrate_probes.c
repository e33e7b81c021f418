/* SPDX-License-Identifier: Apache-2.0
 *
 * Networks that nobody trains: chains of the usual operators over widths and
 * image sizes that lie between those of real networks, thin ones among them
 * (a part of a split layer), so that what is projected from them is not what
 * was measured; of devices some have real networks' widths, in images that
 * those do not have. Every kind of work that the runtime has a kernel for is in
 * one of them; some train in bfloat16, too. */
#include "calibrate_probes.h"

#include <stdio.h>
#include <string.h>

/* op, features, kernel, stride; "save" and "add" (and "join", which puts both
 * beside each other) go together. "depthwise" has as many filters as channels,
 * "grouped" features channels in each group, "gate" squeezes to features and
 * multiplies, "two" are a 1 x 1 and a 3 x 3 beside each other. */
struct layer {
    const char *op;
    int64_t f, k, s;
};

#define CONV(f, k, s)   \
    {                   \
        "conv", f, k, s \
    }
#define NORM                 \
    {"batch_norm", 0, 0, 0}, \
    {                        \
        "relu", 0, 0, 0      \
    }
#define MAX2                \
    {                       \
        "max_pool", 0, 2, 2 \
    }
#define END(classes)            \
    {"flatten", 0, 0, 0},       \
    {                           \
        "linear", classes, 0, 0 \
    }
// clang-format off
static const struct layer residual[] = { /* from 3 x 40 x 40 */
    CONV(48, 3, 1), NORM, {"save", 0, 0, 0}, CONV(48, 3, 1), NORM,
    CONV(48, 3, 1), {"batch_norm", 0, 0, 0}, {"add", 0, 0, 0}, {"relu", 0, 0, 0},
    CONV(96, 3, 2), NORM, {"save", 0, 0, 0}, CONV(96, 3, 1),
    {"batch_norm", 0, 0, 0}, {"add", 0, 0, 0}, {"relu", 0, 0, 0},
    CONV(192, 3, 2), NORM, CONV(192, 3, 1), NORM,
    CONV(384, 3, 2), NORM, CONV(384, 3, 1), NORM,
    {"global_avg_pool", 0, 0, 0}, END(20),
};
static const struct layer plain[] = { /* from 3 x 48 x 48 */
    CONV(40, 3, 1), {"relu", 0, 0, 0}, CONV(80, 3, 1), {"relu", 0, 0, 0}, MAX2,
    CONV(160, 3, 1), {"relu", 0, 0, 0}, CONV(96, 3, 1), {"relu", 0, 0, 0}, MAX2,
    CONV(320, 3, 1), {"relu", 0, 0, 0}, CONV(640, 3, 1), {"relu", 0, 0, 0}, MAX2,
    CONV(160, 3, 1), {"relu", 0, 0, 0}, CONV(640, 3, 1), {"relu", 0, 0, 0}, MAX2,
    {"flatten", 0, 0, 0}, {"linear", 768, 0, 0}, {"relu", 0, 0, 0},
    {"linear", 8192, 0, 0}, {"relu", 0, 0, 0}, {"linear", 200, 0, 0},
};
static const struct layer bottleneck[] = { /* from 3 x 96 x 96 */
    CONV(48, 7, 2), NORM, {"max_pool", 0, 3, 2},
    CONV(160, 1, 1), NORM, {"save", 0, 0, 0}, CONV(40, 1, 1), NORM,
    CONV(40, 3, 1), NORM, CONV(160, 1, 1), {"batch_norm", 0, 0, 0},
    {"add", 0, 0, 0}, {"relu", 0, 0, 0},
    CONV(320, 1, 2), NORM, CONV(80, 1, 1), NORM, CONV(80, 3, 1), NORM,
    CONV(320, 1, 1), NORM, CONV(640, 1, 2), NORM, CONV(160, 1, 1), NORM,
    CONV(640, 1, 1), NORM, {"global_avg_pool", 0, 0, 0}, END(300),
};
static const struct layer thin[] = { /* from 3 x 24 x 24 */
    CONV(24, 5, 1), {"tanh", 0, 0, 0}, {"avg_pool", 0, 2, 2},
    CONV(96, 3, 1), NORM, CONV(24, 3, 1), NORM, CONV(192, 3, 2), NORM,
    CONV(24, 3, 1), NORM, CONV(384, 1, 1), NORM, CONV(24, 3, 1), NORM,
    CONV(48, 1, 2), NORM, CONV(96, 1, 1), NORM,
    {"flatten", 0, 0, 0}, {"linear", 96, 0, 0}, {"relu", 0, 0, 0},
    {"linear", 48, 0, 0}, {"tanh", 0, 0, 0}, {"linear", 10, 0, 0},
};
static const struct layer deep[] = { /* from 3 x 12 x 12 */
    CONV(192, 3, 2), NORM, CONV(448, 3, 1), NORM, CONV(448, 3, 1), NORM,
    CONV(576, 3, 2), NORM, CONV(576, 3, 1), NORM, CONV(288, 3, 1), NORM,
    {"global_avg_pool", 0, 0, 0}, END(40),
};
static const struct layer wide[] = { /* from 3 x 28 x 28 */
    CONV(90, 3, 2), NORM, CONV(720, 1, 1), NORM, CONV(360, 1, 1), NORM,
    CONV(360, 3, 1), NORM, CONV(1440, 1, 2), NORM, CONV(480, 1, 1), NORM,
    CONV(480, 3, 1), NORM, CONV(1920, 1, 1), NORM, CONV(480, 1, 1), NORM,
    {"global_avg_pool", 0, 0, 0}, END(80),
};
static const struct layer broad[] = { /* from 3 x 32 x 32 */
    CONV(210, 3, 2), {"relu", 0, 0, 0}, CONV(420, 3, 1), {"relu", 0, 0, 0},
    CONV(840, 3, 1), {"relu", 0, 0, 0}, CONV(360, 3, 1), {"relu", 0, 0, 0},
    MAX2, CONV(840, 3, 1), {"relu", 0, 0, 0}, {"global_avg_pool", 0, 0, 0},
    END(40),
};
static const struct layer growing[] = { /* from 3 x 112 x 112 */
    CONV(56, 3, 2), NORM, {"save", 0, 0, 0}, CONV(144, 1, 1), NORM,
    CONV(28, 3, 1), {"join", 0, 0, 0}, NORM, {"save", 0, 0, 0},
    CONV(144, 1, 1), NORM, CONV(28, 3, 1), {"join", 0, 0, 0}, NORM,
    CONV(224, 1, 1), {"avg_pool", 0, 2, 2}, {"save", 0, 0, 0}, NORM,
    CONV(144, 1, 1), NORM, CONV(28, 3, 1), {"join", 0, 0, 0}, NORM,
    {"global_avg_pool", 0, 0, 0}, END(30),
};
static const struct layer early[] = { /* from 3 x 216 x 216 */
    CONV(56, 3, 2), {"relu", 0, 0, 0}, {"max_pool", 0, 3, 2},
    CONV(20, 1, 1), {"relu", 0, 0, 0}, {"two", 72, 0, 0},
    CONV(10, 1, 1), {"relu", 0, 0, 0}, {"two", 72, 0, 0},
    {"max_pool", 0, 3, 2}, {"global_avg_pool", 0, 0, 0}, END(90),
};
static const struct layer inverted[] = { /* from 3 x 72 x 72 */
    CONV(20, 3, 2), {"batch_norm", 0, 0, 0}, {"hard_swish", 0, 0, 0},
    CONV(80, 1, 1), NORM, {"depthwise", 0, 3, 1}, NORM, CONV(28, 1, 1),
    {"batch_norm", 0, 0, 0}, CONV(112, 1, 1), {"batch_norm", 0, 0, 0},
    {"relu6", 0, 0, 0}, {"depthwise", 0, 5, 2}, {"batch_norm", 0, 0, 0},
    {"relu6", 0, 0, 0}, {"gate", 28, 0, 0}, CONV(44, 1, 1),
    {"batch_norm", 0, 0, 0}, CONV(264, 1, 1), {"batch_norm", 0, 0, 0},
    {"silu", 0, 0, 0}, {"depthwise", 0, 3, 2}, {"batch_norm", 0, 0, 0},
    {"silu", 0, 0, 0}, {"gate", 66, 0, 0}, CONV(88, 1, 1),
    {"batch_norm", 0, 0, 0}, CONV(528, 1, 1), {"batch_norm", 0, 0, 0},
    {"hard_swish", 0, 0, 0}, {"depthwise", 0, 5, 1}, {"batch_norm", 0, 0, 0},
    {"hard_swish", 0, 0, 0}, {"gate", 132, 0, 0},
    {"global_avg_pool", 0, 0, 0}, END(100),
};
static const struct layer groups[] = { /* from 3 x 56 x 56 */
    CONV(36, 3, 2), NORM, CONV(56, 1, 1), NORM, {"grouped", 8, 3, 2}, NORM,
    {"gate", 14, 0, 0}, CONV(96, 1, 1), NORM, {"grouped", 12, 3, 1}, NORM,
    CONV(240, 1, 1), NORM, {"grouped", 24, 3, 2}, NORM, CONV(320, 1, 1), NORM,
    {"grouped", 16, 3, 1}, NORM, {"global_avg_pool", 0, 0, 0}, END(50),
};
static const struct layer joined[] = { /* from 3 x 60 x 60 */
    CONV(40, 3, 1), {"relu", 0, 0, 0}, {"max_pool", 0, 3, 2}, {"two", 48, 0, 0},
    {"max_pool", 0, 3, 1}, CONV(56, 1, 1), NORM, {"save", 0, 0, 0},
    CONV(40, 3, 1), NORM, {"join", 0, 0, 0}, {"avg_pool", 0, 2, 2},
    {"two", 112, 0, 0}, {"save", 0, 0, 0}, CONV(72, 5, 1), NORM,
    {"join", 0, 0, 0}, {"max_pool", 0, 3, 2}, CONV(144, 1, 1),
    {"relu", 0, 0, 0}, {"global_avg_pool", 0, 0, 0}, END(60),
};
static const struct layer upwards[] = { /* from 3 x 64 x 64 */
    CONV(24, 3, 1), {"relu", 0, 0, 0}, {"save", 0, 0, 0}, MAX2,
    CONV(56, 3, 1), {"relu", 0, 0, 0}, {"conv_transpose", 40, 2, 2},
    {"join", 0, 0, 0}, CONV(40, 3, 1), {"relu", 0, 0, 0}, MAX2,
    {"save", 0, 0, 0}, MAX2, CONV(200, 3, 1), {"relu", 0, 0, 0},
    {"conv_transpose", 104, 2, 2}, {"join", 0, 0, 0}, CONV(96, 3, 1),
    {"relu", 0, 0, 0}, CONV(12, 1, 1),
};
static const struct layer volumes[] = { /* from 3 x 20 x 20 x 20 */
    CONV(12, 3, 1), NORM, CONV(24, 3, 1), NORM, {"save", 0, 0, 0}, MAX2,
    CONV(48, 3, 1), NORM, {"conv_transpose", 40, 2, 2}, {"join", 0, 0, 0},
    CONV(28, 3, 1), NORM, MAX2, CONV(80, 3, 1), NORM, CONV(11, 1, 1),
};
static const struct layer functions[] = { /* from 3 x 36 x 36 */
    CONV(28, 3, 1), {"leaky_relu", 0, 0, 0}, {"gelu", 0, 0, 0},
    {"elu", 0, 0, 0}, {"hard_sigmoid", 0, 0, 0}, {"sigmoid", 0, 0, 0},
    {"tanh", 0, 0, 0}, {"softplus", 0, 0, 0}, {"mish", 0, 0, 0},
    {"prelu", 0, 0, 0}, {"group_norm", 7, 0, 0}, {"instance_norm", 0, 0, 0},
    {"dropout", 0, 0, 0}, CONV(72, 3, 2), {"softsign", 0, 0, 0},
    {"selu", 0, 0, 0}, {"global_avg_pool", 0, 0, 0}, END(30),
};

/* Hardly any arithmetic, but arrays beyond the caches: where ranks share what
 * memory delivers, that is what counts. */
static const struct layer large[] = { /* from 3 x 208 x 208 */
    CONV(12, 3, 1), NORM, {"save", 0, 0, 0}, CONV(12, 1, 1),
    {"batch_norm", 0, 0, 0}, {"add", 0, 0, 0}, {"relu", 0, 0, 0},
    CONV(72, 1, 1), {"batch_norm", 0, 0, 0}, {"relu6", 0, 0, 0},
    {"depthwise", 0, 3, 1}, {"batch_norm", 0, 0, 0}, {"silu", 0, 0, 0},
    {"depthwise", 0, 3, 2}, {"batch_norm", 0, 0, 0}, {"gelu", 0, 0, 0},
    {"save", 0, 0, 0}, CONV(20, 3, 1), NORM, {"join", 0, 0, 0},
    {"max_pool", 0, 3, 2}, CONV(40, 3, 1), NORM, {"avg_pool", 0, 2, 2},
    {"global_avg_pool", 0, 0, 0}, END(30),
};
static const struct layer heavy[] = { /* from 3 x 36 x 36 */
    {"flatten", 0, 0, 0}, {"linear", 5200, 0, 0}, {"relu", 0, 0, 0},
    {"linear", 900, 0, 0}, {"relu", 0, 0, 0}, {"linear", 60, 0, 0},
};

#define MOMENTUM "sgd:momentum=0.9", 1
#define ADAM "adamw", 2
#define LAYERS(x) (x), sizeof(x) / sizeof((x)[0])
struct probe {
    const char *zoo; /* or a chain */
    int64_t batch, size;
    const struct layer *layers;
    size_t n;
    const char *optimizer;
    int slots;
    bool bf16; /* too */
};
/* The batch of `large` is for so much of a cache. */
enum { SHARE = 16 << 20 };
static const struct probe probes[] = {
    {NULL, 12, 40, LAYERS(residual), MOMENTUM, true},
    {NULL, 3, 40, LAYERS(residual), MOMENTUM, false},
    {NULL, 40, 24, LAYERS(residual), ADAM, false},
    {NULL, 6, 48, LAYERS(plain), MOMENTUM, false},
    {NULL, 24, 48, LAYERS(plain), MOMENTUM, false},
    {NULL, 6, 96, LAYERS(bottleneck), MOMENTUM, true},
    {NULL, 10, 12, LAYERS(deep), MOMENTUM, false},
    {NULL, 28, 12, LAYERS(deep), MOMENTUM, true},
    {NULL, 3, 28, LAYERS(wide), MOMENTUM, true},
    {NULL, 2, 32, LAYERS(broad), MOMENTUM, false},
    {NULL, 3, 112, LAYERS(growing), MOMENTUM, true},
    {NULL, 6, 216, LAYERS(early), MOMENTUM, true},
    {NULL, 24, 24, LAYERS(thin), MOMENTUM, false},
    {NULL, 6, 24, LAYERS(thin), ADAM, false},
    {NULL, 6, 72, LAYERS(inverted), MOMENTUM, true},
    {NULL, 3, 168, LAYERS(inverted), MOMENTUM, true},
    {NULL, 8, 56, LAYERS(groups), MOMENTUM, true},
    {NULL, 2, 152, LAYERS(groups), MOMENTUM, false},
    {NULL, 6, 60, LAYERS(joined), MOMENTUM, true},
    {NULL, 2, 140, LAYERS(joined), MOMENTUM, false},
    {NULL, 3, 64, LAYERS(upwards), MOMENTUM, true},
    {NULL, 1, 136, LAYERS(upwards), MOMENTUM, false},
    {NULL, 2, 20, LAYERS(volumes), MOMENTUM, false},
    {NULL, 1, 40, LAYERS(volumes), MOMENTUM, false},
    {NULL, 6, 36, LAYERS(functions), ADAM, true},
    {NULL, 6, 112, LAYERS(functions), MOMENTUM, false}, /* beyond caches */
    {NULL, 4, 208, LAYERS(large), MOMENTUM, true},
    {NULL, 5, 36, LAYERS(heavy), MOMENTUM, false},
    {"gpt:layers=1,hidden=192,heads=4,vocab=100,seq=96", 6, 0, NULL, 0, ADAM,
     true},
    {"gpt:layers=1,hidden=320,heads=5,vocab=1000,seq=160", 6, 0, NULL, 0, ADAM,
     false},
    {"gpt:layers=1,hidden=480,heads=8,vocab=300,seq=320", 3, 0, NULL, 0,
     MOMENTUM, true},
    {"llama:layers=1,hidden=224,heads=4,kv_heads=2,ffn=640,vocab=900,seq=112",
     5, 0, NULL, 0, ADAM, true},
    {"vit:layers=1,hidden=160,heads=4,input=112,patch=14,classes=80", 5, 0,
     NULL, 0, ADAM, true},
    {"bert:layers=1,hidden=288,heads=6,vocab=12000,seq=80,positions=80", 4, 0,
     NULL, 0, ADAM, true},
    {"moe:layers=1,hidden=208,heads=4,kv_heads=2,head_dim=52,ffn=336,experts=6,"
     "topk=2,vocab=200,seq=88", 5, 0, NULL, 0, ADAM, true},
    {"moe:layers=1,hidden=336,heads=6,kv_heads=3,head_dim=56,ffn=160,experts=12,"
     "topk=3,vocab=300,seq=72", 4, 0, NULL, 0, MOMENTUM, true},
};
/* Of devices, which want more work: all in bfloat16, some in float32 before
 * that (bf16 then says: not only). */
static const struct layer basic[] = { /* from 3 x 40 x 40, 104 x 104 */
    CONV(48, 3, 1), NORM, {"save", 0, 0, 0}, CONV(48, 3, 1), NORM,
    CONV(48, 3, 1), {"batch_norm", 0, 0, 0}, {"add", 0, 0, 0}, {"relu", 0, 0, 0},
    CONV(96, 3, 2), NORM, {"save", 0, 0, 0}, CONV(96, 3, 1),
    {"batch_norm", 0, 0, 0}, {"add", 0, 0, 0}, {"relu", 0, 0, 0},
    CONV(192, 3, 2), NORM, CONV(192, 3, 1), NORM, CONV(192, 1, 2), NORM,
    CONV(384, 3, 1), NORM, CONV(384, 3, 1), NORM, CONV(768, 3, 2), NORM,
    CONV(768, 3, 1), NORM, {"global_avg_pool", 0, 0, 0}, END(200),
};
static const struct layer narrow_and_wide[] = { /* from 3 x 192 x 192 */
    CONV(48, 7, 2), NORM, {"max_pool", 0, 3, 2},
    CONV(80, 1, 1), NORM, CONV(80, 3, 1), NORM, CONV(320, 1, 1),
    {"batch_norm", 0, 0, 0}, {"save", 0, 0, 0}, CONV(80, 1, 1), NORM,
    CONV(320, 1, 1), {"batch_norm", 0, 0, 0}, {"add", 0, 0, 0}, {"relu", 0, 0, 0},
    CONV(160, 1, 1), NORM, CONV(160, 3, 2), NORM, CONV(640, 1, 1), NORM,
    CONV(160, 1, 1), NORM, CONV(160, 3, 1), NORM, CONV(640, 1, 1), NORM,
    CONV(320, 1, 1), NORM, CONV(320, 3, 2), NORM, CONV(1280, 1, 1), NORM,
    CONV(320, 1, 1), NORM, CONV(320, 3, 1), NORM, CONV(1280, 1, 2), NORM,
    CONV(2560, 1, 1), NORM, CONV(640, 1, 1), NORM, CONV(640, 3, 1), NORM,
    CONV(2560, 1, 1), NORM, {"global_avg_pool", 0, 0, 0}, END(800),
};
static const struct layer without_norms[] = { /* from 3 x 128 x 128 */
    CONV(48, 3, 1), {"relu", 0, 0, 0}, CONV(48, 3, 1), {"relu", 0, 0, 0}, MAX2,
    CONV(96, 3, 1), {"relu", 0, 0, 0}, CONV(160, 3, 1), {"relu", 0, 0, 0}, MAX2,
    CONV(320, 3, 1), {"relu", 0, 0, 0}, CONV(320, 3, 1), {"relu", 0, 0, 0}, MAX2,
    CONV(640, 3, 1), {"relu", 0, 0, 0}, CONV(640, 3, 1), {"relu", 0, 0, 0}, MAX2,
    {"avg_pool", 0, 2, 2}, {"flatten", 0, 0, 0}, {"linear", 3072, 0, 0},
    {"relu", 0, 0, 0}, {"dropout", 0, 0, 0}, {"linear", 3072, 0, 0},
    {"relu", 0, 0, 0}, {"linear", 600, 0, 0},
};
static const struct layer expanding[] = { /* from 3 x 176 x 176 */
    CONV(40, 3, 2), {"batch_norm", 0, 0, 0}, {"relu6", 0, 0, 0},
    {"depthwise", 0, 3, 1}, {"batch_norm", 0, 0, 0}, {"relu6", 0, 0, 0},
    CONV(24, 1, 1), {"batch_norm", 0, 0, 0}, CONV(120, 1, 1),
    {"batch_norm", 0, 0, 0}, {"relu6", 0, 0, 0}, {"depthwise", 0, 3, 2},
    {"batch_norm", 0, 0, 0}, {"relu6", 0, 0, 0}, CONV(40, 1, 1),
    {"batch_norm", 0, 0, 0}, {"save", 0, 0, 0}, CONV(200, 1, 1),
    {"batch_norm", 0, 0, 0}, {"relu6", 0, 0, 0}, {"depthwise", 0, 3, 1},
    {"batch_norm", 0, 0, 0}, {"relu6", 0, 0, 0}, CONV(40, 1, 1),
    {"batch_norm", 0, 0, 0}, {"add", 0, 0, 0}, CONV(240, 1, 1),
    {"batch_norm", 0, 0, 0}, {"relu6", 0, 0, 0}, {"depthwise", 0, 3, 2},
    {"batch_norm", 0, 0, 0}, {"relu6", 0, 0, 0}, CONV(112, 1, 1),
    {"batch_norm", 0, 0, 0}, CONV(640, 1, 1), {"batch_norm", 0, 0, 0},
    {"relu6", 0, 0, 0}, {"depthwise", 0, 3, 2}, {"batch_norm", 0, 0, 0},
    {"relu6", 0, 0, 0}, CONV(184, 1, 1), {"batch_norm", 0, 0, 0},
    CONV(1104, 1, 1), {"batch_norm", 0, 0, 0}, {"relu6", 0, 0, 0},
    {"global_avg_pool", 0, 0, 0}, END(700),
};
/* Powers of two, which fill a device's tiles, as most networks have them; their
 * images and batches are others. */
static const struct layer even[] = { /* from 3 x 88 x 88 */
    CONV(64, 3, 1), NORM, {"save", 0, 0, 0}, CONV(64, 3, 1), NORM,
    CONV(64, 3, 1), {"batch_norm", 0, 0, 0}, {"add", 0, 0, 0}, {"relu", 0, 0, 0},
    CONV(128, 3, 2), NORM, {"save", 0, 0, 0}, CONV(128, 3, 1),
    {"batch_norm", 0, 0, 0}, {"add", 0, 0, 0}, {"relu", 0, 0, 0},
    CONV(256, 1, 2), NORM, CONV(256, 3, 1), NORM, CONV(256, 3, 1), NORM,
    CONV(512, 3, 2), NORM, CONV(512, 3, 1), NORM, {"global_avg_pool", 0, 0, 0},
    END(500),
};
static const struct layer even_narrow_and_wide[] = { /* from 3 x 160 x 160 */
    CONV(64, 7, 2), NORM, {"max_pool", 0, 3, 2},
    CONV(64, 1, 1), NORM, CONV(64, 3, 1), NORM, CONV(256, 1, 1),
    {"batch_norm", 0, 0, 0}, {"save", 0, 0, 0}, CONV(64, 1, 1), NORM,
    CONV(256, 1, 1), {"batch_norm", 0, 0, 0}, {"add", 0, 0, 0}, {"relu", 0, 0, 0},
    CONV(128, 1, 1), NORM, CONV(128, 3, 2), NORM, CONV(512, 1, 1), NORM,
    CONV(128, 1, 1), NORM, CONV(128, 3, 1), NORM, CONV(512, 1, 1), NORM,
    CONV(256, 1, 1), NORM, CONV(256, 3, 2), NORM, CONV(1024, 1, 1), NORM,
    CONV(256, 1, 1), NORM, CONV(256, 3, 1), NORM, CONV(1024, 1, 2), NORM,
    CONV(2048, 1, 1), NORM, CONV(512, 1, 1), NORM, CONV(512, 3, 1), NORM,
    CONV(2048, 1, 1), NORM, {"global_avg_pool", 0, 0, 0}, END(1000),
};
static const struct layer even_without_norms[] = { /* from 3 x 192 x 192 */
    CONV(64, 3, 1), {"relu", 0, 0, 0}, CONV(64, 3, 1), {"relu", 0, 0, 0}, MAX2,
    CONV(128, 3, 1), {"relu", 0, 0, 0}, CONV(128, 3, 1), {"relu", 0, 0, 0}, MAX2,
    CONV(256, 3, 1), {"relu", 0, 0, 0}, CONV(256, 3, 1), {"relu", 0, 0, 0}, MAX2,
    CONV(512, 3, 1), {"relu", 0, 0, 0}, CONV(512, 3, 1), {"relu", 0, 0, 0}, MAX2,
    {"avg_pool", 0, 2, 2}, {"flatten", 0, 0, 0}, {"linear", 4096, 0, 0},
    {"relu", 0, 0, 0}, {"linear", 1000, 0, 0},
};
static const struct probe device_probes[] = {
    {NULL, 384, 40, LAYERS(basic), MOMENTUM, true},
    {NULL, 160, 192, LAYERS(narrow_and_wide), MOMENTUM, true},
    {NULL, 96, 128, LAYERS(without_norms), MOMENTUM, true},
    {NULL, 192, 176, LAYERS(expanding), MOMENTUM, true},
    {"gpt:layers=2,hidden=640,heads=10,vocab=24000,seq=768", 12, 0, NULL, 0, ADAM,
     true},
    {"gpt:layers=1,hidden=1152,heads=18,vocab=30016,seq=1536", 8, 0, NULL, 0, ADAM,
     false},
    {"gpt:layers=1,hidden=1920,heads=30,vocab=40000,seq=1280", 6, 0, NULL, 0, ADAM,
     false},
    {"llama:layers=1,hidden=1536,heads=12,kv_heads=12,ffn=4096,vocab=24000,seq=1024",
     6, 0, NULL, 0, ADAM, true},
    {"vit:layers=2,hidden=640,heads=10,input=192,patch=16,classes=800", 96, 0,
     NULL, 0, ADAM, true},
    {"bert:layers=2,hidden=640,heads=10,vocab=24000,seq=320,positions=320", 24, 0,
     NULL, 0, ADAM, true},
    {"llama:layers=1,hidden=2560,heads=20,kv_heads=20,ffn=6912,vocab=32000,seq=1536",
     3, 0, NULL, 0, ADAM, false},
    {"bert:layers=2,hidden=1152,heads=18,vocab=24000,seq=448,positions=448", 12, 0,
     NULL, 0, ADAM, false},
    {NULL, 96, 104, LAYERS(basic), MOMENTUM, true},
    {NULL, 48, 256, LAYERS(narrow_and_wide), MOMENTUM, true},
    {NULL, 64, 140, LAYERS(joined), MOMENTUM, true},
    {"gpt:layers=2,hidden=384,heads=6,vocab=8000,seq=384", 24, 0, NULL, 0,
     MOMENTUM, true},
    {"vit:layers=2,hidden=896,heads=14,input=256,patch=16,classes=800", 32, 0,
     NULL, 0, ADAM, false},
    {NULL, 24, 192, LAYERS(without_norms), MOMENTUM, true},
    {NULL, 48, 240, LAYERS(expanding), MOMENTUM, true},
    {NULL, 24, 168, LAYERS(basic), ADAM, false},
    {NULL, 24, 128, LAYERS(narrow_and_wide), MOMENTUM, false},
    {NULL, 16, 272, LAYERS(upwards), MOMENTUM, true},
    {NULL, 64, 168, LAYERS(inverted), MOMENTUM, false},
    {NULL, 64, 152, LAYERS(groups), MOMENTUM, false},
    {NULL, 160, 88, LAYERS(even), MOMENTUM, true},
    {NULL, 192, 160, LAYERS(even_narrow_and_wide), MOMENTUM, true},
    {NULL, 48, 192, LAYERS(even_without_norms), MOMENTUM, true},
    {NULL, 32, 160, LAYERS(even_narrow_and_wide), MOMENTUM, false},
};
// clang-format on

enum {
    NPROBES = sizeof probes / sizeof probes[0],
    NDEVICE = sizeof device_probes / sizeof device_probes[0],
};

/* Those in bfloat16 come after all in float32; of devices those in float32 come
 * last, and are those that are not for bfloat16 alone. */
static const struct probe *probe_at(bool device, int which, bool *bf16)
{
    const struct probe *p = device ? device_probes : probes;
    int n = device ? NDEVICE : NPROBES;

    *bf16 = device ? which < n : which >= n;
    if (which < n)
        return &p[which];
    which -= n;
    for (int i = 0; i < n; i++)
        if (p[i].bf16 && which-- == 0)
            return &p[i];
    return NULL;
}

int run_probes(bool device)
{
    bool bf16;
    int n = 0;

    while (probe_at(device, n, &bf16))
        n++;
    return n;
}

/* ---- building --------------------------------------------------------- */

struct chain {
    pdl_build *b;
    int x, saved, n;
    bool norm; /* comes next: no bias */
};

static int64_t channels(const struct chain *c)
{
    const struct pdl_tensor *t = pdl_build_get(c->b, c->x);

    return t ? t->dim[0] : 1;
}

static int node(struct chain *c, const char *op, struct pdl_attr attr,
                const int *in, int nin)
{
    char name[32];

    snprintf(name, sizeof name, "%s%d", op, c->n++);
    return pdl_build_op(c->b, op, name, &attr, in, nin);
}

static int unary(struct chain *c, const char *op, int x)
{
    return node(c, op, (struct pdl_attr){.groups = 0}, &x, 1);
}

/* Windows that tile the image need no padding. */
static struct pdl_attr window(const struct chain *c, int64_t k, int64_t s)
{
    const struct pdl_tensor *t = pdl_build_get(c->b, c->x);
    struct pdl_attr a = {.groups = 0};

    for (int d = 0; k > 0 && t && d < t->rank - 1; d++) {
        a.kernel[d] = k;
        a.stride[d] = s;
        a.pad[d] = a.pad_end[d] = k == s ? 0 : k / 2;
    }
    return a;
}

static int conv(struct chain *c, int x, struct layer l, int64_t in_group)
{
    struct pdl_attr a = window(c, l.k, l.s);

    a.features = l.f;
    a.groups = in_group > 0 ? channels(c) / in_group : 0;
    a.no_bias = c->norm;
    return node(c, "conv", a, &x, 1);
}

static void gate(struct chain *c, int64_t f)
{
    int in[2] = {c->x, 0};
    int64_t all = channels(c);
    struct layer squeeze = {"conv", f, 1, 1}, widen = {"conv", all, 1, 1};

    in[1] = unary(c, "global_avg_pool", c->x);
    in[1] = unary(c, "relu", conv(c, in[1], squeeze, 0));
    in[1] = unary(c, "sigmoid", conv(c, in[1], widen, 0));
    c->x = node(c, "mul", (struct pdl_attr){.groups = 0}, in, 2);
}

static void two(struct chain *c, int64_t f)
{
    struct layer one = {"conv", f, 1, 1}, three = {"conv", f, 3, 1};
    int in[2] = {unary(c, "relu", conv(c, c->x, one, 0)),
                 unary(c, "relu", conv(c, c->x, three, 0))};

    c->x = node(c, "concat", (struct pdl_attr){.axis = 0}, in, 2);
}

static void other(struct chain *c, const struct layer *l)
{
    int in[2] = {c->x, c->saved}, n = strcmp(l->op, "add") == 0 ? 2 : 1;
    struct pdl_attr a = window(c, l->k, l->s);

    a.features = l->f;
    if (strcmp(l->op, "group_norm") == 0)
        a = (struct pdl_attr){.groups = l->f};
    if (strcmp(l->op, "join") == 0)
        c->x = node(c, "concat", (struct pdl_attr){.axis = 0}, in, 2);
    else
        c->x = node(c, l->op, a, in, n);
}

static void add_layer(struct chain *c, const struct layer *l)
{
    struct layer same = {"conv", channels(c), l->k, l->s};

    if (strcmp(l->op, "save") == 0)
        c->saved = c->x;
    else if (strcmp(l->op, "conv") == 0)
        c->x = conv(c, c->x, *l, 0);
    else if (strcmp(l->op, "depthwise") == 0)
        c->x = conv(c, c->x, same, 1);
    else if (strcmp(l->op, "grouped") == 0)
        c->x = conv(c, c->x, same, l->f);
    else if (strcmp(l->op, "gate") == 0)
        gate(c, l->f);
    else if (strcmp(l->op, "two") == 0)
        two(c, l->f);
    else
        other(c, l);
}

static enum pdl_status chain(pdl_arena *a, const struct probe *p,
                             const struct pdl_model **out, struct pdl_err *err)
{
    int64_t dim[4] = {3, p->size, p->size, p->size};
    struct chain c = {.b = pdl_build_begin(a, "probe")};

    if (!c.b)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    c.x = c.saved = pdl_build_tensor(c.b, "input", PDL_TENSOR_INPUT, PDL_F32,
                                     p->layers == volumes ? 4 : 3, dim);
    for (size_t i = 0; i < p->n; i++) {
        c.norm = i + 1 < p->n && strcmp(p->layers[i + 1].op, "batch_norm") == 0;
        add_layer(&c, &p->layers[i]);
    }
    return pdl_build_end(c.b, out, err);
}

/* As many samples as make the arrays larger than a rank's share of the cache:
 * where many ranks share it, one is enough, and memory may be short. */
static int64_t batch_of(const struct probe *p, int64_t cache)
{
    int64_t n = (p->batch * cache + SHARE - 1) / SHARE, most = p->batch * 4;

    if (p->layers != large)
        return p->batch;
    return n < 1 ? 1 : n > most ? most : n;
}

enum pdl_status run_probe_open(pdl_arena *a, bool device, int which,
                               int64_t cache, struct run_probe *out,
                               struct pdl_err *err)
{
    const struct probe *p = probe_at(device, which, &out->bf16);
    struct pdl_plan_options opt = {.batch = batch_of(p, cache),
                                   .dtype = out->bf16 ? PDL_BF16 : PDL_F32};
    struct pdl_model_options mo = {.dims = NULL};
    struct pdl_strategy *s = PDL_NEW(a, struct pdl_strategy, 1);
    const struct pdl_model *m = NULL;
    enum pdl_status st;

    if (!s)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    st =
        p->zoo ? pdl_model_load(a, p->zoo, &mo, &m, err) : chain(a, p, &m, err);
    if (st == PDL_OK)
        st = pdl_strategy_parse(a, "data=1", s, err);
    if (st == PDL_OK)
        st = pdl_plan_lower(a, m, s, &opt, &out->plan, err);
    out->optimizer = p->optimizer;
    out->slots = p->slots;
    return st;
}
