/* SPDX-License-Identifier: Apache-2.0
 *
 * Mixtures of experts (what they compute is said in ref_experts.c). The tokens
 * that visit an expert are gathered, a block of them at a time, multiplied as
 * matrices by oneDNN, and what comes out is added where they came from. Both
 * backward passes compute the inner values again. A token that visits none of
 * this rank's experts is not read: it may not be there. */
#include "train/backends/cpu/cpu.h"
#include "train/backends/cpu/simd.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 256 };

struct experts_kernel {
    struct train_kernel base;
    struct train_call call;
    struct train_operands op;
    int64_t rows, h, f;    /* tokens at hand, width, width inside */
    int64_t experts, topk; /* of the layer */
    int64_t first, here;   /* experts of this rank */
    int64_t block;         /* tokens multiplied at a time */
    int dx, dscores;       /* outputs of backward-data; -1: none */
};

/* Scratch memory: who visits whom, then matrices of a block. A visit is a token
 * and one of its topk choices: number token * topk + choice. */
struct visits {
    int32_t *which;      /* [visit] expert */
    float *gate, *dgate; /* [visit] */
    int32_t *order;      /* visits of this rank's experts, by expert */
    int64_t *begin;      /* [here + 1] where an expert's begin in it */
    float *x, *dy;       /* [block, h] */
    float *pre;          /* [block, 2f]: G x, U x; then their gradients */
    float *act, *dact;   /* [block, f] */
    const float *w0, *w1;
};

static int64_t extent(const struct train_array *a, int d)
{
    int64_t n = a->box.hi[d] - a->box.lo[d];

    return n > 0 ? n : 0;
}

/* ---- who visits whom -------------------------------------------------- */

/* The topk largest, of equal ones the first (as train_choose). */
static void choose(const struct experts_kernel *k, const float *score,
                   int32_t *which, float *gate)
{
    float sum = 0;

    for (int64_t c = 0; c < k->topk; c++) {
        int64_t best = -1;

        for (int64_t e = 0; e < k->experts; e++) {
            bool taken = false;

            if (best >= 0 && !(score[e] > score[best]))
                continue;
            for (int64_t j = 0; j < c; j++)
                taken = taken || which[j] == e;
            if (!taken)
                best = e;
        }
        which[c] = (int32_t)best;
        gate[c] = expf(score[best] - score[which[0]]);
        sum += gate[c];
    }
    for (int64_t c = 0; c < k->topk; c++)
        gate[c] /= sum;
}

static bool is_here(const struct experts_kernel *k, int32_t e)
{
    return e >= k->first && e < k->first + k->here;
}

/* Visits in the order of experts, of one expert in that of tokens. */
static void sort(const struct experts_kernel *k, const float *scores,
                 struct visits *v)
{
    int64_t n = k->rows * k->topk;

    memset(v->begin, 0, (size_t)(k->here + 1) * sizeof *v->begin);
    for (int64_t r = 0; r < k->rows; r++)
        choose(k, scores + r * k->experts, v->which + r * k->topk,
               v->gate + r * k->topk);
    for (int64_t i = 0; i < n; i++)
        if (is_here(k, v->which[i]))
            v->begin[v->which[i] - k->first + 1]++;
    for (int64_t e = 0; e < k->here; e++)
        v->begin[e + 1] += v->begin[e];
    for (int64_t i = 0; i < n; i++)
        if (is_here(k, v->which[i]))
            v->order[v->begin[v->which[i] - k->first]++] = (int32_t)i;
    for (int64_t e = k->here; e > 0; e--) /* each stands at its end now */
        v->begin[e] = v->begin[e - 1];
    v->begin[0] = 0;
}

static int64_t room(const struct experts_kernel *k)
{
    int64_t n = k->rows * k->topk;

    return 8 * (k->here + 1) + 16 * n + 4 * (k->block * (2 * k->h + 4 * k->f));
}

static struct visits visits_of(const struct experts_kernel *k, void *scratch)
{
    int64_t n = k->rows * k->topk;
    struct visits v = {.begin = scratch};

    v.gate = (float *)(void *)(v.begin + k->here + 1);
    v.dgate = v.gate + n;
    v.which = (int32_t *)(void *)(v.dgate + n);
    v.order = v.which + n;
    v.x = (float *)(void *)(v.order + n);
    v.dy = v.x + k->block * k->h;
    v.pre = v.dy + k->block * k->h;
    v.act = v.pre + k->block * 2 * k->f;
    v.dact = v.act + k->block * k->f;
    return v;
}

/* ---- a block of an expert's tokens ------------------------------------ */

struct block {
    const int32_t *visit;
    int64_t e, n; /* expert of this rank, visits */
};

static void gather(const struct experts_kernel *k, const struct block *b,
                   const float *from, float *to)
{
    for (int64_t i = 0; i < b->n; i++)
        memcpy(to + i * k->h, from + b->visit[i] / k->topk * k->h,
               (size_t)k->h * sizeof *to);
}

static void scatter(const struct experts_kernel *k, const struct block *b,
                    const float *from, const float *gate, float *to)
{
    for (int64_t i = 0; i < b->n; i++) {
        float *restrict y = to + b->visit[i] / k->topk * k->h;
        const float *restrict x = from + i * k->h;
        float g = gate ? gate[b->visit[i]] : 1;

        for (int64_t h = 0; h < k->h; h++)
            y[h] += g * x[h];
    }
}

/* pre = [G x, U x], act = silu(G x) * U x */
static enum pdl_status expand(const struct experts_kernel *k, struct visits *v,
                              const struct block *b, const float *x,
                              struct pdl_err *err)
{
    struct cpu_gemm g = {false, true, false, b->n,     2 * k->f,
                         k->h,  k->h, k->h,  2 * k->f, 1};
    enum pdl_status st;

    gather(k, b, x, v->x);
    st = train_dnnl_gemm(&g, v->x, v->w0 + b->e * 2 * k->f * k->h, v->pre, err);
    for (int64_t i = 0; i < b->n && st == PDL_OK; i++) {
        const float *pre = v->pre + i * 2 * k->f;

        train_simd_gated(pre, pre + k->f, v->act + i * k->f, k->f);
    }
    return st;
}

/* dact = W1' dy */
static enum pdl_status contract(const struct experts_kernel *k,
                                struct visits *v, const struct block *b,
                                const float *dy, struct pdl_err *err)
{
    struct cpu_gemm g = {false, false, false, b->n, k->f,
                         k->h,  k->h,  k->f,  k->f, 1};

    gather(k, b, dy, v->dy);
    return train_dnnl_gemm(&g, v->dy, v->w1 + b->e * k->h * k->f, v->dact, err);
}

/* pre becomes its own gradient, of gate times the expert. */
static void through_gate(const struct experts_kernel *k, struct visits *v,
                         const struct block *b)
{
    for (int64_t i = 0; i < b->n; i++) {
        float *a = v->pre + i * 2 * k->f;

        train_simd_gated_back(v->dact + i * k->f, v->gate[b->visit[i]], a,
                              a + k->f, k->f);
    }
}

/* ---- passes ----------------------------------------------------------- */

typedef enum pdl_status pass_fn(const struct experts_kernel *k,
                                struct visits *v, const struct block *b,
                                void *const *in, void *const *out,
                                struct pdl_err *err);

static enum pdl_status forward(const struct experts_kernel *k, struct visits *v,
                               const struct block *b, void *const *in,
                               void *const *out, struct pdl_err *err)
{
    struct cpu_gemm g = {false, true, false, b->n, k->h,
                         k->f,  k->f, k->f,  k->h, 1};
    enum pdl_status st = expand(k, v, b, in[k->op.x], err);

    if (st == PDL_OK)
        st = train_dnnl_gemm(&g, v->act, v->w1 + b->e * k->h * k->f, v->x, err);
    if (st == PDL_OK)
        scatter(k, b, v->x, v->gate, out[0]);
    return st;
}

static enum pdl_status data(const struct experts_kernel *k, struct visits *v,
                            const struct block *b, void *const *in,
                            void *const *out, struct pdl_err *err)
{
    struct cpu_gemm g = {false,    false,    false, b->n, k->h,
                         2 * k->f, 2 * k->f, k->h,  k->h, 1};
    enum pdl_status st = expand(k, v, b, in[k->op.x], err);

    if (st == PDL_OK)
        st = contract(k, v, b, in[k->op.dy], err);
    for (int64_t i = 0; i < b->n && st == PDL_OK; i++)
        v->dgate[b->visit[i]] =
            train_simd_dot(v->act + i * k->f, v->dact + i * k->f, k->f);
    if (st != PDL_OK || k->dx < 0)
        return st;
    through_gate(k, v, b);
    st = train_dnnl_gemm(&g, v->pre, v->w0 + b->e * 2 * k->f * k->h, v->x, err);
    if (st == PDL_OK)
        scatter(k, b, v->x, NULL, out[k->dx]);
    return st;
}

static enum pdl_status weights(const struct experts_kernel *k, struct visits *v,
                               const struct block *b, void *const *in,
                               void *const *out, struct pdl_err *err)
{
    struct cpu_gemm up = {true, false,    true, 2 * k->f, k->h,
                          b->n, 2 * k->f, k->h, k->h,     1};
    struct cpu_gemm down = {true, false, true, k->h, k->f,
                            b->n, k->h,  k->f, k->f, 1};
    enum pdl_status st = expand(k, v, b, in[k->op.x], err);

    if (st == PDL_OK)
        st = contract(k, v, b, in[k->op.dy], err);
    for (int64_t i = 0; i < b->n && st == PDL_OK; i++)
        train_simd_scale(v->act + i * k->f, v->gate[b->visit[i]], k->f);
    if (st == PDL_OK)
        st = train_dnnl_gemm(&down, v->dy, v->act,
                             (float *)out[1] + b->e * k->h * k->f, err);
    if (st != PDL_OK)
        return st;
    through_gate(k, v, b);
    return train_dnnl_gemm(&up, v->pre, v->x,
                           (float *)out[0] + b->e * 2 * k->f * k->h, err);
}

/* The softmax's derivatives follow from the gates: each rank gives what its own
 * experts add to the gradient of all scores. */
static void score_gradients(const struct experts_kernel *k,
                            const struct visits *v, float *ds)
{
    for (int64_t r = 0; r < k->rows; r++) {
        const float *gate = v->gate + r * k->topk, *d = v->dgate + r * k->topk;
        float mean = 0;

        for (int64_t c = 0; c < k->topk; c++)
            mean += gate[c] * d[c];
        for (int64_t c = 0; c < k->topk; c++)
            ds[r * k->experts + v->which[r * k->topk + c]] =
                gate[c] * (d[c] - mean);
    }
}

static enum pdl_status run(const struct train_kernel *base, void *const *in,
                           void *const *out, void *scratch,
                           const struct train_moment *when, struct pdl_err *err)
{
    static pass_fn *const passes[] = {
        [PDL_FORWARD] = forward,
        [PDL_BACKWARD_DATA] = data,
        [PDL_BACKWARD_WEIGHTS] = weights,
    };
    const struct experts_kernel *k = (const struct experts_kernel *)base;
    struct visits v = visits_of(k, scratch);
    enum pdl_status st = PDL_OK;

    (void)when;
    for (int i = 0; i < k->call.nout; i++)
        memset(out[i], 0, (size_t)train_array_bytes(&k->call.out[i]));
    v.w0 = in[k->op.w];
    v.w1 = in[k->op.w + 1];
    sort(k, in[k->op.x + 1], &v);
    memset(v.dgate, 0, (size_t)(k->rows * k->topk) * sizeof *v.dgate);
    for (int64_t e = 0; e < k->here; e++)
        for (int64_t i = v.begin[e]; i < v.begin[e + 1] && st == PDL_OK;
             i += k->block) {
            int64_t left = v.begin[e + 1] - i;
            struct block b = {v.order + i, e,
                              left < k->block ? left : k->block};

            st = passes[k->call.pass](k, &v, &b, in, out, err);
        }
    if (k->dscores >= 0 && st == PDL_OK)
        score_gradients(k, &v, out[k->dscores]);
    return st;
}

/* ---- making ----------------------------------------------------------- */

/* The same tokens, and all `width` features of each. */
static bool fits(const struct train_array *a, const struct train_array *x,
                 int64_t width)
{
    for (int d = 0; d < 2; d++)
        if (a->box.lo[d] != x->box.lo[d] || a->box.hi[d] != x->box.hi[d])
            return false;
    return a->box.ndims == 3 && a->box.lo[2] == 0 && a->box.hi[2] == width;
}

static bool has_whole(const struct experts_kernel *k)
{
    const struct train_call *c = &k->call;
    const struct train_array *x = &c->in[k->op.x], *w = &c->in[k->op.w];
    const struct train_array *y =
        c->pass == PDL_FORWARD ? &c->out[0] : &c->in[k->op.dy];

    return fits(x, x, k->h) && fits(y, x, k->h) &&
           fits(&c->in[k->op.x + 1], x, k->experts) &&
           (k->dx < 0 || fits(&c->out[k->dx], x, k->h)) &&
           (k->dscores < 0 || fits(&c->out[k->dscores], x, k->experts)) &&
           extent(&w[0], 1) == 2 * k->f && extent(&w[0], 2) == k->h &&
           extent(&w[1], 1) == k->h && extent(&w[1], 2) == k->f &&
           extent(&w[1], 0) == k->here && k->here > 0;
}

static enum pdl_status make(struct cpu_state *s, const struct train_call *c,
                            struct train_kernel **out, struct pdl_err *err)
{
    const struct pdl_attr *a = &c->node->attr;
    bool back = c->pass == PDL_BACKWARD_DATA;
    struct train_call kept;
    struct experts_kernel *k;

    if (!train_cpu_plain(c) || c->node->nin != 2 || c->node->nweights != 2 ||
        !a->gated || a->topk > a->experts || c->in[0].box.ndims != 3)
        return PDL_OK; /* the reference says what is wrong */
    k = train_cpu_kernel(s, c, sizeof *k, &kept);
    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    k->call = kept;
    train_operands(c, &k->op);
    k->rows = extent(&c->in[k->op.x], 0) * extent(&c->in[k->op.x], 1);
    k->h = c->model->tensors[c->node->in[0]].dim[1];
    k->f = a->ffn;
    k->experts = a->experts;
    k->topk = a->topk;
    k->first = c->in[k->op.w].box.lo[0];
    k->here = extent(&c->in[k->op.w], 0);
    k->block = k->rows < BLOCK ? k->rows : BLOCK;
    k->dx = back ? train_gradient_of(c, 0) : -1;
    k->dscores = back ? train_gradient_of(c, 1) : -1;
    if (k->rows < 1 || k->rows * k->topk > INT32_MAX || !has_whole(k))
        return PDL_OK;
    k->base.scratch_bytes = room(k);
    k->base.implementation = "own+sgemm";
    k->base.run = run;
    *out = &k->base;
    return PDL_OK;
}

static const struct cpu_op rows[] = {{"experts", make}};

const struct cpu_ops train_cpu_experts = {rows, 1};
