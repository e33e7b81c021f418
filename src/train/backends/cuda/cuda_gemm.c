/* SPDX-License-Identifier: Apache-2.0
 *
 * linear by cuBLASLt. Rows of ours are its columns: y[m,f] = x[m,c] w[f,c]' is
 * y' = w x'. Of the algorithms that its heuristic offers the fastest on this
 * GPU is taken; equal products share what was found. */
#include "train/backends/cuda/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OFFERS = 16, ROUNDS = 3 };

static bool equal(const struct cuda_product *x, const struct cuda_product *y)
{
    return x->m == y->m && x->n == y->n && x->k == y->k && x->lda == y->lda &&
           x->ldb == y->ldb && x->ldc == y->ldc && x->ta == y->ta &&
           x->tb == y->tb && x->bias == y->bias && x->sums == y->sums &&
           x->t == y->t && x->alignment == y->alignment;
}

/* more: added to the result; NULL: nothing. */
static cublasStatus_t run(const struct cuda_state *s,
                          const struct cuda_product *p,
                          const cublasLtMatmulAlgo_t *algo,
                          const void *const *ab, const void *more, void *c,
                          void *scratch)
{
    const float one = 1, zero = 0;

    return s->lt->cublasLtMatmul(s->lt->handle, p->desc, &one, ab[0], p->a,
                                 ab[1], p->b, more ? &one : &zero,
                                 more ? more : c, p->c, c, p->c, algo, scratch,
                                 CUDA_PRODUCT_ROOM, s->stream[TRAIN_COMPUTE]);
}

/* What is added, or where sums go: as the library has it, of the
 * description. */
static void set_bias(const struct cuda_state *s, const struct cuda_product *p,
                     const void *bias)
{
    (void)!s->lt->cublasLtMatmulDescSetAttribute(
        p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
}

static bool describe(const struct cuda_state *s, struct cuda_product *p)
{
    const struct cuda_lt *l = s->lt;
    cudaDataType_t type = p->t == CUDA_BF16 ? CUDA_R_16BF : CUDA_R_32F;
    cublasComputeType_t compute = p->t == CUDA_F32 && s->tf32
                                      ? CUBLAS_COMPUTE_32F_FAST_TF32
                                      : CUBLAS_COMPUTE_32F;
    cublasOperation_t ta = p->ta ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t tb = p->tb ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtEpilogue_t bias =
        p->sums ? CUBLASLT_EPILOGUE_BGRADB : CUBLASLT_EPILOGUE_BIAS;
    bool ok = l->cublasLtMatmulDescCreate(&p->desc, compute, CUDA_R_32F) == 0 &&
              l->cublasLtMatmulDescSetAttribute(
                  p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &ta, sizeof ta) == 0 &&
              l->cublasLtMatmulDescSetAttribute(
                  p->desc, CUBLASLT_MATMUL_DESC_TRANSB, &tb, sizeof tb) == 0;

    if (ok && (p->bias || p->sums))
        ok = l->cublasLtMatmulDescSetAttribute(p->desc,
                                               CUBLASLT_MATMUL_DESC_EPILOGUE,
                                               &bias, sizeof bias) == 0 &&
             l->cublasLtMatmulDescSetAttribute(
                 p->desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type,
                 sizeof type) == 0;
    return ok &&
           l->cublasLtMatrixLayoutCreate(
               &p->a, type, (uint64_t)(p->ta ? p->k : p->m),
               (uint64_t)(p->ta ? p->m : p->k), p->lda) == 0 &&
           l->cublasLtMatrixLayoutCreate(
               &p->b, type, (uint64_t)(p->tb ? p->n : p->k),
               (uint64_t)(p->tb ? p->k : p->n), p->ldb) == 0 &&
           l->cublasLtMatrixLayoutCreate(&p->c, type, (uint64_t)p->m,
                                         (uint64_t)p->n, p->ldc) == 0;
}

static int offers(const struct cuda_state *s, const struct cuda_product *p,
                  cublasLtMatmulHeuristicResult_t *found)
{
    const struct cuda_lt *l = s->lt;
    cublasLtMatmulPreference_t pref;
    size_t most = CUDA_PRODUCT_ROOM;
    int n = 0;

    if (l->cublasLtMatmulPreferenceCreate(&pref) != 0)
        return 0;
    (void)!l->cublasLtMatmulPreferenceSetAttribute(
        pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most);
    for (int i = CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
         i <= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES; i++)
        (void)!l->cublasLtMatmulPreferenceSetAttribute(
            pref, (cublasLtMatmulPreferenceAttributes_t)i, &p->alignment,
            sizeof p->alignment);
    if (l->cublasLtMatmulAlgoGetHeuristic(l->handle, p->desc, p->a, p->b, p->c,
                                          p->c, pref, OFFERS, found, &n) != 0)
        n = 0;
    (void)!l->cublasLtMatmulPreferenceDestroy(pref);
    return n;
}

/* Milliseconds of the offer; < 0: it does not run. */
static float time_one(const struct cuda_state *s, const struct cuda_product *p,
                      const cublasLtMatmulAlgo_t *algo, char *const *room)
{
    cudaStream_t st = s->stream[TRAIN_COMPUTE];
    cudaEvent_t from = NULL, to = NULL;
    float ms = -1;
    bool ok = run(s, p, algo, (const void *const *)room, NULL, room[2],
                  room[3]) == 0 &&
              cudaEventCreate(&from) == cudaSuccess &&
              cudaEventCreate(&to) == cudaSuccess &&
              cudaEventRecord(from, st) == cudaSuccess;

    for (int i = 0; i < ROUNDS && ok; i++)
        ok = run(s, p, algo, (const void *const *)room, NULL, room[2],
                 room[3]) == 0;
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

static bool fastest(struct cuda_state *s, struct cuda_product *p,
                    const cublasLtMatmulHeuristicResult_t *found, int n)
{
    int64_t size = p->t == CUDA_BF16 ? 2 : 4;
    size_t bytes[] = {(size_t)((p->ta ? p->m : p->k) * p->lda * size),
                      (size_t)((p->tb ? p->k : p->n) * p->ldb * size),
                      (size_t)(p->n * p->ldc * size), CUDA_PRODUCT_ROOM};
    char *room[4] = {NULL, NULL, NULL, NULL};
    float best = -1;
    bool ok = true;

    for (int i = 0; i < 4; i++) {
        ok = ok && cudaMalloc((void **)&room[i], bytes[i] + 256) == cudaSuccess;
        if (ok)
            (void)!train_cuda_noise(s->stream[TRAIN_COMPUTE], p->t,
                                    (int64_t)bytes[i] / size, room[i]);
    }
    if (ok && (p->bias || p->sums)) /* any numbers: the shape's own time */
        set_bias(s, p, room[2]);
    for (int i = 0; i < n && ok; i++) {
        float ms = time_one(s, p, &found[i].algo, room);

        if (ms >= 0 && (best < 0 || ms < best)) {
            best = p->ms = ms;
            p->algo = found[i].algo;
        }
    }
    for (int i = 0; i < 4; i++)
        (void)!cudaFree(room[i]);
    if (!ok) { /* no room to try: the heuristic's first */
        (void)cudaGetLastError();
        p->algo = found[0].algo;
    }
    return !ok || best >= 0;
}

enum { WORDS = sizeof(cublasLtMatmulAlgo_t) / sizeof(uint64_t) };

static void name_of(const struct cuda_state *s, const struct cuda_product *p,
                    char *name, size_t room)
{
    snprintf(name, room,
             "product %s cublasLt %zu %lld,%lld,%lld %lld,%lld,%lld %d%d%d%d "
             "align %u",
             p->t == CUDA_BF16 ? "bf16"
             : s->tf32         ? "tf32"
                               : "fp32",
             s->lt->cublasLtGetVersion(), (long long)p->m, (long long)p->n,
             (long long)p->k, (long long)p->lda, (long long)p->ldb,
             (long long)p->ldc, p->ta, p->tb, p->bias, p->sums, p->alignment);
}

/* Milliseconds, then the algorithm as it lies in memory: the library says that
 * it may be kept for its own version. It is tried before it is believed. */
static bool recall(struct cuda_state *s, struct cuda_product *p,
                   const char *name)
{
    const char *text = train_known_find(s->known, name);
    cublasLtMatmulHeuristicResult_t found = {.state = CUBLAS_STATUS_SUCCESS};
    char *end = NULL;
    float ms = text ? strtof(text, &end) : 0;
    uint64_t word[WORDS];

    if (!end || !(ms > 0))
        return false;
    for (int i = 0; i < WORDS; i++) {
        const char *from = end;

        word[i] = strtoull(from, &end, 16);
        if (end == from)
            return false;
    }
    memcpy(&found.algo, word, sizeof word);
    if (*end || !fastest(s, p, &found, 1))
        return false;
    p->ms = ms;
    return true;
}

static void remember(const struct cuda_state *s, const struct cuda_product *p,
                     const char *name)
{
    uint64_t word[WORDS];
    char text[32 + 17 * WORDS];
    int n = snprintf(text, sizeof text, "%.6f", (double)p->ms);

    memcpy(word, &p->algo, sizeof word);
    for (int i = 0; i < WORDS; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, " %llx",
                      (unsigned long long)word[i]);
    if (p->ms > 0)
        train_known_add(s->known, name, text);
}

const struct cuda_product *train_cuda_product(struct cuda_state *s,
                                              const struct cuda_product *want)
{
    cublasLtMatmulHeuristicResult_t found[OFFERS];
    struct cuda_product *p = s->products;
    char name[256];
    int n;

    while (p && !equal(p, want))
        p = p->next;
    if (p)
        return p->none ? NULL : p;
    if (s->described.len == 0)
        s->st = train_cuda_lt(s, &s->err);
    p = s->st == PDL_OK ? PDL_NEW(s->arena, struct cuda_product, 1) : NULL;
    if (!p)
        return NULL;
    *p = *want;
    p->next = s->products;
    s->products = p;
    if (s->described.len > 0) /* its heuristic asks the GPU */
        return p;
    name_of(s, p, name, sizeof name);
    p->none = !describe(s, p);
    if (p->none || recall(s, p, name))
        return p->none ? NULL : p;
    n = offers(s, p, found);
    p->none = n == 0 || !fastest(s, p, found, n);
    if (p->none)
        return NULL;
    remember(s, p, name);
    return p;
}

/* ---- linear ----------------------------------------------------------- */

static char *shifted(const struct cuda_kernel *k, void *p, int i)
{
    return (char *)p + k->u.linear.offset[i] * (k->t == CUDA_BF16 ? 2 : 4);
}

cudaError_t train_cuda_multiply(const struct cuda_state *s,
                                const struct cuda_product *p, const void *a,
                                const void *b, const void *more, void *c,
                                void *scratch)
{
    const void *ab[] = {a, b};

    return train_cuda_said(CUDA_SAID_BLAS,
                           (int)run(s, p, &p->algo, ab, more, c, scratch));
}

static cudaError_t forward(const struct cuda_kernel *k, void *const *in,
                           void *const *out, void *scratch,
                           const struct train_moment *when)
{
    const struct cuda_product *p = k->u.linear.product;
    cudaStream_t st = train_cuda_stream(k);
    cudaError_t e;

    (void)when;
    if (k->call.part == 1)
        return train_cuda_bias(st, k->t, k->t, k->u.linear.m, k->u.linear.n, 0,
                               in[0], in[1], out[0]);
    if (p->bias)
        set_bias(k->s, p, in[2]);
    e = train_cuda_multiply(k->s, p, in[1], shifted(k, in[0], 1), NULL, out[0],
                            scratch);
    if (e == cudaSuccess && k->op.nw > 1 && !p->bias)
        e = train_cuda_bias(st, k->t, k->t, k->u.linear.m, k->u.linear.n, 0,
                            out[0], in[2], out[0]);
    return e;
}

cudaError_t train_cuda_linear_data(const struct cuda_kernel *k, void *const *in,
                                   const void *more, void *dx, void *scratch)
{
    return train_cuda_multiply(k->s, k->u.linear.product, shifted(k, in[1], 0),
                               shifted(k, in[0], 1), more, dx, scratch);
}

static cudaError_t data(const struct cuda_kernel *k, void *const *in,
                        void *const *out, void *scratch,
                        const struct train_moment *when)
{
    (void)when;
    return train_cuda_linear_data(k, in, NULL, out[0], scratch);
}

static cudaError_t weights(const struct cuda_kernel *k, void *const *in,
                           void *const *out, void *scratch,
                           const struct train_moment *when)
{
    const struct cuda_product *p = k->u.linear.product;
    cudaError_t e;

    (void)when;
    if (p->sums)
        set_bias(k->s, p, out[1]);
    e = train_cuda_multiply(k->s, p, shifted(k, in[0], 0), shifted(k, in[1], 1),
                            NULL, out[0], scratch);
    if (e == cudaSuccess && k->call.nout > 1 && !p->sums)
        e = train_cuda_column_sums(train_cuda_stream(k), k->t, k->u.linear.m,
                                   k->u.linear.n, in[1], k->t, out[1], scratch);
    return e;
}

/* Columns of an operand: the last dimension. */
static int64_t width_of(const struct train_array *a)
{
    return train_cuda_extent(a, a->box.ndims - 1);
}

static int64_t first_of(const struct train_array *a)
{
    return a->box.lo[a->box.ndims - 1];
}

static struct cuda_product shape_of(struct cuda_kernel *k)
{
    const struct train_call *c = &k->call;
    const struct train_array *w =
        c->pass == PDL_BACKWARD_WEIGHTS ? &c->out[0] : &c->in[1];
    const struct train_array *y = c->pass == PDL_FORWARD         ? &c->out[0]
                                  : c->pass == PDL_BACKWARD_DATA ? &c->in[0]
                                                                 : &c->in[1];
    const struct train_array *x =
        c->pass == PDL_BACKWARD_DATA ? &c->out[0] : &c->in[0];
    int64_t rows = train_array_elements(y) / width_of(y);
    int64_t f = train_cuda_extent(w, 0), in = train_cuda_extent(w, 1);

    k->u.linear.m = rows;
    k->u.linear.n = width_of(y);
    if (c->pass == PDL_FORWARD) {
        k->u.linear.offset[1] = w->box.lo[1] - first_of(x);
        return (struct cuda_product){.m = f,
                                     .n = rows,
                                     .k = in,
                                     .lda = in,
                                     .ldb = width_of(x),
                                     .ldc = width_of(y),
                                     .ta = true,
                                     .bias = k->op.nw > 1};
    }
    if (c->pass == PDL_BACKWARD_DATA) {
        k->u.linear.offset[0] = first_of(x) - w->box.lo[1];
        k->u.linear.offset[1] = w->box.lo[0] - first_of(y);
        return (struct cuda_product){.m = width_of(x),
                                     .n = rows,
                                     .k = f,
                                     .lda = in,
                                     .ldb = width_of(y),
                                     .ldc = width_of(x)};
    }
    k->u.linear.offset[0] = w->box.lo[1] - first_of(x);
    k->u.linear.offset[1] = w->box.lo[0] - first_of(y);
    return (struct cuda_product){.m = in,
                                 .n = f,
                                 .k = rows,
                                 .lda = width_of(x),
                                 .ldb = width_of(y),
                                 .ldc = in,
                                 .tb = true};
}

/* Rows of arrays must be rows in memory, and what is cut must fit. */
static bool fits(const struct cuda_kernel *k, const struct cuda_product *p)
{
    const struct train_call *c = &k->call;

    for (int i = 0; i < c->nin + c->nout; i++) {
        const struct train_array *a =
            i < c->nin ? &c->in[i] : &c->out[i - c->nin];

        if (a->channels_last && a->box.ndims > 2)
            return false;
    }
    if (c->pass == PDL_FORWARD &&
        (p->m != k->u.linear.n || c->in[1].box.lo[0] != first_of(&c->out[0])))
        return false;
    return k->u.linear.offset[0] >= 0 && k->u.linear.offset[1] >= 0 &&
           train_cuda_typed(k);
}

/* Sums over rows with the product, where that is faster than after it: they
 * take about so long. */
static void try_sums(struct cuda_kernel *k, const struct cuda_product *plain)
{
    const double bytes_per_ms = 2.5e9, least_ms = 4e-3;
    double bytes = (double)train_array_bytes(&k->call.in[1]);
    struct cuda_product p = *plain;
    const struct cuda_product *with;

    if (k->call.pass != PDL_BACKWARD_WEIGHTS || k->call.nout < 2 ||
        train_cuda_extent(&k->call.out[1], 0) != p.n)
        return;
    p.sums = true;
    with = train_cuda_product(k->s, &p);
    if (with && with->ms > 0 &&
        (double)with->ms <
            (double)k->u.linear.product->ms + least_ms + bytes / bytes_per_ms)
        k->u.linear.product = with;
}

bool train_cuda_make_linear(struct cuda_kernel *k)
{
    static cuda_go_fn *const passes[] = {[PDL_FORWARD] = forward,
                                         [PDL_BACKWARD_DATA] = data,
                                         [PDL_BACKWARD_WEIGHTS] = weights};
    uint32_t element = k->t == CUDA_BF16 ? 2 : 4;
    struct cuda_product p;

    k->go = passes[k->call.pass];
    if (k->call.part == 1) {
        const struct train_array *y = &k->call.out[0];

        k->u.linear.n = width_of(y);
        k->u.linear.m = train_array_elements(y) / width_of(y);
        return train_cuda_typed(k) && width_of(&k->call.in[1]) == width_of(y) &&
               first_of(&k->call.in[1]) == first_of(y) &&
               !(y->channels_last && y->box.ndims > 2);
    }
    p = shape_of(k);
    p.t = k->t;
    p.alignment = 64;
    if (!fits(k, &p))
        return false;
    for (int i = 0; i < 2; i++)
        while (k->u.linear.offset[i] * element % p.alignment)
            p.alignment /= 2;
    k->u.linear.product = train_cuda_product(k->s, &p);
    if (!k->u.linear.product && p.bias) { /* without its epilogue */
        p.bias = false;
        k->u.linear.product = train_cuda_product(k->s, &p);
    }
    if (k->u.linear.product)
        try_sums(k, &p);
    k->base.scratch_bytes = CUDA_PRODUCT_ROOM;
    k->base.implementation = "cublasLt";
    return k->u.linear.product != NULL;
}
