/* SPDX-License-Identifier: Apache-2.0
 *
 * Element by element, several operands: shapes are aligned at the last
 * dimension, a dimension of 1 is stretched; a weight may be an operand. The
 * gradient of a stretched operand is the sum over what it was stretched to. */
#include "train/backends/ref/ref.h"

#include <math.h>
#include <string.h>

enum { MANY = REF_MAX };

/* An operand: activations have N in front, weights do not. */
struct operand {
    struct ref_array *a;
    const struct pdl_tensor *t;
    bool has_samples;
};

static int64_t place(const struct operand *o, const struct pdl_tensor *y,
                     const int64_t *yi)
{
    int64_t i[PDL_BOX_DIMS] = {0};
    int first = o->has_samples ? 1 : 0;

    i[0] = yi[0];
    for (int d = 0; d < o->t->rank; d++)
        i[d + first] = o->t->dim[d] == 1 ? 0 : yi[1 + d + y->rank - o->t->rank];
    return ref_offset(o->a, i);
}

/* Operands of forward, and where each stands among the inputs of the call;
 * a missing array (not among them) is NULL. */
static int operands(struct ref_run *r, struct operand *o)
{
    const struct pdl_node *n = r->node;
    int count = 0;

    for (int i = 0; i < n->nin; i++)
        o[count++] = (struct operand){r->op.nx > 0 ? &r->in[r->op.x + i] : NULL,
                                      &r->tensors[n->in[i]], true};
    for (int j = 0; j < n->nweights; j++)
        o[count++] = (struct operand){r->op.nw > j ? &r->in[r->op.w + j] : NULL,
                                      &r->tensors[n->weights[j]], false};
    return count;
}

/* ---- functions of a list of values, and of the slope towards one ------ */

static double sum(const double *v, int n)
{
    double s = 0;

    for (int i = 0; i < n; i++)
        s += v[i];
    return s;
}
static double sum_slope(const double *v, int n, int k)
{
    (void)v;
    (void)n;
    (void)k;
    return 1;
}
static double sub(const double *v, int n)
{
    return v[0] - (n > 1 ? v[1] : 0);
}
static double sub_slope(const double *v, int n, int k)
{
    (void)v;
    (void)n;
    return k == 0 ? 1 : -1;
}
static double mul(const double *v, int n)
{
    double s = 1;

    for (int i = 0; i < n; i++)
        s *= v[i];
    return s;
}
static double mul_slope(const double *v, int n, int k)
{
    double s = 1;

    for (int i = 0; i < n; i++)
        if (i != k)
            s *= v[i];
    return s;
}
static double quotient(const double *v, int n)
{
    return n > 1 ? v[0] / v[1] : v[0];
}
static double quotient_slope(const double *v, int n, int k)
{
    (void)n;
    return k == 0 ? 1 / v[1] : -v[0] / (v[1] * v[1]);
}
static int extreme(const double *v, int n, double sense)
{
    int best = 0;

    for (int i = 1; i < n; i++)
        if (sense * v[i] > sense * v[best])
            best = i;
    return best;
}
static double max(const double *v, int n)
{
    return v[extreme(v, n, 1)];
}
static double max_slope(const double *v, int n, int k)
{
    return extreme(v, n, 1) == k;
}
static double min(const double *v, int n)
{
    return v[extreme(v, n, -1)];
}
static double min_slope(const double *v, int n, int k)
{
    return extreme(v, n, -1) == k;
}
static double power(const double *v, int n)
{
    return n > 1 ? pow(v[0], v[1]) : v[0];
}
static double power_slope(const double *v, int n, int k)
{
    (void)n;
    return k == 0 ? v[1] * pow(v[0], v[1] - 1) : pow(v[0], v[1]) * log(v[0]);
}
static double mean(const double *v, int n)
{
    return sum(v, n) / n;
}
static double mean_slope(const double *v, int n, int k)
{
    (void)v;
    (void)k;
    return 1.0 / n;
}

/* True is 1. A comparison is flat; a choice hands on to what it chose. */
#define COMPARE(name, holds)                   \
    static double name(const double *v, int n) \
    {                                          \
        double a = v[0], b = n > 1 ? v[1] : 0; \
                                               \
        return holds;                          \
    }
COMPARE(equal, a == b)
COMPARE(less, a < b)
COMPARE(less_equal, a <= b)
COMPARE(greater, a > b)
COMPARE(greater_equal, a >= b)
COMPARE(both, a != 0 && b != 0)
COMPARE(either, a != 0 || b != 0)
COMPARE(one_of, (a != 0) != (b != 0))

static double flat(const double *v, int n, int k)
{
    (void)v;
    (void)n;
    (void)k;
    return 0;
}
static double where(const double *v, int n)
{
    (void)n;
    return v[0] != 0 ? v[1] : v[2];
}
static double where_slope(const double *v, int n, int k)
{
    (void)n;
    return k > 0 && (v[0] != 0) == (k == 1);
}

static const struct function {
    const char *op;
    double (*f)(const double *v, int n);
    double (*slope)(const double *v, int n, int k);
} functions[] = {
    {"add", sum, sum_slope},       {"sub", sub, sub_slope},
    {"mul", mul, mul_slope},       {"div", quotient, quotient_slope},
    {"max", max, max_slope},       {"min", min, min_slope},
    {"mean", mean, mean_slope},    {"pow", power, power_slope},
    {"where", where, where_slope}, {"equal", equal, flat},
    {"less", less, flat},          {"less_equal", less_equal, flat},
    {"greater", greater, flat},    {"greater_equal", greater_equal, flat},
    {"and", both, flat},           {"or", either, flat},
    {"xor", one_of, flat},         {"not", equal, flat},
};

static const struct function *function_of(const struct pdl_node *n)
{
    const struct function *f = functions;

    while (strcmp(f->op, n->op->name) != 0)
        f++;
    return f;
}

/* ---- passes ----------------------------------------------------------- */

/* Returns how many: a number may stand for the last operand. */
static int values_at(const struct ref_run *r, const struct operand *o, int n,
                     const int64_t *i, double *v)
{
    const struct pdl_tensor *y = &r->tensors[r->node->out[0]];

    for (int k = 0; k < n; k++)
        v[k] = o[k].a ? o[k].a->at[place(&o[k], y, i)] : 0;
    return n + train_with_number(r->node, &v[n]);
}

static void forward(struct ref_run *r)
{
    const struct function *f = function_of(r->node);
    struct operand o[MANY];
    int n = operands(r, o);
    int64_t i[PDL_BOX_DIMS] = {0}, k = 0;
    double v[MANY + 1];

    REF_EACH(&r->out[0].box, i)
    {
        int nv = values_at(r, o, n, i, v);

        r->out[0].at[k++] = f->f(v, nv);
    }
}

/* Adds dy times the slope towards operand `which` to its gradient. */
static void gradient(struct ref_run *r, const struct operand *o, int n,
                     int which, struct ref_array *into)
{
    const struct function *f = function_of(r->node);
    const struct pdl_tensor *yt = &r->tensors[r->node->out[0]];
    const struct ref_array *dy = &r->in[r->op.dy];
    struct operand to = o[which];
    int64_t i[PDL_BOX_DIMS] = {0}, k = 0;
    double v[MANY + 1];

    to.a = into;
    REF_EACH(&dy->box, i)
    {
        int nv = values_at(r, o, n, i, v);

        into->at[place(&to, yt, i)] += dy->at[k++] * f->slope(v, nv, which);
    }
}

static void backward_data(struct ref_run *r)
{
    struct operand o[MANY];
    int n = operands(r, o), out = 0;

    for (int i = 0; i < r->node->nin && out < r->call->nout; i++)
        if (train_wants_grad(r->call->model, r->node->in[i]))
            gradient(r, o, n, i, &r->out[out++]);
}

/* The weight's own value is not at hand: only sums and products do without. */
static void backward_weights(struct ref_run *r)
{
    struct operand o[MANY];
    int n = operands(r, o), out = 0;

    for (int j = 0; j < r->node->nweights && out < r->call->nout; j++)
        if (o[r->node->nin + j].t->kind == PDL_TENSOR_WEIGHT)
            gradient(r, o, n, r->node->nin + j, &r->out[out++]);
}

static void run(struct ref_run *r)
{
    static void (*const passes[])(struct ref_run *) = {
        [PDL_FORWARD] = forward,
        [PDL_BACKWARD_DATA] = backward_data,
        [PDL_BACKWARD_WEIGHTS] = backward_weights,
    };

    passes[r->call->pass](r);
}

/* Does this operand have what elements of the box y meet? */
static bool covers(const struct train_array *a, const struct pdl_tensor *t,
                   const struct pdl_box *y, int first)
{
    for (int d = 0; d < t->rank; d++) {
        int dy = d + y->ndims - t->rank;

        if (t->dim[d] != 1 && (a->box.lo[d + first] > y->lo[dy] ||
                               a->box.hi[d + first] < y->hi[dy]))
            return false;
    }
    return true;
}

static enum pdl_status check_parts(const struct train_call *c,
                                   struct pdl_err *err)
{
    const struct pdl_tensor *t = c->model->tensors;
    const struct pdl_node *n = c->node;
    struct train_operands o;
    const struct pdl_box *y;
    bool fits = true;

    train_operands(c, &o);
    y = c->pass == PDL_FORWARD ? &c->out[0].box : &c->in[o.dy].box;
    for (int i = 0; i < o.nx; i++)
        fits = fits && covers(&c->in[o.x + i], &t[n->in[i]], y, 1);
    for (int j = 0; j < o.nw; j++)
        fits = fits && covers(&c->in[o.w + j], &t[n->weights[j]], y, 0);
    for (int j = 0; c->pass == PDL_BACKWARD_WEIGHTS && j < c->nout; j++)
        fits = fits && covers(&c->out[j], &t[n->weights[j]], y, 0);
    if (fits || pdl_box_empty(y))
        return PDL_OK;
    return pdl_fail(err, PDL_EWRONG, "%s: a part lacks elements it needs",
                    n->name);
}

static enum pdl_status check(const struct train_call *c, struct pdl_err *err)
{
    const struct pdl_node *n = c->node;
    bool linear = pdl_op_id(n->op) == PDL_ID_ADD ||
                  pdl_op_id(n->op) == PDL_ID_SUB ||
                  pdl_op_id(n->op) == PDL_ID_MEAN ||
                  (pdl_op_id(n->op) == PDL_ID_MUL && n->nweights == 1);

    if (c->pass == PDL_BACKWARD_WEIGHTS && !linear)
        return pdl_fail(err, PDL_EINVAL,
                        "%s: the runtime has no gradient of a weight in %s",
                        n->name, n->op->name);
    return check_parts(c, err);
}

static const struct ref_op rows[] = {
    {"add", run, NULL, check},     {"sub", run, NULL, check},
    {"mul", run, NULL, check},     {"div", run, NULL, check},
    {"max", run, NULL, check},     {"min", run, NULL, check},
    {"mean", run, NULL, check},    {"pow", run, NULL, check},
    {"where", run, NULL, check},   {"equal", run, NULL, check},
    {"less", run, NULL, check},    {"less_equal", run, NULL, check},
    {"greater", run, NULL, check}, {"greater_equal", run, NULL, check},
    {"and", run, NULL, check},     {"or", run, NULL, check},
    {"xor", run, NULL, check},     {"not", run, NULL, check},
};

const struct ref_ops train_ref_broadcast = {rows, sizeof rows / sizeof rows[0]};
