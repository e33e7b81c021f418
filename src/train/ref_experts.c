/* SPDX-License-Identifier: Apache-2.0
 *
 * The feed-forward layers of a mixture of experts. A token visits the topk
 * experts of largest score (of equal ones the first); their softmax g weighs
 * them (Mixtral, Jiang et al., 2024, eq. of section 2.1):
 *     y = sum over e of g_e D_e a(U_e x),  a(u) = silu(u_gate) u_up, or gelu(u)
 * The gradient goes through g and the experts, not through the choice. All
 * experts must be at hand: an expert axis is refused by the executor. */
#include "ref.h"

#include <math.h>
#include <string.h>

struct mixture {
    int64_t tokens, hidden, ffn, rows, experts, topk; /* rows: of U */
    bool gated;
    const double *x, *scores, *up, *down, *dy;
    double *g, *u, *a, *da; /* work: experts, rows, ffn, ffn */
};

static struct mixture mixture_of(struct ref_run *r)
{
    const struct pdl_attr *at = &r->node->attr;
    const struct ref_array *x = &r->in[r->op.x];
    struct mixture m = {.hidden = x->n[x->box.ndims - 1],
                        .ffn = at->ffn,
                        .rows = (at->gated ? 2 : 1) * at->ffn,
                        .experts = at->experts,
                        .topk = at->topk,
                        .gated = at->gated,
                        .x = x->at,
                        .scores = r->in[r->op.x + 1].at};

    m.tokens = m.hidden > 0 ? x->count / m.hidden : 0;
    if (r->op.nw > 1) {
        m.up = r->in[r->op.w].at;
        m.down = r->in[r->op.w + 1].at;
    }
    if (r->call->pass != PDL_FORWARD)
        m.dy = r->in[r->op.dy].at;
    m.g = r->work;
    m.u = m.g + m.experts;
    m.a = m.u + m.rows;
    m.da = m.a + m.ffn;
    return m;
}

/* Weights of the experts that token t visits; 0 of the others. */
static void choose(const struct mixture *m, int64_t t)
{
    const double *s = m->scores + t * m->experts;
    double sum = 0, top = 0;

    for (int64_t e = 0; e < m->experts; e++)
        m->g[e] = 0;
    for (int64_t k = 0; k < m->topk; k++) {
        int64_t best = -1;

        for (int64_t e = 0; e < m->experts; e++)
            if (m->g[e] == 0 && (best < 0 || s[e] > s[best]))
                best = e;
        top = k == 0 ? s[best] : top;
        m->g[best] = exp(s[best] - top);
        sum += m->g[best];
    }
    for (int64_t e = 0; e < m->experts; e++)
        m->g[e] /= sum;
}

static double sigmoid(double v)
{
    return 1 / (1 + exp(-v));
}

/* u = U x and a(u) of expert e. */
static void inner(const struct mixture *m, int64_t t, int64_t e)
{
    const double *x = m->x + t * m->hidden;

    for (int64_t i = 0; i < m->rows; i++) {
        const double *w = m->up + (e * m->rows + i) * m->hidden;

        m->u[i] = 0;
        for (int64_t h = 0; h < m->hidden; h++)
            m->u[i] += w[h] * x[h];
    }
    for (int64_t f = 0; f < m->ffn; f++) {
        double v = m->u[f];

        m->a[f] = m->gated ? v * sigmoid(v) * m->u[m->ffn + f]
                           : v * 0.5 * (1 + erf(v / sqrt(2)));
    }
}

/* da/du, times what came back to a: u becomes its own gradient. */
static void inner_back(const struct mixture *m)
{
    static const double density = 0.39894228040143267794; /* 1/sqrt(2 pi) */

    for (int64_t f = 0; f < m->ffn; f++) {
        double v = m->u[f], s = sigmoid(v);

        if (m->gated) {
            m->u[f] = m->da[f] * m->u[m->ffn + f] * s * (1 + v * (1 - s));
            m->u[m->ffn + f] = m->da[f] * v * s;
        } else {
            m->u[f] = m->da[f] * (0.5 * (1 + erf(v / sqrt(2))) +
                                  v * density * exp(-v * v / 2));
        }
    }
}

static void forward(const struct mixture *m, int64_t t, double *y)
{
    for (int64_t h = 0; h < m->hidden; h++)
        y[t * m->hidden + h] = 0;
    choose(m, t);
    for (int64_t e = 0; e < m->experts; e++) {
        if (m->g[e] == 0)
            continue;
        inner(m, t, e);
        for (int64_t h = 0; h < m->hidden; h++) {
            const double *w = m->down + (e * m->hidden + h) * m->ffn;
            double sum = 0;

            for (int64_t f = 0; f < m->ffn; f++)
                sum += w[f] * m->a[f];
            y[t * m->hidden + h] += m->g[e] * sum;
        }
    }
}

/* What comes back to a of expert e (without g), and how much y would gain
 * from more of it. */
static double outer_back(const struct mixture *m, int64_t t, int64_t e)
{
    double gain = 0;

    for (int64_t f = 0; f < m->ffn; f++)
        m->da[f] = 0;
    for (int64_t h = 0; h < m->hidden; h++)
        for (int64_t f = 0; f < m->ffn; f++)
            m->da[f] += m->down[(e * m->hidden + h) * m->ffn + f] *
                        m->dy[t * m->hidden + h];
    for (int64_t f = 0; f < m->ffn; f++) {
        gain += m->da[f] * m->a[f];
        m->da[f] *= m->g[e];
    }
    return gain;
}

/* dx and ds (NULL: nobody wants it), zero before. */
static void backward(const struct mixture *m, int64_t t, double *dx, double *ds)
{
    double mean = 0;

    choose(m, t);
    for (int64_t e = 0; e < m->experts; e++) {
        double gain;

        if (m->g[e] == 0)
            continue;
        inner(m, t, e);
        gain = outer_back(m, t, e);
        inner_back(m);
        mean += m->g[e] * gain;
        if (ds)
            ds[t * m->experts + e] = gain;
        for (int64_t i = 0; dx && i < m->rows; i++)
            for (int64_t h = 0; h < m->hidden; h++)
                dx[t * m->hidden + h] +=
                    m->up[(e * m->rows + i) * m->hidden + h] * m->u[i];
    }
    for (int64_t e = 0; ds && e < m->experts; e++)
        ds[t * m->experts + e] = m->g[e] * (ds[t * m->experts + e] - mean);
}

static void weights(const struct mixture *m, int64_t t, double *up,
                    double *down)
{
    choose(m, t);
    for (int64_t e = 0; e < m->experts; e++) {
        if (m->g[e] == 0)
            continue;
        inner(m, t, e);
        for (int64_t h = 0; h < m->hidden; h++)
            for (int64_t f = 0; f < m->ffn; f++)
                down[(e * m->hidden + h) * m->ffn + f] +=
                    m->g[e] * m->dy[t * m->hidden + h] * m->a[f];
        outer_back(m, t, e);
        inner_back(m);
        for (int64_t i = 0; i < m->rows; i++)
            for (int64_t h = 0; h < m->hidden; h++)
                up[(e * m->rows + i) * m->hidden + h] +=
                    m->u[i] * m->x[t * m->hidden + h];
    }
}

static void experts(struct ref_run *r)
{
    struct mixture m = mixture_of(r);
    int x = -1, s = -1;

    for (int k = 0; k < r->call->nout && r->call->pass != PDL_FORWARD; k++)
        memset(r->out[k].at, 0, (size_t)r->out[k].count * sizeof(double));
    if (r->call->pass == PDL_BACKWARD_DATA) {
        x = train_gradient_of(r->call, 0);
        s = train_gradient_of(r->call, 1);
    }
    for (int64_t t = 0; t < m.tokens; t++)
        if (r->call->pass == PDL_FORWARD)
            forward(&m, t, r->out[0].at);
        else if (r->call->pass == PDL_BACKWARD_DATA)
            backward(&m, t, x >= 0 ? r->out[x].at : NULL,
                     s >= 0 ? r->out[s].at : NULL);
        else
            weights(&m, t, r->out[0].at, r->out[1].at);
}

static int64_t experts_work(const struct train_call *c)
{
    const struct pdl_attr *a = &c->node->attr;

    return a->experts + (a->gated ? 4 : 3) * a->ffn;
}

static enum pdl_status experts_check(const struct train_call *c,
                                     struct pdl_err *err)
{
    const struct pdl_tensor *m = c->model->tensors;
    const struct pdl_node *n = c->node;

    if (n->nin != 2 || n->nweights != 2 || m[n->in[1]].rank < 1 ||
        m[n->in[1]].dim[m[n->in[1]].rank - 1] != n->attr.experts)
        return pdl_fail(err, PDL_EINVAL,
                        "%s: the runtime has experts without biases only, with "
                        "a score for each",
                        n->name);
    return PDL_OK;
}

static const struct ref_op rows[] = {
    {"experts", experts, experts_work, experts_check},
};

const struct ref_ops train_ref_experts = {rows, sizeof rows / sizeof rows[0]};
