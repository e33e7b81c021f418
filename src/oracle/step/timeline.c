/* SPDX-License-Identifier: Apache-2.0
 *
 * What runs when in a step. The simulation that prices the step records when
 * each operation of the first micro-batch ran in its stage and when each task
 * of the pipeline ended; every other micro-batch is the same task at another
 * time. Nothing is priced again here. */
#include "oracle/oracle_priv.h"

#include <math.h>

static const int64_t MOST_EVENTS = 1 << 22;

struct build {
    const struct pdl_plan *p;
    struct oracle_record r;
    struct pdl_event *events;
    int64_t n;
};

/* From `first` items on: the end of the last operation, by the stage's clock.
 * What goes on beside a task (weights and their gradients, with ZeRO) may end
 * after it. */
static double end_of(const struct build *b, int first, int nitems, bool task,
                     double from)
{
    const struct oracle o = {.p = b->p};
    double end = from;

    for (int i = first; i < first + nitems; i++)
        for (int k = 0; k < b->p->items[i].nops; k++) {
            int op = b->p->items[i].first_op + k;
            double t = b->r.start[op] + b->r.seconds[op];

            if (!task || !oracle_is_weight_traffic(&o, op))
                end = t > end ? t : end;
        }
    return end;
}

static void add_items(struct build *b, int stage, int first, int nitems,
                      int64_t micro, double shift)
{
    for (int i = first; i < first + nitems; i++)
        for (int k = 0; k < b->p->items[i].nops; k++) {
            int op = b->p->items[i].first_op + k;

            if (b->r.seconds[op] > 0)
                b->events[b->n++] = (struct pdl_event){
                    op, stage, micro, b->r.start[op] + shift, b->r.seconds[op]};
        }
}

static double done(const struct build *b, int pass, int stage, int64_t micro)
{
    return b->r
        .done[((int64_t)pass * b->p->nstages + stage) * b->p->micro_batches +
              micro];
}

/* When the last task of a stage's lane is done. */
static double lane_done(const struct build *b, int stage)
{
    int pass = b->p->stages[stage].nbackward > 1 ? 2 : 1;
    double last = 0;

    for (int s = 0; s < b->p->nstages; s++)
        if (pdl_plan_lane(b->p, s) == pdl_plan_lane(b->p, stage))
            for (int64_t m = 0; m < b->p->micro_batches; m++)
                last = fmax(last, done(b, pass, s, m));
    return last;
}

/* The exchange of gradients goes with the last micro-batch's backward, which
 * is slower for it than the others; a lane's stages exchange and update one
 * after the other when all its tasks are done: tail[lane] says how long it has
 * taken by now. */
static void add_stage(struct build *b, const struct oracle_record *alone,
                      int stage, double *tail)
{
    const struct pdl_plan_stage *s = &b->p->stages[stage];
    struct oracle_record beside = b->r;
    bool split = s->nbackward > 1; /* gradients of inputs, then of weights */
    double forward, middle, backward, last, end;

    b->r.start = alone->start;
    b->r.seconds = alone->seconds;
    forward = end_of(b, s->first_forward, s->nforward, true, 0);
    middle = end_of(b, s->first_backward, 1, true, forward);
    backward = end_of(b, s->first_backward, s->nbackward, true, forward);
    for (int64_t m = 0; m < b->p->micro_batches; m++) {
        double back = done(b, split ? 2 : 1, stage, m) - backward;

        add_items(b, stage, s->first_forward, s->nforward, m,
                  done(b, 0, stage, m) - forward);
        if (m == b->p->micro_batches - 1)
            b->r = beside;
        if (split)
            add_items(b, stage, s->first_backward, 1, m,
                      done(b, 1, stage, m) - middle);
        add_items(b, stage, s->first_backward + split, s->nbackward - split, m,
                  back);
    }
    last = lane_done(b, stage) - backward + tail[pdl_plan_lane(b->p, stage)];
    end = end_of(b, s->first_update, s->nupdate, false, backward);
    add_items(b, stage, s->first_update, s->nupdate, -1, last);
    tail[pdl_plan_lane(b->p, stage)] += end - backward;
}

enum pdl_status pdl_timeline(pdl_arena *a, const struct pdl_plan *plan,
                             const struct pdl_system *sys,
                             const struct pdl_oracle_options *opt,
                             struct pdl_timeline *out, struct pdl_err *err)
{
    struct build b = {.p = plan};
    struct oracle_record alone = {.alone = true};
    double tail[ORACLE_MAX_STAGES] = {0};
    struct pdl_projection x;
    enum pdl_status st;
    int64_t most, tasks;

    if (!pdl_mul64(plan->nops, plan->micro_batches, &most) ||
        !pdl_mul64(3 * (int64_t)plan->nstages, plan->micro_batches, &tasks) ||
        most > MOST_EVENTS || tasks > MOST_EVENTS)
        return pdl_fail(err, PDL_EINVAL, "the step has too many events");
    b.r.start = PDL_NEW(a, double, plan->nops + 1);
    b.r.seconds = PDL_NEW(a, double, plan->nops + 1);
    b.r.done = PDL_NEW(a, double, tasks);
    b.events = PDL_NEW(a, struct pdl_event, most + 1);
    alone.start = PDL_NEW(a, double, plan->nops + 1);
    alone.seconds = PDL_NEW(a, double, plan->nops + 1);
    alone.done = PDL_NEW(a, double, tasks);
    if (!b.r.start || !b.r.seconds || !b.r.done || !b.events || !alone.start ||
        !alone.seconds || !alone.done)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    st = oracle_project(plan, sys, opt, &b.r, &x, err);
    if (st == PDL_OK)
        st = oracle_project(plan, sys, opt, &alone, &x, err);
    if (st != PDL_OK)
        return st;
    for (int s = 0; s < plan->nstages; s++)
        add_stage(&b, &alone, s, tail);
    *out = (struct pdl_timeline){b.n, b.events};
    return PDL_OK;
}
