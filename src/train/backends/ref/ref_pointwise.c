/* SPDX-License-Identifier: Apache-2.0
 *
 * Element by element, one operand: y = f(x), and dx = dy f'(x) or, where the
 * operator saves its output, dy g(y). Also dropout, prelu and scale, and the
 * softmax along an axis. */
#include "train/backends/ref/ref.h"

#include <math.h>
#include <string.h>

/* ---- functions -------------------------------------------------------- */

static const double SELU_SCALE = 1.0507009873554805,
                    SELU_ALPHA = 1.6732632423543772;

static double relu(double x)
{
    return x > 0 ? x : 0;
}
static double relu_y(double y)
{
    return y > 0 ? 1 : 0;
}
static double relu6(double x)
{
    return fmin(relu(x), 6);
}
static double relu6_y(double y)
{
    return y > 0 && y < 6 ? 1 : 0;
}
/* x times the normal distribution's integral */
static double gelu(double x)
{
    return 0.5 * x * (1 + erf(x * 0.70710678118654752));
}
static double gelu_x(double x)
{
    return 0.5 * (1 + erf(x * 0.70710678118654752)) +
           x * exp(-0.5 * x * x) * 0.3989422804014327;
}
/* the approximation (Hendrycks and Gimpel 2016): a (x + b x^3), 3 b below */
static double gelu_tanh(double x)
{
    return 0.5 * x *
           (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}
static double gelu_tanh_x(double x)
{
    double t = tanh(0.7978845608028654 * (x + 0.044715 * x * x * x));

    return 0.5 * (1 + t) +
           0.5 * x * (1 - t * t) * 0.7978845608028654 * (1 + 0.134145 * x * x);
}
static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}
static double sigmoid_y(double y)
{
    return y * (1 - y);
}
static double silu(double x)
{
    return x * sigmoid(x);
}
static double silu_x(double x)
{
    double s = sigmoid(x);

    return s * (1 + x * (1 - s));
}
static double tanh_y(double y)
{
    return 1 - y * y;
}
static double softplus(double x)
{
    return x > 30 ? x : log1p(exp(x));
}
static double mish(double x)
{
    return x * tanh(softplus(x));
}
static double mish_x(double x)
{
    double t = tanh(softplus(x));

    return t + x * (1 - t * t) * sigmoid(x);
}
static double hard_sigmoid(double x)
{
    return fmax(0, fmin(1, x / 6 + 0.5));
}
static double hard_swish(double x)
{
    return x * hard_sigmoid(x);
}
static double hard_swish_x(double x)
{
    return x <= -3 ? 0 : x >= 3 ? 1 : x / 3 + 0.5;
}
static double selu(double x)
{
    return SELU_SCALE * (x > 0 ? x : SELU_ALPHA * expm1(x));
}
static double selu_y(double y)
{
    return y > 0 ? SELU_SCALE : y + SELU_SCALE * SELU_ALPHA;
}
static double softsign(double x)
{
    return x / (1 + fabs(x));
}
static double softsign_x(double x)
{
    return 1 / ((1 + fabs(x)) * (1 + fabs(x)));
}
static double same(double y)
{
    return y;
}
static double log_x(double x)
{
    return 1 / x;
}
static double sqrt_y(double y)
{
    return 0.5 / y;
}
static double reciprocal(double x)
{
    return 1 / x;
}
static double reciprocal_y(double y)
{
    return -y * y;
}
static double erf_x(double x)
{
    return 1.1283791670955126 * exp(-x * x);
}
static double minus_sin(double x)
{
    return -sin(x);
}
static double sign(double x)
{
    return x > 0 ? 1 : x < 0 ? -1 : 0;
}
static double negate(double x)
{
    return -x;
}
static double minus_one(double d)
{
    (void)d;
    return -1;
}
static double one(double d)
{
    (void)d;
    return 1;
}

/* ---- functions with numbers of their own ------------------------------ */

static double leaky(double x, double a, double b)
{
    (void)b;
    return x > 0 ? x : a * x;
}
static double leaky_y(double y, double a, double b)
{
    (void)b;
    return y > 0 ? 1 : a;
}
static double elu(double x, double a, double b)
{
    (void)b;
    return x > 0 ? x : a * expm1(x);
}
static double elu_y(double y, double a, double b)
{
    (void)b;
    return y > 0 ? 1 : y + a;
}
static double line(double x, double a, double b)
{
    return a * x + b;
}
static double line_slope(double none, double a, double b)
{
    (void)none;
    (void)b;
    return a;
}
static double held_line(double x, double a, double b)
{
    return fmax(0, fmin(1, line(x, a, b)));
}
static double held_line_y(double y, double a, double b)
{
    (void)b;
    return y > 0 && y < 1 ? a : 0;
}
static double clip(double x, double a, double b)
{
    return fmin(fmax(x, a), b);
}
static double clip_y(double y, double a, double b)
{
    return y > a && y < b ? 1 : 0;
}
static double power(double x, double a, double b)
{
    (void)b;
    return pow(x, a);
}
static double power_x(double x, double a, double b)
{
    (void)b;
    return a * pow(x, a - 1);
}

static const struct numbered {
    const char *op;
    double (*f)(double, double, double), (*slope)(double, double, double);
} numbered_functions[] = {
    {"leaky_relu", leaky, leaky_y},
    {"hard_sigmoid", held_line, held_line_y},
    {"elu", elu, elu_y},
    {"affine", line, line_slope},
    {"clip", clip, clip_y},
    {"power", power, power_x},
};

/* slope: of x where the operator saves x, else of y, else of nothing. */
static const struct function {
    const char *op;
    double (*f)(double), (*slope)(double);
} functions[] = {
    // clang-format off
    {"relu", relu, relu_y},             {"relu6", relu6, relu6_y},
    {"gelu", gelu, gelu_x},             {"silu", silu, silu_x},
    {"gelu_tanh", gelu_tanh, gelu_tanh_x},
    {"mish", mish, mish_x},             {"hard_swish", hard_swish, hard_swish_x},
    {"sigmoid", sigmoid, sigmoid_y},    {"tanh", tanh, tanh_y},
    {"selu", selu, selu_y},             {"softplus", softplus, sigmoid},
    {"softsign", softsign, softsign_x}, {"exp", exp, same},
    {"log", log, log_x},                {"sqrt", sqrt, sqrt_y},
    {"reciprocal", reciprocal, reciprocal_y},
    {"erf", erf, erf_x},                {"sin", sin, cos},
    {"cos", cos, minus_sin},            {"abs", fabs, sign},
    {"neg", negate, minus_one},         {"identity", same, one},
    {"cast", same, one},
    // clang-format on
};

static const struct ref_array *saved_by(const struct ref_run *r)
{
    return r->op.nx > 0   ? &r->in[r->op.x]
           : r->op.ny > 0 ? &r->in[r->op.y]
                          : NULL;
}

static void numbered(struct ref_run *r)
{
    const struct numbered *f = numbered_functions;
    const struct ref_array *saved = saved_by(r);
    double a = 0, b = 0;

    while (strcmp(f->op, r->node->op->name) != 0)
        f++;
    pdl_function_numbers(r->node, &a, &b);
    for (int64_t i = 0; i < r->out[0].count; i++)
        r->out[0].at[i] =
            r->call->pass == PDL_FORWARD
                ? f->f(r->in[0].at[i], a, b)
                : r->in[0].at[i] * f->slope(saved ? saved->at[i] : 0, a, b);
}

/* An importer may know that there are bounds, and not which. */
static enum pdl_status clip_check(const struct train_call *c,
                                  struct pdl_err *err)
{
    double a = 0, b = 0;

    pdl_function_numbers(c->node, &a, &b);
    if (a < b)
        return PDL_OK;
    return pdl_fail(err, PDL_EINVAL, "%s: the model does not say the bounds",
                    c->node->name);
}

static void unary(struct ref_run *r)
{
    const struct function *f = functions;
    const struct ref_array *saved = saved_by(r);

    while (strcmp(f->op, train_function(r->node)) != 0)
        f++; /* the table of rows names only what is in this one */
    if (r->call->pass == PDL_FORWARD) {
        for (int64_t i = 0; i < r->out[0].count; i++)
            r->out[0].at[i] = f->f(r->in[0].at[i]);
        return;
    }
    for (int64_t i = 0; i < r->out[0].count; i++)
        r->out[0].at[i] = r->in[0].at[i] * f->slope(saved ? saved->at[i] : 0);
}

/* ---- dropout ---------------------------------------------------------- */

/* Whether an element stays is a function of seed, step, node, sample and
 * place: the same for every split, and in backward as in forward. */
static void dropout(struct ref_run *r)
{
    const struct ref_array *x = &r->in[0];
    const struct train_moment *t = r->when;
    const struct pdl_tensor *shape = &r->tensors[r->node->in[0]];
    double p = r->node->attr.scale > 0 ? r->node->attr.scale : 0.5;
    uint64_t node = (uint64_t)(r->node - r->call->model->nodes);
    int64_t i[PDL_BOX_DIMS] = {0}, k = 0;

    REF_EACH(&x->box, i)
    {
        uint64_t e = (uint64_t)(t->first_sample + i[0]);
        struct pdl_rng4 u;

        for (int d = 1; d < x->box.ndims; d++)
            e = e * (uint64_t)shape->dim[d - 1] +
                (uint64_t)(d == 1 ? train_position(r->call, i[d]) : i[d]);
        u = pdl_philox(t->seed, (uint64_t)t->step << 24 ^ node, e / 4);
        r->out[0].at[k] = x->at[k];
        if (!t->evaluate)
            r->out[0].at[k] *= u.v[e % 4] * 0x1p-32 < p ? 0 : 1 / (1 - p);
        k++;
    }
}

/* ---- a weight by channel or feature ----------------------------------- */

/* Which weight meets an index: prelu's go by channel (one for all where there
 * is one), scale's by channel of images and by feature of sequences. */
static int64_t weight_index(const struct ref_run *r, const struct ref_array *x,
                            const struct ref_array *w, const int64_t *i)
{
    bool by_channel =
        pdl_op_id(r->node->op) == PDL_ID_PRELU || x->box.ndims > 3;
    int64_t c = i[by_channel ? 1 : x->box.ndims - 1];

    return r->tensors[r->node->weights[0]].dim[0] == 1 ? 0 : c - w->box.lo[0];
}

static void weighted(struct ref_run *r)
{
    bool prelu = pdl_op_id(r->node->op) == PDL_ID_PRELU;
    bool forward = r->call->pass == PDL_FORWARD;
    bool weights = r->call->pass == PDL_BACKWARD_WEIGHTS;
    struct ref_array *x = &r->in[r->op.x];
    struct ref_array *w = weights ? &r->out[0] : &r->in[r->op.w];
    const struct ref_array *dy = &r->in[r->op.dy];
    int64_t i[PDL_BOX_DIMS] = {0}, k = 0;

    REF_EACH(&x->box, i)
    {
        double v = x->at[k], *a = &w->at[weight_index(r, x, w, i)];
        bool line = prelu && v > 0;

        if (forward)
            r->out[0].at[k] = line ? v : v * *a;
        else if (weights)
            *a += line ? 0 : dy->at[k] * v;
        else
            r->out[0].at[k] = dy->at[k] * (line ? 1 : *a);
        k++;
    }
}

/* The weights that the elements at hand meet must be there. */
static enum pdl_status weighted_check(const struct train_call *c,
                                      struct pdl_err *err)
{
    bool weights = c->pass == PDL_BACKWARD_WEIGHTS;
    const struct pdl_box *x = &c->in[0].box; /* or dy: the same box */
    const struct train_array *w = weights ? &c->out[0] : &c->in[1];
    int d = pdl_op_id(c->node->op) == PDL_ID_PRELU || x->ndims > 3
                ? 1
                : x->ndims - 1;
    bool one = c->model->tensors[c->node->weights[0]].dim[0] == 1;

    if (pdl_box_empty(x) || one ||
        (w->box.lo[0] <= x->lo[d] && w->box.hi[0] >= x->hi[d]))
        return PDL_OK;
    return pdl_fail(err, PDL_EWRONG, "%s: a part lacks weights it needs",
                    c->node->name);
}

/* ---- softmax ---------------------------------------------------------- */

struct line {
    int64_t n, step;
};

static void softmax_line(const double *x, double *y, struct line l, bool log_)
{
    double top = -INFINITY, sum = 0;

    for (int64_t i = 0; i < l.n; i++)
        top = fmax(top, x[i * l.step]);
    for (int64_t i = 0; i < l.n; i++)
        sum += exp(x[i * l.step] - top);
    for (int64_t i = 0; i < l.n; i++) {
        double v = x[i * l.step] - top;

        y[i * l.step] = log_ ? v - log(sum) : exp(v) / sum;
    }
}

static void softmax_line_back(const double *dy, const double *y, double *dx,
                              struct line l, bool log_)
{
    double sum = 0;

    for (int64_t i = 0; i < l.n; i++)
        sum += dy[i * l.step] * (log_ ? 1 : y[i * l.step]);
    for (int64_t i = 0; i < l.n; i++) {
        double v = y[i * l.step], d = dy[i * l.step];

        dx[i * l.step] = log_ ? d - exp(v) * sum : v * (d - sum);
    }
}

static void softmax(struct ref_run *r)
{
    bool log_ = pdl_op_id(r->node->op) == PDL_ID_LOG_SOFTMAX;
    struct ref_array *y = &r->out[0];
    int d = (int)r->node->attr.axis + 1;
    struct line l = {y->n[d], y->stride[d]};

    for (int64_t o = 0; o < y->count; o++) {
        if (o / l.step % l.n != 0)
            continue;
        if (r->call->pass == PDL_FORWARD)
            softmax_line(r->in[0].at + o, y->at + o, l, log_);
        else
            softmax_line_back(r->in[0].at + o, r->in[r->op.y].at + o, y->at + o,
                              l, log_);
    }
}

// clang-format off
#define UNARY(name) {name, unary, NULL, NULL}
#define NUMBERED(name) {name, numbered, NULL, NULL}
static const struct ref_op rows[] = {
    UNARY("relu"), UNARY("relu6"), UNARY("gelu"), UNARY("silu"), UNARY("mish"),
    UNARY("hard_swish"), NUMBERED("hard_sigmoid"), UNARY("sigmoid"),
    UNARY("tanh"), NUMBERED("leaky_relu"), NUMBERED("elu"), UNARY("selu"),
    NUMBERED("affine"), NUMBERED("power"), {"clip", numbered, NULL, clip_check},
    UNARY("softplus"), UNARY("softsign"), UNARY("exp"), UNARY("log"),
    UNARY("sqrt"), UNARY("reciprocal"), UNARY("erf"), UNARY("sin"),
    UNARY("cos"), UNARY("abs"), UNARY("neg"), UNARY("identity"),
    UNARY("cast"),
    {"dropout", dropout, NULL, NULL},
    {"prelu", weighted, NULL, weighted_check},
    {"scale", weighted, NULL, weighted_check},
    {"softmax", softmax, NULL, NULL},
    {"log_softmax", softmax, NULL, NULL},
};
// clang-format on

const struct ref_ops train_ref_pointwise = {rows, sizeof rows / sizeof rows[0]};
