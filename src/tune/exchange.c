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
        *g = (struct tune_gradient){o->group, p->tensors[o->in[0]].stage,
                                    bytes_of(p, o), ready[o->in[0]]};
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

bool tune_ways(struct tune *t, const char *algorithm, const char *compress)
{
    bool fine = true;

    for (int i = 0; i < TUNE_SIZES; i++)
        t->size[i] = 256 * pow(2.5, i);
    pdl_exchange_seconds(t->alone, t->sys, t->oracle, t->op, algorithm,
                         compress, t->size, TUNE_SIZES, t->seconds);
    for (int i = 0; i < TUNE_SIZES; i++)
        fine = fine && isfinite(t->seconds[i]) && t->seconds[i] > 0;
    return fine;
}

static double seconds_of(const struct tune *t, double bytes)
{
    int i = 0;
    double at;

    while (i + 2 < TUNE_SIZES && bytes > t->size[i + 1])
        i++;
    at = (bytes - t->size[i]) / (t->size[i + 1] - t->size[i]);
    return fmax(t->seconds[i] + at * (t->seconds[i + 1] - t->seconds[i]),
                at < 0 ? t->seconds[0] * .5 : 0);
}

/* ---- one after the other ------------------------------------------------ */

double tune_estimate(const struct tune *t, const struct pdl_tuned *w,
                     struct pdl_tuned_bucket *out, int *n)
{
    int64_t limit = w->bucket_bytes > 0 ? w->bucket_bytes : INT64_C(25) << 20;
    double busy = 0;
    int count = 0;

    for (int i = 0; i < t->n;) {
        struct pdl_tuned_bucket b = {.bytes = 0};
        uint32_t group = t->gradient[i].group;
        int stage = t->gradient[i].stage;

        for (; i < t->n && b.bytes < limit && t->gradient[i].group == group &&
               t->gradient[i].stage == stage;
             i++) {
            b.bytes += t->gradient[i].bytes;
            b.weights++;
            b.ready_s = fmax(b.ready_s, t->gradient[i].ready_s);
        }
        b.seconds = seconds_of(t, (double)b.bytes);
        b.start_s = fmax(busy, w->no_overlap ? t->backward_s : b.ready_s);
        busy = b.start_s + b.seconds;
        if (out)
            out[count] = b;
        count++;
    }
    if (n)
        *n = count;
    return fmax(busy, t->backward_s) + t->rest_s;
}
