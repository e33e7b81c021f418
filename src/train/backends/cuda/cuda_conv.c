/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions by cuDNN's graph interface: one operation, channels last. As in
 * the other backends a convolution is a relation between a fine and a coarse
 * side; a transposed one has them the other way round. Weights are stored as
 * in files (OIHW) and turned to channels last in scratch memory. Of the engines
 * that the heuristic offers the fastest on this GPU is taken; without :tf32
 * only those that multiply float32 in full. Equal convolutions share theirs.
 * One of a single pixel may be a product of matrices, and one of stride two over
 * a few channels (the first of most networks) may read folded images (fold.cu),
 * if that is faster. */
#include "train/backends/cuda/cuda_graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FINE, COARSE, WEIGHT, DIMS = 5, ROUNDS = 3 };

static const int64_t MOST_WORKSPACE = INT64_C(1) << 30;

enum way { GATHER, SCATTER, WEIGHTS };

struct cuda_conv {
    struct cuda_conv *next;
    enum way way;
    enum cuda_type t;
    int ns;
    int64_t dim[3][DIMS]; /* fine, coarse, weight: n c s.. */
    int64_t pre[3], post[3], stride[3], dilation[3];
    cudnnBackendDescriptor_t plan;
    int64_t workspace;
    float ms;
    const struct cuda_product *product; /* one pixel: where that is faster */
};

/* ---- descriptors ------------------------------------------------------------------ */

static cudnnBackendDescriptor_t tensor(struct cuda_maker *m,
                                       const struct cuda_conv *c, int which)
{
    cudnnBackendDescriptor_t x =
        train_cuda_create(m, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    cudnnDataType_t type =
        c->t == CUDA_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
    int64_t stride[DIMS], s = c->dim[which][1], id = which + 1, align = 16;
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
    [GATHER] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    [SCATTER] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    [WEIGHTS] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
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
    cudnnBackendDescriptor_t part[] = {tensor(m, c, FINE), tensor(m, c, WEIGHT),
                                       tensor(m, c, COARSE), window(m, c)};
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

/* ---- engines ----------------------------------------------------------------------- */

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
    static const int64_t ids[] = {FINE + 1, COARSE + 1, WEIGHT + 1};

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

static int64_t volume(const struct cuda_conv *c, int which)
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
        size_t bytes = (size_t)(volume(c, i) * size) + 256;

        room = room && cudaMalloc(&at[i], bytes) == cudaSuccess;
        if (room)
            (void)!cudaMemsetAsync(at[i], 0, bytes, s->stream[TRAIN_COMPUTE]);
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

/* Pixels are rows: y[p,f] = x[p,c] w[f,c]', and the products of its backward. */
static void try_product(struct cuda_state *s, struct cuda_conv *c)
{
    int64_t f = c->dim[COARSE][1], in = c->dim[FINE][1], rows;
    struct cuda_product p = {.t = c->t, .alignment = 64};

    for (int i = 0; i < c->ns; i++)
        if (c->dim[WEIGHT][i + 2] != 1 || c->stride[i] != 1 || c->pre[i] ||
            c->post[i])
            return;
    if (c->dim[WEIGHT][1] != in)
        return;
    rows = volume(c, FINE) / in;
    p.m = c->way == GATHER ? f : in;
    p.n = c->way == WEIGHTS ? f : rows;
    p.k = c->way == GATHER ? in : c->way == SCATTER ? f : rows;
    p.lda = in;
    p.ldb = c->way == GATHER ? in : f;
    p.ldc = c->way == GATHER ? f : in;
    p.ta = c->way == GATHER;
    p.tb = c->way == WEIGHTS;
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

    if (ms > 0 && *plan == ' ')
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

static const struct cuda_conv *conv_of(struct cuda_state *s,
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

/* ---- calls --------------------------------------------------------------------------- */

static cudaError_t add_bias(const struct cuda_kernel *k, void *const *in,
                            void *const *out)
{
    const struct train_array *y = &k->call.out[0];
    int64_t c = train_cuda_extent(y, 1);
    int at = k->call.part == 1 ? 1 : 2;
    enum cuda_type t;

    (void)train_cuda_type(k->call.in[at].dtype, &t);
    return train_cuda_bias(train_cuda_stream(k), k->t, t,
                           train_array_elements(y) / c, c, k->u.conv.rectified,
                           k->call.part == 1 ? in[0] : out[0], in[at], out[0]);
}

static cudaError_t bias_sums(const struct cuda_kernel *k, void *const *in,
                             void *const *out, void *scratch)
{
    const struct train_array *dy = &k->call.in[1];
    int64_t c = train_cuda_extent(dy, 1);
    enum cuda_type t;

    (void)train_cuda_type(k->call.out[1].dtype, &t);
    return train_cuda_column_sums(train_cuda_stream(k), k->t,
                                  train_array_elements(dy) / c, c, in[1], t,
                                  out[1], scratch);
}

static int64_t bias_room(const struct train_array *dy)
{
    int64_t c = train_cuda_extent(dy, 1);

    return 4 * train_cuda_column_room(train_array_elements(dy) / c, c);
}

static void *operand(const struct cuda_kernel *k, int i, void *const *in,
                     void *const *out)
{
    return i < k->call.nin ? in[i] : out[i - k->call.nin];
}

static cudaError_t convolve(const struct cuda_state *s,
                            const struct cuda_conv *c, void *const *at,
                            void *work)
{
    if (c->product)
        return train_cuda_multiply(s, c->product,
                                   at[c->way == WEIGHTS ? FINE : WEIGHT],
                                   at[c->way == GATHER ? FINE : COARSE], NULL,
                                   at[c->way == GATHER    ? COARSE
                                      : c->way == SCATTER ? FINE
                                                          : WEIGHT],
                                   work);
    return execute(s->dnn, c->plan, at, work) == CUDNN_STATUS_SUCCESS
               ? cudaSuccess
               : cudaErrorUnknown;
}

/* In scratch: weights, images, what the engine works in. */
static cudaError_t run_folded(const struct cuda_kernel *k, void *const *in,
                              void *const *out, void *scratch)
{
    const struct cuda_fold *f = k->u.conv.fold;
    bool weights = k->u.conv.conv->way == WEIGHTS;
    cudaStream_t st = train_cuda_stream(k);
    void *w = operand(k, k->u.conv.w, in, out);
    char *images = (char *)scratch + k->u.conv.w_bytes;
    void *at[] = {images, operand(k, k->u.conv.coarse, in, out), scratch};
    cudaError_t e = train_cuda_fold_images(
        st, k->t, f, operand(k, k->u.conv.fine, in, out), images);

    if (e == cudaSuccess && !weights)
        e = train_cuda_fold_weights(st, k->t, f, 0, w, scratch);
    if (e == cudaSuccess)
        e = convolve(k->s, k->u.conv.conv, at, images + k->u.conv.x_bytes);
    if (e == cudaSuccess && weights)
        e = train_cuda_fold_weights(st, k->t, f, 1, scratch, w);
    return e;
}

static cudaError_t run_plain(const struct cuda_kernel *k, void *const *in,
                             void *const *out, void *scratch)
{
    const struct cuda_conv *c = k->u.conv.conv;
    void *w = operand(k, k->u.conv.w, in, out);
    void *krsc = k->u.conv.pixels ? scratch : w;
    char *images = (char *)scratch + k->u.conv.w_bytes;
    void *work = images + k->u.conv.x_bytes;
    void *at[] = {operand(k, k->u.conv.fine, in, out),
                  operand(k, k->u.conv.coarse, in, out), krsc};
    int size = k->t == CUDA_BF16 ? 2 : 4;
    cudaStream_t st = train_cuda_stream(k);
    cudaError_t e = cudaSuccess;

    if (k->u.conv.padded.n > 0) {
        e = cudaMemsetAsync(images, 0, (size_t)k->u.conv.x_bytes, st);
        if (e == cudaSuccess)
            e = train_cuda_copy(st, &k->u.conv.padded, size, at[FINE], images);
        at[FINE] = images;
    }
    if (e == cudaSuccess && k->u.conv.pixels && c->way != WEIGHTS)
        e = train_cuda_turn(st, size, c->dim[WEIGHT][0], c->dim[WEIGHT][1],
                            k->u.conv.pixels, 0, w, krsc);
    if (e == cudaSuccess)
        e = convolve(k->s, c, at, work);
    if (e == cudaSuccess && k->u.conv.pixels && c->way == WEIGHTS)
        e = train_cuda_turn(st, size, c->dim[WEIGHT][0], c->dim[WEIGHT][1],
                            k->u.conv.pixels, 1, krsc, w);
    return e;
}

static cudaError_t run(const struct cuda_kernel *k, void *const *in,
                       void *const *out, void *scratch,
                       const struct train_moment *when)
{
    void *work = (char *)scratch + k->u.conv.w_bytes;
    cudaError_t e;

    (void)when;
    if (k->call.part == 1)
        return add_bias(k, in, out);
    e = k->u.conv.fold ? run_folded(k, in, out, scratch)
                       : run_plain(k, in, out, scratch);
    if (e == cudaSuccess && k->call.pass == PDL_FORWARD && k->op.nw > 1)
        e = add_bias(k, in, out);
    else if (e == cudaSuccess && k->u.conv.rectified)
        e = train_cuda_unary(train_cuda_stream(k), k->t, CUDA_RELU,
                             train_array_elements(&k->call.out[0]), out[0],
                             out[0]);
    if (e == cudaSuccess && k->call.pass == PDL_BACKWARD_WEIGHTS &&
        k->call.nout > 1)
        e = bias_sums(k, in, out, work);
    return e;
}

static int64_t or1(int64_t v)
{
    return v > 0 ? v : 1;
}

/* Padding of the parts at hand; false: cuDNN has no such window. */
static bool pad(const struct pdl_attr *a, int i, const struct train_array *fine,
                const struct train_array *coarse, struct cuda_conv *c)
{
    int64_t fn = train_cuda_extent(fine, i + 2);
    int64_t cn = train_cuda_extent(coarse, i + 2), span, last;

    c->stride[i] = or1(a->stride[i]);
    c->dilation[i] = or1(a->dilation[i]);
    c->pre[i] =
        a->pad[i] + fine->box.lo[i + 2] - coarse->box.lo[i + 2] * c->stride[i];
    span = (a->kernel[i] - 1) * c->dilation[i] + 1;
    last = (cn - 1) * c->stride[i] + span - c->pre[i]; /* fine needed */
    c->post[i] = c->pre[i];
    if ((fn + 2 * c->pre[i] - span) / c->stride[i] + 1 != cn)
        c->post[i] = last > fn ? last - fn : 0;
    return c->pre[i] >= 0 &&
           (fn + c->pre[i] + c->post[i] - span) / c->stride[i] + 1 == cn;
}

static void find_operands(struct cuda_kernel *k, bool swap)
{
    const struct train_call *c = &k->call;
    int x = 0, y = c->nin, w = 1;

    if (c->pass == PDL_BACKWARD_DATA) {
        x = c->nin;
        y = 0;
    } else if (c->pass == PDL_BACKWARD_WEIGHTS) {
        y = 1;
        w = c->nin;
    }
    k->u.conv.fine = swap ? y : x;
    k->u.conv.coarse = swap ? x : y;
    k->u.conv.w = w;
}

static const struct train_array *array(const struct cuda_kernel *k, int i)
{
    return i < k->call.nin ? &k->call.in[i] : &k->call.out[i - k->call.nin];
}

static bool shape(struct cuda_kernel *k, struct cuda_conv *c)
{
    const struct pdl_attr *a = &k->call.node->attr;
    const struct train_array *side[3] = {array(k, k->u.conv.fine),
                                         array(k, k->u.conv.coarse),
                                         array(k, k->u.conv.w)};

    for (int i = 0; i < 3; i++) {
        enum cuda_type t;

        if (!train_cuda_type(side[i]->dtype, &t) || t != k->t ||
            (i != WEIGHT && !side[i]->channels_last))
            return false;
        for (int d = 0; d < c->ns + 2; d++)
            c->dim[i][d] = train_cuda_extent(side[i], d);
    }
    for (int i = 0; i < c->ns; i++)
        if (!pad(a, i, side[FINE], side[COARSE], c))
            return false;
    /* channels: all that the weight has, groups whole */
    if (c->dim[WEIGHT][0] != c->dim[COARSE][1] ||
        c->dim[WEIGHT][1] * or1(a->groups) != c->dim[FINE][1])
        return false;
    return or1(a->groups) == 1 ||
           (side[FINE]->box.lo[1] == 0 && side[COARSE]->box.lo[1] == 0);
}

static int64_t up(int64_t n)
{
    return (n + 255) / 256 * 256;
}

/* Between OI.. as stored and O..I; false: too many pixels. */
static bool turn_weights(struct cuda_kernel *k, const struct cuda_conv *c)
{
    int64_t pixels = 1;

    for (int i = 0; i < c->ns; i++)
        pixels *= c->dim[WEIGHT][i + 2];
    if (pixels == 1 || c->dim[WEIGHT][1] == 1)
        return true;
    k->u.conv.pixels = pixels;
    k->u.conv.w_bytes = up(volume(c, WEIGHT) * (k->t == CUDA_BF16 ? 2 : 4));
    return pixels <= CUDA_TURNED;
}

/* Of cuDNN's engines some make gradients of weights with other padding behind
 * than before as if it were not there (9.19, float32): images that are padded
 * beforehand have none. */
static void pad_before(struct cuda_kernel *k, struct cuda_conv *c)
{
    struct cuda_walk *w = &k->u.conv.padded;
    bool even = true;
    int64_t to = c->dim[FINE][1], from = c->dim[FINE][1];

    for (int i = 0; i < c->ns; i++)
        even = even && c->pre[i] == c->post[i];
    if (even || c->way != WEIGHTS)
        return;
    w->n = c->ns + 2;
    w->extent[w->n - 1] = c->dim[FINE][1];
    w->to[w->n - 1] = w->from[w->n - 1] = 1;
    for (int i = c->ns - 1; i >= 0; i--) {
        w->extent[i + 1] = c->dim[FINE][i + 2];
        w->to[i + 1] = to;
        w->from[i + 1] = from;
        w->to_first += c->pre[i] * to;
        from *= c->dim[FINE][i + 2];
        c->dim[FINE][i + 2] += c->pre[i] + c->post[i];
        to *= c->dim[FINE][i + 2];
        c->pre[i] = c->post[i] = 0;
    }
    w->extent[0] = c->dim[FINE][0];
    w->to[0] = to;
    w->from[0] = from;
    k->u.conv.x_bytes = up(volume(c, FINE) * (k->t == CUDA_BF16 ? 2 : 4));
}

/* The convolution of folded images, where there is one and it is faster. */
static void fold(struct cuda_kernel *k, const struct cuda_conv *c)
{
    struct cuda_conv folded = *c;
    const struct cuda_conv *found;
    struct cuda_fold *f = PDL_NEW(k->s->arena, struct cuda_fold, 1);
    int64_t size = k->t == CUDA_BF16 ? 2 : 4;

    if (!f || c->ns != 2 || c->way == SCATTER ||
        4 * c->dim[FINE][1] > CUDA_FOLDED ||
        c->dim[WEIGHT][1] != c->dim[FINE][1])
        return;
    *f = (struct cuda_fold){
        .n = c->dim[FINE][0], .c = c->dim[FINE][1], .f = c->dim[WEIGHT][0]};
    folded.dim[FINE][1] = folded.dim[WEIGHT][1] = CUDA_FOLDED;
    for (int i = 0; i < 2; i++) {
        if (c->stride[i] != 2 || c->dilation[i] != 1 ||
            c->dim[WEIGHT][i + 2] > 8)
            return;
        f->kernel[i] = c->dim[WEIGHT][i + 2];
        f->from[i] = c->dim[FINE][i + 2];
        f->pad[i] = c->pre[i];
        folded.dim[WEIGHT][i + 2] = (f->kernel[i] + 1) / 2;
        f->to[i] = c->dim[COARSE][i + 2] + folded.dim[WEIGHT][i + 2] - 1;
        folded.dim[FINE][i + 2] = f->to[i];
        folded.stride[i] = 1;
        folded.pre[i] = folded.post[i] = 0;
    }
    found = conv_of(k->s, &folded);
    if (!found || found->ms * 1.1f > k->u.conv.conv->ms)
        return;
    k->u.conv.conv = found;
    k->u.conv.fold = f;
    k->u.conv.w_bytes = up(volume(&folded, WEIGHT) * size);
    k->u.conv.x_bytes = up(volume(&folded, FINE) * size);
}

bool train_cuda_make_conv(struct cuda_kernel *k)
{
    bool swap = pdl_op_id(k->call.node->op) == PDL_ID_CONV_TRANSPOSE;
    struct cuda_conv c = {.t = k->t, .ns = k->call.in[0].box.ndims - 2};
    int64_t room = 0;

    k->go = run;
    if (k->call.part == 1)
        return k->call.out[0].channels_last &&
               k->call.in[1].box.lo[0] == k->call.out[0].box.lo[1] &&
               k->call.in[1].box.hi[0] == k->call.out[0].box.hi[1];
    if (c.ns < 2 || c.ns > 3)
        return false;
    c.way = k->call.pass == PDL_BACKWARD_WEIGHTS    ? WEIGHTS
            : (k->call.pass == PDL_FORWARD) != swap ? GATHER
                                                    : SCATTER;
    find_operands(k, swap);
    if (!shape(k, &c))
        return false;
    pad_before(k, &c);
    k->u.conv.conv = conv_of(k->s, &c);
    if (!k->u.conv.conv)
        return false;
    if (!turn_weights(k, &c))
        return false;
    if (k->u.conv.padded.n == 0)
        fold(k, &c);
    if (k->call.pass == PDL_BACKWARD_WEIGHTS && k->call.nout > 1)
        room = bias_room(&k->call.in[1]);
    if (k->u.conv.conv->workspace > room)
        room = k->u.conv.conv->workspace;
    if (k->u.conv.conv->product && room < CUDA_PRODUCT_ROOM)
        room = CUDA_PRODUCT_ROOM;
    k->base.scratch_bytes = k->u.conv.w_bytes + k->u.conv.x_bytes + room;
    k->base.implementation = "cudnn";
    return true;
}
