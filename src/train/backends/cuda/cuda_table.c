/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of embeddings, losses, rotary positions and attention. */
#include "train/backends/cuda/cuda.h"

#include <math.h>
#include <string.h>

/* ---- tables ----------------------------------------------------------- */

static bool by_token(const struct cuda_kernel *k)
{
    return pdl_op_id(k->call.node->op) == PDL_ID_EMBEDDING;
}

static cudaError_t table(const struct cuda_kernel *k, void *const *in,
                         void *const *out, void *scratch,
                         const struct train_moment *when)
{
    const int32_t *rows = by_token(k) ? in[0] : NULL;

    (void)when;
    if (k->call.pass == PDL_BACKWARD_DATA) /* nothing before it learns */
        return cudaMemsetAsync(out[0], 0,
                               (size_t)train_array_bytes(&k->call.out[0]),
                               train_cuda_stream(k));
    if (k->call.pass == PDL_FORWARD)
        return train_cuda_lookup(train_cuda_stream(k), k->t, &k->u.table, rows,
                                 in[k->op.w], out[0]);
    return train_cuda_lookup_back(train_cuda_stream(k), k->t, &k->u.table, rows,
                                  in[k->op.dy], out[0], scratch);
}

bool train_cuda_make_table(struct cuda_kernel *k)
{
    const struct train_call *c = &k->call;
    bool forward = c->pass == PDL_FORWARD;
    const struct train_array *y, *w;
    enum cuda_type t;
    int last;

    k->go = table;
    if (c->pass == PDL_BACKWARD_DATA)
        return true;
    y = forward ? &c->out[0] : &c->in[k->op.dy];
    w = forward ? &c->in[k->op.w] : &c->out[0];
    last = y->box.ndims - 1;
    if (c->deal || w->box.ndims != 2 || y->channels_last ||
        !train_cuda_type(y->dtype, &k->t) || !train_cuda_type(w->dtype, &t) ||
        t != k->t || (by_token(k) && c->in[0].dtype != PDL_I32) ||
        y->box.lo[last] != w->box.lo[1] || y->box.hi[last] != w->box.hi[1])
        return false;
    k->u.table = (struct cuda_table){
        .m = train_array_elements(y) / train_cuda_extent(y, last),
        .width = train_cuda_extent(w, 1),
        .lo = w->box.lo[0],
        .hi = w->box.hi[0],
        .period = train_cuda_extent(y, 1),
        .first = y->box.lo[1]};
    if (!forward && k->t != CUDA_F32)
        k->base.scratch_bytes = 4 * train_array_elements(w);
    return true;
}

/* ---- the loss --------------------------------------------------------- */

static cudaError_t loss(const struct cuda_kernel *k, void *const *in,
                        void *const *out, void *scratch,
                        const struct train_moment *when)
{
    const struct train_loss *how = k->call.loss;
    const struct train_array *y = &k->call.in[0];
    int d = y->box.ndims >= 4 ? 1 : y->box.ndims - 1;
    int64_t n = train_cuda_extent(y, d), items = train_array_elements(y) / n;
    int64_t of = k->call.population > 0 ? k->call.population : items;
    double scale = how && how->scale > 0 ? how->scale : 1;
    float *value = k->call.nout > 1 ? out[1] : NULL;
    float *right = k->call.nout > 2 ? out[2] : NULL;
    cudaError_t e;

    (void)scratch, (void)when;
    if (!how || how->kind == TRAIN_SOFTMAX)
        return train_cuda_cross_entropy(train_cuda_stream(k), k->t, items, n,
                                        how ? (float)how->smoothing : 0,
                                        (float)(scale / (double)of), in[0],
                                        in[1], out[0], value, right);
    e = train_cuda_squares_loss(train_cuda_stream(k), k->t, items, n,
                                (float)(scale / (double)of), in[0], in[1],
                                out[0], value);
    if (e == cudaSuccess && right)
        e = cudaMemsetAsync(right, 0, (size_t)items * sizeof *right,
                            train_cuda_stream(k));
    return e;
}

bool train_cuda_make_loss(struct cuda_kernel *k)
{
    const struct train_call *c = &k->call;
    bool squares = c->loss && c->loss->kind == TRAIN_MSE;

    k->go = loss;
    k->base.in_place = !squares;
    for (int i = 1; i < c->nout; i++)
        if (c->out[i].dtype != PDL_F32)
            return false;
    /* classes are innermost: of images channels come last */
    return c->nin == 2 && c->in[0].dtype == c->out[0].dtype &&
           (c->in[0].box.ndims < 3 || c->in[0].channels_last ||
            c->in[0].box.ndims == 3) &&
           c->in[1].dtype == (squares ? c->in[0].dtype : PDL_I32) &&
           (!squares || train_cuda_same_box(&c->in[0], &c->in[1]));
}

/* ---- rotary positions ------------------------------------------------- */

static cudaError_t rope(const struct cuda_kernel *k, void *const *in,
                        void *const *out, void *scratch,
                        const struct train_moment *when)
{
    (void)scratch, (void)when;
    return train_cuda_rope(train_cuda_stream(k), k->t, k->u.rope, in[0],
                           out[0]);
}

bool train_cuda_make_rope(struct cuda_kernel *k)
{
    const struct train_array *x = &k->call.in[0];
    const struct pdl_attr *attr = &k->call.node->attr;
    int64_t width = 0, d = train_rotated(&k->call, &width);
    struct cuda_rope *r;

    if (!train_cuda_typed(k) || k->call.deal || x->box.ndims != 3 || d < 2 ||
        d % 2 || d / 2 > CUDA_PAIRS || d > width || x->box.lo[2] % width ||
        x->box.hi[2] % width || train_cuda_extent(x, 1) > INT32_MAX)
        return false;
    k->u.rope = r = PDL_NEW(k->s->arena, struct cuda_rope, 1);
    if (!r)
        return false;
    *r = (struct cuda_rope){.samples = train_cuda_extent(x, 0),
                            .positions = train_cuda_extent(x, 1),
                            .first = x->box.lo[1],
                            .heads = train_cuda_extent(x, 2) / width,
                            .width = width,
                            .d = d,
                            .sense = k->call.pass == PDL_FORWARD ? 1 : -1};
    for (int64_t e = 0; e < d / 2; e++)
        r->step[e] = train_rope_step(attr, e, d);
    k->go = rope;
    return true;
}

/* ---- attention -------------------------------------------------------- */

static cudaError_t attention(const struct cuda_kernel *k, void *const *in,
                             void *const *out, void *scratch,
                             const struct train_moment *when)
{
    const struct train_operands *o = &k->op;
    const void *qkvy[4];
    void *grad[3];

    (void)when;
    if (k->call.pass == PDL_FORWARD)
        return train_cuda_attention(train_cuda_stream(k), k->t, &k->u.attention,
                                    in[0], in[1], in[2], out[0],
                                    out[o->aux_out]);
    for (int i = 0; i < 3; i++) {
        int g = train_gradient_of(&k->call, i);

        qkvy[i] = in[o->x + i];
        grad[i] = g < 0 ? NULL : out[g];
    }
    qkvy[3] = in[o->y];
    return train_cuda_attention_back(
        train_cuda_stream(k), k->t, &k->u.attention, qkvy, in[o->dy],
        in[o->aux], scratch, grad[0], grad[1], grad[2]);
}

static bool heads_of(const struct train_array *a, int64_t width, int64_t *first,
                     int64_t *n)
{
    *first = a->box.lo[2] / width;
    *n = train_cuda_extent(a, 2) / width;
    return a->box.ndims == 3 && a->box.lo[2] % width == 0 &&
           a->box.hi[2] % width == 0;
}

bool train_cuda_make_attention(struct cuda_kernel *k)
{
    const struct pdl_attr *a = &k->call.node->attr;
    const struct train_array *q = &k->call.in[k->op.x], *key = q + 1,
                             *v = q + 2;
    int64_t kv = a->kv_heads ? a->kv_heads : a->heads;
    int64_t dv = a->v_head_dim ? a->v_head_dim : a->head_dim;
    int64_t heads, groups, h0, g0, vn, v0;
    enum { WIDEST = 256 };

    if (k->call.node->nin != 3 || k->call.node->nweights > 0 || k->call.deal ||
        k->call.pass == PDL_BACKWARD_WEIGHTS || a->head_dim > WIDEST ||
        dv > WIDEST || a->alpha > 0 ||
        (k->call.pass == PDL_FORWARD ? k->op.aux_out < 0
                                     : k->op.aux < 0 || k->op.ny < 1))
        return false;
    if (!heads_of(q, a->head_dim, &h0, &heads) ||
        !heads_of(key, a->head_dim, &g0, &groups) ||
        !heads_of(v, dv, &v0, &vn) || vn != groups || v0 != g0 ||
        heads % groups || a->heads / kv != heads / groups ||
        h0 / (a->heads / kv) != g0)
        return false;
    memset(&k->u, 0, sizeof k->u);
    k->u.attention = (struct cuda_attention){
        .n = train_cuda_extent(q, 0),
        .t = train_cuda_extent(q, 1),
        .s = train_cuda_extent(key, 1),
        .heads = heads,
        .kv = groups,
        .d = a->head_dim,
        .dv = dv,
        .first_q = q->box.lo[1],
        .first_k = key->box.lo[1],
        .window = a->window,
        .causal = a->causal,
        .scale =
            (float)(a->scale > 0 ? a->scale : 1 / sqrt((double)a->head_dim))};
    if (k->call.pass != PDL_FORWARD)
        k->base.scratch_bytes = 4 * k->u.attention.n * heads * k->u.attention.t;
    k->go = attention;
    return train_cuda_make_sdpa(k) || k->s->st == PDL_OK;
}
