/* SPDX-License-Identifier: Apache-2.0
 *
 * Elements by numbers of the data, stretched dimensions, sums so far, places of
 * the largest. The first two are a map from each element of y to one of x,
 * walked run by run of y's last dimension; backward adds up along it, a sample
 * by itself, so that sums have one order whatever the threads. */
#include "train/backends/cpu/cpu.h"

#include <string.h>

/* A run's step in each array; where == NULL: found by place alone. */
struct take_kernel {
    struct train_kernel base;
    struct train_call call; /* arrays kept */
    int ndims;              /* of y, without the samples */
    int64_t count[PDL_BOX_DIMS], runs;
    int64_t y[PDL_BOX_DIMS], x[PDL_BOX_DIMS], where[PDL_BOX_DIMS];
    int64_t samples, ys, xs, ws; /* from one sample to the next */
    int64_t along, extent;       /* of x's axis */
    int at;                      /* operand that says where; -1: none */
    bool forward, eight; /* bytes an element, that are moved and no more */
};

struct task {
    const struct take_kernel *k;
    const void *where;
    const float *from;
    float *to;
};

/* ---- one sample --------------------------------------------------------- */

static int64_t place(const struct take_kernel *k, const void *where, int64_t i)
{
    int64_t v = (int64_t)train_number(k->call.in[k->at].dtype, where, i);

    return (v < 0 ? v + k->extent : v) * k->along;
}

static void run_of(const struct task *t, int64_t y, int64_t x, int64_t w)
{
    const struct take_kernel *k = t->k;
    int last = k->ndims - 1;

    for (int64_t i = 0; i < k->count[last]; i++) {
        int64_t yi = y + i * k->y[last], xi = x + i * k->x[last];

        if (k->at >= 0)
            xi += place(k, t->where, w + i * k->where[last]);
        if (k->forward && k->eight)
            ((int64_t *)(void *)t->to)[yi] =
                ((const int64_t *)(const void *)t->from)[xi];
        else if (k->forward)
            t->to[yi] = t->from[xi];
        else
            t->to[xi] += t->from[yi];
    }
}

static void some(const void *ctx, int64_t from, int64_t to)
{
    const struct task *t = ctx;
    const struct take_kernel *k = t->k;

    for (int64_t n = from; n < to; n++)
        for (int64_t run = 0; run < k->runs; run++) {
            int64_t y = n * k->ys, x = n * k->xs, w = n * k->ws, rest = run;

            for (int d = k->ndims - 2; d >= 0; d--) {
                int64_t i = rest % k->count[d];

                rest /= k->count[d];
                y += i * k->y[d];
                x += i * k->x[d];
                w += i * k->where[d];
            }
            run_of(t, y, x, w);
        }
}

static enum pdl_status check(const struct take_kernel *k, const void *where,
                             struct pdl_err *err)
{
    const struct train_array *a = &k->call.in[k->at];
    int64_t n = train_array_elements(a);

    for (int64_t i = 0; i < n; i++) {
        double v = train_number(a->dtype, where, i);

        if (!(v >= (double)-k->extent && v < (double)k->extent))
            return pdl_fail(err, PDL_EINVAL,
                            "%s: element %g of %lld is asked for",
                            k->call.node->name, v, (long long)k->extent);
    }
    return PDL_OK;
}

static enum pdl_status run(const struct train_kernel *base, void *const *in,
                           void *const *out, void *scratch,
                           const struct train_moment *when, struct pdl_err *err)
{
    const struct take_kernel *k = (const struct take_kernel *)base;
    struct task t = {k, k->at >= 0 ? in[k->at] : NULL, in[0], out[0]};
    int64_t each = k->runs * k->count[k->ndims - 1];
    enum pdl_status st = k->at >= 0 ? check(k, in[k->at], err) : PDL_OK;

    (void)scratch;
    (void)when;
    if (st != PDL_OK)
        return st;
    if (!k->forward)
        memset(out[0], 0, (size_t)train_array_bytes(&k->call.out[0]));
    if (each > 0)
        train_cpu_parallel(k->samples, 1 + CPU_GRAIN / (each + 1), some, &t);
    return PDL_OK;
}

/* ---- maps --------------------------------------------------------------- */

/* Strides of y, and whole samples of everything. */
static bool begin(struct take_kernel *k, const struct train_call *c,
                  const struct train_array *x, const struct train_array *y)
{
    int64_t ys[PDL_BOX_DIMS] = {0}, xs[PDL_BOX_DIMS] = {0};

    train_array_strides(y, ys);
    train_array_strides(x, xs);
    k->ndims = y->box.ndims - 1;
    k->samples = y->box.hi[0] - y->box.lo[0];
    k->ys = ys[0];
    k->xs = xs[0];
    k->runs = 1;
    for (int d = 0; d < k->ndims; d++) {
        k->count[d] = y->box.hi[d + 1] - y->box.lo[d + 1];
        k->y[d] = ys[d + 1];
        k->runs *= d + 1 < k->ndims ? k->count[d] : 1;
    }
    for (int d = 1; d < x->box.ndims; d++)
        if (x->box.lo[d] != 0 ||
            x->box.hi[d] != c->model->tensors[c->node->in[0]].dim[d - 1])
            return false;
    return k->ndims > 0 && k->samples > 0 && x->box.lo[0] == y->box.lo[0] &&
           x->box.hi[0] == y->box.hi[0];
}

/* Dimensions [0, before) of y are x's, then `own` of the index, then x's again,
 * `gone` of which are not in y. */
static void map_taken(struct take_kernel *k, const struct train_array *x,
                      const struct train_array *at, int axis, bool rows)
{
    int64_t xs[PDL_BOX_DIMS] = {0}, as[PDL_BOX_DIMS] = {0};
    int own = at->box.ndims - 1;

    train_array_strides(x, xs);
    train_array_strides(at, as);
    k->ws = as[0];
    k->along = xs[axis + 1];
    k->extent = x->box.hi[axis + 1];
    for (int d = 0; d < k->ndims; d++) {
        bool index = rows ? d >= axis && d < axis + own : true;

        k->where[d] = !index ? 0 : as[rows ? d - axis + 1 : d + 1];
        if (rows)
            k->x[d] = index ? 0 : xs[d < axis ? d + 1 : d - own + 2];
        else
            k->x[d] = d == axis ? 0 : xs[d + 1];
    }
}

static enum pdl_status begin_kernel(struct cpu_state *s,
                                    const struct train_call *c,
                                    struct take_kernel **out,
                                    struct pdl_err *err)
{
    struct train_call kept;
    struct take_kernel *k = train_cpu_kernel(s, c, sizeof *k, &kept);

    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    memset(k, 0, sizeof *k);
    k->call = kept;
    k->at = -1;
    k->forward = c->pass == PDL_FORWARD;
    k->base.implementation = "own";
    k->base.run = run;
    *out = k;
    return PDL_OK;
}

static bool is_plain(const struct train_array *a)
{
    return a->layout == 0 && a->dtype == PDL_F32;
}

static enum pdl_status make_take(struct cpu_state *s,
                                 const struct train_call *c,
                                 struct train_kernel **out, struct pdl_err *err)
{
    bool rows = strcmp(c->node->op->name, "take_rows") == 0;
    struct train_operands op;
    const struct train_array *x, *at;
    struct take_kernel *k;
    enum pdl_status st;

    train_operands(c, &op);
    x = c->pass == PDL_FORWARD ? &c->in[op.x] : &c->out[0];
    at = &c->in[op.x + 1];
    if (!is_plain(&c->in[0]) || !is_plain(&c->out[0]) || at->layout != 0 ||
        c->nout != 1 || !(at->dtype == PDL_I32 || at->dtype == PDL_I64))
        return PDL_OK;
    st = begin_kernel(s, c, &k, err);
    if (st != PDL_OK)
        return st;
    k->at = op.x + 1;
    if (!begin(k, c, x, k->forward ? &c->out[0] : &c->in[op.dy]))
        return PDL_OK;
    map_taken(k, x, at, (int)c->node->attr.axis, rows);
    *out = &k->base;
    return PDL_OK;
}

/* Whole numbers have no gradient, and go where they are wanted. */
static bool is_moved(const struct train_array *x, const struct train_array *y)
{
    return x->layout == 0 && y->layout == 0 && x->dtype == y->dtype &&
           (x->dtype == PDL_I32 || x->dtype == PDL_I64);
}

static enum pdl_status make_expand(struct cpu_state *s,
                                   const struct train_call *c,
                                   struct train_kernel **out,
                                   struct pdl_err *err)
{
    bool forward = c->pass == PDL_FORWARD;
    const struct train_array *x = forward ? &c->in[0] : &c->out[0];
    int64_t xs[PDL_BOX_DIMS] = {0};
    struct take_kernel *k;
    enum pdl_status st;

    if (c->nin != 1 || c->nout != 1 ||
        (!train_cpu_plain(c) && (!forward || !is_moved(x, &c->out[0]))))
        return PDL_OK;
    st = begin_kernel(s, c, &k, err);
    if (st != PDL_OK || !begin(k, c, x, forward ? &c->out[0] : &c->in[0]))
        return st;
    k->eight = x->dtype == PDL_I64;
    train_array_strides(x, xs);
    for (int d = 0; d < k->ndims; d++)
        k->x[d] = x->box.hi[d + 1] == 1 ? 0 : xs[d + 1];
    *out = &k->base;
    return PDL_OK;
}

/* ---- sums so far -------------------------------------------------------- */

struct sum_kernel {
    struct train_kernel base;
    enum pdl_dtype dtype;
    int64_t lines, n, step; /* of them, along one, in one */
    bool back, others;
};

struct sum_task {
    const struct sum_kernel *k;
    const void *x;
    void *y;
};

static int64_t from_start(const struct sum_kernel *k, int64_t i)
{
    return (k->back ? k->n - 1 - i : i) * k->step;
}

static void sum_f32(const struct sum_kernel *k, const float *x, float *y)
{
    double sum = 0;

    for (int64_t i = 0; i < k->n; i++) {
        int64_t at = from_start(k, i);
        double next = sum + (double)x[at];

        y[at] = (float)(k->others ? sum : next);
        sum = next;
    }
}

static void sum_i32(const struct sum_kernel *k, const int32_t *x, int32_t *y)
{
    int64_t sum = 0;

    for (int64_t i = 0; i < k->n; i++) {
        int64_t at = from_start(k, i), next = sum + x[at];

        y[at] = (int32_t)(k->others ? sum : next);
        sum = next;
    }
}

static void some_lines(const void *ctx, int64_t from, int64_t to)
{
    const struct sum_task *t = ctx;
    const struct sum_kernel *k = t->k;

    for (int64_t i = from; i < to; i++) {
        int64_t o = i / k->step * k->step * k->n + i % k->step;

        if (k->dtype == PDL_F32)
            sum_f32(k, (const float *)t->x + o, (float *)t->y + o);
        else
            sum_i32(k, (const int32_t *)t->x + o, (int32_t *)t->y + o);
    }
}

static enum pdl_status run_sums(const struct train_kernel *base,
                                void *const *in, void *const *out,
                                void *scratch, const struct train_moment *when,
                                struct pdl_err *err)
{
    const struct sum_kernel *k = (const struct sum_kernel *)base;

    (void)scratch;
    (void)when;
    (void)err;
    train_cpu_parallel(k->lines, 1 + CPU_GRAIN / (k->n + 1), some_lines,
                       &(struct sum_task){k, in[0], out[0]});
    return PDL_OK;
}

/* Backward goes the other way. */
static enum pdl_status make_sums(struct cpu_state *s,
                                 const struct train_call *c,
                                 struct train_kernel **out, struct pdl_err *err)
{
    const struct pdl_attr *a = &c->node->attr;
    const struct train_array *x = &c->in[0], *y = &c->out[0];
    int axis = (int)a->axis + 1;
    int64_t stride[PDL_BOX_DIMS] = {0}, n = x->box.hi[axis] - x->box.lo[axis];
    struct train_call kept;
    struct sum_kernel *k;

    if (c->nin != 1 || c->nout != 1 || x->dtype != y->dtype || x->layout != 0 ||
        y->layout != 0 || x->channels_last != y->channels_last ||
        !train_same_box(&x->box, &y->box) || n < 1 ||
        (x->dtype != PDL_F32 && x->dtype != PDL_I32))
        return PDL_OK;
    k = train_cpu_kernel(s, c, sizeof *k, &kept);
    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    train_array_strides(x, stride);
    *k = (struct sum_kernel){
        .base = {.implementation = "own", .run = run_sums},
        .dtype = x->dtype,
        .lines = train_array_elements(x) / n,
        .n = n,
        .step = stride[axis],
        .back = (a->ndims > 0 && a->dims[0]) != (c->pass != PDL_FORWARD),
        .others = a->ndims > 1 && a->dims[1]};
    *out = &k->base;
    return PDL_OK;
}

/* ---- the largest -------------------------------------------------------- */

struct most_kernel {
    struct train_kernel base;
    enum pdl_dtype x, y;
    int64_t lines, n, step, bytes; /* bytes: backward's zeros */
};

struct most_task {
    const struct most_kernel *k;
    const void *x;
    void *y;
};

static int64_t largest_f32(const float *x, int64_t n, int64_t step)
{
    int64_t best = 0;

    for (int64_t i = 1; i < n; i++)
        best = x[i * step] > x[best * step] ? i : best;
    return best;
}

static int64_t largest_i32(const int32_t *x, int64_t n, int64_t step)
{
    int64_t best = 0;

    for (int64_t i = 1; i < n; i++)
        best = x[i * step] > x[best * step] ? i : best;
    return best;
}

static void some_largest(const void *ctx, int64_t from, int64_t to)
{
    const struct most_task *t = ctx;
    const struct most_kernel *k = t->k;

    for (int64_t i = from; i < to; i++) {
        int64_t o = i / k->step * k->step * k->n + i % k->step;
        int64_t at =
            k->x == PDL_F32
                ? largest_f32((const float *)t->x + o, k->n, k->step)
                : largest_i32((const int32_t *)t->x + o, k->n, k->step);

        if (k->y == PDL_I64)
            ((int64_t *)t->y)[i] = at;
        else if (k->y == PDL_I32)
            ((int32_t *)t->y)[i] = (int32_t)at;
        else
            ((float *)t->y)[i] = (float)at;
    }
}

static enum pdl_status run_most(const struct train_kernel *base,
                                void *const *in, void *const *out,
                                void *scratch, const struct train_moment *when,
                                struct pdl_err *err)
{
    const struct most_kernel *k = (const struct most_kernel *)base;

    (void)scratch;
    (void)when;
    (void)err;
    if (k->bytes > 0)
        memset(out[0], 0, (size_t)k->bytes);
    else
        train_cpu_parallel(k->lines, 1 + CPU_GRAIN / (k->n + 1), some_largest,
                           &(struct most_task){k, in[0], out[0]});
    return PDL_OK;
}

static enum pdl_status make_most(struct cpu_state *s,
                                 const struct train_call *c,
                                 struct train_kernel **out, struct pdl_err *err)
{
    bool forward = c->pass == PDL_FORWARD;
    const struct train_array *x = &c->in[0], *y = &c->out[0];
    int axis = (int)c->node->attr.axis + 1;
    int64_t stride[PDL_BOX_DIMS] = {0}, n = x->box.hi[axis] - x->box.lo[axis];
    struct train_call kept;
    struct most_kernel *k;

    if (c->nin != 1 || c->nout != 1 || x->layout != 0 || y->layout != 0 ||
        (forward &&
         (x->channels_last || y->channels_last || n < 1 ||
          (x->dtype != PDL_F32 && x->dtype != PDL_I32) ||
          (y->dtype != PDL_F32 && y->dtype != PDL_I32 && y->dtype != PDL_I64))))
        return PDL_OK;
    k = train_cpu_kernel(s, c, sizeof *k, &kept);
    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    train_array_strides(x, stride);
    *k =
        (struct most_kernel){.base = {.implementation = "own", .run = run_most},
                             .x = x->dtype,
                             .y = y->dtype,
                             .lines = forward ? train_array_elements(x) / n : 0,
                             .n = n,
                             .step = stride[axis],
                             .bytes = forward ? 0 : train_array_bytes(y)};
    *out = &k->base;
    return PDL_OK;
}

static const struct cpu_op rows[] = {
    {"take", make_take},   {"take_rows", make_take}, {"expand", make_expand},
    {"cumsum", make_sums}, {"argmax", make_most},
};

const struct cpu_ops train_cpu_take = {rows, sizeof rows / sizeof rows[0]};
