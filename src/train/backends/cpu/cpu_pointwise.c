/* SPDX-License-Identifier: Apache-2.0
 *
 * Element by element, one operand. All arrays of a call have one box and one
 * layout, so storage is walked in a line. bfloat16 is widened a piece at a
 * time. */
#include "train/backends/cpu/cpu.h"
#include "train/backends/cpu/simd.h"

#include <string.h>

enum { PIECE = 1024 };

struct pointwise_kernel {
    struct train_kernel base;
    struct train_call call;
    struct train_operands op;
    const struct train_simd_function *f;
    float a, b;  /* its numbers */
    bool narrow; /* bfloat16 */
    int64_t n;
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

/* ---- bfloat16, a piece at a time -------------------------------------- */

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

/* ---- one operand ------------------------------------------------------ */

struct task {
    const struct pointwise_kernel *k;
    void *const *in, *const *out;
    const struct train_moment *when;
};

static void some_unary(const void *ctx, int64_t from, int64_t to)
{
    const struct task *t = ctx;
    const struct pointwise_kernel *k = t->k;
    bool forward = k->call.pass == PDL_FORWARD;
    int saved = k->op.nx > 0 ? k->op.x : k->op.y; /* neither: dy, not read */
    float a[PIECE], b[PIECE], y[PIECE];

    for (int64_t at = from; at < to; at += PIECE) {
        int64_t n = to - at < PIECE ? to - at : PIECE;
        const float *x = widen(k, t->in[0], at, n, a);
        float *o = result(k, t->out[0], at, y);

        if (forward)
            k->f->f(x, o, n, k->a, k->b);
        else
            k->f->back(x, widen(k, t->in[saved], at, n, b), o, n, k->a, k->b);
        narrow(k, t->out[0], at, n, y);
    }
}

static enum pdl_status run_unary(const struct train_kernel *base,
                                 void *const *in, void *const *out,
                                 void *scratch, const struct train_moment *when,
                                 struct pdl_err *err)
{
    const struct pointwise_kernel *k = (const struct pointwise_kernel *)base;
    struct task t = {k, in, out, when};

    (void)scratch;
    (void)err;
    train_cpu_parallel(k->n, CPU_GRAIN, some_unary, &t);
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
    double a = 0, b = 0;

    if (!f || !all_alike(c))
        return PDL_OK;
    if (pdl_function_numbers(c->node, &a, &b) && f->op[0] == 'c' && !(a < b))
        return PDL_OK; /* no bounds: the reference says so */
    k = new_kernel(s, c);
    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    k->f = f;
    k->a = (float)a;
    k->b = (float)b;
    k->base.run = run_unary;
    *out = &k->base;
    return PDL_OK;
}

/* ---- the same elements ------------------------------------------------ */

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

/* ---- dropout ---------------------------------------------------------- */

/* The random numbers of ref_pointwise.c: by global element in logical order,
 * four at a time. One line is the last logical dimension. */
static void drop_line(const struct task *t, const float *x, float *y,
                      int64_t step, uint64_t e)
{
    const struct train_call *c = &t->k->call;
    const struct train_array *a = &c->in[0];
    int last = a->box.ndims - 1;
    int64_t lo = a->box.lo[last], n = a->box.hi[last] - lo;
    double p = c->node->attr.scale > 0 ? c->node->attr.scale : 0.5;
    uint64_t stream =
        (uint64_t)t->when->step << 24 ^ (uint64_t)(c->node - c->model->nodes);
    float keep = (float)(1 / (1 - p));
    struct pdl_rng4 u = {{0}};

    for (int64_t i = 0; i < n; i++) {
        uint64_t at = e + (uint64_t)(lo + i);

        if (i == 0 || at % 4 == 0)
            u = pdl_philox(t->when->seed, stream, at / 4);
        y[i * step] = u.v[at % 4] * 0x1p-32 < p ? 0 : x[i * step] * keep;
    }
}

static void some_lines(const void *ctx, int64_t from, int64_t to)
{
    const struct task *t = ctx;
    const struct train_call *c = &t->k->call;
    const struct train_array *a = &c->in[0];
    const struct pdl_tensor *shape = &c->model->tensors[c->node->in[0]];
    int last = a->box.ndims - 1;
    int64_t stride[PDL_BOX_DIMS] = {0};

    train_array_strides(a, stride);
    for (int64_t line = from; line < to; line++) {
        int64_t i[PDL_BOX_DIMS] = {0}, rest = line, o = 0;
        uint64_t e;

        for (int d = last - 1; d >= 0; d--) {
            int64_t n = a->box.hi[d] - a->box.lo[d];

            i[d] = a->box.lo[d] + rest % n;
            o += rest % n * stride[d];
            rest /= n;
        }
        e = (uint64_t)(t->when->first_sample + i[0]);
        for (int d = 1; d < last; d++)
            e = e * (uint64_t)shape->dim[d - 1] +
                (uint64_t)(d == 1 ? train_position(c, i[d]) : i[d]);
        drop_line(t, (const float *)t->in[0] + o, (float *)t->out[0] + o,
                  stride[last], e * (uint64_t)shape->dim[last - 1]);
    }
}

static enum pdl_status
run_dropout(const struct train_kernel *base, void *const *in, void *const *out,
            void *scratch, const struct train_moment *when, struct pdl_err *err)
{
    const struct pointwise_kernel *k = (const struct pointwise_kernel *)base;
    const struct pdl_box *b = &k->call.in[0].box;
    int64_t n = b->hi[b->ndims - 1] - b->lo[b->ndims - 1];
    struct task t = {k, in, out, when};

    if (when->evaluate)
        return run_copy(base, in, out, scratch, when, err);
    if (k->n > 0)
        train_cpu_parallel(k->n / n, 1 + CPU_GRAIN / 4 / n, some_lines, &t);
    return PDL_OK;
}

static enum pdl_status make_dropout(struct cpu_state *s,
                                    const struct train_call *c,
                                    struct train_kernel **out,
                                    struct pdl_err *err)
{
    struct pointwise_kernel *k;

    if (!train_cpu_plain(c) || c->in[0].box.ndims < 2 ||
        (c->deal && c->in[0].box.ndims < 3) ||
        !same_storage(&c->in[0], &c->out[0]))
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
    {"gelu", make_unary}, {"exp", make_unary}, {"mish", make_unary},
    {"hard_sigmoid", make_unary}, {"hard_swish", make_unary},
    {"elu", make_unary}, {"selu", make_unary}, {"softplus", make_unary},
    {"softsign", make_unary}, {"log", make_unary}, {"sqrt", make_unary},
    {"reciprocal", make_unary}, {"erf", make_unary}, {"sin", make_unary},
    {"cos", make_unary}, {"abs", make_unary}, {"neg", make_unary},
    {"affine", make_unary}, {"clip", make_unary}, {"power", make_unary},
    {"identity", make_identity}, {"cast", make_identity},
    {"dropout", make_dropout},
};
// clang-format on

const struct cpu_ops train_cpu_pointwise = {rows, sizeof rows / sizeof rows[0]};
