/* SPDX-License-Identifier: Apache-2.0
 *
 * The exchange of gradients alone: when each is ready, what a bucket takes, and
 * buckets one after the other. Prices are asked for sizes a factor apart and
 * read between them: a price is almost straight. */
#include "tune_priv.h"

#include <math.h>

/* ---- what is exchanged, and when ---------------------------------------- */

static bool is_gradient(const struct pdl_plan *p, const struct pdl_plan_op *o)
{
    return o->kind == PDL_PLAN_OP_ALLREDUCE && o->nin > 0 &&
           p->tensors[o->in[0]].kind == PDL_PLAN_WEIGHT_GRADIENT;
}

static int64_t bytes_of(const struct pdl_plan *p, const struct pdl_plan_op *o)
{
    int64_t n = 0;

    for (int k = 0; k < o->nin; k++)
        n += pdl_plan_elements(p, o->in[k], 0) *
             pdl_dtype_bits(p->tensors[o->in[k]].dtype) / 8;
    return n;
}

/* When the tensors of the last micro-batch are there. */
static enum pdl_status find_ready(struct tune *t, double *ready,
                                  struct pdl_err *err)
{
    const struct pdl_plan *p = t->alone;
    struct pdl_timeline line;
    enum pdl_status st =
        pdl_timeline(t->arena, p, t->sys, t->oracle, &line, err);

    for (int64_t i = 0; st == PDL_OK && i < line.n; i++) {
        const struct pdl_event *e = &line.events[i];
        const struct pdl_plan_op *o = &p->ops[e->op];
        double end = e->start_s + e->seconds;

        if (o->kind == PDL_PLAN_OP_COMPUTE)
            t->backward_s = fmax(t->backward_s, e->micro >= 0 ? end : 0);
        for (int k = 0; k < o->nout; k++)
            ready[o->out[k]] = fmax(ready[o->out[k]], end);
    }
    return st;
}

/* The first that has the weight: backward makes the last of it there. */
static int node_of(const struct pdl_model *m, int weight)
{
    for (int i = 0; i < m->nnodes; i++)
        for (int j = 0; j < m->nodes[i].nweights; j++)
            if (m->nodes[i].weights[j] == weight)
                return i;
    return -1;
}

static void list(struct tune *t, const double *ready)
{
    const struct pdl_plan *p = t->alone;
    int64_t most = 0;

    t->op = -1;
    for (int i = 0; i < p->nops; i++) {
        const struct pdl_plan_op *o = &p->ops[i];
        struct tune_gradient *g = &t->gradient[t->n];

        if (!is_gradient(p, o))
            continue;
        *g = (struct tune_gradient){
            .group = o->group,
            .stage = p->tensors[o->in[0]].stage,
            .bytes = bytes_of(p, o),
            .ready_s = ready[o->in[0]],
            .node = node_of(p->model, p->tensors[o->in[0]].model_tensor)};
        if (g->bytes > most) {
            most = g->bytes;
            t->op = i;
        }
        t->n++;
    }
}

enum pdl_status tune_gradients(struct tune *t, struct pdl_err *err)
{
    struct pdl_strategy *s = &t->each; /* the plan keeps it */
    struct pdl_projection x;
    double *ready;
    enum pdl_status st;

    *s = t->strategy;
    s->bucket_bytes = 1;
    s->compress = NULL;
    s->allreduce = NULL;
    s->no_overlap = false;
    st = pdl_oracle_lower(t->arena, t->model, t->sys, t->oracle, t->plan, s,
                          &t->alone, err);
    if (st != PDL_OK)
        return st;
    ready = PDL_NEW(t->arena, double, t->alone->ntensors + 1);
    t->gradient = PDL_NEW(t->arena, struct tune_gradient, t->alone->nops + 1);
    if (!ready || !t->gradient)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    st = find_ready(t, ready, err);
    if (st == PDL_OK)
        st = pdl_project(t->alone, t->sys, t->oracle, &x, err);
    if (st != PDL_OK)
        return st;
    list(t, ready);
    t->rest_s = x.update_s + x.io_s;
    if (t->op < 0) {
        pdl_fail(err, PDL_EINVAL, "no gradients are exchanged");
        pdl_hint(err, "tune is about strategies with a data axis");
        return PDL_EINVAL;
    }
    return PDL_OK;
}

/* ---- what a bucket takes ------------------------------------------------ */

static bool prices(struct tune *t, const char *algorithm, const char *compress,
                   double *seconds, double *coding)
{
    bool fine = true;

    for (int i = 0; i < TUNE_SIZES; i++)
        t->size[i] = 256 * pow(2.5, i);
    pdl_exchange_seconds(t->alone, t->sys, t->oracle, t->op, algorithm,
                         compress, t->size, TUNE_SIZES, seconds, coding);
    for (int i = 0; i < TUNE_SIZES; i++)
        fine = fine && isfinite(seconds[i]) && seconds[i] > 0;
    return fine;
}

bool tune_ways(struct tune *t, const char *algorithm, const char *compress)
{
    return prices(t, algorithm, compress, t->seconds, t->coding);
}

bool tune_plain_way(struct tune *t, const char *algorithm)
{
    return prices(t, algorithm, NULL, t->other, t->none);
}

static double seconds_of(const struct tune *t, const double *seconds,
                         double bytes)
{
    int i = 0;
    double at;

    while (i + 2 < TUNE_SIZES && bytes > t->size[i + 1])
        i++;
    at = (bytes - t->size[i]) / (t->size[i + 1] - t->size[i]);
    return fmax(seconds[i] + at * (seconds[i + 1] - seconds[i]),
                at < 0 ? seconds[0] * .5 : 0);
}

/* ---- one after the other ------------------------------------------------ */

/* The network, and the bucket that is filled for each way. */
struct line {
    const struct tune *t;
    const struct pdl_tuned *w;
    double busy, coded; /* so much later is backward for what was coded */
    struct pdl_tuned_bucket open[2], *out;
    int count;
};

static void send(struct line *l, int way)
{
    struct pdl_tuned_bucket *b = &l->open[way];
    const struct tune *t = l->t;

    if (b->weights == 0)
        return;
    b->seconds = seconds_of(t, way ? t->other : t->seconds, (double)b->bytes);
    b->ready_s += l->coded;
    b->start_s = fmax(l->busy, l->w->no_overlap ? t->backward_s : b->ready_s);
    if (!way && !l->w->no_overlap)
        l->coded += seconds_of(t, t->coding, (double)b->bytes);
    l->busy = b->start_s + b->seconds;
    if (l->out)
        l->out[l->count] = *b;
    l->count++;
    *b = (struct pdl_tuned_bucket){.bytes = 0};
}

double tune_estimate(const struct tune *t, const struct pdl_tuned *w,
                     struct pdl_tuned_bucket *out, int *n)
{
    int64_t limit = w->bucket_bytes > 0 ? w->bucket_bytes : INT64_C(25) << 20;
    struct line l = {.t = t, .w = w, .out = out};

    for (int i = 0; i < t->n; i++) {
        const struct tune_gradient *g = &t->gradient[i];
        struct pdl_tuned_bucket *b = &l.open[g->plain];

        if (i > 0 && (g[-1].group != g->group || g[-1].stage != g->stage)) {
            send(&l, 0);
            send(&l, 1);
        }
        b->bytes += g->bytes;
        b->weights++;
        b->ready_s = fmax(b->ready_s, g->ready_s);
        if (b->bytes >= limit)
            send(&l, g->plain);
    }
    send(&l, l.open[1].ready_s < l.open[0].ready_s);
    send(&l, 0);
    send(&l, 1);
    if (n)
        *n = l.count;
    return fmax(l.busy, t->backward_s + l.coded) + t->rest_s;
}
