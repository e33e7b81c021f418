/* SPDX-License-Identifier: Apache-2.0
 *
 * Device cuda: memory, streams and tickets of one NVIDIA GPU, and the list of
 * the operators that run on it. What is not in the list, or not in this form,
 * the reference backend runs on the host (cuda_host.c), and the run says so. */
#include "train/backends/cuda/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// clang-format off
static const struct cuda_op ops[] = {
    {"relu",               train_cuda_make_unary},
    {"relu6",              train_cuda_make_unary},
    {"gelu",               train_cuda_make_unary},
    {"gelu_tanh",          train_cuda_make_unary},
    {"silu",               train_cuda_make_unary},
    {"sigmoid",            train_cuda_make_unary},
    {"tanh",               train_cuda_make_unary},
    {"hard_swish",         train_cuda_make_unary},
    {"hard_sigmoid",       train_cuda_make_unary},
    {"identity",           train_cuda_make_unary},
    {"add",                train_cuda_make_add},
    {"mul",                train_cuda_make_mul},
    {"reshape",            train_cuda_make_reshape},
    {"flatten",            train_cuda_make_reshape},
    {"squeeze",            train_cuda_make_reshape},
    {"unsqueeze",          train_cuda_make_reshape},
    {"concat",             train_cuda_make_concat},
    {"split",              train_cuda_make_split},
    {"slice",              train_cuda_make_slice},
    {"pad",                train_cuda_make_pad},
    {"class_token",        train_cuda_make_class_token},
    {"transpose",          train_cuda_make_transpose},
    {"dropout",            train_cuda_make_dropout},
    {"batch_norm",         train_cuda_make_batch_norm},
    {"layer_norm",         train_cuda_make_row_norm},
    {"rms_norm",           train_cuda_make_row_norm},
    {"max_pool",           train_cuda_make_pool},
    {"avg_pool",           train_cuda_make_pool},
    {"global_avg_pool",    train_cuda_make_image_mean},
    {"embedding",          train_cuda_make_table},
    {"position_embedding", train_cuda_make_table},
    {"rope",               train_cuda_make_rope},
    {"attention",          train_cuda_make_attention},
    {"linear",             train_cuda_make_linear},
    {"conv",               train_cuda_make_conv},
    {"conv_transpose",     train_cuda_make_conv},
    {"loss",               train_cuda_make_loss},
};
// clang-format on

/* Kernels speak in the driver's numbers, of which those of libraries lie above
 * all. */
cudaError_t train_cuda_said(enum cuda_said by, int status)
{
    return status ? (cudaError_t)((int)by + status) : cudaGetLastError();
}

enum pdl_status train_cuda_fail(struct pdl_err *err, cudaError_t e,
                                const char *what)
{
    int status = (int)e;
    bool dnn = status >= CUDA_SAID_DNN;

    if (status >= CUDA_SAID_BLAS)
        return pdl_fail(err, PDL_ENOENV,
                        "device cuda: %.100s: %s refuses it, status %d", what,
                        dnn ? "cuDNN" : "cuBLASLt",
                        status - (dnn ? CUDA_SAID_DNN : CUDA_SAID_BLAS));
    return pdl_fail(err,
                    e == cudaErrorMemoryAllocation ? PDL_ENOMEM : PDL_ENOENV,
                    "device cuda: %.100s: %.200s", what, cudaGetErrorString(e));
}

/* ---- memory, copies --------------------------------------------------- */

static enum pdl_status cuda_alloc(void *state, int64_t bytes, void **out,
                                  struct pdl_err *err)
{
    const struct cuda_state *s = state;
    const double GiB = 1 << 30;
    size_t left = 0, all = 0;
    cudaError_t e;

    if (s->described.len > 0) {
        pdl_fail(err, PDL_ENOENV, "a GPU that is only described runs nothing");
        pdl_hint(err, "--size says what memory a run would take on it");
        return PDL_ENOENV;
    }
    e = cudaMalloc(out, (size_t)bytes + 64);
    if (e == cudaSuccess)
        return PDL_OK;
    (void)cudaGetLastError();
    (void)!cudaMemGetInfo(&left, &all);
    if (e != cudaErrorMemoryAllocation)
        return train_cuda_fail(err, e, "memory");
    pdl_fail(err, PDL_ENOMEM,
             "device cuda:%d is out of memory: %.2f GiB wanted, %.2f of %.2f "
             "GiB free",
             s->device, (double)bytes / GiB, (double)left / GiB,
             (double)all / GiB);
    pdl_hint(err, "a smaller --batch, --precision bf16, accumulate=K or "
                  "recompute=full need less");
    return PDL_ENOMEM;
}

static void cuda_free(void *state, void *p)
{
    (void)state;
    (void)!cudaFree(p);
}

/* Pages that stay: copies of others go by a buffer of the driver's. */
static void *cuda_take_host(void *state, int64_t bytes)
{
    void *p = NULL;

    (void)state;
    if (cudaMallocHost(&p, (size_t)bytes) == cudaSuccess)
        return p;
    (void)cudaGetLastError(); /* plain memory does */
    return NULL;
}

static void cuda_give_host(void *state, void *p)
{
    (void)state;
    (void)!cudaFreeHost(p);
}

static enum pdl_status cuda_copy(void *state, enum train_stream stream,
                                 enum train_way way, void *to, const void *from,
                                 int64_t bytes, struct pdl_err *err)
{
    static const enum cudaMemcpyKind kinds[] = {
        [TRAIN_TO_DEVICE] = cudaMemcpyHostToDevice,
        [TRAIN_TO_HOST] = cudaMemcpyDeviceToHost,
        [TRAIN_INSIDE] = cudaMemcpyDeviceToDevice};
    struct cuda_state *s = state;
    cudaError_t e = cudaMemcpyAsync(to, from, (size_t)bytes, kinds[way],
                                    train_cuda_queue(s, stream));

    return e == cudaSuccess ? PDL_OK : train_cuda_fail(err, e, "copy");
}

static enum pdl_status cuda_fill(void *state, enum train_stream stream,
                                 void *to, int byte, int64_t bytes,
                                 struct pdl_err *err)
{
    struct cuda_state *s = state;
    cudaError_t e =
        cudaMemsetAsync(to, byte, (size_t)bytes, train_cuda_queue(s, stream));

    return e == cudaSuccess ? PDL_OK : train_cuda_fail(err, e, "fill");
}

/* ---- tickets ---------------------------------------------------------- */

/* Events are used in turn; one that is used again has been waited for. */
static uint64_t cuda_record(void *state, enum train_stream stream)
{
    struct cuda_state *s = state;
    uint64_t ticket = ++s->issued;
    int i = (int)(ticket % CUDA_TICKETS);

    if (s->tickets[i].ticket)
        (void)!cudaEventSynchronize(s->tickets[i].event);
    (void)!cudaEventRecord(s->tickets[i].event, train_cuda_queue(s, stream));
    s->tickets[i].ticket = ticket;
    return ticket;
}

static cudaEvent_t event_of(const struct cuda_state *s, uint64_t ticket)
{
    int i = (int)(ticket % CUDA_TICKETS);

    return s->tickets[i].ticket == ticket ? s->tickets[i].event : NULL;
}

static void cuda_wait(void *state, enum train_stream stream, uint64_t ticket)
{
    struct cuda_state *s = state;
    cudaEvent_t e = event_of(s, ticket);

    if (e)
        (void)!cudaStreamWaitEvent(train_cuda_queue(s, stream), e, 0);
}

static bool cuda_reached(void *state, uint64_t ticket)
{
    cudaEvent_t e = event_of(state, ticket);

    return !e || cudaEventQuery(e) != cudaErrorNotReady;
}

static enum pdl_status cuda_finish(void *state, uint64_t ticket,
                                   struct pdl_err *err)
{
    struct cuda_state *s = state;
    cudaEvent_t at = event_of(s, ticket);
    cudaError_t e = at ? cudaEventSynchronize(at) : cudaSuccess;

    if (s->st != PDL_OK && err)
        *err = s->err;
    if (s->st != PDL_OK)
        return s->st;
    return e == cudaSuccess ? PDL_OK : train_cuda_fail(err, e, "the work");
}

/* ---- kernels ---------------------------------------------------------- */

bool train_cuda_type(enum pdl_dtype d, enum cuda_type *t)
{
    *t = d == PDL_BF16 ? CUDA_BF16 : CUDA_F32;
    return d == PDL_BF16 || d == PDL_F32;
}

bool train_cuda_typed(const struct cuda_kernel *k)
{
    for (int i = 0; i < k->call.nin + k->call.nout; i++) {
        const struct train_array *a =
            i < k->call.nin ? &k->call.in[i] : &k->call.out[i - k->call.nin];
        enum cuda_type t;

        if (!train_cuda_type(a->dtype, &t) || t != k->t)
            return false;
    }
    return true;
}

int64_t train_cuda_extent(const struct train_array *a, int d)
{
    int64_t n = a->box.hi[d] - a->box.lo[d];

    return n > 0 ? n : 0;
}

bool train_cuda_same_box(const struct train_array *a,
                         const struct train_array *b)
{
    bool same = a->box.ndims == b->box.ndims &&
                a->channels_last == b->channels_last && a->dtype == b->dtype;

    for (int d = 0; same && d < a->box.ndims; d++)
        same = a->box.lo[d] == b->box.lo[d] && a->box.hi[d] == b->box.hi[d];
    return same;
}

cudaStream_t train_cuda_stream(const struct cuda_kernel *k)
{
    return k->s->stream[TRAIN_COMPUTE];
}

/* Some of cuBLASLt's algorithms refuse a workspace that begins elsewhere. */
enum { SCRATCH_ALIGN = 256 };

static enum pdl_status run(const struct train_kernel *base, void *const *in,
                           void *const *out, void *scratch,
                           const struct train_moment *when, struct pdl_err *err)
{
    const struct cuda_kernel *k = (const struct cuda_kernel *)base;
    uintptr_t work = ((uintptr_t)scratch + SCRATCH_ALIGN - 1) / SCRATCH_ALIGN *
                     SCRATCH_ALIGN;
    cudaError_t e;

    (void)train_cuda_queue(k->s, TRAIN_COMPUTE);
    e = k->go(k, in, out, (void *)work, when);
    if (e == cudaSuccess)
        return PDL_OK;
    return train_cuda_fail(err, e, k->call.node ? k->call.node->name : "loss");
}

static cudaError_t nothing(const struct cuda_kernel *k, void *const *in,
                           void *const *out, void *scratch,
                           const struct train_moment *when)
{
    (void)k, (void)in, (void)out, (void)scratch, (void)when;
    return cudaSuccess;
}

static cuda_make_fn *find(const char *name)
{
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        if (strcmp(ops[i].name, name) == 0)
            return ops[i].make;
    return NULL;
}

static bool all_empty(const struct train_call *c)
{
    for (int i = 0; i < c->nout; i++)
        if (train_array_elements(&c->out[i]) > 0)
            return false;
    return true;
}

static bool any_empty(const struct train_call *c)
{
    for (int i = 0; i < c->nin + c->nout; i++)
        if (train_array_elements(i < c->nin ? &c->in[i]
                                            : &c->out[i - c->nin]) <= 0)
            return true;
    return false;
}

static bool plain_layouts(const struct train_call *c)
{
    for (int i = 0; i < c->nin + c->nout; i++)
        if ((i < c->nin ? &c->in[i] : &c->out[i - c->nin])->layout != 0)
            return false;
    return true;
}

struct cuda_kernel *train_cuda_kernel(struct cuda_state *s,
                                      const struct train_call *c)
{
    struct cuda_kernel *k = PDL_NEW(s->arena, struct cuda_kernel, 1);
    struct train_array *p =
        PDL_NEW(s->arena, struct train_array, c->nin + c->nout + 1);
    cuda_make_fn *how = find(c->node ? train_function(c->node) : "loss");
    bool mine;

    if (!k || !p) {
        s->st = pdl_fail(&s->err, PDL_ENOMEM, "out of memory");
        return NULL;
    }
    memcpy(p, c->in, (size_t)c->nin * sizeof *p);
    memcpy(p + c->nin, c->out, (size_t)c->nout * sizeof *p);
    *k = (struct cuda_kernel){
        .base = {.implementation = "cuda", .run = run}, .s = s, .call = *c};
    k->call.in = p;
    k->call.out = p + c->nin;
    train_operands(&k->call, &k->op);
    mine = how && plain_layouts(c) && !any_empty(c) &&
           train_cuda_type(c->nin > 0 ? c->in[0].dtype : PDL_F32, &k->t);
    if (how && c->nin > 0 && c->in[0].dtype == PDL_I32 && c->nout > 0)
        mine = plain_layouts(c) && !any_empty(c) &&
               train_cuda_type(c->out[0].dtype, &k->t);
    if (all_empty(c)) {
        k->go = nothing;
        return k;
    }
    if (!mine || !how(k))
        return NULL;
    if (k->base.scratch_bytes > 0)
        k->base.scratch_bytes += SCRATCH_ALIGN;
    return k;
}

static enum pdl_status make(void *state, const struct train_call *c,
                            struct train_kernel **out, struct pdl_err *err)
{
    struct cuda_state *s = state;
    struct cuda_kernel *k;

    k = train_cuda_kernel(s, c);
    if (k) {
        *out = &k->base;
        return PDL_OK;
    }
    if (s->st != PDL_OK) {
        if (err)
            *err = s->err;
        return s->st;
    }
    return train_cuda_on_host(s, c, out, err);
}

static enum train_aux aux(const struct train_call *c, struct train_array *a)
{
    enum train_aux kind;

    if (c->node && c->pass == PDL_FORWARD && c->nout > 0 &&
        train_cuda_aux(c, a))
        return TRAIN_AUX_LOCAL;
    kind = train_ref.aux(c, a);
    if (kind == TRAIN_AUX_LIKE_Y && pdl_op_id(c->node->op) == PDL_ID_MAX_POOL)
        a->dtype = train_places_type(c);
    return kind;
}

/* ---- opening ---------------------------------------------------------- */

static enum pdl_status no_device(cudaError_t e, struct pdl_err *err)
{
    if (e == cudaErrorNoDevice || e == cudaSuccess) {
        pdl_fail(err, PDL_ENOENV,
                 "device cuda: this machine has no NVIDIA GPU "
                 "that can be used");
        pdl_hint(err, "--device cpu trains here");
        return PDL_ENOENV;
    }
    train_cuda_fail(err, e, "no GPU can be used");
    if (e == cudaErrorInsufficientDriver)
        pdl_hint(err,
                 "this program is built with CUDA %d.%d: it needs an "
                 "NVIDIA driver that knows it",
                 CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    return PDL_ENOENV;
}

/* "", "1", "tf32", "1:tf32", "h200.json": a GPU as cuDNN describes it (its
 * property JSON_REPRESENTATION), for which plans are made where there is
 * none */
static enum pdl_status parse(struct cuda_state *s, const char *which,
                             struct pdl_err *err)
{
    size_t len = which ? strlen(which) : 0;
    char *end = NULL;
    long n;

    if (!which || !*which)
        return PDL_OK;
    if (len > 5 && strcmp(which + len - 5, ".json") == 0)
        return pdl_file_read(s->arena, which, 1 << 16, &s->described, err);
    if (strcmp(which, "tf32") == 0) {
        s->tf32 = true;
        return PDL_OK;
    }
    n = strtol(which, &end, 10);
    s->tf32 = strcmp(end, ":tf32") == 0;
    if (end == which || n < 0 || n > 1 << 20 || (*end && !s->tf32)) {
        pdl_fail(err, PDL_EINVAL,
                 "device cuda:%.40s: the number of a GPU is "
                 "wanted",
                 which);
        pdl_hint(err, "cuda, cuda:1, cuda:1:tf32");
        return PDL_EINVAL;
    }
    s->device = (int)n;
    return PDL_OK;
}

/* What is known is of this kind of GPU and this driver. */
static void open_known(struct cuda_state *s)
{
    struct cudaDeviceProp p;
    int driver = 0;
    char name[320];

    if (cudaGetDeviceProperties(&p, s->device) != cudaSuccess ||
        cudaDriverGetVersion(&driver) != cudaSuccess)
        return;
    snprintf(name, sizeof name, "%s-%d.plans", p.name, driver);
    for (char *c = name; *c; c++)
        if (*c == ' ' || *c == '/')
            *c = '-';
    s->known = train_known_open(s->arena, name);
}

static enum pdl_status start(struct cuda_state *s, struct pdl_err *err)
{
    int n = 0;
    cudaError_t e;

    if (s->described.len > 0)
        return PDL_OK;
    e = cudaGetDeviceCount(&n);
    if (e != cudaSuccess || n == 0)
        return no_device(e, err);
    if (s->device >= n)
        return pdl_fail(err, PDL_EINVAL,
                        "device cuda:%d: this machine has %d GPU%s", s->device,
                        n, n > 1 ? "s" : "");
    e = cudaSetDevice(s->device);
    if (e == cudaSuccess)
        open_known(s);
    for (int i = 0; i < TRAIN_STREAMS && e == cudaSuccess; i++)
        e = cudaStreamCreateWithFlags(&s->stream[i], cudaStreamNonBlocking);
    for (int i = 0; i < CUDA_TICKETS && e == cudaSuccess; i++)
        e = cudaEventCreateWithFlags(&s->tickets[i].event,
                                     cudaEventDisableTiming);
    if (e == cudaSuccess)
        e = cudaMalloc((void **)&s->squares,
                       (size_t)train_cuda_squares_room() * sizeof(double));
    if (e == cudaSuccess)
        e = cudaMalloc((void **)&s->now, sizeof *s->now);
    return e == cudaSuccess ? PDL_OK : train_cuda_fail(err, e, "cannot start");
}

static enum pdl_status cuda_open(pdl_arena *a, const char *which, int64_t rank,
                                 void **state, struct pdl_err *err)
{
    struct cuda_state *s = PDL_NEW(a, struct cuda_state, 1);
    enum pdl_status st;

    (void)rank;
    if (!s)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    s->arena = a;
    st = parse(s, which, err);
    if (st == PDL_OK)
        st = start(s, err);
    if (st == PDL_OK)
        st = train_ref.open(a, &s->ref, err);
    if (st == PDL_OK)
        *state = s;
    return st;
}

static void cuda_close(void *state)
{
    struct cuda_state *s = state;

    if (s->described.len == 0)
        (void)!cudaDeviceSynchronize();
    train_cuda_close_libraries(s);
    train_cuda_drop_held(s);
    train_cuda_drop_updates(s);
    train_cuda_close_clock(s);
    if (s->now)
        (void)!cudaFree(s->now);
    if (s->squares)
        (void)!cudaFree(s->squares);
    for (int i = 0; i < CUDA_TICKETS && s->tickets[i].event; i++)
        (void)!cudaEventDestroy(s->tickets[i].event);
    for (int i = 0; i < TRAIN_STREAMS && s->stream[i]; i++)
        (void)!cudaStreamDestroy(s->stream[i]);
    train_ref.close(s->ref);
}

static bool cuda_present(void)
{
    int n = 0;

    return cudaGetDeviceCount(&n) == cudaSuccess && n > 0;
}

static const char *cuda_on_host(const void *state)
{
    return ((const struct cuda_state *)state)->on_host;
}

const struct train_device train_cuda = {
    .name = "cuda",
    .summary = "an NVIDIA GPU: cuda, cuda:1, cuda:1:tf32",
    .open = cuda_open,
    .kernels = {.name = "cuda",
                .close = cuda_close,
                .make = make,
                .aux = aux,
                .join = train_cuda_group},
    .alloc = cuda_alloc,
    .free = cuda_free,
    .take_host = cuda_take_host,
    .give_host = cuda_give_host,
    .copy = cuda_copy,
    .fill = cuda_fill,
    .launch = train_cuda_launch,
    .hold = train_cuda_hold,
    .held = train_cuda_held,
    .repeat = train_cuda_repeat,
    .record = cuda_record,
    .wait = cuda_wait,
    .reached = cuda_reached,
    .finish = cuda_finish,
    .on_host = cuda_on_host,
    .present = cuda_present,
    .mark = train_cuda_mark,
    .between = train_cuda_between,
    .describe = train_cuda_describe,
};
