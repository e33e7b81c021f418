/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions of cuDNN's graph interface: one operation, channels last. Of the
 * engines that the heuristic offers the fastest on this GPU is taken, in this
 * run or in one before; without :tf32 only those that multiply float32 in full.
 * Equal convolutions share theirs. One of a single pixel may be a product of
 * matrices, if that is faster. */
#include "train/backends/cuda/cuda_graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 3 };

static const int64_t MOST_WORKSPACE = INT64_C(1) << 30;

/* ---- descriptors ------------------------------------------------------ */

static cudnnBackendDescriptor_t tensor(struct cuda_maker *m,
                                       const struct cuda_conv *c, int which)
{
    cudnnBackendDescriptor_t x =
        train_cuda_create(m, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    cudnnDataType_t type =
        c->t == CUDA_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
    int64_t stride[CUDA_CONV_DIMS], s = c->dim[which][1], id = which + 1,
                                    align = 16;
    int n = c->ns + 2;

    stride[1] = 1;
    for (int d = n - 1; d >= 2; d--) {
        stride[d] = s;
        s *= c->dim[which][d];
    }
    stride[0] = s;
    train_cuda_set(m, x, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    train_cuda_set(m, x, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1,
                   &type);
    train_cuda_set(m, x, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, n,
                   c->dim[which]);
    train_cuda_set(m, x, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, n,
                   stride);
    train_cuda_set(m, x, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1,
                   &align);
    train_cuda_done(m, x);
    return x;
}

static cudnnBackendDescriptor_t window(struct cuda_maker *m,
                                       const struct cuda_conv *c)
{
    cudnnBackendDescriptor_t x =
        train_cuda_create(m, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    int64_t n = c->ns;

    train_cuda_set(m, x, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64,
                   1, &n);
    train_cuda_set(m, x, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE,
                   1, &type);
    train_cuda_set(m, x, CUDNN_ATTR_CONVOLUTION_CONV_MODE,
                   CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    train_cuda_set(m, x, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64,
                   n, c->pre);
    train_cuda_set(m, x, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64,
                   n, c->post);
    train_cuda_set(m, x, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, n,
                   c->dilation);
    train_cuda_set(m, x, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES,
                   CUDNN_TYPE_INT64, n, c->stride);
    train_cuda_done(m, x);
    return x;
}

// clang-format off
static const struct {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t fine, w, coarse, window, alpha, beta;
} passes[] = {
    [CUDA_GATHER] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    [CUDA_SCATTER] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    [CUDA_WEIGHTS] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};
// clang-format on

static cudnnBackendDescriptor_t graph(struct cuda_maker *m,
                                      const struct cuda_conv *c)
{
    cudnnBackendDescriptor_t op = train_cuda_create(m, passes[c->way].type);
    cudnnBackendDescriptor_t part[] = {tensor(m, c, CUDA_FINE),
                                       tensor(m, c, CUDA_WEIGHT),
                                       tensor(m, c, CUDA_COARSE), window(m, c)};
    cudnnBackendAttributeName_t name[] = {passes[c->way].fine, passes[c->way].w,
                                          passes[c->way].coarse,
                                          passes[c->way].window};
    float one = 1, zero = 0;

    for (int i = 0; i < 4; i++)
        train_cuda_set(m, op, name[i], CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                       &part[i]);
    train_cuda_set(m, op, passes[c->way].alpha, CUDNN_TYPE_FLOAT, 1, &one);
    train_cuda_set(m, op, passes[c->way].beta, CUDNN_TYPE_FLOAT, 1, &zero);
    train_cuda_done(m, op);
    return train_cuda_graph(m, &op, 1);
}

/* ---- engines ---------------------------------------------------------- */

static bool is_exact(const struct cuda_dnn *d, cudnnBackendDescriptor_t config)
{
    cudnnBackendDescriptor_t engine = NULL;
    cudnnBackendNumericalNote_t note[16];
    int64_t n = 0, notes = 0;
    bool exact = true;

    if (d->cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR,
                                        &engine) != CUDNN_STATUS_SUCCESS)
        return false;
    if (d->cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n,
                                    &engine) != CUDNN_STATUS_SUCCESS ||
        d->cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                    CUDNN_TYPE_NUMERICAL_NOTE, 16, &notes,
                                    note) != CUDNN_STATUS_SUCCESS)
        exact = false;
    for (int64_t i = 0; i < notes && i < 16; i++)
        exact = exact && note[i] != CUDNN_NUMERICAL_NOTE_TENSOR_CORE &&
                note[i] != CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS &&
                note[i] != CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION;
    (void)!d->cudnnBackendDestroyDescriptor(engine);
    return exact;
}

static cudnnStatus_t execute(const struct cuda_dnn *d,
                             cudnnBackendDescriptor_t plan, void *const *at,
                             void *workspace)
{
    static const int64_t ids[] = {CUDA_FINE + 1, CUDA_COARSE + 1,
                                  CUDA_WEIGHT + 1};

    return train_cuda_execute(d, plan, 3, ids, at, workspace);
}

/* Milliseconds; < 0: it does not run. */
static float time_plan(const struct cuda_state *s,
                       cudnnBackendDescriptor_t plan, void *const *at,
                       void *workspace)
{
    cudaStream_t st = s->stream[TRAIN_COMPUTE];
    cudaEvent_t from = NULL, to = NULL;
    float ms = -1;
    bool ok = execute(s->dnn, plan, at, workspace) == CUDNN_STATUS_SUCCESS &&
              cudaEventCreate(&from) == cudaSuccess &&
              cudaEventCreate(&to) == cudaSuccess &&
              cudaEventRecord(from, st) == cudaSuccess;

    for (int i = 0; i < ROUNDS && ok; i++)
        ok = execute(s->dnn, plan, at, workspace) == CUDNN_STATUS_SUCCESS;
    if (!ok || cudaEventRecord(to, st) != cudaSuccess ||
        cudaEventSynchronize(to) != cudaSuccess ||
        cudaEventElapsedTime(&ms, from, to) != cudaSuccess)
        ms = -1;
    if (from)
        (void)!cudaEventDestroy(from);
    if (to)
        (void)!cudaEventDestroy(to);
    (void)cudaGetLastError();
    return ms;
}

int64_t train_cuda_conv_volume(const struct cuda_conv *c, int which)
{
    int64_t n = 1;

    for (int d = 0; d < c->ns + 2; d++)
        n *= c->dim[which][d];
    return n;
}

static void try_configs(struct cuda_state *s, struct cuda_conv *c,
                        cudnnBackendDescriptor_t *config, int n, float *best)
{
    int64_t size = c->t == CUDA_BF16 ? 2 : 4;
    void *at[4] = {NULL, NULL, NULL, NULL};
    bool room = s->described.len == 0 &&
                cudaMalloc(&at[3], (size_t)MOST_WORKSPACE) == cudaSuccess;

    for (int i = 0; i < 3; i++) {
        size_t bytes = (size_t)(train_cuda_conv_volume(c, i) * size) + 256;

        room = room && cudaMalloc(&at[i], bytes) == cudaSuccess;
        if (room)
            (void)!train_cuda_noise(s->stream[TRAIN_COMPUTE], c->t,
                                    (int64_t)bytes / size, at[i]);
    }
    for (int i = 0; i < n; i++) {
        int64_t need = 0;
        cudnnBackendDescriptor_t p = NULL;
        float ms;

        if (s->described.len > 0 && c->plan) /* nothing to choose by */
            break;
        if (c->t == CUDA_BF16 || s->tf32 || is_exact(s->dnn, config[i]))
            p = train_cuda_plan(s->dnn, config[i], MOST_WORKSPACE, &need);
        if (!p)
            continue;
        ms = room ? time_plan(s, p, at, at[3]) : c->plan ? -1 : 0;
        if (ms >= 0 && (*best < 0 || ms < *best)) {
            if (c->plan)
                (void)!s->dnn->cudnnBackendDestroyDescriptor(c->plan);
            *best = c->ms = ms;
            c->plan = p;
            c->workspace = need;
        } else {
            (void)!s->dnn->cudnnBackendDestroyDescriptor(p);
        }
    }
    for (int i = 0; i < 4 && s->described.len == 0; i++)
        (void)!cudaFree(at[i]);
    (void)cudaGetLastError();
}

static void search(struct cuda_state *s, struct cuda_conv *c)
{
    static const cudnnBackendHeurMode_t modes[] = {CUDNN_HEUR_MODE_A,
                                                   CUDNN_HEUR_MODE_FALLBACK};
    struct cuda_maker m = {.d = s->dnn, .st = CUDNN_STATUS_SUCCESS};
    cudnnBackendDescriptor_t g = graph(&m, c), config[CUDA_OFFERS];
    float best = -1;

    for (int i = 0; i < 2 && m.st == CUDNN_STATUS_SUCCESS && !c->plan; i++) {
        int n;

        memset(config, 0, sizeof config);
        n = train_cuda_offers(s->dnn, g, modes[i], config);
        try_configs(s, c, config, n, &best);
        for (int k = 0; k < CUDA_OFFERS; k++)
            if (config[k])
                (void)!s->dnn->cudnnBackendDestroyDescriptor(config[k]);
    }
    train_cuda_destroy(&m);
}

/* Pixels are rows: y[p,f] = x[p,c] w[f,c]', and the products of its
 * backward. */
static void try_product(struct cuda_state *s, struct cuda_conv *c)
{
    int64_t f = c->dim[CUDA_COARSE][1], in = c->dim[CUDA_FINE][1], rows;
    struct cuda_product p = {.t = c->t, .alignment = 64};

    for (int i = 0; i < c->ns; i++)
        if (c->dim[CUDA_WEIGHT][i + 2] != 1 || c->stride[i] != 1 || c->pre[i] ||
            c->post[i])
            return;
    if (c->dim[CUDA_WEIGHT][1] != in)
        return;
    rows = train_cuda_conv_volume(c, CUDA_FINE) / in;
    p.m = c->way == CUDA_GATHER ? f : in;
    p.n = c->way == CUDA_WEIGHTS ? f : rows;
    p.k = c->way == CUDA_GATHER ? in : c->way == CUDA_SCATTER ? f : rows;
    p.lda = in;
    p.ldb = c->way == CUDA_GATHER ? in : f;
    p.ldc = c->way == CUDA_GATHER ? f : in;
    p.ta = c->way == CUDA_GATHER;
    p.tb = c->way == CUDA_WEIGHTS;
    c->product = train_cuda_product(s, &p);
    if (c->product && (c->product->ms <= 0 || c->product->ms >= c->ms))
        c->product = NULL;
}

static bool equal(const struct cuda_conv *x, const struct cuda_conv *y)
{
    return x->way == y->way && x->t == y->t && x->ns == y->ns &&
           memcmp(x->dim, y->dim, sizeof x->dim) == 0 &&
           memcmp(x->pre, y->pre, sizeof x->pre) == 0 &&
           memcmp(x->post, y->post, sizeof x->post) == 0 &&
           memcmp(x->stride, y->stride, sizeof x->stride) == 0 &&
           memcmp(x->dilation, y->dilation, sizeof x->dilation) == 0;
}

/* What a convolution is, in words; and what is known of it: how long it takes,
 * and the plan. */
static void name_of(const struct cuda_state *s, const struct cuda_conv *c,
                    char *name, size_t room)
{
    static const char *const ways[] = {"gather", "scatter", "weights"};
    const int64_t *lists[] = {c->dim[0], c->dim[1], c->dim[2],  c->pre,
                              c->post,   c->stride, c->dilation};
    size_t n =
        (size_t)snprintf(name, room, "conv %s %s cudnn %zu", ways[c->way],
                         c->t == CUDA_BF16 ? "bf16"
                         : s->tf32         ? "tf32"
                                           : "fp32",
                         s->dnn->cudnnGetVersion());

    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        for (int d = 0; d < c->ns + (i < 3 ? 2 : 0) && n < room; d++)
            n += (size_t)snprintf(name + n, room - n, "%c%lld",
                                  d > 0 ? ',' : ' ', (long long)lists[i][d]);
}

static bool recall(struct cuda_state *s, struct cuda_conv *c, const char *name)
{
    const char *text = train_known_find(s->known, name);
    char *plan = NULL;
    float ms = text ? strtof(text, &plan) : 0;

    if (plan && ms > 0 && *plan == ' ')
        c->plan = train_cuda_plan_of(s->dnn, plan + 1, &c->workspace);
    c->ms = ms;
    return c->plan != NULL;
}

static void remember(struct cuda_state *s, const struct cuda_conv *c,
                     const char *name)
{
    char *plan = train_cuda_plan_text(s->dnn, c->plan);
    size_t room = plan ? strlen(plan) + 32 : 0;
    char *text = plan ? malloc(room) : NULL;

    if (text && c->ms > 0) {
        snprintf(text, room, "%.6f %s", (double)c->ms, plan);
        train_known_add(s->known, name, text);
    }
    free(text);
    free(plan);
}

const struct cuda_conv *train_cuda_conv(struct cuda_state *s,
                                        const struct cuda_conv *want)
{
    struct cuda_conv *c = s->convs;
    char name[512];

    while (c && !equal(c, want))
        c = c->next;
    if (c)
        return c->plan ? c : NULL;
    s->st = train_cuda_dnn(s, &s->err);
    c = s->st == PDL_OK ? PDL_NEW(s->arena, struct cuda_conv, 1) : NULL;
    if (!c)
        return NULL;
    *c = *want;
    name_of(s, c, name, sizeof name);
    if (!recall(s, c, name)) {
        search(s, c);
        if (c->plan)
            remember(s, c, name);
    }
    if (c->plan)
        try_product(s, c);
    c->next = s->convs;
    s->convs = c;
    return c->plan ? c : NULL;
}

cudaError_t train_cuda_convolve(const struct cuda_state *s,
                                const struct cuda_conv *c, void *const *at,
                                void *work)
{
    if (c->product)
        return train_cuda_multiply(
            s, c->product, at[c->way == CUDA_WEIGHTS ? CUDA_FINE : CUDA_WEIGHT],
            at[c->way == CUDA_GATHER ? CUDA_FINE : CUDA_COARSE], NULL,
            at[c->way == CUDA_GATHER    ? CUDA_COARSE
               : c->way == CUDA_SCATTER ? CUDA_FINE
                                        : CUDA_WEIGHT],
            work);
    return train_cuda_said(CUDA_SAID_DNN,
                           (int)execute(s->dnn, c->plan, at, work));
}
