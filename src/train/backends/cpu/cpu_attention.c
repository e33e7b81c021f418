/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention by blocks of queries: scores of a block against the keys it may
 * see, softmax, product with the values. Backward computes the scores again
 * and takes the softmax from the logarithm of its sum, which forward leaves in
 * aux [N,heads,T] (FlashAttention: Dao et al., NeurIPS 2022; here blocks serve
 * to skip what causality forbids, and to keep scores in cache). */
#include "train/backends/cpu/cpu_attention.h"
#include "train/backends/cpu/simd.h"

#include <math.h>
#include <string.h>

static int64_t extent(const struct train_array *a, int d)
{
    int64_t n = a->box.hi[d] - a->box.lo[d];

    return n > 0 ? n : 0;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* One head of one sample. */
struct head {
    const float *q, *k, *v, *y, *dy;
    float *out, *dq, *dk, *dv, *lse;
    int64_t number;
    const float *shift; /* of the scores, by distance; NULL: none */
    float *dshift;
};

struct attention_block train_attention_block(const struct attention_kernel *k,
                                             int64_t a)
{
    struct attention_block x = {a, least(a + ATTENTION_BLOCK, k->t1), k->s1,
                                k->s0};

    for (int64_t t = x.a; t < x.b; t++) {
        x.lo = least(x.lo, k->sight[t - k->t0].first);
        x.hi = most(x.hi, k->sight[t - k->t0].end);
    }
    x.hi = most(x.hi, x.lo);
    return x;
}

void train_attention_visible(const struct attention_kernel *k,
                             const struct attention_block *x, int64_t t,
                             int64_t *first, int64_t *end)
{
    *first = k->sight[t - k->t0].first - x->lo;
    *end = k->sight[t - k->t0].end - x->lo;
}

/* Place of key s and query t in a vector by distance. */
static int64_t distance(const struct attention_kernel *k, int64_t s, int64_t t)
{
    return s - t - train_attention_nearest(k);
}

static enum pdl_status scores(const struct attention_kernel *k,
                              const struct head *h,
                              const struct attention_block *x, float *s,
                              struct pdl_err *err)
{
    struct cpu_gemm g = {false, true,   false,  x->b - x->a,   x->hi - x->lo,
                         k->d,  k->ldq, k->ldk, x->hi - x->lo, k->scale};
    enum pdl_status st =
        train_dnnl_gemm(&g, h->q + (x->a - k->t0) * k->ldq,
                        h->k + (x->lo - k->s0) * k->ldk, s, err);

    for (int64_t t = x->a; t < x->b && h->shift && st == PDL_OK; t++) {
        float *row = s + (t - x->a) * g.n;

        train_simd_add(row, h->shift + distance(k, x->lo, t), row, g.n);
    }
    for (int64_t t = x->a; t < x->b && k->key_at && st == PDL_OK; t++)
        train_attention_distance(k, h->number, t, x->lo, s + (t - x->a) * g.n,
                                 g.n);
    return st;
}

/* ---- forward ---------------------------------------------------------- */

static enum pdl_status forward_block(const struct attention_kernel *k,
                                     const struct head *h,
                                     struct attention_block x, float *s,
                                     struct pdl_err *err)
{
    int64_t n = x.hi - x.lo;
    struct cpu_gemm g = {false, false, false,  x.b - x.a, k->dv,
                         n,     n,     k->ldv, k->ldy,    1};
    enum pdl_status st = scores(k, h, &x, s, err);

    for (int64_t t = x.a; t < x.b && st == PDL_OK; t++) {
        float *row = s + (t - x.a) * n, lse = -INFINITY;
        int64_t first, end;

        train_attention_visible(k, &x, t, &first, &end);
        train_simd_fill(row, 0, first);
        train_simd_fill(row + end, 0, n - end);
        if (end > first)
            lse = train_simd_softmax(row + first, end - first);
        if (h->lse)
            h->lse[t - k->t0] = lse;
    }
    if (st == PDL_OK)
        st = train_dnnl_gemm(&g, s, h->v + (x.lo - k->s0) * k->ldv,
                             h->out + (x.a - k->t0) * k->ldy, err);
    return st;
}

/* ---- backward --------------------------------------------------------- */

/* p from scores and lse; ds from p and dp, in dp's place. */
static void softmax_rows(const struct attention_kernel *k, const struct head *h,
                         const struct attention_block *x, float *p, float *dp)
{
    int64_t n = x->hi - x->lo;

    for (int64_t t = x->a; t < x->b; t++) {
        float *row = p + (t - x->a) * n, *drow = dp + (t - x->a) * n;
        int64_t o = (t - k->t0) * k->ldy, first, end;
        float d = h->y ? train_simd_dot(h->dy + o, h->y + o, k->dv) : 0;

        train_attention_visible(k, x, t, &first, &end);
        train_simd_fill(row, 0, first);
        train_simd_fill(row + end, 0, n - end);
        if (h->lse)
            train_simd_exp_minus(row + first, h->lse[t - k->t0], end - first);
        else if (end > first)
            train_simd_softmax(row + first, end - first);
        if (!h->y) /* the same sum, of all keys instead of all features */
            d = train_simd_dot(row, drow, n);
        train_simd_softmax_back(row, drow, d, h->dshift ? 1 : k->scale, n);
        if (h->dshift) {
            float *to = h->dshift + distance(k, x->lo, t);

            train_simd_add(to, drow, to, n);
        }
    }
}

static enum pdl_status backward_block(const struct attention_kernel *k,
                                      const struct head *h,
                                      struct attention_block x, float *p,
                                      float *dp, struct pdl_err *err)
{
    int64_t n = x.hi - x.lo, m = x.b - x.a;
    const float *q = h->q + (x.a - k->t0) * k->ldq;
    const float *dy = h->dy + (x.a - k->t0) * k->ldy;
    int64_t ko = (x.lo - k->s0) * k->ldk, vo = (x.lo - k->s0) * k->ldv;
    struct cpu_gemm gp = {false, true,   false,  m, n,
                          k->dv, k->ldy, k->ldv, n, 1};
    struct cpu_gemm gv = {true, false, true, n, k->dv, m, n, k->ldy, k->ldv, 1};
    struct cpu_gemm gk = {true, false, true, n, k->d, m, n, k->ldq, k->ldk, 1};
    struct cpu_gemm gq = {false, false, false,  m,      k->d,
                          n,     n,     k->ldk, k->ldq, 1};
    enum pdl_status st = scores(k, h, &x, p, err);

    if (st == PDL_OK)
        st = train_dnnl_gemm(&gp, dy, h->v + vo, dp, err);
    if (st != PDL_OK)
        return st;
    softmax_rows(k, h, &x, p, dp);
    if (h->dv)
        st = train_dnnl_gemm(&gv, p, dy, h->dv + vo, err);
    if (h->dk && st == PDL_OK)
        st = train_dnnl_gemm(&gk, dp, q, h->dk + ko, err);
    if (h->dq && st == PDL_OK)
        st = train_dnnl_gemm(&gq, dp, h->k + ko, h->dq + (x.a - k->t0) * k->ldq,
                             err);
    return st;
}

/* ---- heads ------------------------------------------------------------ */

static float *at(void *base, int64_t n, int64_t rows, int64_t ld, int64_t col)
{
    return base ? (float *)base + n * rows * ld + col : NULL;
}

static struct head head_of(const struct attention_kernel *k, int64_t n,
                           int64_t head, void *const *in, void *const *out)
{
    int64_t kv = head / (k->heads / k->kv), t = k->t1 - k->t0,
            s = k->s1 - k->s0;
    int64_t q = head * k->d - k->q0, kk = kv * k->d - k->k0,
            v = kv * k->dv - k->v0, y = head * k->dv - k->y0;
    const struct train_call *c = &k->call;
    bool forward = c->pass == PDL_FORWARD;
    bool data = c->pass == PDL_BACKWARD_DATA;
    void *lse = forward ? (k->op.aux_out >= 0 ? out[k->op.aux_out] : NULL)
                        : (k->op.aux >= 0 ? in[k->op.aux] : NULL);
    void *d[3] = {NULL};
    int x = k->op.x;

    for (int i = 0; i < 3 && data; i++)
        d[i] = k->grad[i] < 0 ? NULL : out[k->grad[i]];
    return (struct head){
        .number = head,
        .q = at(in[x], n, t, k->ldq, q),
        .k = at(in[x + 1], n, s, k->ldk, kk),
        .v = at(in[x + 2], n, s, k->ldv, v),
        .y = data ? at(in[k->op.y], n, t, k->ldy, y) : NULL,
        .dy = forward ? NULL : at(in[k->op.dy], n, t, k->ldy, y),
        .out = forward ? at(out[0], n, t, k->ldy, y) : NULL,
        .dq = at(d[0], n, t, k->ldq, q),
        .dk = at(d[1], n, s, k->ldk, kk),
        .dv = at(d[2], n, s, k->ldv, v),
        .lse = at(lse, n, k->h1 - k->h0, t, (head - k->h0) * t),
    };
}

static enum pdl_status run_head(const struct attention_kernel *k,
                                const struct head *x, float *p,
                                struct pdl_err *err)
{
    float *dp = p + ATTENTION_BLOCK * (k->s1 - k->s0);
    enum pdl_status st = PDL_OK;

    for (int64_t a = k->t0; a < k->t1 && st == PDL_OK; a += ATTENTION_BLOCK) {
        struct attention_block b = train_attention_block(k, a);

        st = k->call.pass == PDL_FORWARD ? forward_block(k, x, b, p, err)
                                         : backward_block(k, x, b, p, dp, err);
    }
    return st;
}

static enum pdl_status run(const struct train_kernel *base, void *const *in,
                           void *const *out, void *scratch,
                           const struct train_moment *when, struct pdl_err *err)
{
    const struct attention_kernel *k = (const struct attention_kernel *)base;
    bool forward = k->call.pass == PDL_FORWARD;
    bool weights = k->call.pass == PDL_BACKWARD_WEIGHTS;
    int64_t far = train_attention_distances(k), heads = k->h1 - k->h0;
    float *p = scratch, *shift = p + (k->s1 - k->s0) * 2 * ATTENTION_BLOCK;
    float *dshift = shift + far;
    enum pdl_status st = PDL_OK;

    (void)when;
    for (int i = 0; i < k->call.nout && !forward; i++)
        if (train_array_bytes(&k->call.out[i]) > 0)
            memset(out[i], 0, (size_t)train_array_bytes(&k->call.out[i]));
    for (int64_t i = 0; i < k->n * heads && st == PDL_OK; i++) {
        /* by head where a head's shifts are to be made once */
        int64_t h = k->h0 + (k->rows > 0 ? i / k->n : i % heads);
        int64_t n = k->rows > 0 ? i % k->n : i / heads;
        struct head x = head_of(k, n, h, in, out);

        if (k->rows > 0 && n == 0)
            train_attention_shifts(k, h, in[k->op.w], shift);
        if (weights && n == 0)
            train_simd_fill(dshift, 0, far);
        x.shift = k->rows > 0 ? shift : NULL;
        x.dshift = weights ? dshift : NULL;
        st = run_head(k, &x, p, err);
        if (weights && n == k->n - 1)
            train_attention_unshift(k, h, dshift, out[0]);
    }
    return st;
}

/* ---- making ----------------------------------------------------------- */

static void sizes(struct attention_kernel *k)
{
    const struct train_call *c = &k->call;
    const struct pdl_attr *a = &c->node->attr;
    const struct train_array *q = &c->in[k->op.x], *kk = &c->in[k->op.x + 1],
                             *v = &c->in[k->op.x + 2];
    const struct train_array *y =
        c->pass == PDL_FORWARD ? &c->out[0] : &c->in[k->op.dy];

    k->heads = a->heads;
    k->kv = a->kv_heads ? a->kv_heads : a->heads;
    k->d = a->head_dim;
    k->dv = a->v_head_dim ? a->v_head_dim : a->head_dim;
    k->causal = a->causal;
    k->scale = a->scale > 0 ? (float)a->scale : 1 / sqrtf((float)k->d);
    if (c->node->nweights > 0) {
        const struct train_array *w = &c->in[k->op.w];

        k->rows = extent(w, 0);
        k->columns = extent(w, 1);
        k->w0 = w->box.lo[1];
    }
    k->n = extent(y, 0);
    k->t0 = y->box.lo[1];
    k->t1 = k->t0 + extent(y, 1);
    k->s0 = kk->box.lo[1];
    k->s1 = k->s0 + extent(kk, 1);
    k->h0 = y->box.lo[2] / k->dv;
    k->h1 = k->h0 + extent(y, 2) / k->dv;
    k->ldq = extent(q, 2);
    k->ldk = extent(kk, 2);
    k->ldv = extent(v, 2);
    k->ldy = extent(y, 2);
    k->q0 = q->box.lo[2];
    k->k0 = kk->box.lo[2];
    k->v0 = v->box.lo[2];
    k->y0 = y->box.lo[2];
}

static bool look(pdl_arena *a, struct attention_kernel *k)
{
    struct attention_sight *sight =
        PDL_NEW(a, struct attention_sight, k->t1 - k->t0 + 1);

    for (int64_t t = k->t0; sight && t < k->t1; t++)
        train_visible(&k->call, k->s0, k->s1, t, &sight[t - k->t0].first,
                      &sight[t - k->t0].end);
    k->sight = sight;
    return sight != NULL;
}

static bool place_keys(pdl_arena *a, struct attention_kernel *k)
{
    float *at;

    if (!(k->call.node->attr.alpha > 0))
        return true;
    at = PDL_NEW(a, float, k->s1 - k->s0 + 1);
    for (int64_t s = k->s0; at && s < k->s1; s++)
        at[s - k->s0] = (float)train_key_position(&k->call, s);
    k->key_at = at;
    return at != NULL;
}

/* Each head of the part has its query, key and value there. */
static bool has_all_heads(const struct attention_kernel *k)
{
    const struct train_call *c = &k->call;
    int64_t group = k->heads / k->kv;
    const struct pdl_box *q = &c->in[k->op.x].box,
                         *kk = &c->in[k->op.x + 1].box,
                         *v = &c->in[k->op.x + 2].box;
    int64_t first = k->h0 / group, end = (k->h1 + group - 1) / group;

    return k->y0 % k->dv == 0 && k->ldy % k->dv == 0 && k->h1 > k->h0 &&
           q->lo[2] <= k->h0 * k->d && q->hi[2] >= k->h1 * k->d &&
           kk->lo[2] <= first * k->d && kk->hi[2] >= end * k->d &&
           v->lo[2] <= first * k->dv && v->hi[2] >= end * k->dv &&
           q->lo[1] == k->t0 && q->hi[1] == k->t1 &&
           (k->rows == 0 || (k->w0 <= k->h0 && k->w0 + k->columns >= k->h1));
}

/* Everything but aux is bfloat16. */
static bool is_bf16(const struct train_call *c)
{
    struct train_operands o;

    train_operands(c, &o);
    for (int i = 0; i < c->nin; i++)
        if (c->in[i].layout || (i != o.aux && c->in[i].dtype != PDL_BF16))
            return false;
    for (int i = 0; i < c->nout; i++)
        if (c->out[i].layout || (i != o.aux_out && c->out[i].dtype != PDL_BF16))
            return false;
    return true;
}

static enum pdl_status make(struct cpu_state *s, const struct train_call *c,
                            struct train_kernel **out, struct pdl_err *err)
{
    struct train_call kept;
    struct attention_kernel *k;

    if ((!train_cpu_plain(c) && !is_bf16(c)) || c->node->nin != 3 ||
        (is_bf16(c) && c->node->nweights > 0) || pdl_box_empty(&c->in[0].box))
        return PDL_OK;
    k = train_cpu_kernel(s, c, sizeof *k, &kept);
    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    k->call = kept;
    train_operands(c, &k->op);
    sizes(k);
    if (!has_all_heads(k))
        return PDL_OK;
    if (!look(s->arena, k) || !place_keys(s->arena, k))
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (int i = 0; i < 3; i++)
        k->grad[i] =
            c->pass == PDL_BACKWARD_DATA ? train_gradient_of(c, i) : -1;
    if (is_bf16(c))
        return train_attention_bf16(s, k, out, err);
    k->base.scratch_bytes =
        ((k->s1 - k->s0) * ATTENTION_BLOCK * 2 +
         (k->rows > 0 ? 2 * train_attention_distances(k) : 0)) *
        (int64_t)sizeof(float);
    k->base.implementation = "own+sgemm";
    k->base.run = run;
    *out = &k->base;
    return PDL_OK;
}

/* log-sum-exp of each query: [N, heads, T]. */
bool train_cpu_attention_aux(const struct train_call *c, struct train_array *a)
{
    const struct pdl_attr *t = &c->node->attr;
    int64_t dv = t->v_head_dim ? t->v_head_dim : t->head_dim;

    if (pdl_op_id(c->node->op) != PDL_ID_ATTENTION ||
        (c->out[0].dtype != PDL_F32 && c->out[0].dtype != PDL_BF16) ||
        c->node->nin != 3)
        return false;
    *a = (struct train_array){.dtype = PDL_F32, .box = {.ndims = 3}};
    a->box.hi[0] = extent(&c->out[0], 0);
    a->box.hi[1] = extent(&c->out[0], 2) / dv;
    a->box.hi[2] = extent(&c->out[0], 1);
    return true;
}

/* ---- rotary positions ------------------------------------------------- */

struct rope_kernel {
    struct train_kernel base;
    struct train_call call;
    int64_t width, d; /* of a head, of its last features that turn */
    float *cos, *sin; /* [T, d/2] */
};

static enum pdl_status run_rope(const struct train_kernel *base,
                                void *const *in, void *const *out,
                                void *scratch, const struct train_moment *when,
                                struct pdl_err *err)
{
    const struct rope_kernel *k = (const struct rope_kernel *)base;
    const struct train_array *x = &k->call.in[0];
    int64_t t = extent(x, 1), width = extent(x, 2), half = k->d / 2;
    int64_t fixed = k->width - k->d;
    float sense = k->call.pass == PDL_FORWARD ? 1 : -1;

    (void)scratch;
    (void)when;
    (void)err;
    for (int64_t row = 0; row < extent(x, 0) * t; row++) {
        const float *c = k->cos + row % t * half, *s = k->sin + row % t * half;

        for (int64_t h = 0; h < width; h += k->width) {
            const float *a = (const float *)in[0] + row * width + h;
            float *y = (float *)out[0] + row * width + h;

            if (fixed > 0)
                memmove(y, a, (size_t)fixed * sizeof *y);
            a += fixed;
            y += fixed;

            for (int64_t e = 0; e < half; e++) {
                float u = a[e], v = a[e + half], w = sense * s[e];

                y[e] = u * c[e] - v * w;
                y[e + half] = v * c[e] + u * w;
            }
        }
    }
    return PDL_OK;
}

static enum pdl_status make_rope(struct cpu_state *s,
                                 const struct train_call *c,
                                 struct train_kernel **out, struct pdl_err *err)
{
    const struct train_array *x = &c->in[0];
    int64_t width, d = train_rotated(c, &width), t = extent(x, 1);
    struct train_call kept;
    struct rope_kernel *k;

    if (!train_cpu_plain(c) || d < 2 || d % 2 || d > width ||
        c->node->nin != 1 || x->box.lo[2] % width || x->box.hi[2] % width)
        return PDL_OK; /* the reference says what is wrong */
    k = train_cpu_kernel(s, c, sizeof *k, &kept);
    if (k) {
        k->cos = PDL_NEW(s->arena, float, t *d / 2 + 1);
        k->sin = PDL_NEW(s->arena, float, t *d / 2 + 1);
    }
    if (!k || !k->cos || !k->sin)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    k->call = kept;
    k->width = width;
    k->d = d;
    for (int64_t i = 0; i < t; i++)
        for (int64_t e = 0; e < d / 2; e++) {
            double w = (double)train_position(c, x->box.lo[1] + i) *
                       train_rope_step(&c->node->attr, e, d);

            k->cos[i * (d / 2) + e] = (float)cos(w);
            k->sin[i * (d / 2) + e] = (float)sin(w);
        }
    k->base.implementation = "own";
    k->base.run = run_rope;
    *out = &k->base;
    return PDL_OK;
}

static const struct cpu_op rows[] = {
    {"attention", make},
    {"rope", make_rope},
};

const struct cpu_ops train_cpu_attention = {rows, sizeof rows / sizeof rows[0]};
