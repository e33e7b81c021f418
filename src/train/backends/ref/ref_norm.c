/* SPDX-License-Identifier: Apache-2.0
 *
 * Normalisations: batch norm over a channel, group and instance norm over
 * channels of one sample, layer and RMS norm over features. With
 * xhat = (x - mean) * rstd the gradient is
 *     dx = w rstd (dy - mean(dy) - xhat mean(dy xhat))
 * (RMS norm: without the mean, and with mean(dy) = 0). */
#include "train/backends/ref/ref.h"

#include <math.h>

/* ---- batch norm ---------------------------------------------------------- */

/* The weights of a batch norm by what they are; NULL: it has none such. */
struct bn_weights {
    struct ref_array *scale, *shift, *mean, *var;
};

static struct bn_weights bn_weights(struct ref_run *r)
{
    struct bn_weights w = {0};

    for (int j = 0; j < r->op.nw; j++) {
        struct ref_array *a = &r->in[r->op.w + j];
        bool learned =
            r->tensors[r->node->weights[j]].kind == PDL_TENSOR_WEIGHT;

        if (learned && !w.scale)
            w.scale = a;
        else if (learned)
            w.shift = a;
        else if (!w.mean)
            w.mean = a;
        else
            w.var = a;
    }
    return w;
}

static double by_channel(const struct ref_array *a, int64_t c, double none)
{
    return a ? a->at[c - a->box.lo[0]] : none;
}

static double *plane(const struct ref_array *a, int64_t n, int64_t c)
{
    return a->at + n * a->stride[0] + (c - a->box.lo[1]) * a->stride[1];
}

static double *sum_at(const struct ref_array *s, int which, int64_t c)
{
    return s->at + (which - s->box.lo[1]) * s->stride[1] + c - s->box.lo[2];
}

struct moments {
    double mean, var, count;
};

static struct moments local_moments(const struct ref_array *x, int64_t c)
{
    struct moments m = {0, 0, (double)(x->n[0] * x->stride[1])};
    double s = 0, v = 0;

    for (int64_t n = 0; n < x->n[0]; n++)
        for (int64_t i = 0; i < x->stride[1]; i++)
            s += plane(x, n, c)[i];
    m.mean = m.count > 0 ? s / m.count : 0;
    for (int64_t n = 0; n < x->n[0]; n++)
        for (int64_t i = 0; i < x->stride[1]; i++) {
            double d = plane(x, n, c)[i] - m.mean;

            v += d * d;
        }
    m.var = m.count > 0 ? v / m.count : 0;
    return m;
}

static double population(const struct ref_run *r, const struct ref_array *x)
{
    return r->call->population > 0 ? (double)r->call->population
                                   : (double)(x->n[0] * x->stride[1]);
}

/* From exchanged sums where there are any, else of the part itself. */
static struct moments moments_of(const struct ref_run *r,
                                 const struct ref_array *x,
                                 const struct ref_array *sums, int64_t c)
{
    struct moments m;

    if (!sums)
        return local_moments(x, c);
    m.count = population(r, x);
    m.mean = *sum_at(sums, 0, c) / m.count;
    m.var = fmax(0, *sum_at(sums, 1, c) / m.count - m.mean * m.mean);
    return m;
}

/* Running statistics take the unbiased variance. */
static void remember(struct bn_weights *w, struct moments m, int64_t c,
                     double share)
{
    double unbiased = m.count > 1 ? m.var * m.count / (m.count - 1) : m.var;
    double *mean = &w->mean->at[c - w->mean->box.lo[0]];
    double *var = &w->var->at[c - w->var->box.lo[0]];

    *mean += share * (m.mean - *mean);
    *var += share * (unbiased - *var);
    w->mean->changed = w->var->changed = true;
}

static void bn_forward(struct ref_run *r)
{
    struct ref_array *x = &r->in[r->op.x], *y = &r->out[0];
    struct bn_weights w = bn_weights(r);
    const struct ref_array *sums = r->op.sums >= 0 ? &r->in[r->op.sums] : NULL;
    bool running = r->when->evaluate && w.mean && w.var;
    double eps = train_epsilon(r->node);

    for (int64_t c = y->box.lo[1]; c < y->box.hi[1]; c++) {
        struct moments m = running
                               ? (struct moments){by_channel(w.mean, c, 0),
                                                  by_channel(w.var, c, 1), 0}
                               : moments_of(r, x, sums, c);
        double g = by_channel(w.scale, c, 1) / sqrt(m.var + eps);
        double b = by_channel(w.shift, c, 0);

        if (!running && !r->when->again && w.mean && w.var && m.count > 0)
            remember(&w, m, c, train_momentum(r->node));
        for (int64_t n = 0; n < y->n[0]; n++)
            for (int64_t i = 0; i < y->stride[1]; i++)
                plane(y, n, c)[i] = (plane(x, n, c)[i] - m.mean) * g + b;
    }
}

static void bn_sums(struct ref_run *r)
{
    struct ref_array *x = &r->in[0], *s = &r->out[0];

    for (int64_t c = x->box.lo[1]; c < x->box.hi[1]; c++)
        for (int64_t n = 0; n < x->n[0]; n++)
            for (int64_t i = 0; i < x->stride[1]; i++) {
                double v = plane(x, n, c)[i];

                *sum_at(s, 0, c) += v;
                *sum_at(s, 1, c) += v * v;
            }
}

struct back {
    double dy, dyx; /* sums of dy and of dy * xhat */
};

static struct back back_sums(const struct ref_run *r, const struct ref_array *x,
                             const struct ref_array *dy, struct moments m,
                             int64_t c)
{
    double rstd = 1 / sqrt(m.var + train_epsilon(r->node));
    struct back b = {0, 0};

    for (int64_t n = 0; n < dy->n[0]; n++)
        for (int64_t i = 0; i < dy->stride[1]; i++) {
            double d = plane(dy, n, c)[i];

            b.dy += d;
            b.dyx += d * (plane(x, n, c)[i] - m.mean) * rstd;
        }
    return b;
}

static void bn_back_sums(struct ref_run *r)
{
    struct ref_array *dy = &r->in[0], *x = &r->in[1], *s = &r->out[0];

    for (int64_t c = dy->box.lo[1]; c < dy->box.hi[1]; c++) {
        struct moments m = moments_of(r, x, &r->in[2], c);
        struct back b = back_sums(r, x, dy, m, c);

        *sum_at(s, 0, c) = b.dy;
        *sum_at(s, 1, c) = b.dyx;
    }
}

static void bn_data(struct ref_run *r)
{
    struct ref_array *dy = &r->in[0], *x = &r->in[r->op.x], *dx = &r->out[0];
    const struct ref_array *back = r->op.sums >= 0 ? &r->in[r->op.sums] : NULL;
    const struct ref_array *stats =
        r->op.stats >= 0 ? &r->in[r->op.stats] : NULL;
    struct bn_weights w = bn_weights(r);

    for (int64_t c = dx->box.lo[1]; c < dx->box.hi[1]; c++) {
        struct moments m = moments_of(r, x, stats, c);
        double rstd = 1 / sqrt(m.var + train_epsilon(r->node));
        double g = by_channel(w.scale, c, 1) * rstd;
        struct back b =
            back ? (struct back){*sum_at(back, 0, c), *sum_at(back, 1, c)}
                 : back_sums(r, x, dy, m, c);

        for (int64_t n = 0; n < dx->n[0]; n++)
            for (int64_t i = 0; i < dx->stride[1]; i++) {
                double h = (plane(x, n, c)[i] - m.mean) * rstd;

                plane(dx, n, c)[i] = g * (plane(dy, n, c)[i] - b.dy / m.count -
                                          h * b.dyx / m.count);
            }
    }
}

/* dw.. are those of the learned weights: scale, then shift. */
static void bn_weight_gradient(struct ref_run *r)
{
    struct ref_array *scale = &r->out[0];

    for (int64_t c = scale->box.lo[0]; c < scale->box.hi[0]; c++) {
        struct back b;

        if (r->op.sums >= 0) {
            b = (struct back){*sum_at(&r->in[0], 0, c),
                              *sum_at(&r->in[0], 1, c)};
        } else {
            struct moments m = local_moments(&r->in[0], c);

            b = back_sums(r, &r->in[0], &r->in[1], m, c);
        }
        scale->at[c - scale->box.lo[0]] = b.dyx;
        if (r->call->nout > 1)
            r->out[1].at[c - r->out[1].box.lo[0]] = b.dy;
    }
}

static void batch_norm(struct ref_run *r)
{
    const struct train_call *c = r->call;

    if (c->pass == PDL_FORWARD && c->part == 0 && c->nin == 1 &&
        r->node->nweights > 0)
        bn_sums(r);
    else if (c->pass == PDL_FORWARD)
        bn_forward(r);
    else if (c->pass == PDL_BACKWARD_DATA && c->part == 0 && c->nin == 3)
        bn_back_sums(r);
    else if (c->pass == PDL_BACKWARD_DATA)
        bn_data(r);
    else
        bn_weight_gradient(r);
}

/* ---- over rows -------------------------------------------------------- */

/* Runs of elements normalised together, `width` long, and which weight an
 * element of a run has: element % period / each. */
struct rows {
    int64_t width, period, each;
    double eps;
    bool centre;
};

static struct rows layer_rows(const struct ref_run *r,
                              const struct ref_array *x)
{
    int64_t f = r->node->attr.features;
    bool rms = pdl_op_id(r->node->op) == PDL_ID_RMS_NORM;
    struct rows s = {.width = f ? f : x->n[x->box.ndims - 1], .each = 1};

    s.period = s.width;
    s.eps = train_epsilon(r->node);
    s.centre = !rms;
    return s;
}

/* Group norm: runs of channels of one sample; one group a channel is instance
 * norm. Boxes are whole but for N, so rows of storage are runs. */
static struct rows group_rows(const struct ref_run *r,
                              const struct ref_array *x)
{
    bool instance = pdl_op_id(r->node->op) == PDL_ID_INSTANCE_NORM;
    int64_t g = instance ? x->n[1] : ref_max(r->node->attr.groups, 1);

    return (struct rows){.width = x->n[1] / g * x->stride[1],
                         .period = x->stride[0],
                         .each = x->stride[1],
                         .eps = train_epsilon(r->node),
                         .centre = true};
}

static struct moments row_moments(const struct rows *s, const double *x)
{
    struct moments m = {0, 0, (double)s->width};
    double v = 0;

    for (int64_t i = 0; s->centre && i < s->width; i++)
        m.mean += x[i] / m.count;
    for (int64_t i = 0; i < s->width; i++)
        v += (x[i] - m.mean) * (x[i] - m.mean);
    m.var = v / m.count;
    return m;
}

static void row_forward(const struct rows *s, struct ref_run *r)
{
    struct ref_array *x = &r->in[0], *y = &r->out[0];
    const double *w = r->op.nw > 0 ? r->in[r->op.w].at : NULL;
    const double *b = r->op.nw > 1 ? r->in[r->op.w + 1].at : NULL;

    for (int64_t o = 0; o < x->count; o += s->width) {
        struct moments m = row_moments(s, x->at + o);
        double rstd = 1 / sqrt(m.var + s->eps);

        for (int64_t i = o; i < o + s->width; i++) {
            int64_t j = i % s->period / s->each;

            y->at[i] =
                (x->at[i] - m.mean) * rstd * (w ? w[j] : 1) + (b ? b[j] : 0);
        }
    }
}

static void row_data(const struct rows *s, struct ref_run *r)
{
    struct ref_array *dy = &r->in[0], *x = &r->in[r->op.x], *dx = &r->out[0];
    const double *w = r->op.nw > 0 ? r->in[r->op.w].at : NULL;

    for (int64_t o = 0; o < x->count; o += s->width) {
        struct moments m = row_moments(s, x->at + o);
        double rstd = 1 / sqrt(m.var + s->eps), sd = 0, sdx = 0;

        for (int64_t i = o; i < o + s->width; i++) {
            double d = dy->at[i] * (w ? w[i % s->period / s->each] : 1);

            sd += s->centre ? d : 0;
            sdx += d * (x->at[i] - m.mean) * rstd;
        }
        for (int64_t i = o; i < o + s->width; i++) {
            double d = dy->at[i] * (w ? w[i % s->period / s->each] : 1);
            double h = (x->at[i] - m.mean) * rstd;

            dx->at[i] = rstd * (d - sd / m.count - h * sdx / m.count);
        }
    }
}

static void row_weights(const struct rows *s, struct ref_run *r)
{
    struct ref_array *x = &r->in[0], *dy = &r->in[1];

    for (int64_t o = 0; o < x->count; o += s->width) {
        struct moments m = row_moments(s, x->at + o);
        double rstd = 1 / sqrt(m.var + s->eps);

        for (int64_t i = o; i < o + s->width; i++) {
            int64_t j = i % s->period / s->each;

            r->out[0].at[j] += dy->at[i] * (x->at[i] - m.mean) * rstd;
            if (r->call->nout > 1)
                r->out[1].at[j] += dy->at[i];
        }
    }
}

static void by_rows(const struct rows *s, struct ref_run *r)
{
    static void (*const passes[])(const struct rows *, struct ref_run *) = {
        [PDL_FORWARD] = row_forward,
        [PDL_BACKWARD_DATA] = row_data,
        [PDL_BACKWARD_WEIGHTS] = row_weights,
    };

    if (s->width > 0)
        passes[r->call->pass](s, r);
}

static void layer_norm(struct ref_run *r)
{
    struct rows s = layer_rows(r, &r->in[0]);

    by_rows(&s, r);
}

static void group_norm(struct ref_run *r)
{
    struct rows s = group_rows(r, &r->in[0]);

    by_rows(&s, r);
}

static const struct ref_op rows[] = {
    {"batch_norm", batch_norm, NULL, NULL},
    {"layer_norm", layer_norm, NULL, NULL},
    {"rms_norm", layer_norm, NULL, NULL},
    {"group_norm", group_norm, NULL, NULL},
    {"instance_norm", group_norm, NULL, NULL},
};

const struct ref_ops train_ref_norm = {rows, sizeof rows / sizeof rows[0]};
