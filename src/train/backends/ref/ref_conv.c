/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolution and transposed convolution. Both are one relation between a
 * fine side (x of conv, y of conv_transpose) and a coarse side,
 *     fine = coarse * stride - pad + k * dilation,
 * with a weight [coarse channel, fine channel of the group, k...]. Three sums
 * over that relation make all six passes:
 *     gather   coarse += fine w     conv forward, transposed backward-data
 *     scatter  fine += coarse w     conv backward-data, transposed forward
 *     weights  w += coarse fine
 * Each takes the pairs whose ends are both in the boxes at hand; outside the
 * boxes there is padding only, which check() proves. */
#include "train/backends/ref/ref.h"

#include <string.h>

enum { S = PDL_MAX_SPATIAL };

struct relation {
    const struct ref_array *fine, *coarse, *w;
    int64_t q[S], e[S], p[S], k[S];       /* stride, dilation, pad, kernel */
    int64_t flo[S], fn[S], clo[S], cn[S]; /* boxes, padded to S dimensions */
    int64_t per_fine, per_coarse;         /* channels of a group */
};

static int64_t or1(int64_t v)
{
    return v > 0 ? v : 1;
}

static struct relation relation_of(const struct ref_run *r,
                                   const struct ref_array *x,
                                   const struct ref_array *y,
                                   const struct ref_array *w)
{
    const struct pdl_attr *a = &r->node->attr;
    bool swap = pdl_op_id(r->node->op) == PDL_ID_CONV_TRANSPOSE;
    int64_t cx = r->tensors[r->node->in[0]].dim[0];
    int64_t cy = r->tensors[r->node->out[0]].dim[0], g = or1(a->groups);
    struct relation s = {.fine = swap ? y : x,
                         .coarse = swap ? x : y,
                         .w = w,
                         .per_fine = (swap ? cy : cx) / g,
                         .per_coarse = (swap ? cx : cy) / g};
    int ns = x->box.ndims - 2;

    for (int i = 0; i < S; i++) {
        int d = i - (S - ns); /* of the model's spatial dimensions */
        bool real = d >= 0;

        s.q[i] = real ? or1(a->stride[d]) : 1;
        s.e[i] = real ? or1(a->dilation[d]) : 1;
        s.p[i] = real ? a->pad[d] : 0;
        s.k[i] = real ? a->kernel[d] : 1;
        s.flo[i] = real ? s.fine->box.lo[d + 2] : 0;
        s.fn[i] = real ? s.fine->n[d + 2] : 1;
        s.clo[i] = real ? s.coarse->box.lo[d + 2] : 0;
        s.cn[i] = real ? s.coarse->n[d + 2] : 1;
    }
    return s;
}

/* Coarse positions (in the box) whose partner at kernel position k is in the
 * fine box: [*lo, *hi), and the fine position of coarse 0. */
static int64_t partners(const struct relation *s, int i, int64_t k, int64_t *lo,
                        int64_t *hi)
{
    int64_t base = s->clo[i] * s->q[i] - s->p[i] + k * s->e[i] - s->flo[i];
    int64_t end = s->fn[i] - 1 - base; /* coarse * q <= end */

    *lo = base >= 0 ? 0 : (-base + s->q[i] - 1) / s->q[i];
    *hi = end < 0 ? 0 : ref_min(end / s->q[i] + 1, s->cn[i]);
    return base;
}

/* One pair of channels at one kernel position. */
struct meeting {
    double *fine, *coarse, *w;
};
typedef void row_fn(double *fine, int64_t q, double *coarse, int64_t n,
                    double *w);

static void gather_row(double *fine, int64_t q, double *coarse, int64_t n,
                       double *w)
{
    double v = *w;

    for (int64_t i = 0; i < n; i++)
        coarse[i] += v * fine[i * q];
}

static void scatter_row(double *fine, int64_t q, double *coarse, int64_t n,
                        double *w)
{
    double v = *w;

    for (int64_t i = 0; i < n; i++)
        fine[i * q] += v * coarse[i];
}

static void weight_row(double *fine, int64_t q, double *coarse, int64_t n,
                       double *w)
{
    double sum = *w;

    for (int64_t i = 0; i < n; i++)
        sum += coarse[i] * fine[i * q];
    *w = sum;
}

static void meet(const struct relation *s, const struct meeting *m,
                 const int64_t *k, row_fn *row)
{
    int64_t lo[S] = {0}, hi[S] = {0}, base[S];

    for (int i = 0; i < S; i++)
        base[i] = partners(s, i, k[i], &lo[i], &hi[i]);
    if (lo[2] >= hi[2])
        return;
    for (int64_t a = lo[0]; a < hi[0]; a++)
        for (int64_t b = lo[1]; b < hi[1]; b++) {
            int64_t f =
                ((base[0] + a * s->q[0]) * s->fn[1] + base[1] + b * s->q[1]) *
                    s->fn[2] +
                base[2] + lo[2] * s->q[2];
            int64_t c = (a * s->cn[1] + b) * s->cn[2] + lo[2];

            row(m->fine + f, s->q[2], m->coarse + c, hi[2] - lo[2], m->w);
        }
}

static void meet_kernel(const struct relation *s, struct meeting m, row_fn *row)
{
    int64_t k[S];

    for (k[0] = 0; k[0] < s->k[0]; k[0]++)
        for (k[1] = 0; k[1] < s->k[1]; k[1]++)
            for (k[2] = 0; k[2] < s->k[2]; k[2]++) {
                meet(s, &m, k, row);
                m.w++;
            }
}

static double *channel(const struct ref_array *a, int64_t n, int64_t c)
{
    return a->at + n * a->stride[0] + (c - a->box.lo[1]) * a->stride[1];
}

/* Walks samples, then the outer channels, then the inner ones: an element's
 * terms come in the order of inner channel and kernel position. */
static void contract(const struct relation *s, bool fine_outer, row_fn *row)
{
    const struct ref_array *o = fine_outer ? s->fine : s->coarse;
    int64_t inner_per = fine_outer ? s->per_coarse : s->per_fine;
    int64_t outer_per = fine_outer ? s->per_fine : s->per_coarse;
    const struct ref_array *in = fine_outer ? s->coarse : s->fine;

    for (int64_t n = 0; n < o->n[0]; n++)
        for (int64_t a = o->box.lo[1]; a < o->box.hi[1]; a++) {
            int64_t base = a / outer_per * inner_per;
            int64_t lo = ref_max(base, in->box.lo[1]);
            int64_t hi = ref_min(base + inner_per, in->box.hi[1]);

            for (int64_t b = lo; b < hi; b++) {
                int64_t c = fine_outer ? b : a, f = fine_outer ? a : b;
                int64_t wi = f % s->per_fine;
                struct meeting m = {channel(s->fine, n, f),
                                    channel(s->coarse, n, c), NULL};

                if (c < s->w->box.lo[0] || c >= s->w->box.hi[0] ||
                    wi < s->w->box.lo[1] || wi >= s->w->box.hi[1])
                    continue;
                m.w = s->w->at + (c - s->w->box.lo[0]) * s->w->stride[0] +
                      (wi - s->w->box.lo[1]) * s->w->stride[1];
                meet_kernel(s, m, row);
            }
        }
}

/* ---- bias ---------------------------------------------------------------- */

static int64_t spatial(const struct ref_array *a)
{
    return a->stride[1];
}

static void start_with_bias(const struct ref_array *bias, struct ref_array *y)
{
    for (int64_t n = 0; n < y->n[0]; n++)
        for (int64_t f = y->box.lo[1]; f < y->box.hi[1]; f++)
            for (int64_t i = 0; i < spatial(y); i++)
                channel(y, n, f)[i] += bias->at[f - bias->box.lo[0]];
}

static void bias_gradient(const struct ref_array *dy, struct ref_array *db)
{
    for (int64_t f = db->box.lo[0]; f < db->box.hi[0]; f++)
        for (int64_t n = 0; n < dy->n[0]; n++)
            for (int64_t i = 0; i < spatial(dy); i++)
                db->at[f - db->box.lo[0]] += channel(dy, n, f)[i];
}

/* ---- passes ----------------------------------------------------------- */

static void forward(struct ref_run *r)
{
    struct ref_array *y = &r->out[0];
    struct relation s;

    if (r->call->part == 1) {
        memcpy(y->at, r->in[0].at, (size_t)y->count * sizeof(double));
        start_with_bias(&r->in[1], y);
        return;
    }
    s = relation_of(r, &r->in[0], y, &r->in[1]);
    if (r->op.nw > 1)
        start_with_bias(&r->in[2], y);
    if (s.coarse == y)
        contract(&s, false, gather_row);
    else
        contract(&s, true, scatter_row);
}

static void backward_data(struct ref_run *r)
{
    struct ref_array *dx = &r->out[0];
    struct relation s = relation_of(r, dx, &r->in[0], &r->in[1]);

    if (s.coarse == dx)
        contract(&s, false, gather_row);
    else
        contract(&s, true, scatter_row);
}

static void backward_weights(struct ref_run *r)
{
    struct relation s = relation_of(r, &r->in[0], &r->in[1], &r->out[0]);

    contract(&s, false, weight_row);
    if (r->call->nout > 1)
        bias_gradient(&r->in[1], &r->out[1]);
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

/* ---- what is refused -------------------------------------------------- */

/* Every partner of the result that exists must be at hand. */
static enum pdl_status check(const struct train_call *c, struct pdl_err *err)
{
    const struct pdl_attr *a = &c->node->attr;
    bool swap = pdl_op_id(c->node->op) == PDL_ID_CONV_TRANSPOSE;
    const struct pdl_tensor *t = c->model->tensors;
    const struct pdl_tensor *fine = &t[swap ? c->node->out[0] : c->node->in[0]];
    const struct pdl_tensor *coarse =
        &t[swap ? c->node->in[0] : c->node->out[0]];
    bool reads = (c->pass == PDL_FORWARD) != swap;

    if (c->part == 1 || c->pass == PDL_BACKWARD_WEIGHTS ||
        pdl_box_empty(&c->out[0].box))
        return PDL_OK;
    for (int d = 2; d < c->out[0].box.ndims; d++) {
        struct pdl_window w = {a->kernel[d - 2],        or1(a->stride[d - 2]),
                               or1(a->dilation[d - 2]), a->pad[d - 2],
                               fine->dim[d - 1],        coarse->dim[d - 1]};
        int64_t lo, hi;

        if (reads)
            pdl_window_reads(&w, c->out[0].box.lo[d], c->out[0].box.hi[d], &lo,
                             &hi);
        else
            pdl_window_readers(&w, c->out[0].box.lo[d], c->out[0].box.hi[d],
                               &lo, &hi);
        if (lo < hi && (lo < c->in[0].box.lo[d] || hi > c->in[0].box.hi[d]))
            return pdl_fail(err, PDL_EWRONG,
                            "%s: needs %lld to %lld in dimension %d, has %lld "
                            "to %lld",
                            c->node->name, (long long)lo, (long long)hi, d,
                            (long long)c->in[0].box.lo[d],
                            (long long)c->in[0].box.hi[d]);
    }
    return PDL_OK;
}

static const struct ref_op rows[] = {
    {"conv", run, NULL, check},
    {"conv_transpose", run, NULL, check},
};

const struct ref_ops train_ref_conv = {rows, sizeof rows / sizeof rows[0]};
