/* SPDX-License-Identifier: Apache-2.0
 *
 * The feed-forward layers of a mixture of experts. A token visits the topk
 * experts of largest score (of equal ones the first); its gates are the softmax
 * of those scores alone (Mixtral, arXiv:2401.04088, section 2.1), and
 *   y = sum over visited e of gate_e W1_e (silu(G_e x) * U_e x)
 * with G and U side by side in one weight. A rank may have only some experts:
 * what the others say adds nothing here, which makes results partial sums.
 * Scores are whole, so that everybody knows who visits whom; a token that
 * visits none of this rank's experts is not read.
 *
 * Only gated experts without bias. */
#include "train/backends/ref/ref.h"

#include <math.h>
#include <string.h>

struct mixture {
    int64_t experts, topk, ffn, h;
    const struct ref_array *x, *scores, *dy, *w0, *w1;
    struct ref_array *y, *dx, *dscores, *dw0, *dw1;
    double *gate, *pre, *act, *dact, *dgate; /* work space */
    int64_t *which;
};

void train_choose(const double *score, int64_t n, int64_t topk, int64_t *which)
{
    for (int64_t k = 0; k < topk; k++) {
        int64_t best = -1;

        for (int64_t e = 0; e < n; e++) {
            bool taken = false;

            for (int64_t j = 0; j < k; j++)
                taken = taken || which[j] == e;
            if (!taken && (best < 0 || score[e] > score[best]))
                best = e;
        }
        which[k] = best;
    }
}

/* ---- one token -------------------------------------------------------- */

static double *row(const struct ref_array *a, const int64_t *i)
{
    return a->at + (i[0] - a->box.lo[0]) * a->stride[0] +
           (i[1] - a->box.lo[1]) * a->stride[1];
}

static const double *weight(const struct ref_array *w, int64_t e, int64_t f)
{
    return w->at + (e - w->box.lo[0]) * w->stride[0] + f * w->stride[1];
}

static bool is_here(const struct mixture *m, int64_t e)
{
    return e >= m->w0->box.lo[0] && e < m->w0->box.hi[0];
}

static double sigmoid(double v)
{
    return 1 / (1 + exp(-v));
}

static void choose(struct mixture *m, const int64_t *i)
{
    const double *score = row(m->scores, i);
    double sum = 0;

    train_choose(score, m->experts, m->topk, m->which);
    for (int64_t k = 0; k < m->topk; k++) {
        m->gate[k] = exp(score[m->which[k]] - score[m->which[0]]);
        sum += m->gate[k];
    }
    for (int64_t k = 0; k < m->topk; k++)
        m->gate[k] /= sum;
}

/* pre = [G x, U x], act = silu(G x) * U x */
static void expand(struct mixture *m, int64_t e, const double *x)
{
    for (int64_t f = 0; f < 2 * m->ffn; f++) {
        const double *w = weight(m->w0, e, f);
        double s = 0;

        for (int64_t h = 0; h < m->h; h++)
            s += w[h] * x[h];
        m->pre[f] = s;
    }
    for (int64_t f = 0; f < m->ffn; f++)
        m->act[f] = m->pre[f] * sigmoid(m->pre[f]) * m->pre[m->ffn + f];
}

/* dact = W1' dy */
static void contract(struct mixture *m, int64_t e, const double *dy)
{
    memset(m->dact, 0, (size_t)m->ffn * sizeof *m->dact);
    for (int64_t h = 0; h < m->h; h++) {
        const double *w = weight(m->w1, e, h);

        for (int64_t f = 0; f < m->ffn; f++)
            m->dact[f] += w[f] * dy[h];
    }
}

/* pre becomes its own gradient, of gate times the expert. */
static void through_gate(struct mixture *m, double gate)
{
    for (int64_t f = 0; f < m->ffn; f++) {
        double a = m->pre[f], u = m->pre[m->ffn + f], s = sigmoid(a);
        double d = gate * m->dact[f];

        m->pre[f] = d * u * s * (1 + a * (1 - s));
        m->pre[m->ffn + f] = d * a * s;
    }
}

/* ---- passes ----------------------------------------------------------- */

static void forward(struct mixture *m, const int64_t *i)
{
    double *y = row(m->y, i);

    for (int64_t k = 0; k < m->topk; k++) {
        int64_t e = m->which[k];

        if (!is_here(m, e))
            continue;
        expand(m, e, row(m->x, i));
        for (int64_t h = 0; h < m->h; h++) {
            const double *w = weight(m->w1, e, h);
            double s = 0;

            for (int64_t f = 0; f < m->ffn; f++)
                s += w[f] * m->act[f];
            y[h] += m->gate[k] * s;
        }
    }
}

/* The softmax's matrix of derivatives follows from the scores, so each rank
 * gives what its own experts' gates add to the gradient of all scores. */
static void score_gradient(struct mixture *m, const int64_t *i)
{
    double *ds = row(m->dscores, i), mean = 0;

    for (int64_t k = 0; k < m->topk; k++)
        mean += m->gate[k] * m->dgate[k];
    for (int64_t k = 0; k < m->topk; k++)
        ds[m->which[k]] = m->gate[k] * (m->dgate[k] - mean);
}

static void data(struct mixture *m, const int64_t *i)
{
    for (int64_t k = 0; k < m->topk; k++) {
        int64_t e = m->which[k];

        m->dgate[k] = 0;
        if (!is_here(m, e))
            continue;
        expand(m, e, row(m->x, i));
        contract(m, e, row(m->dy, i));
        for (int64_t f = 0; f < m->ffn; f++)
            m->dgate[k] += m->act[f] * m->dact[f];
        through_gate(m, m->gate[k]);
        for (int64_t f = 0; m->dx && f < 2 * m->ffn; f++) {
            const double *w = weight(m->w0, e, f);
            double *dx = row(m->dx, i);

            for (int64_t h = 0; h < m->h; h++)
                dx[h] += w[h] * m->pre[f];
        }
    }
    if (m->dscores)
        score_gradient(m, i);
}

static void weights(struct mixture *m, const int64_t *i)
{
    for (int64_t k = 0; k < m->topk; k++) {
        int64_t e = m->which[k];
        const double *x = row(m->x, i), *dy = row(m->dy, i);

        if (!is_here(m, e))
            continue;
        expand(m, e, x);
        contract(m, e, dy);
        for (int64_t h = 0; h < m->h; h++) {
            double *dw = (double *)weight(m->dw1, e, h);

            for (int64_t f = 0; f < m->ffn; f++)
                dw[f] += m->gate[k] * dy[h] * m->act[f];
        }
        through_gate(m, m->gate[k]);
        for (int64_t f = 0; f < 2 * m->ffn; f++) {
            double *dw = (double *)weight(m->dw0, e, f);

            for (int64_t h = 0; h < m->h; h++)
                dw[h] += m->pre[f] * x[h];
        }
    }
}

/* ---- the operator ----------------------------------------------------- */

static int64_t work(const struct train_call *c)
{
    const struct pdl_attr *a = &c->node->attr;

    return 3 * a->topk + 4 * a->ffn;
}

static struct mixture mixture_of(struct ref_run *r)
{
    const struct pdl_attr *a = &r->node->attr;
    enum pdl_pass pass = r->call->pass;
    int dx = -1, ds = -1, w = r->op.w;
    struct mixture m = {.experts = a->experts, .topk = a->topk, .ffn = a->ffn};

    m.x = &r->in[r->op.x];
    m.scores = &r->in[r->op.x + 1];
    m.dy = pass == PDL_FORWARD ? NULL : &r->in[r->op.dy];
    m.w0 = &r->in[w];
    m.w1 = &r->in[w + 1];
    m.h = m.w0->box.hi[2] - m.w0->box.lo[2];
    if (pass == PDL_FORWARD) {
        m.y = &r->out[0];
    } else if (pass == PDL_BACKWARD_WEIGHTS) {
        m.dw0 = &r->out[0];
        m.dw1 = &r->out[1];
    } else {
        dx = train_gradient_of(r->call, 0);
        ds = train_gradient_of(r->call, 1);
    }
    m.dx = dx >= 0 ? &r->out[dx] : NULL;
    m.dscores = ds >= 0 ? &r->out[ds] : NULL;
    m.gate = r->work;
    m.dgate = m.gate + a->topk;
    m.pre = m.dgate + a->topk;
    m.act = m.pre + 2 * a->ffn;
    m.dact = m.act + a->ffn;
    m.which = (int64_t *)(void *)(m.dact + a->ffn);
    return m;
}

static void experts(struct ref_run *r)
{
    static void (*const passes[])(struct mixture *, const int64_t *) = {
        [PDL_FORWARD] = forward,
        [PDL_BACKWARD_DATA] = data,
        [PDL_BACKWARD_WEIGHTS] = weights,
    };
    struct mixture m = mixture_of(r);
    struct pdl_box tokens = m.x->box;
    int64_t i[PDL_BOX_DIMS] = {0};

    tokens.ndims = 2;
    if (pdl_box_empty(&m.w0->box) || pdl_box_empty(&m.x->box))
        return;
    REF_EACH(&tokens, i)
    {
        choose(&m, i);
        passes[r->call->pass](&m, i);
    }
}

static enum pdl_status check(const struct train_call *c, struct pdl_err *err)
{
    bool lists = c->pass != PDL_BACKWARD_WEIGHTS || c->nin == 5;

    if (c->node->nin == 2 && c->node->nweights == 2 && c->node->attr.gated &&
        c->in[0].box.ndims == 3 && lists)
        return PDL_OK;
    return pdl_fail(err, PDL_EINVAL,
                    "%s: the runtime has kernels for gated experts without "
                    "bias, of [T,E] with scores",
                    c->node->name);
}

static const struct ref_op rows[] = {{"experts", experts, work, check}};

const struct ref_ops train_ref_experts = {rows, 1};
