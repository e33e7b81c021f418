/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers that older exporters spell out: layer norm (no operator before opset
 * 17), RMS norm (none before 23), GELU (none before 20) and SiLU (none before
 * 24). Two to nine small operators become the one they stand for, so that
 * memory and time are those of the layer people train.
 *
 *   layer norm  ((x - mean x) / sqrt(mean((x - mean x)^2) + eps)) g + h
 *   RMS norm    x / sqrt(mean(x^2) + eps) g, in 32 bits or not
 *   GELU        x (erf(x / sqrt 2) + 1) / 2
 *               x (tanh(a (x + b x^3)) + 1) / 2, halved last or first
 *   SiLU        x sigmoid(x)
 *   hard swish  x hard_sigmoid(x)
 *
 * A chain is taken only when nothing outside reads its middle. */
#include "onnx_layer.h"

#include <math.h>

enum { MOST = 10 };

struct chain {
    const struct onnx_maker *m;
    int node[MOST]; /* of the chain, the last one not included */
    int n;
};

static bool is_scalar(const struct onnx_maker *m, int id)
{
    return m->g->values[id].constant &&
           model_onnx_elements(&m->g->shape[id]) == 1;
}

static bool number_of(const struct onnx_maker *m, int id, double *out)
{
    if (m->g->shape[id].nval != 1)
        return false;
    *out = m->g->shape[id].val[0];
    return true;
}

/* A stored list of which every element is v. */
static bool all_are(const struct onnx_maker *m, int id, double v)
{
    const struct onnx_shape *s = &m->g->shape[id];

    for (int i = 0; i < s->nval; i++)
        if (s->val[i] != v)
            return false;
    return m->g->values[id].constant && s->nval > 0;
}

/* The node of that type that makes a value read `readers` times, which joins
 * the chain; NULL: another. */
static const struct onnx_node *link_of(struct chain *c, int id,
                                       const char *type, int readers)
{
    const struct onnx_value *v = &c->m->g->values[id];
    const struct onnx_node *n;

    if (v->node < 0 || c->m->readers[id] != readers || c->n == MOST)
        return NULL;
    n = &c->m->g->nodes[v->node];
    if (!model_onnx_type_is(n, type) || n->nin < 1 || n->in[0] < 0 ||
        (n->nin > 1 && n->in[1] < 0))
        return NULL;
    c->node[c->n++] = v->node;
    return n;
}

/* Of a node with two inputs, the one that is not constant; -1: neither or
 * both. *other: the constant. */
static int data_of(const struct chain *c, const struct onnx_node *n, int *other)
{
    for (int i = 0; i < 2 && n->nin == 2; i++)
        if (n->in[0] >= 0 && n->in[1] >= 0 &&
            c->m->g->values[n->in[1 - i]].constant &&
            !c->m->g->values[n->in[i]].constant) {
            *other = n->in[1 - i];
            return n->in[i];
        }
    return -1;
}

/* mean over the last dimension of `x` */
static bool is_mean(const struct onnx_maker *m, const struct onnx_node *n,
                    int x)
{
    const struct onnx_shape *s = &m->g->shape[x];
    const struct onnx_shape *y =
        n && n->out[0] >= 0 ? &m->g->shape[n->out[0]] : NULL;

    if (!y || n->in[0] != x || s->rank < 1 || y->rank != s->rank ||
        y->dim[s->rank - 1] != 1)
        return false;
    for (int i = 0; i + 1 < s->rank; i++)
        if (y->dim[i] != s->dim[i])
            return false;
    return true;
}

/* mean of squares of `s`, plus a small number, under a root */
static bool is_deviation(struct chain *c, int id, int s, int *readers,
                         double *epsilon)
{
    const struct onnx_node *root = link_of(c, id, "Sqrt", 1), *sum, *mean, *sq;
    int eps = -1, v;

    sum = root ? link_of(c, root->in[0], "Add", 1) : NULL;
    v = sum ? data_of(c, sum, &eps) : -1;
    mean =
        v >= 0 && is_scalar(c->m, eps) ? link_of(c, v, "ReduceMean", 1) : NULL;
    if (!mean)
        return false;
    number_of(c->m, eps, epsilon);
    *readers = 2;
    sq = link_of(c, mean->in[0], "Pow", 1);
    if (!sq) {
        sq = link_of(c, mean->in[0], "Mul", 1);
        *readers = 3;
        if (!sq || sq->nin != 2 || sq->in[1] != s)
            return false;
    }
    return sq->in[0] == s && sq->out[0] >= 0 && is_mean(c->m, mean, sq->out[0]);
}

static bool match_norm(struct chain *c, const struct onnx_node *last,
                       struct onnx_fused *f)
{
    const struct onnx_node *scale, *div, *sub;
    int d, readers = 0, m;

    if (!model_onnx_type_is(last, "Add"))
        return false;
    m = data_of(c, last, &f->shift);
    scale = m >= 0 ? link_of(c, m, "Mul", 1) : NULL;
    d = scale ? data_of(c, scale, &f->scale) : -1;
    div = d >= 0 ? link_of(c, d, "Div", 1) : NULL;
    if (!div || div->nin != 2 ||
        !is_deviation(c, div->in[1], div->in[0], &readers, &f->attr.epsilon))
        return false;
    sub = link_of(c, div->in[0], "Sub", readers);
    if (!sub || sub->nin != 2)
        return false;
    f->x = sub->in[0];
    f->op = "layer_norm";
    return is_mean(c->m, link_of(c, sub->in[1], "ReduceMean", 1), f->x);
}

/* What a cast that nothing else reads was made of; the value itself. */
static int before_cast(struct chain *c, int id)
{
    const struct onnx_node *cast = link_of(c, id, "Cast", 1);

    return cast ? cast->in[0] : id;
}

/* 1 / s, as an operator or a quotient; the value of s, or -1 */
static int inverse_of(struct chain *c, int id)
{
    const struct onnx_node *n = link_of(c, id, "Reciprocal", 1);

    if (n)
        return n->in[0];
    n = link_of(c, id, "Div", 1);
    return n && n->nin == 2 && all_are(c->m, n->in[0], 1) ? n->in[1] : -1;
}

/* x / sqrt(mean(x^2) + eps): a quotient, or a product with the inverse */
static bool is_scaled(struct chain *c, int id, int *x, double *epsilon)
{
    const struct onnx_node *by = link_of(c, id, "Div", 1);
    int readers;

    if (by && by->nin == 2) {
        *x = by->in[0];
        return is_deviation(c, by->in[1], *x, &readers, epsilon);
    }
    by = link_of(c, id, "Mul", 1);
    for (int i = 0; by && by->nin == 2 && i < 2; i++) {
        int n = c->n, root = inverse_of(c, by->in[1 - i]);

        *x = by->in[i];
        if (root >= 0 && is_deviation(c, root, *x, &readers, epsilon))
            return true;
        c->n = n;
    }
    return false;
}

static bool match_rms(struct chain *c, const struct onnx_node *last,
                      struct onnx_fused *f)
{
    int y = model_onnx_type_is(last, "Mul") ? data_of(c, last, &f->scale) : -1;
    const struct onnx_value *v;

    if (y < 0 || is_scalar(c->m, f->scale) ||
        !is_scaled(c, before_cast(c, y), &f->x, &f->attr.epsilon))
        return false;
    /* what is squared and scaled may be a copy in 32 bits, which both read */
    v = &c->m->g->values[f->x];
    if (v->node >= 0 && model_onnx_type_is(&c->m->g->nodes[v->node], "Cast") &&
        c->m->readers[f->x] <= 3 && c->n < MOST) {
        c->node[c->n++] = v->node;
        f->x = c->m->g->nodes[v->node].in[0];
    }
    f->op = "rms_norm";
    return f->x >= 0;
}

/* PyTorch's exporter has group norm as instance norm of groups, with scale 1
 * and shift 0, between two reshapes; then scale and shift. */
static bool match_groups(struct chain *c, const struct onnx_node *last,
                         struct onnx_fused *f)
{
    const struct onnx_node *scale, *wide, *norm, *narrow;
    int p = model_onnx_type_is(last, "Add") ? data_of(c, last, &f->shift) : -1;

    scale = p >= 0 ? link_of(c, p, "Mul", 1) : NULL;
    p = scale ? data_of(c, scale, &f->scale) : -1;
    wide = p >= 0 ? link_of(c, p, "Reshape", 1) : NULL;
    norm = wide ? link_of(c, wide->in[0], "InstanceNormalization", 1) : NULL;
    if (!norm || norm->nin != 3 || norm->in[1] < 0 || norm->in[2] < 0 ||
        !all_are(c->m, norm->in[1], 1) || !all_are(c->m, norm->in[2], 0))
        return false;
    narrow = link_of(c, norm->in[0], "Reshape", 1);
    if (!narrow)
        return false;
    f->x = narrow->in[0];
    f->op = "group_norm";
    f->attr.groups = c->m->g->shape[norm->in[1]].nval;
    f->attr.epsilon = model_onnx_float(norm, "epsilon", 1e-5);
    return true;
}

static bool match_gelu(struct chain *c, const struct onnx_node *last,
                       struct onnx_fused *f)
{
    const struct onnx_node *mul, *add, *erf, *div;
    int half = -1, root = -1, one = -1, p;

    if (!model_onnx_type_is(last, "Mul"))
        return false;
    p = data_of(c, last, &half);
    mul = p >= 0 && is_scalar(c->m, half) ? link_of(c, p, "Mul", 1) : NULL;
    if (!mul || mul->nin != 2)
        return false;
    add = link_of(c, mul->in[1], "Add", 1);
    p = add ? data_of(c, add, &one) : -1;
    erf = p >= 0 && is_scalar(c->m, one) ? link_of(c, p, "Erf", 1) : NULL;
    div = erf ? link_of(c, erf->in[0], "Div", 1) : NULL;
    p = div ? data_of(c, div, &root) : -1;
    f->x = mul->in[0];
    f->op = "gelu";
    return p >= 0 && is_scalar(c->m, root) && p == f->x;
}

/* x^3: a power, or x (x x) */
static bool is_cube(struct chain *c, int id, int x)
{
    const struct onnx_node *cube = link_of(c, id, "Pow", 1), *square;

    if (cube)
        return cube->in[0] == x && cube->nin == 2 &&
               is_scalar(c->m, cube->in[1]);
    cube = link_of(c, id, "Mul", 1);
    if (!cube || cube->nin != 2 || (cube->in[0] != x && cube->in[1] != x))
        return false;
    square = link_of(c, cube->in[cube->in[0] == x], "Mul", 1);
    return square && square->nin == 2 && square->in[0] == x &&
           square->in[1] == x;
}

/* a (x + b x^3) */
static bool is_bent(struct chain *c, int id, int x)
{
    const struct onnx_node *scale = link_of(c, id, "Mul", 1), *sum, *bend;
    int a = -1, b = -1, p = scale ? data_of(c, scale, &a) : -1;

    sum = p >= 0 && is_scalar(c->m, a) ? link_of(c, p, "Add", 1) : NULL;
    if (!sum || sum->nin != 2 || (sum->in[0] != x && sum->in[1] != x))
        return false;
    bend = link_of(c, sum->in[sum->in[0] == x], "Mul", 1);
    p = bend ? data_of(c, bend, &b) : -1;
    return p >= 0 && is_scalar(c->m, b) && is_cube(c, p, x);
}

/* 1 + tanh(bent x) */
static bool is_gate(struct chain *c, int id, int x)
{
    const struct onnx_node *add = link_of(c, id, "Add", 1), *tanh;
    int one = -1, p = add ? data_of(c, add, &one) : -1;

    tanh = p >= 0 && is_scalar(c->m, one) ? link_of(c, p, "Tanh", 1) : NULL;
    return tanh && is_bent(c, tanh->in[0], x);
}

/* One factor is the gate, the other x; halved before or after. */
static bool match_tanh(struct chain *c, const struct onnx_node *last,
                       struct onnx_fused *f)
{
    const struct onnx_node *mul = last, *half;
    int by = -1,
        p = model_onnx_type_is(last, "Mul") ? data_of(c, last, &by) : -1;

    if (!model_onnx_type_is(last, "Mul") || last->nin != 2)
        return false;
    f->op = "gelu";
    f->attr.by_tanh = true;
    if (p >= 0) { /* halved last */
        mul = is_scalar(c->m, by) ? link_of(c, p, "Mul", 1) : NULL;
        for (int i = 0; mul && mul->nin == 2 && i < 2; i++) {
            int n = c->n;

            f->x = mul->in[i];
            if (is_gate(c, mul->in[1 - i], f->x))
                return true;
            c->n = n;
        }
        return false;
    }
    half = link_of(c, last->in[0], "Mul", 1);
    f->x = half ? data_of(c, half, &by) : -1;
    return f->x >= 0 && is_scalar(c->m, by) && is_gate(c, last->in[1], f->x);
}

/* hard_swish has the line x / 6 + 1 / 2. */
static bool usual_gate(const struct onnx_node *n)
{
    return model_onnx_type_is(n, "Sigmoid") ||
           (fabs(model_onnx_float(n, "alpha", 0.2) - 1.0 / 6) < 1e-6 &&
            model_onnx_float(n, "beta", 0.5) == 0.5);
}

/* x times a function of x that nothing else reads. */
static bool match_swish(struct chain *c, const struct onnx_node *last,
                        struct onnx_fused *f)
{
    static const char *const forms[][2] = {{"Sigmoid", "silu"},
                                           {"HardSigmoid", "hard_swish"}};

    if (!model_onnx_type_is(last, "Mul") || last->nin != 2 || last->in[0] < 0 ||
        last->in[1] < 0)
        return false;
    for (int i = 0; i < 4; i++) {
        const struct onnx_node *gate =
            link_of(c, last->in[i % 2], forms[i / 2][0], 1);

        if (gate && gate->in[0] == last->in[1 - i % 2] && usual_gate(gate)) {
            f->x = gate->in[0];
            f->op = forms[i / 2][1];
            return true;
        }
        c->n = 0;
    }
    return false;
}

bool model_onnx_fused(const struct onnx_maker *m, const struct onnx_node *n,
                      struct onnx_fused *f)
{
    static bool (*const match[])(struct chain *, const struct onnx_node *,
                                 struct onnx_fused *) = {
        match_norm, match_rms,  match_groups,
        match_gelu, match_tanh, match_swish};
    struct chain c = {.m = m};
    size_t i = 0, all = sizeof match / sizeof match[0];

    for (; i < all; i++) {
        c.n = 0;
        *f = (struct onnx_fused){.x = -1, .scale = -1, .shift = -1};
        if (match[i](&c, n, f))
            break;
    }
    if (i == all)
        return false;
    if (f->scale >= 0 && model_onnx_source(m->g, f->scale) < 0)
        return false;
    if (f->shift >= 0 && (model_onnx_elements(&m->g->shape[f->scale]) !=
                              model_onnx_elements(&m->g->shape[f->shift]) ||
                          model_onnx_source(m->g, f->shift) < 0))
        return false;
    memcpy(f->node, c.node, sizeof f->node);
    f->n = c.n;
    return true;
}

void model_onnx_fused_layer(struct onnx_layer *l, const struct onnx_fused *f)
{
    l->op = f->op;
    l->attr = f->attr;
    model_onnx_input(l, f->x);
    if (f->scale >= 0) {
        int64_t n = model_onnx_elements(&l->m->g->shape[f->scale]);

        l->attr.features = f->attr.groups > 0 ? 0 : n;
        model_onnx_weight(l, f->scale, n);
        if (f->shift >= 0)
            model_onnx_weight(l, f->shift, n);
    }
    model_onnx_outputs(l, model_onnx_emit(l));
}
