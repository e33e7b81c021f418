/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of one operand with the numbers that a file gives them: as
 * attributes, or, of sums, products and powers, as a stored constant beside
 * the data. What none of our functions computes is "other". */
#include "onnx_layer.h"

#include <float.h>
#include <math.h>

static void function(struct onnx_layer *l, const char *op, double alpha,
                     double beta)
{
    l->op = op;
    l->attr.alpha = alpha;
    l->attr.beta = beta;
    l->nout = 1;
    if (l->nin == 0)
        model_onnx_input(l, l->n->in[0]);
    model_onnx_outputs(l, model_onnx_emit(l));
}

/* ---- numbers that are attributes -------------------------------------- */

static void other(struct onnx_layer *l)
{
    function(l, "other", 0, 0);
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-4 * fabs(b);
}

void model_onnx_leaky(struct onnx_layer *l)
{
    double a = model_onnx_float(l->n, "alpha", 0.01);

    if (a > 0)
        function(l, "leaky_relu", a, 0);
    else if (a == 0)
        function(l, "relu", 0, 0);
    else
        other(l); /* its slope does not follow from its value */
}

void model_onnx_relu(struct onnx_layer *l)
{
    bool zero = !model_onnx_type_is(l->n, "ThresholdedRelu") ||
                model_onnx_float(l->n, "alpha", 1) == 0;

    function(l, zero ? "relu" : "other", 0, 0);
}

void model_onnx_elu(struct onnx_layer *l)
{
    double a = model_onnx_float(l->n, "alpha", 1);

    if (a > 0 && (model_onnx_type_is(l->n, "Elu") || a == 1))
        function(l, "elu", a, 0);
    else
        other(l);
}

void model_onnx_selu(struct onnx_layer *l)
{
    bool usual = near(model_onnx_float(l->n, "alpha", 1.67326), 1.67326) &&
                 near(model_onnx_float(l->n, "gamma", 1.0507), 1.0507);

    function(l, usual ? "selu" : "other", 0, 0);
}

/* 1/6 is stored as 0.1666... with the digits of a float. */
void model_onnx_hard_sigmoid(struct onnx_layer *l)
{
    double a = model_onnx_float(l->n, "alpha", 0.2);
    double b = model_onnx_float(l->n, "beta", 0.5);

    if (a == 0 || b == 0)
        other(l);
    else
        function(l, "hard_sigmoid", fabs(a - 1.0 / 6) < 1e-7 ? 0 : a, b);
}

void model_onnx_gelu(struct onnx_layer *l)
{
    if (model_onnx_type_is(l->n, "QuickGelu")) {
        other(l);
        return;
    }
    l->attr.by_tanh = model_onnx_type_is(l->n, "FastGelu") ||
                      model_onnx_is(l->n, "approximate", "tanh");
    model_onnx_plain(l);
}

/* A stored number beside the data; false: it is none, or not known. */
static bool number(const struct onnx_layer *l, int i, double *out)
{
    const struct onnx_shape *s = model_onnx_shape_in(l, i);

    if (!model_onnx_constant_in(l, i) || s->nval != 1 || isnan(s->val[0]))
        return false;
    *out = s->val[0];
    return true;
}

void model_onnx_clip(struct onnx_layer *l)
{
    double low = model_onnx_float(l->n, "min", -FLT_MAX),
           high = model_onnx_float(l->n, "max", FLT_MAX);
    bool known = (number(l, 1, &low) || !model_onnx_given(l, 1)) &&
                 (number(l, 2, &high) || !model_onnx_given(l, 2));

    if (!known || !(low < high))
        other(l);
    else if (low == 0 && (high == 6 || high >= FLT_MAX))
        function(l, high == 6 ? "relu6" : "relu", 0, 0);
    else
        function(l, "clip", fmax(low, -FLT_MAX), fmin(high, FLT_MAX));
}

/* The mask is not kept: it is made again from its seed. */
void model_onnx_dropout(struct onnx_layer *l)
{
    double p = model_onnx_float(l->n, "ratio", 0.5);

    l->nout = 1;
    if (number(l, 1, &p) || !model_onnx_given(l, 1)) {
        l->attr.scale = p;
        if (p == 0) {
            function(l, "identity", 0, 0);
            return;
        }
    }
    model_onnx_plain(l);
}

/* ---- a stored number beside the data ---------------------------------- */

/* A number that is learned is a weight. */
static bool is_parameter(const struct onnx_layer *l, int i)
{
    int source = model_onnx_source(l->m->g, l->n->in[i]);

    return source >= 0 && l->m->g->values[source].role != PDL_TENSOR_CONST;
}

static bool scalar_beside(const struct onnx_layer *l, int *x, double *c)
{
    for (int i = 0; i < 2; i++)
        if (l->n->nin == 2 && model_onnx_given(l, 0) &&
            model_onnx_given(l, 1) && number(l, i, c) && !is_parameter(l, i) &&
            !l->m->g->values[l->n->in[1 - i]].constant) {
            *x = 1 - i;
            return isfinite(*c);
        }
    return false;
}

/* c / x */
static void divided(struct onnx_layer *l, double c)
{
    if (c != 1)
        l->in[0] =
            model_onnx_step(l, "reciprocal", "Reciprocal", l->in[0], l->out[0]);
    if (c == 1)
        function(l, "reciprocal", 0, 0);
    else
        function(l, "affine", c, 0);
}

/* Sums, products, quotients and powers with a number are functions; a factor
 * of 0 is not (0 reads as 1), nor is a power with the data above, or a quotient
 * of integers, which is rounded. */
bool model_onnx_with_number(struct onnx_layer *l)
{
    double c = 0;
    int x = 0;

    if (l->nout != 1 || !scalar_beside(l, &x, &c) ||
        (strcmp(l->op, "div") == 0 &&
         model_onnx_int_type(model_onnx_shape_in(l, x)->type)))
        return false;
    if (strcmp(l->op, "add") == 0 || strcmp(l->op, "sub") == 0) {
        bool minus = strcmp(l->op, "sub") == 0;

        model_onnx_input(l, l->n->in[x]);
        function(l, "affine", minus && x == 1 ? -1 : 1,
                 minus && x == 0 ? -c : c);
    } else if (c != 0 && (strcmp(l->op, "mul") == 0 ||
                          (strcmp(l->op, "div") == 0 && x == 0))) {
        model_onnx_input(l, l->n->in[x]);
        function(l, "affine", strcmp(l->op, "mul") == 0 ? c : 1 / c, 0);
    } else if (c != 0 && strcmp(l->op, "div") == 0) {
        model_onnx_input(l, l->n->in[x]);
        divided(l, c);
    } else if (c != 0 && strcmp(l->op, "pow") == 0 && x == 0) {
        model_onnx_input(l, l->n->in[x]);
        function(l, "power", c, 0);
    } else if (strcmp(l->op, "max") == 0 || strcmp(l->op, "min") == 0) {
        bool max = strcmp(l->op, "max") == 0;

        model_onnx_input(l, l->n->in[x]);
        function(l, "clip", max ? c : -FLT_MAX, max ? FLT_MAX : c);
    } else {
        return false;
    }
    return true;
}

/* ---- comparisons and choices ------------------------------------------ */

/* c < x is x > c. */
void model_onnx_compare(struct onnx_layer *l)
{
    static const char *const turned[][2] = {{"less", "greater"},
                                            {"less_equal", "greater_equal"},
                                            {"greater", "less"},
                                            {"greater_equal", "less_equal"}};
    const char *op = l->op;
    double c = 0;
    int x = 0;

    if (!scalar_beside(l, &x, &c)) {
        model_onnx_plain(l);
        return;
    }
    for (size_t i = 0; x == 1 && i < sizeof turned / sizeof turned[0]; i++)
        if (strcmp(l->op, turned[i][0]) == 0)
            op = turned[i][1];
    model_onnx_input(l, l->n->in[x]);
    function(l, op, c, 0);
}

/* A number instead of one of the two: as the last operand, of the opposite
 * condition if need be. Infinity is the largest number. */
void model_onnx_where(struct onnx_layer *l)
{
    double c[3] = {0};
    bool is[3] = {false, false, false};

    for (int i = 1; i < 3 && l->n->nin == 3; i++)
        is[i] = model_onnx_given(l, i) && number(l, i, &c[i]) &&
                !is_parameter(l, i);
    if (l->n->nin != 3 || is[1] == is[2] || model_onnx_constant_in(l, 0)) {
        model_onnx_plain(l);
        return;
    }
    model_onnx_input(l, l->n->in[0]);
    if (is[1]) {
        struct pdl_tensor t;
        int batch = -1;

        model_onnx_sample(l->m->g, l->n->in[0], &t, &batch);
        t.dtype = PDL_BOOL;
        l->in[0] = model_onnx_step(l, "not", "Not", l->in[0], t);
    }
    model_onnx_input(l, l->n->in[is[1] ? 2 : 1]);
    function(l, "where", fmax(fmin(c[is[1] ? 1 : 2], FLT_MAX), -FLT_MAX), 0);
}
