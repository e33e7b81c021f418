/* SPDX-License-Identifier: Apache-2.0
 *
 * Networks that nobody trains: chains of the usual operators over widths and
 * image sizes that lie between those of real networks, thin ones among them
 * (a part of a split layer), so that what is projected from them is not what
 * was measured. */
#include "calibrate_probes.h"

#include <stdio.h>
#include <string.h>

/* op, features, kernel, stride; "save" and "add" go together. */
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
    {"linear", 3072, 0, 0}, {"relu", 0, 0, 0}, {"linear", 200, 0, 0},
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

#define LAYERS(x) (x), sizeof(x) / sizeof((x)[0])
static const struct probe {
    const char *zoo; /* or a chain */
    int64_t batch, size;
    const struct layer *layers;
    size_t n;
    const char *optimizer;
    int slots;
} probes[] = {
    {NULL, 12, 40, LAYERS(residual), "sgd:momentum=0.9", 1},
    {NULL, 3, 40, LAYERS(residual), "sgd:momentum=0.9", 1},
    {NULL, 40, 24, LAYERS(residual), "adamw", 2},
    {NULL, 6, 48, LAYERS(plain), "sgd:momentum=0.9", 1},
    {NULL, 24, 48, LAYERS(plain), "sgd:momentum=0.9", 1},
    {NULL, 6, 96, LAYERS(bottleneck), "sgd:momentum=0.9", 1},
    {NULL, 10, 12, LAYERS(deep), "sgd:momentum=0.9", 1},
    {NULL, 28, 12, LAYERS(deep), "sgd:momentum=0.9", 1},
    {NULL, 24, 24, LAYERS(thin), "sgd:momentum=0.9", 1},
    {NULL, 6, 24, LAYERS(thin), "adamw", 2},
    {"gpt:layers=1,hidden=192,heads=4,vocab=100,seq=96", 6, 0, NULL, 0,
     "adamw", 2},
    {"gpt:layers=1,hidden=320,heads=5,vocab=1000,seq=160", 6, 0, NULL, 0,
     "adamw", 2},
    {"gpt:layers=1,hidden=480,heads=8,vocab=300,seq=320", 3, 0, NULL, 0,
     "sgd:momentum=0.9", 1},
};
// clang-format on

int run_probes(void)
{
    return sizeof probes / sizeof probes[0];
}

static int add_layer(pdl_build *b, const struct layer *l, int i, int x,
                     int *saved)
{
    const struct pdl_tensor *t = pdl_build_get(b, x);
    struct pdl_attr attr = {.features = l->f};
    int in[2] = {x, *saved}, two = strcmp(l->op, "add") == 0;
    char name[32];

    if (strcmp(l->op, "save") == 0) {
        *saved = x;
        return x;
    }
    snprintf(name, sizeof name, "%s%d", l->op, i);
    for (int d = 0; l->k > 0 && t && d < t->rank - 1; d++) {
        attr.kernel[d] = l->k;
        attr.stride[d] = l->s;
        /* windows that tile the image need no padding */
        attr.pad[d] = attr.pad_end[d] = l->k == l->s ? 0 : l->k / 2;
    }
    attr.no_bias = strcmp(l->op, "conv") == 0;
    return pdl_build_op(b, l->op, name, &attr, in, 1 + two);
}

static enum pdl_status chain(pdl_arena *a, const struct probe *p,
                             const struct pdl_model **out, struct pdl_err *err)
{
    int64_t dim[3] = {3, p->size, p->size};
    pdl_build *b = pdl_build_begin(a, "probe");
    int x, saved;

    if (!b)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    x = saved = pdl_build_tensor(b, "input", PDL_TENSOR_INPUT, PDL_F32, 3, dim);
    for (size_t i = 0; i < p->n; i++)
        x = add_layer(b, &p->layers[i], (int)i, x, &saved);
    return pdl_build_end(b, out, err);
}

enum pdl_status run_probe_open(pdl_arena *a, int which, struct run_probe *out,
                               struct pdl_err *err)
{
    const struct probe *p = &probes[which];
    struct pdl_plan_options opt = {.batch = p->batch, .dtype = PDL_F32};
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
