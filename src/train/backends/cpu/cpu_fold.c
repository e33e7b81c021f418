/* SPDX-License-Identifier: Apache-2.0
 *
 * Extremes, products and Euclidean norms over axes: each element of y has its
 * own elements of x, which are walked once to find its number and, for the
 * gradient, once more. */
#include "train/backends/cpu/cpu.h"

#include <math.h>
#include <string.h>

/* What is known of one element of y: its number, and how many factors are 0,
 * or whether an element has it already. */
struct found {
    double v;
    int64_t w;
};

typedef void take_fn(struct found *f, const float *x, int64_t n, int64_t step);
typedef void back_fn(struct found *f, const float *x, float *dx, int64_t n,
                     int64_t step, float dy);

static void take_max(struct found *f, const float *x, int64_t n, int64_t step)
{
    float v = (float)f->v;

    for (int64_t i = 0; i < n; i++)
        v = x[i * step] > v ? x[i * step] : v;
    f->v = (double)v;
}

static void take_min(struct found *f, const float *x, int64_t n, int64_t step)
{
    float v = (float)f->v;

    for (int64_t i = 0; i < n; i++)
        v = x[i * step] < v ? x[i * step] : v;
    f->v = (double)v;
}

/* Of equals the first has the gradient. */
static void back_extreme(struct found *f, const float *x, float *dx, int64_t n,
                         int64_t step, float dy)
{
    for (int64_t i = 0; i < n; i++) {
        bool first = f->w == 0 && x[i * step] == (float)f->v;

        f->w += first;
        dx[i * step] = first ? dy : 0;
    }
}

static void take_product(struct found *f, const float *x, int64_t n,
                         int64_t step)
{
    for (int64_t i = 0; i < n; i++)
        if (x[i * step] == 0)
            f->w++;
        else
            f->v *= (double)x[i * step];
}

static void back_product(struct found *f, const float *x, float *dx, int64_t n,
                         int64_t step, float dy)
{
    for (int64_t i = 0; i < n; i++) {
        double at = (double)x[i * step];
        double others = f->w == 0 ? f->v / at : f->w == 1 && at == 0 ? f->v : 0;

        dx[i * step] = (float)((double)dy * others);
    }
}

static void take_squares(struct found *f, const float *x, int64_t n,
                         int64_t step)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i * step] * (double)x[i * step];
    f->v += sum;
}

static void back_squares(struct found *f, const float *x, float *dx, int64_t n,
                         int64_t step, float dy)
{
    float by = f->v > 0 ? (float)((double)dy / sqrt(f->v)) : 0;

    for (int64_t i = 0; i < n; i++)
        dx[i * step] = x[i * step] * by;
}

static const struct rule {
    const char *op;
    double begin;
    take_fn *take;
    back_fn *back;
} rules[] = {
    {"reduce_max", -INFINITY, take_max, back_extreme},
    {"reduce_min", INFINITY, take_min, back_extreme},
    {"reduce_prod", 1, take_product, back_product},
    {"reduce_l2", 0, take_squares, back_squares},
};

static float number(const struct rule *r, const struct found *f)
{
    if (r->take == take_squares)
        return (float)sqrt(f->v);
    return r->take == take_product && f->w > 0 ? 0 : (float)f->v;
}

/* ---- walking ---------------------------------------------------------- */

struct dims {
    int n;
    int64_t count[PDL_BOX_DIMS], x[PDL_BOX_DIMS], y[PDL_BOX_DIMS];
};

struct fold_kernel {
    struct train_kernel base;
    const struct rule *rule;
    struct dims kept, gone;
    int64_t elements; /* of y */
    int x, dy;        /* operands; dy < 0: forward */
};

struct task {
    const struct fold_kernel *k;
    void *const *in, *const *out;
};

/* Lines of the axes that go, of which the last is the line. */
static void walk(const struct task *t, struct found *f, int64_t from,
                 const float *dy)
{
    const struct dims *g = &t->k->gone;
    const float *x = (const float *)t->in[t->k->x] + from;
    float *dx = (float *)t->out[0] + from;
    int64_t lines = 1;

    for (int d = 0; d + 1 < g->n; d++)
        lines *= g->count[d];
    for (int64_t line = 0; line < lines; line++) {
        int64_t rest = line, o = 0;

        for (int d = g->n - 2; d >= 0; d--) {
            o += rest % g->count[d] * g->x[d];
            rest /= g->count[d];
        }
        if (dy)
            t->k->rule->back(f, x + o, dx + o, g->count[g->n - 1],
                             g->x[g->n - 1], *dy);
        else
            t->k->rule->take(f, x + o, g->count[g->n - 1], g->x[g->n - 1]);
    }
}

static void some(const void *ctx, int64_t from, int64_t to)
{
    const struct task *t = ctx;
    const struct fold_kernel *k = t->k;

    for (int64_t e = from; e < to; e++) {
        struct found f = {.v = k->rule->begin};
        int64_t rest = e, x = 0, y = 0;

        for (int d = k->kept.n - 1; d >= 0; d--) {
            int64_t i = rest % k->kept.count[d];

            x += i * k->kept.x[d];
            y += i * k->kept.y[d];
            rest /= k->kept.count[d];
        }
        walk(t, &f, x, NULL);
        if (k->dy < 0)
            ((float *)t->out[0])[y] = number(k->rule, &f);
        else
            walk(t, &f, x, (const float *)t->in[k->dy] + y);
    }
}

static enum pdl_status run(const struct train_kernel *base, void *const *in,
                           void *const *out, void *scratch,
                           const struct train_moment *when, struct pdl_err *err)
{
    const struct fold_kernel *k = (const struct fold_kernel *)base;
    struct task t = {k, in, out};
    int64_t each = 1;

    (void)scratch;
    (void)when;
    (void)err;
    for (int d = 0; d < k->gone.n; d++)
        each *= k->gone.count[d];
    if (k->elements > 0)
        train_cpu_parallel(k->elements, 1 + CPU_GRAIN / (each + 1), some, &t);
    return PDL_OK;
}

/* ---- making ----------------------------------------------------------- */

static void add_dim(struct dims *d, int64_t count, int64_t x, int64_t y)
{
    d->count[d->n] = count;
    d->x[d->n] = x;
    d->y[d->n++] = y;
}

/* All of an axis that goes must be here. */
static bool sort_dims(struct fold_kernel *k, const struct train_call *c,
                      const struct train_array *x, const struct train_array *y)
{
    const struct pdl_attr *a = &c->node->attr;
    const struct pdl_tensor *t = &c->model->tensors[c->node->in[0]];
    int64_t xs[PDL_BOX_DIMS] = {0}, ys[PDL_BOX_DIMS] = {0};
    int to = 1;

    train_array_strides(x, xs);
    train_array_strides(y, ys);
    add_dim(&k->kept, x->box.hi[0] - x->box.lo[0], xs[0], ys[0]);
    for (int d = 0; d < t->rank; d++) {
        int64_t n = x->box.hi[d + 1] - x->box.lo[d + 1];
        bool gone = a->ndims == 0;

        for (int i = 0; i < a->ndims; i++)
            gone = gone || a->dims[i] == d;
        if (gone && n != t->dim[d])
            return false;
        add_dim(gone ? &k->gone : &k->kept, n, xs[d + 1], gone ? 0 : ys[to]);
        to += !gone || a->keep_dims;
    }
    k->elements = train_array_elements(y);
    return k->gone.n > 0;
}

static bool same_lines(const struct train_array *a, const struct train_array *b)
{
    int64_t s[PDL_BOX_DIMS] = {0}, t[PDL_BOX_DIMS] = {0};

    train_array_strides(a, s);
    train_array_strides(b, t);
    return memcmp(s, t, sizeof s) == 0 && a->box.ndims == b->box.ndims;
}

static enum pdl_status make_fold(struct cpu_state *s,
                                 const struct train_call *c,
                                 struct train_kernel **out, struct pdl_err *err)
{
    bool forward = c->pass == PDL_FORWARD;
    struct train_operands op;
    struct train_call kept;
    struct fold_kernel *k;

    train_operands(c, &op);
    if (!train_cpu_plain(c) || c->nout != 1 ||
        (!forward && !same_lines(&c->in[op.x], &c->out[0])))
        return PDL_OK;
    k = train_cpu_kernel(s, c, sizeof *k, &kept);
    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    k->x = op.x;
    k->dy = forward ? -1 : op.dy;
    k->rule = rules;
    while (strcmp(k->rule->op, c->node->op->name) != 0)
        k->rule++;
    k->base.run = run;
    k->base.implementation = "own";
    if (sort_dims(k, c, &c->in[op.x], forward ? &c->out[0] : &c->in[op.dy]))
        *out = &k->base;
    return PDL_OK;
}

static const struct cpu_op rows[] = {
    {"reduce_max", make_fold},
    {"reduce_min", make_fold},
    {"reduce_prod", make_fold},
    {"reduce_l2", make_fold},
};

const struct cpu_ops train_cpu_fold = {rows, sizeof rows / sizeof rows[0]};
