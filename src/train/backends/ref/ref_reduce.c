/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums, products, extremes and norms over axes. Backward works out again what
 * forward made of its input: a number for each element of y, and a second one
 * (how many factors are 0; which of equal elements was the first). */
#include "train/backends/ref/ref.h"

#include <math.h>
#include <string.h>

struct fold {
    const struct pdl_attr *attr;
    int rank; /* of x */
    bool gone[PDL_BOX_DIMS];
    double n; /* elements of x to one of y */
};

static struct fold fold_of(const struct ref_run *r)
{
    const struct pdl_tensor *t = &r->tensors[r->node->in[0]];
    struct fold f = {.attr = &r->node->attr, .rank = t->rank, .n = 1};

    for (int d = 0; d < t->rank; d++) {
        f.gone[d + 1] = f.attr->ndims == 0;
        for (int k = 0; k < f.attr->ndims; k++)
            f.gone[d + 1] = f.gone[d + 1] || f.attr->dims[k] == d;
        f.n *= f.gone[d + 1] ? (double)t->dim[d] : 1;
    }
    return f;
}

/* Where element i of x goes in y. */
static int64_t target(const struct fold *f, const struct ref_array *y,
                      const int64_t *i)
{
    int64_t yi[PDL_BOX_DIMS] = {0};
    int to = 0;

    for (int d = 0; d <= f->rank; d++)
        if (!f->gone[d] || f->attr->keep_dims)
            yi[to++] = f->gone[d] ? 0 : i[d];
    return ref_offset(y, yi);
}

/* ---- sums ------------------------------------------------------------- */

static void reduce(struct ref_run *r)
{
    bool forward = r->call->pass == PDL_FORWARD;
    struct ref_array *x = forward ? &r->in[0] : &r->out[0];
    struct ref_array *y = forward ? &r->out[0] : &r->in[0];
    struct fold f = fold_of(r);
    int64_t i[PDL_BOX_DIMS] = {0}, o = 0;

    if (pdl_op_id(r->node->op) == PDL_ID_REDUCE_SUM)
        f.n = 1;
    REF_EACH(&x->box, i)
    {
        if (forward)
            y->at[target(&f, y, i)] += x->at[o++] / f.n;
        else
            x->at[o++] = y->at[target(&f, y, i)] / f.n;
    }
}

/* ---- others ----------------------------------------------------------- */

/* v: the number of y so far, w: the second one. */
static void largest(double x, double *v, double *w)
{
    if (*w == 0 || x > *v)
        *v = x;
    *w = 1;
}
static void smallest(double x, double *v, double *w)
{
    double minus = -*v;

    largest(-x, &minus, w);
    *v = -minus;
}
/* of equals the first has the gradient */
static double picked(double x, double v, double *w)
{
    bool first = x == v && *w == 1;

    *w = first ? 2 : *w;
    return first;
}
static void times(double x, double *v, double *w)
{
    if (x == 0)
        ++*w;
    else
        *v *= x;
}
static double of_the_others(double x, double v, double *w)
{
    if (*w > 0)
        return *w == 1 && x == 0 ? v : 0;
    return v / x;
}
static void squares(double x, double *v, double *w)
{
    (void)w;
    *v += x * x;
}
static double direction(double x, double v, double *w)
{
    (void)w;
    return v > 0 ? x / sqrt(v) : 0;
}

static double as_it_is(double v, double w)
{
    (void)w;
    return v;
}
static double unless_zero(double v, double w)
{
    return w > 0 ? 0 : v;
}
static double root(double v, double w)
{
    (void)w;
    return sqrt(v);
}

static const struct rule {
    const char *op;
    double begin;
    void (*take)(double x, double *v, double *w);
    double (*end)(double v, double w);
    double (*slope)(double x, double v, double *w);
} rules[] = {
    {"reduce_max", 0, largest, as_it_is, picked},
    {"reduce_min", 0, smallest, as_it_is, picked},
    {"reduce_prod", 1, times, unless_zero, of_the_others},
    {"reduce_l2", 0, squares, root, direction},
};

static void fold(struct ref_run *r)
{
    bool forward = r->call->pass == PDL_FORWARD;
    const struct ref_array *x = &r->in[r->op.x];
    const struct ref_array *y = forward ? &r->out[0] : &r->in[r->op.dy];
    double *v = r->work, *w = r->work + y->count;
    struct fold f = fold_of(r);
    const struct rule *rule = rules;
    int64_t i[PDL_BOX_DIMS] = {0}, o = 0;

    while (strcmp(rule->op, r->node->op->name) != 0)
        rule++;
    for (int64_t k = 0; k < y->count; k++) {
        v[k] = rule->begin;
        w[k] = 0;
    }
    REF_EACH(&x->box, i)
    {
        int64_t k = target(&f, y, i);

        rule->take(x->at[o++], &v[k], &w[k]);
    }
    for (int64_t k = 0; forward && k < y->count; k++)
        r->out[0].at[k] = rule->end(v[k], w[k]);
    if (forward)
        return;
    o = 0;
    REF_EACH(&x->box, i)
    {
        int64_t k = target(&f, y, i);

        r->out[0].at[o] = y->at[k] * rule->slope(x->at[o], v[k], &w[k]);
        o++;
    }
}

static int64_t two_of_y(const struct train_call *c)
{
    return 2 * train_array_elements(c->pass == PDL_FORWARD ? &c->out[0]
                                                           : &c->in[0]);
}

static const struct ref_op rows[] = {
    {"reduce_mean", reduce, NULL, NULL},   {"reduce_sum", reduce, NULL, NULL},
    {"reduce_max", fold, two_of_y, NULL},  {"reduce_min", fold, two_of_y, NULL},
    {"reduce_prod", fold, two_of_y, NULL}, {"reduce_l2", fold, two_of_y, NULL},
};

const struct ref_ops train_ref_reduce = {rows, sizeof rows / sizeof rows[0]};
