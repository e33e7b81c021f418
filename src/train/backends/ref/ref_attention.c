/* SPDX-License-Identifier: Apache-2.0
 *
 * Scaled dot-product attention and rotary positions (Su et al., RoFormer,
 * 2021, in the half-split form of Llama). Features of q, k, v are heads side
 * by side; a part may hold some samples, some heads and some queries, with
 * all the keys those queries look at. */
#include "train/backends/ref/ref.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct sizes {
    int64_t heads, kv, d, dv;
    bool causal;
    double scale;
    const struct ref_array *table; /* of distances [rows, heads]; or NULL */
    const struct train_call *call;
};

static struct sizes sizes_of(const struct train_call *c)
{
    const struct pdl_attr *a = &c->node->attr;
    struct sizes s = {.heads = a->heads,
                      .kv = a->kv_heads,
                      .d = a->head_dim,
                      .dv = a->v_head_dim,
                      .causal = a->causal,
                      .call = c};

    if (!s.kv)
        s.kv = s.heads;
    if (!s.dv)
        s.dv = s.d;
    s.scale = a->scale > 0 ? a->scale : 1 / sqrt((double)s.d);
    return s;
}

/* Where the pair of positions stands in the table, and in its gradient. */
static int64_t place_in(const struct ref_array *table, const struct sizes *s,
                        int64_t head, int64_t t, int64_t j)
{
    int64_t row = train_distance_row(table->box.hi[0], s->causal, j - t);
    int64_t i[PDL_BOX_DIMS] = {row, head};

    return ref_offset(table, i);
}

static double *vector(const struct ref_array *a, int64_t n, int64_t t,
                      int64_t head, int64_t width)
{
    return a->at + (n - a->box.lo[0]) * a->stride[0] +
           (t - a->box.lo[1]) * a->stride[1] + head * width - a->box.lo[2];
}

static double dot(const double *a, const double *b, int64_t n)
{
    double s = 0;

    for (int64_t i = 0; i < n; i++)
        s += a[i] * b[i];
    return s;
}

/* Weights of the keys for one query (sample, position, head), in p[lo..hi). */
static void score(const struct sizes *s, const double *q,
                  const struct ref_array *k, const int64_t *at, int64_t lo,
                  int64_t hi, double *p)
{
    int64_t kv = at[2] / (s->heads / s->kv);
    int64_t here = train_position(s->call, at[1]);
    double slope = train_slope(&s->call->node->attr, at[2]);

    for (int64_t j = lo; j < hi; j++) {
        int64_t far = llabs(train_key_position(s->call, j) - here);

        p[j - lo] = s->scale * dot(q, vector(k, at[0], j, kv, s->d), s->d) -
                    slope * (double)far;
        if (s->table)
            p[j - lo] += s->table->at[place_in(s->table, s, at[2], at[1], j)];
    }
}

/* The logarithm of the sum of exponentials; -INFINITY: sees no key. */
static double weigh(const struct sizes *s, const double *q,
                    const struct ref_array *k, const int64_t *at, int64_t lo,
                    int64_t hi, double *p)
{
    double top = -INFINITY, sum = 0;

    score(s, q, k, at, lo, hi, p);
    for (int64_t j = lo; j < hi; j++)
        top = fmax(top, p[j - lo]);
    for (int64_t j = 0; j < hi - lo; j++) {
        p[j] = exp(p[j] - top);
        sum += p[j];
    }
    for (int64_t j = 0; j < hi - lo; j++)
        p[j] /= sum;
    return hi > lo ? top + log(sum) : -INFINITY;
}

/* Where the logarithm of a query and head stands in aux [N, heads, T]. */
static double *log_sum(struct ref_array *aux, const struct ref_array *y,
                       const struct sizes *s, const int64_t *at)
{
    return aux->at + (at[0] - y->box.lo[0]) * aux->stride[0] +
           (at[2] - y->box.lo[2] / s->dv) * aux->stride[1] + at[1] -
           y->box.lo[1];
}

static void attend(struct ref_run *r, const struct sizes *s, const int64_t *at)
{
    int64_t n = at[0], t = at[1], head = at[2];
    const struct ref_array *q = &r->in[0], *k = &r->in[1], *v = &r->in[2];
    double *y = vector(&r->out[0], n, t, head, s->dv);
    int64_t kv = head / (s->heads / s->kv), lo, hi;
    double sum;

    train_visible(r->call, k->box.lo[1], k->box.hi[1], t, &lo, &hi);
    sum = weigh(s, vector(q, n, t, head, s->d), k, at, lo, hi, r->work);
    if (r->call->blocks && r->op.aux_out >= 0)
        *log_sum(&r->out[r->op.aux_out], &r->out[0], s, at) = sum;
    for (int64_t j = lo; j < hi; j++) {
        const double *vj = vector(v, n, j, kv, s->dv);

        for (int64_t e = 0; e < s->dv; e++)
            y[e] += r->work[j - lo] * vj[e];
    }
}

struct gradients {
    struct ref_array *q, *k, *v, *table; /* NULL: not wanted */
};

/* Weights among all keys, of which some are here. */
static void weigh_known(struct ref_run *r, const struct sizes *s,
                        const int64_t *at, int64_t lo, int64_t hi)
{
    double sum = *log_sum(&r->in[r->op.aux], &r->in[r->op.dy], s, at);

    score(s, vector(&r->in[r->op.x], at[0], at[1], at[2], s->d),
          &r->in[r->op.x + 1], at, lo, hi, r->work);
    for (int64_t j = 0; j < hi - lo; j++)
        r->work[j] = exp(r->work[j] - sum);
}

static void attend_back(struct ref_run *r, const struct sizes *s,
                        const struct gradients *g, const int64_t *at)
{
    int64_t n = at[0], t = at[1], head = at[2];
    const struct ref_array *k = &r->in[r->op.x + 1], *v = &r->in[r->op.x + 2];
    const double *q = vector(&r->in[r->op.x], n, t, head, s->d);
    const double *dy = vector(&r->in[r->op.dy], n, t, head, s->dv);
    int64_t kv = head / (s->heads / s->kv), lo, hi;
    bool known = r->call->blocks && r->op.aux >= 0 && r->op.ny > 0;
    double *p = r->work, *dp, mean = 0;

    train_visible(r->call, k->box.lo[1], k->box.hi[1], t, &lo, &hi);
    dp = p + (hi - lo);
    if (known)
        weigh_known(r, s, at, lo, hi);
    else
        weigh(s, q, k, at, lo, hi, p);
    for (int64_t j = 0; j < hi - lo; j++) {
        dp[j] = dot(dy, vector(v, n, lo + j, kv, s->dv), s->dv);
        mean += p[j] * dp[j];
    }
    if (known) /* the same sum over all keys */
        mean = dot(dy, vector(&r->in[r->op.y], n, t, head, s->dv), s->dv);
    for (int64_t j = 0; j < hi - lo; j++) {
        double raw = p[j] * (dp[j] - mean), ds = raw * s->scale;
        const double *kj = vector(k, n, lo + j, kv, s->d);

        for (int64_t e = 0; g->q && e < s->d; e++)
            vector(g->q, n, t, head, s->d)[e] += ds * kj[e];
        for (int64_t e = 0; g->k && e < s->d; e++)
            vector(g->k, n, lo + j, kv, s->d)[e] += ds * q[e];
        for (int64_t e = 0; g->v && e < s->dv; e++)
            vector(g->v, n, lo + j, kv, s->dv)[e] += p[j] * dy[e];
        if (g->table)
            g->table->at[place_in(g->table, s, head, t, lo + j)] += raw;
    }
}

static struct gradients gradients_of(struct ref_run *r)
{
    struct ref_array *g[3] = {NULL};
    int o = 0;

    if (r->call->pass == PDL_BACKWARD_WEIGHTS)
        return (struct gradients){NULL, NULL, NULL, &r->out[0]};
    for (int i = 0; i < 3; i++)
        if (train_wants_grad(r->call->model, r->node->in[i]))
            g[i] = &r->out[o++];
    return (struct gradients){g[0], g[1], g[2], NULL};
}

static void attention(struct ref_run *r)
{
    struct sizes s = sizes_of(r->call);
    const struct ref_array *y =
        r->call->pass == PDL_FORWARD ? &r->out[0] : &r->in[r->op.dy];
    struct pdl_box b = {.ndims = 3};
    int64_t i[PDL_BOX_DIMS] = {0};
    struct gradients g = {.q = NULL};

    if (r->node->nweights > 0)
        s.table = &r->in[r->op.w];
    if (r->call->pass != PDL_FORWARD)
        g = gradients_of(r);
    for (int d = 0; d < 2; d++) {
        b.lo[d] = y->box.lo[d];
        b.hi[d] = y->box.hi[d];
    }
    b.lo[2] = y->box.lo[2] / s.dv;
    b.hi[2] = y->box.hi[2] / s.dv;
    REF_EACH(&b, i)
    if (r->call->pass == PDL_FORWARD)
        attend(r, &s, i);
    else
        attend_back(r, &s, &g, i);
}

static int64_t attention_work(const struct train_call *c)
{
    const struct pdl_tensor *k = &c->model->tensors[c->node->in[1]];

    return 2 * k->dim[0];
}

static enum pdl_status attention_check(const struct train_call *c,
                                       struct pdl_err *err)
{
    struct sizes s = sizes_of(c);
    struct train_operands o;
    const struct train_array *y;

    train_operands(c, &o);
    y = c->pass == PDL_FORWARD ? &c->out[0] : &c->in[o.dy];
    if (c->node->nin > 3)
        return pdl_fail(err, PDL_EINVAL,
                        "%s: the runtime has no sparse attention",
                        c->node->name);
    if (y->box.lo[2] % s.dv || y->box.hi[2] % s.dv)
        return pdl_fail(err, PDL_EWRONG, "%s: a part cuts through a head",
                        c->node->name);
    return PDL_OK;
}

/* ---- rotary positions ------------------------------------------------- */

/* Pairs (e, e + d/2) of the d last features of a head turn; backward turns
 * back. */
static void rope(struct ref_run *r)
{
    const struct ref_array *x = &r->in[0];
    int64_t width, d = train_rotated(r->call, &width), half = d / 2;
    double sense = r->call->pass == PDL_FORWARD ? 1 : -1;
    int64_t heads = x->n[2] / width;

    memcpy(r->out[0].at, x->at, (size_t)x->count * sizeof *x->at);
    for (int64_t row = 0; row < x->n[0] * x->n[1]; row++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t e = 0; e < half; e++) {
                int64_t a = row * x->n[2] + (h + 1) * width - d + e;
                int64_t b = a + half;
                double t = (double)train_position(r->call,
                                                  x->box.lo[1] + row % x->n[1]);
                double w = t * train_rope_step(&r->node->attr, e, d);
                double c = cos(w), s = sense * sin(w);

                r->out[0].at[a] = x->at[a] * c - x->at[b] * s;
                r->out[0].at[b] = x->at[b] * c + x->at[a] * s;
            }
}

static enum pdl_status rope_check(const struct train_call *c,
                                  struct pdl_err *err)
{
    int64_t width, d = train_rotated(c, &width);

    if (d < 2 || d % 2 || d > width || c->node->nin != 1)
        return pdl_fail(err, PDL_EINVAL,
                        "%s: no attention with an even head width reads it",
                        c->node->name);
    if (c->in[0].box.lo[2] % width || c->in[0].box.hi[2] % width)
        return pdl_fail(err, PDL_EWRONG, "%s: a part cuts through a head",
                        c->node->name);
    return PDL_OK;
}

static const struct ref_op rows[] = {
    {"attention", attention, attention_work, attention_check},
    {"rope", rope, NULL, rope_check},
};

const struct ref_ops train_ref_attention = {rows, sizeof rows / sizeof rows[0]};
