/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention in bfloat16 by cuDNN: a graph of products, softmax and mask that
 * its engines run as one kernel (flash attention; Dao et al., 2022). As many
 * heads of keys as of queries, all positions, no window: what it does not take
 * attention.cu does. Forward leaves the logarithm of the sums as that one
 * does. */
#include "train/backends/cuda/cuda_graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef cudnnBackendDescriptor_t desc;

enum { Q = 1, K, V, Y, SUMS, DY, DQ, DK, DV, SCALE, NEVER, ONE, DELTA, ACC };

struct cuda_sdpa {
    struct cuda_sdpa *next;
    struct cuda_attention a;
    bool back;
    desc plan;
    int64_t workspace;
};

/* Shapes as cuDNN has them: [n, heads, t, d]. */
struct shapes {
    int64_t row[4], row_at[4]; /* of q, v, y.. in memory [n, t, heads, d] */
    int64_t turned[4], turned_at[4]; /* the same with t and d exchanged */
    int64_t score[4], score_at[4], score_turned_at[4];
    int64_t stat[4], stat_at[4];
    int64_t plain_at[4]; /* [n, heads, t, d] */
};

static struct shapes shapes_of(const struct cuda_attention *a)
{
    int64_t n = a->n, h = a->heads, t = a->t, d = a->d, w = h * d;

    return (struct shapes){.row = {n, h, t, d},
                           .row_at = {t * w, d, w, 1},
                           .turned = {n, h, d, t},
                           .turned_at = {t * w, d, 1, w},
                           .score = {n, h, t, t},
                           .score_at = {h * t * t, t * t, t, 1},
                           .score_turned_at = {h * t * t, t * t, 1, t},
                           .stat = {n, h, t, 1},
                           .stat_at = {h * t, t, 1, 1},
                           .plain_at = {h * t * d, t * d, d, 1}};
}

/* ---- tensors ---------------------------------------------------------- */

struct builder {
    struct cuda_maker m;
    struct shapes s;
    desc ops[32];
    int nops;
    int64_t next; /* of inner tensors */
};

static desc tensor(struct builder *b, int64_t id, cudnnDataType_t type,
                   const int64_t *dim, const int64_t *at, bool inner)
{
    desc x = train_cuda_create(&b->m, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    int64_t align = 16;

    train_cuda_set(&b->m, x, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1,
                   &id);
    train_cuda_set(&b->m, x, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE,
                   1, &type);
    train_cuda_set(&b->m, x, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4,
                   dim);
    train_cuda_set(&b->m, x, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4,
                   at);
    train_cuda_set(&b->m, x, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64,
                   1, &align);
    if (inner)
        train_cuda_set(&b->m, x, CUDNN_ATTR_TENSOR_IS_VIRTUAL,
                       CUDNN_TYPE_BOOLEAN, 1, &inner);
    return x;
}

static desc outer(struct builder *b, int64_t id, cudnnDataType_t type,
                  const int64_t *dim, const int64_t *at)
{
    desc x = tensor(b, id, type, dim, at, false);

    train_cuda_done(&b->m, x);
    return x;
}

static desc inner(struct builder *b, cudnnDataType_t type, const int64_t *dim,
                  const int64_t *at)
{
    desc x = tensor(b, 100 + b->next++, type, dim, at, true);

    train_cuda_done(&b->m, x);
    return x;
}

static desc score(struct builder *b)
{
    return inner(b, CUDNN_DATA_FLOAT, b->s.score, b->s.score_at);
}

static desc stat(struct builder *b)
{
    return inner(b, CUDNN_DATA_FLOAT, b->s.stat, b->s.stat_at);
}

static desc number(struct builder *b, int64_t id)
{
    static const int64_t one[4] = {1, 1, 1, 1};
    desc x = train_cuda_create(&b->m, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    int64_t align = 4;
    bool yes = true;

    train_cuda_set(&b->m, x, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1,
                   &id);
    train_cuda_set(&b->m, x, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE,
                   1, &type);
    train_cuda_set(&b->m, x, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4,
                   one);
    train_cuda_set(&b->m, x, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4,
                   one);
    train_cuda_set(&b->m, x, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64,
                   1, &align);
    train_cuda_set(&b->m, x, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN,
                   1, &yes);
    train_cuda_done(&b->m, x);
    return x;
}

/* ---- operations ------------------------------------------------------- */

static void link_to(struct builder *b, desc op,
                    cudnnBackendAttributeName_t name, desc x)
{
    if (x)
        train_cuda_set(&b->m, op, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &x);
}

static void add(struct builder *b, desc op)
{
    train_cuda_done(&b->m, op);
    if (b->nops < 32)
        b->ops[b->nops++] = op;
}

/* y = f(x, with [, where]); axis >= 0: y is the index. */
static desc point(struct builder *b, cudnnPointwiseMode_t f, int64_t axis,
                  const desc *in, desc y)
{
    desc how = train_cuda_create(&b->m, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    desc op;
    bool compares = f == CUDNN_POINTWISE_CMP_GE;
    cudnnDataType_t type = compares ? CUDNN_DATA_BOOLEAN : CUDNN_DATA_FLOAT;

    train_cuda_set(&b->m, how, CUDNN_ATTR_POINTWISE_MODE,
                   CUDNN_TYPE_POINTWISE_MODE, 1, &f);
    train_cuda_set(&b->m, how, CUDNN_ATTR_POINTWISE_MATH_PREC,
                   CUDNN_TYPE_DATA_TYPE, 1, &type);
    if (axis >= 0)
        train_cuda_set(&b->m, how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64,
                       1, &axis);
    train_cuda_done(&b->m, how);
    op = train_cuda_create(&b->m, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    link_to(b, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    link_to(b, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, in[0]);
    link_to(b, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, in[1]);
    link_to(b, op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, in[2]);
    link_to(b, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    add(b, op);
    return y;
}

static desc two(struct builder *b, cudnnPointwiseMode_t f, desc x, desc with,
                desc y)
{
    return point(b, f, -1, (desc[]){x, with, NULL}, y);
}

static desc one(struct builder *b, cudnnPointwiseMode_t f, desc x, desc y)
{
    return point(b, f, -1, (desc[]){x, NULL, NULL}, y);
}

static desc product(struct builder *b, desc x, desc w, desc y)
{
    desc how = train_cuda_create(&b->m, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    desc op;

    train_cuda_set(&b->m, how, CUDNN_ATTR_MATMUL_COMP_TYPE,
                   CUDNN_TYPE_DATA_TYPE, 1, &type);
    train_cuda_done(&b->m, how);
    op = train_cuda_create(&b->m, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    link_to(b, op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, x);
    link_to(b, op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, w);
    link_to(b, op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, y);
    link_to(b, op, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    add(b, op);
    return y;
}

static desc reduce(struct builder *b, cudnnReduceTensorOp_t f, desc x, desc y)
{
    desc how = train_cuda_create(&b->m, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    desc op;

    train_cuda_set(&b->m, how, CUDNN_ATTR_REDUCTION_OPERATOR,
                   CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &f);
    train_cuda_set(&b->m, how, CUDNN_ATTR_REDUCTION_COMP_TYPE,
                   CUDNN_TYPE_DATA_TYPE, 1, &type);
    train_cuda_done(&b->m, how);
    op = train_cuda_create(&b->m, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    link_to(b, op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    link_to(b, op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    link_to(b, op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
    add(b, op);
    return y;
}

static desc reshape(struct builder *b, desc x, desc y)
{
    desc op =
        train_cuda_create(&b->m, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);

    link_to(b, op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    link_to(b, op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    add(b, op);
    return y;
}

/* What is ahead of the query weighs nothing. */
static desc masked(struct builder *b, desc x)
{
    desc row = point(b, CUDNN_POINTWISE_GEN_INDEX, 2, (desc[]){x, NULL, NULL},
                     score(b));
    desc col = point(b, CUDNN_POINTWISE_GEN_INDEX, 3, (desc[]){x, NULL, NULL},
                     score(b));
    desc seen = two(b, CUDNN_POINTWISE_CMP_GE, row, col,
                    inner(b, CUDNN_DATA_BOOLEAN, b->s.score, b->s.score_at));

    return point(b, CUDNN_POINTWISE_BINARY_SELECT, -1,
                 (desc[]){x, number(b, NEVER), seen}, score(b));
}

static desc scores(struct builder *b, desc q, desc k)
{
    return two(b, CUDNN_POINTWISE_MUL, product(b, q, k, score(b)),
               number(b, SCALE), score(b));
}

/* ---- the two graphs --------------------------------------------------- */

static void forward(struct builder *b, bool causal)
{
    const struct shapes *s = &b->s;
    cudnnDataType_t half = CUDNN_DATA_BFLOAT16;
    cudnnBackendTensorReordering_t order = CUDNN_TENSOR_REORDERING_F16x16;
    desc q = outer(b, Q, half, s->row, s->row_at);
    desc k = outer(b, K, half, s->turned, s->turned_at);
    desc v = outer(b, V, half, s->row, s->row_at);
    desc y = outer(b, Y, half, s->row, s->row_at);
    desc sums = outer(b, SUMS, CUDNN_DATA_FLOAT, s->stat, s->stat_at);
    desc x = scores(b, q, k), top, e, sum, p;

    if (causal)
        x = masked(b, x);
    top = reduce(b, CUDNN_REDUCE_TENSOR_MAX, x, stat(b));
    e = one(b, CUDNN_POINTWISE_EXP,
            two(b, CUDNN_POINTWISE_SUB, x, top, score(b)), score(b));
    sum = reduce(b, CUDNN_REDUCE_TENSOR_ADD, e, stat(b));
    two(b, CUDNN_POINTWISE_ADD, top, one(b, CUDNN_POINTWISE_LOG, sum, stat(b)),
        sums);
    p = tensor(b, 100 + b->next++, half, s->score, s->score_at, true);
    train_cuda_set(&b->m, p, CUDNN_ATTR_TENSOR_REORDERING_MODE,
                   CUDNN_TYPE_TENSOR_REORDERING_MODE, 1, &order);
    train_cuda_done(&b->m, p);
    product(b, two(b, CUDNN_POINTWISE_DIV, e, sum, p), v, y);
}

static void backward(struct builder *b, bool causal)
{
    const struct shapes *s = &b->s;
    cudnnDataType_t half = CUDNN_DATA_BFLOAT16, full = CUDNN_DATA_FLOAT;
    desc q = outer(b, Q, half, s->row, s->row_at);
    desc k = outer(b, K, half, s->turned, s->turned_at);
    desc v = outer(b, V, half, s->turned, s->turned_at);
    desc y = outer(b, Y, half, s->row, s->row_at);
    desc dy = outer(b, DY, half, s->row, s->row_at);
    desc sums = outer(b, SUMS, full, s->stat, s->stat_at);
    desc delta = outer(b, DELTA, full, s->stat, s->stat_at);
    desc acc = outer(b, ACC, full, s->row, s->plain_at);
    desc t =
        two(b, CUDNN_POINTWISE_MUL, dy, y, inner(b, full, s->row, s->plain_at));
    desc x, p, g;

    two(b, CUDNN_POINTWISE_MUL, reduce(b, CUDNN_REDUCE_TENSOR_ADD, t, stat(b)),
        number(b, ONE), delta);
    x = two(b, CUDNN_POINTWISE_SUB, scores(b, q, k), sums, score(b));
    if (causal)
        x = masked(b, x);
    p = one(b, CUDNN_POINTWISE_EXP, x, score(b));
    product(b, reshape(b, p, inner(b, half, s->score, s->score_turned_at)), dy,
            outer(b, DV, half, s->row, s->row_at));
    g = two(b, CUDNN_POINTWISE_SUB, product(b, dy, v, score(b)), delta,
            score(b));
    g = two(b, CUDNN_POINTWISE_MUL, g, p, score(b));
    g = two(b, CUDNN_POINTWISE_MUL, g, number(b, SCALE), score(b));
    product(b, reshape(b, g, inner(b, half, s->score, s->score_turned_at)), q,
            outer(b, DK, half, s->row, s->row_at));
    product(b, g, reshape(b, k, inner(b, half, s->row, s->row_at)), acc);
    one(b, CUDNN_POINTWISE_IDENTITY, acc,
        outer(b, DQ, half, s->row, s->row_at));
}

static void search(struct cuda_state *s, struct cuda_sdpa *x)
{
    struct builder *b = PDL_NEW(s->arena, struct builder, 1);
    desc config[CUDA_OFFERS], g;
    int n = 0;

    if (!b)
        return;
    *b = (struct builder){.m = {.d = s->dnn, .st = CUDNN_STATUS_SUCCESS},
                          .s = shapes_of(&x->a)};
    if (x->back)
        backward(b, x->a.causal);
    else
        forward(b, x->a.causal);
    g = train_cuda_graph(&b->m, b->ops, b->nops);
    memset(config, 0, sizeof config);
    if (b->m.st == CUDNN_STATUS_SUCCESS)
        n = train_cuda_offers(s->dnn, g, CUDNN_HEUR_MODE_A, config);
    for (int i = 0; i < n && !x->plan; i++)
        x->plan =
            train_cuda_plan(s->dnn, config[i], INT64_C(1) << 31, &x->workspace);
    for (int i = 0; i < CUDA_OFFERS; i++)
        if (config[i])
            (void)!s->dnn->cudnnBackendDestroyDescriptor(config[i]);
    train_cuda_destroy(&b->m);
}

/* Its engines are compiled when a plan is made: a plan that is known is not. */
static void find_plan(struct cuda_state *s, struct cuda_sdpa *x)
{
    const struct cuda_attention *a = &x->a;
    const char *known;
    char name[256], *text;

    snprintf(name, sizeof name,
             "attention %s cudnn %zu %lld,%lld,%lld,%lld causal %d",
             x->back ? "back" : "forward", s->dnn->cudnnGetVersion(),
             (long long)a->n, (long long)a->heads, (long long)a->t,
             (long long)a->d, a->causal);
    known = train_known_find(s->known, name);
    if (known)
        x->plan = train_cuda_plan_of(s->dnn, known, &x->workspace);
    if (x->plan)
        return;
    search(s, x);
    text = x->plan ? train_cuda_plan_text(s->dnn, x->plan) : NULL;
    if (text)
        train_known_add(s->known, name, text);
    free(text);
}

static bool same_attention(const struct cuda_attention *x,
                           const struct cuda_attention *y)
{
    return x->n == y->n && x->t == y->t && x->s == y->s &&
           x->heads == y->heads && x->kv == y->kv && x->d == y->d &&
           x->dv == y->dv && x->first_q == y->first_q &&
           x->first_k == y->first_k && x->window == y->window &&
           x->causal == y->causal && x->scale == y->scale;
}

static const struct cuda_sdpa *
sdpa_of(struct cuda_state *s, const struct cuda_attention *a, bool back)
{
    struct cuda_sdpa *x = s->sdpas;

    while (x && (!same_attention(&x->a, a) || x->back != back))
        x = x->next;
    if (x)
        return x->plan ? x : NULL;
    s->st = train_cuda_dnn(s, &s->err);
    x = s->st == PDL_OK ? PDL_NEW(s->arena, struct cuda_sdpa, 1) : NULL;
    if (!x)
        return NULL;
    *x = (struct cuda_sdpa){.next = s->sdpas, .back = back};
    memcpy(&x->a, a, sizeof *a);
    s->sdpas = x;
    find_plan(s, x);
    return x->plan ? x : NULL;
}

/* ---- calls ------------------------------------------------------------ */

static int64_t rounded(int64_t n)
{
    return (n + 255) / 256 * 256;
}

static int64_t stat_bytes(const struct cuda_attention *a)
{
    return rounded(4 * a->n * a->heads * a->t);
}

static int64_t sum_bytes(const struct cuda_attention *a)
{
    return rounded(4 * a->n * a->heads * a->t * a->d);
}

static cudaError_t run_forward(const struct cuda_kernel *k, void *const *in,
                               void *const *out, void *scratch,
                               const struct train_moment *when)
{
    const struct cuda_sdpa *x = k->u.sdpa.plan;
    static const int64_t ids[] = {Q, K, V, Y, SUMS, SCALE, NEVER};
    float scale = x->a.scale, never = -1e20f;
    void *at[] = {in[0],  in[1], in[2], out[0], out[k->op.aux_out],
                  &scale, &never};

    (void)when;
    return train_cuda_said(
        CUDA_SAID_DNN,
        (int)train_cuda_execute(k->s->dnn, x->plan, x->a.causal ? 7 : 6, ids,
                                at, scratch));
}

static cudaError_t run_backward(const struct cuda_kernel *k, void *const *in,
                                void *const *out, void *scratch,
                                const struct train_moment *when)
{
    const struct cuda_sdpa *x = k->u.sdpa.plan;
    const struct train_operands *o = &k->op;
    static const int64_t ids[] = {Q,  K,  V,   Y,     SUMS,  DY,  DQ,
                                  DK, DV, ONE, DELTA, SCALE, ACC, NEVER};
    float scale = x->a.scale, never = -1e20f, unit = 1;
    char *delta = scratch, *acc = delta + stat_bytes(&x->a);
    void *at[] = {in[o->x],  in[o->x + 1], in[o->x + 2], in[o->y], in[o->aux],
                  in[o->dy], out[0],       out[1],       out[2],   &unit,
                  delta,     &scale,       acc,          &never};
    cudaError_t e =
        cudaMemsetAsync(acc, 0, (size_t)sum_bytes(&x->a), train_cuda_stream(k));

    (void)when;
    if (e != cudaSuccess)
        return e;
    return train_cuda_said(
        CUDA_SAID_DNN,
        (int)train_cuda_execute(k->s->dnn, x->plan, x->a.causal ? 14 : 13, ids,
                                at, acc + sum_bytes(&x->a)));
}

bool train_cuda_make_sdpa(struct cuda_kernel *k)
{
    struct cuda_attention a = k->u.attention;
    bool back = k->call.pass != PDL_FORWARD;
    const struct cuda_sdpa *x;

    if (k->t != CUDA_BF16 || a.kv != a.heads || a.d != a.dv || a.d % 8 ||
        a.d > 128 || a.window || a.t != a.s || a.first_q != a.first_k ||
        a.t < 64 || (back && k->call.nout != 3))
        return false;
    x = sdpa_of(k->s, &a, back);
    if (!x)
        return false;
    k->u.sdpa.plan = x;
    k->base.scratch_bytes =
        x->workspace + (back ? stat_bytes(&a) + sum_bytes(&a) : 0);
    k->base.implementation = "cudnn";
    k->go = back ? run_backward : run_forward;
    return true;
}
