/* SPDX-License-Identifier: Apache-2.0
 *
 * Element by element. All arrays of a call have one box and one layout, so
 * storage is walked in a line; stretched operands of images (one value a
 * channel, as in squeeze-and-excitation) go by rows. bfloat16 is widened a
 * piece at a time. */
#include "train/backends/cpu/cpu.h"
#include "train/backends/cpu/simd.h"

#include <string.h>

enum { PIECE = 1024 };

struct pointwise_kernel {
    struct train_kernel base;
    struct train_call call;
    struct train_operands op;
    const struct train_simd_function *f;
    void (*binary)(const float *, const float *, float *, int64_t);
    bool narrow; /* bfloat16 */
    int64_t n;
    int grad[2]; /* of two operands: the output that is it, -1: none */
    int full;    /* which of two operands is not stretched */
};

static bool same_storage(const struct train_array *a,
                         const struct train_array *b)
{
    return a->dtype == b->dtype && a->layout == b->layout &&
           (a->channels_last == b->channels_last || a->box.ndims < 3) &&
           memcmp(&a->box.ndims, &b->box.ndims, sizeof a->box.ndims) == 0 &&
           memcmp(a->box.lo, b->box.lo,
                  (size_t)a->box.ndims * sizeof a->box.lo[0]) == 0 &&
           memcmp(a->box.hi, b->box.hi,
                  (size_t)a->box.ndims * sizeof a->box.hi[0]) == 0;
}

static bool all_alike(const struct train_call *c)
{
    const struct train_array *first = &c->in[0];

    if (first->dtype != PDL_F32 && first->dtype != PDL_BF16)
        return false;
    for (int i = 0; i < c->nin + c->nout; i++)
        if (!same_storage(first, i < c->nin ? &c->in[i] : &c->out[i - c->nin]))
            return false;
    return true;
}

static struct pointwise_kernel *new_kernel(struct cpu_state *s,
                                           const struct train_call *c)
{
    struct train_call kept;
    struct pointwise_kernel *k = train_cpu_kernel(s, c, sizeof *k, &kept);

    if (!k)
        return NULL;
    k->call = kept;
    train_operands(c, &k->op);
    k->n = train_array_elements(&c->in[0]);
    k->narrow = c->in[0].dtype == PDL_BF16;
    k->base.implementation = "own";
    return k;
}

/* ---- bfloat16, a piece at a time ------------------------------------------------ */

static const float *widen(const struct pointwise_kernel *k, const void *p,
                          int64_t at, int64_t n, float *space)
{
    if (!k->narrow)
        return (const float *)p + at;
    train_simd_from_bf16((const uint16_t *)p + at, space, n);
    return space;
}

static float *result(const struct pointwise_kernel *k, void *p, int64_t at,
                     float *space)
{
    return k->narrow ? space : (float *)p + at;
}

static void narrow(const struct pointwise_kernel *k, void *p, int64_t at,
                   int64_t n, const float *space)
{
    if (k->narrow)
        train_simd_to_bf16(space, (uint16_t *)p + at, n);
}

/* ---- one operand ------------------------------------------------------------------- */

static enum pdl_status run_unary(const struct train_kernel *base,
                                 void *const *in, void *const *out,
                                 void *scratch, const struct train_moment *when,
                                 struct pdl_err *err)
{
    const struct pointwise_kernel *k = (const struct pointwise_kernel *)base;
    bool forward = k->call.pass == PDL_FORWARD;
    int saved = k->op.nx > 0 ? k->op.x : k->op.y;
    float a[PIECE], b[PIECE], y[PIECE];

    (void)scratch;
    (void)when;
    (void)err;
    for (int64_t at = 0; at < k->n; at += PIECE) {
        int64_t n = k->n - at < PIECE ? k->n - at : PIECE;
        const float *x = widen(k, in[0], at, n, a);
        float *o = result(k, out[0], at, y);

        if (forward)
            k->f->f(x, o, n);
        else
            k->f->back(x, widen(k, in[saved], at, n, b), o, n);
        narrow(k, out[0], at, n, y);
    }
    return PDL_OK;
}

static enum pdl_status make_unary(struct cpu_state *s,
                                  const struct train_call *c,
                                  struct train_kernel **out,
                                  struct pdl_err *err)
{
    const struct train_simd_function *f =
        train_simd_find(train_function(c->node));
    struct pointwise_kernel *k;

    if (!f || !all_alike(c))
        return PDL_OK;
    k = new_kernel(s, c);
    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    k->f = f;
    k->base.run = run_unary;
    *out = &k->base;
    return PDL_OK;
}

/* ---- several operands ------------------------------------------------------------- */

static enum pdl_status
run_binary(const struct train_kernel *base, void *const *in, void *const *out,
           void *scratch, const struct train_moment *when, struct pdl_err *err)
{
    const struct pointwise_kernel *k = (const struct pointwise_kernel *)base;
    float a[PIECE], b[PIECE], y[PIECE];

    (void)scratch;
    (void)when;
    (void)err;
    for (int64_t at = 0; at < k->n; at += PIECE) {
        int64_t n = k->n - at < PIECE ? k->n - at : PIECE;
        float *o = result(k, out[0], at, y);

        k->binary(widen(k, in[0], at, n, a), widen(k, in[1], at, n, b), o, n);
        for (int i = 2; i < k->call.nin; i++)
            k->binary(o, widen(k, in[i], at, n, b), o, n);
        narrow(k, out[0], at, n, y);
    }
    return PDL_OK;
}

/* dx of each factor: dy times the other. */
static enum pdl_status run_product_back(const struct train_kernel *base,
                                        void *const *in, void *const *out,
                                        void *scratch,
                                        const struct train_moment *when,
                                        struct pdl_err *err)
{
    const struct pointwise_kernel *k = (const struct pointwise_kernel *)base;
    float a[PIECE], b[PIECE], y[PIECE];

    (void)scratch;
    (void)when;
    (void)err;
    for (int64_t at = 0; at < k->n; at += PIECE) {
        int64_t n = k->n - at < PIECE ? k->n - at : PIECE;
        const float *dy = widen(k, in[0], at, n, a);

        for (int i = 0; i < 2; i++) {
            int o = k->grad[i];

            if (o < 0)
                continue;
            train_simd_mul(dy, widen(k, in[k->op.x + 1 - i], at, n, b),
                           result(k, out[o], at, y), n);
            narrow(k, out[o], at, n, y);
        }
    }
    return PDL_OK;
}

/* ---- x [N,S,C] times s [N,1,C] ------------------------------------------------------ */

static bool one_a_channel(const struct train_array *x,
                          const struct train_array *s)
{
    int64_t per = 1;

    if (!x->channels_last || x->box.ndims != s->box.ndims ||
        x->box.lo[0] != s->box.lo[0] || x->box.hi[0] != s->box.hi[0] ||
        x->box.lo[1] != s->box.lo[1] || x->box.hi[1] != s->box.hi[1])
        return false;
    for (int d = 2; d < s->box.ndims; d++)
        per *= s->box.hi[d] - s->box.lo[d];
    return per == 1;
}

static enum pdl_status run_gate(const struct train_kernel *base,
                                void *const *in, void *const *out,
                                void *scratch, const struct train_moment *when,
                                struct pdl_err *err)
{
    const struct pointwise_kernel *k = (const struct pointwise_kernel *)base;
    const struct train_call *c = &k->call;
    const struct train_array *x = &c->in[k->op.x + k->full];
    int64_t ch = x->box.hi[1] - x->box.lo[1], n = x->box.hi[0] - x->box.lo[0];
    int64_t step = n > 0 ? train_array_elements(x) / n : 0;
    const float *px = in[k->op.x + k->full], *ps = in[k->op.x + 1 - k->full];
    const float *dy = in[0];
    int gx = k->grad[k->full], gs = k->grad[1 - k->full];

    (void)scratch;
    (void)when;
    (void)err;
    for (int64_t i = 0; i < n; i++) {
        if (c->pass == PDL_FORWARD) {
            train_simd_scale_rows(px + i * step, ps + i * ch,
                                  (float *)out[0] + i * step, step / ch, ch);
            continue;
        }
        if (gx >= 0)
            train_simd_scale_rows(dy + i * step, ps + i * ch,
                                  (float *)out[gx] + i * step, step / ch, ch);
        if (gs >= 0)
            train_simd_dot_rows(dy + i * step, px + i * step,
                                (float *)out[gs] + i * ch, step / ch, ch);
    }
    return PDL_OK;
}

static enum pdl_status make_several(struct cpu_state *s,
                                    const struct train_call *c,
                                    struct train_kernel **out,
                                    struct pdl_err *err)
{
    const char *op = c->node->op->name;
    bool mul = strcmp(op, "mul") == 0, forward = c->pass == PDL_FORWARD;
    struct pointwise_kernel *k;
    struct train_operands o;
    int full = 0;
    bool gate;

    train_operands(c, &o);
    gate = mul && c->node->nin == 2 && c->node->nweights == 0 && o.nx == 2 &&
           train_cpu_plain(c);
    if (gate && train_array_elements(&c->in[o.x]) <
                    train_array_elements(&c->in[o.x + 1]))
        full = 1;
    gate = gate && !pdl_box_empty(&c->in[o.x + full].box) &&
           one_a_channel(&c->in[o.x + full], &c->in[o.x + 1 - full]);
    if (c->node->nin < 2 || c->node->nweights > 0 || (!gate && !all_alike(c)) ||
        (!forward && !(mul && c->node->nin == 2)))
        return PDL_OK;
    k = new_kernel(s, c);
    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    k->full = full;
    for (int i = 0; i < 2 && !forward; i++)
        k->grad[i] = train_gradient_of(c, i);
    k->binary = mul                      ? train_simd_mul
                : strcmp(op, "sub") == 0 ? train_simd_sub
                                         : train_simd_add;
    k->base.run = gate ? run_gate : forward ? run_binary : run_product_back;
    *out = &k->base;
    return PDL_OK;
}

/* ---- the same elements ------------------------------------------------------------------ */

static enum pdl_status run_copy(const struct train_kernel *base,
                                void *const *in, void *const *out,
                                void *scratch, const struct train_moment *when,
                                struct pdl_err *err)
{
    const struct pointwise_kernel *k = (const struct pointwise_kernel *)base;

    (void)scratch;
    (void)when;
    (void)err;
    if (k->n > 0 && in[0] != out[0])
        memcpy(out[0], in[0], (size_t)train_array_bytes(&k->call.in[0]));
    return PDL_OK;
}

static enum pdl_status make_identity(struct cpu_state *s,
                                     const struct train_call *c,
                                     struct train_kernel **out,
                                     struct pdl_err *err)
{
    struct pointwise_kernel *k;

    if (!all_alike(c))
        return PDL_OK;
    k = new_kernel(s, c);
    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    k->base.run = run_copy;
    *out = &k->base;
    return PDL_OK;
}

/* ---- dropout ------------------------------------------------------------------------- */

/* The random numbers of ref_pointwise.c: by global element, four at a time. */
static enum pdl_status
run_dropout(const struct train_kernel *base, void *const *in, void *const *out,
            void *scratch, const struct train_moment *when, struct pdl_err *err)
{
    const struct pointwise_kernel *k = (const struct pointwise_kernel *)base;
    const struct train_call *c = &k->call;
    double p = c->node->attr.scale > 0 ? c->node->attr.scale : 0.5;
    uint64_t stream =
        (uint64_t)when->step << 24 ^ (uint64_t)(c->node - c->model->nodes);
    const float *x = in[0];
    float *y = out[0], keep = (float)(1 / (1 - p));
    int64_t lo = c->in[0].box.lo[0], n = c->in[0].box.hi[0] - lo;
    uint64_t e = (uint64_t)((when->first_sample + lo) * (n > 0 ? k->n / n : 0));
    struct pdl_rng4 u = {{0}};

    (void)scratch;
    (void)err;
    for (int64_t i = 0; i < k->n; i++, e++) {
        if (i == 0 || e % 4 == 0)
            u = pdl_philox(when->seed, stream, e / 4);
        y[i] = u.v[e % 4] * 0x1p-32 < p && !when->evaluate ? 0
               : when->evaluate                            ? x[i]
                                                           : x[i] * keep;
    }
    return PDL_OK;
}

static enum pdl_status make_dropout(struct cpu_state *s,
                                    const struct train_call *c,
                                    struct train_kernel **out,
                                    struct pdl_err *err)
{
    const struct pdl_tensor *t = &c->model->tensors[c->node->in[0]];
    struct pointwise_kernel *k;

    if (!train_cpu_plain(c) || c->in[0].channels_last || c->deal)
        return PDL_OK;
    for (int d = 0; d < t->rank; d++) /* whole samples, in order */
        if (c->in[0].box.lo[d + 1] != 0 || c->in[0].box.hi[d + 1] != t->dim[d])
            return PDL_OK;
    k = new_kernel(s, c);
    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    k->base.run = run_dropout;
    *out = &k->base;
    return PDL_OK;
}

// clang-format off
static const struct cpu_op rows[] = {
    {"relu", make_unary}, {"relu6", make_unary}, {"leaky_relu", make_unary},
    {"sigmoid", make_unary}, {"tanh", make_unary}, {"silu", make_unary},
    {"gelu", make_unary}, {"exp", make_unary}, {"add", make_several},
    {"sub", make_several}, {"mul", make_several}, {"identity", make_identity},
    {"dropout", make_dropout},
};
// clang-format on

const struct cpu_ops train_cpu_pointwise = {rows, sizeof rows / sizeof rows[0]};
