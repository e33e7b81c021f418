/* SPDX-License-Identifier: Apache-2.0
 *
 * Pipelines by event simulation of their schedule: every lane runs its tasks
 * in the order that the plan room generates (schedule.c); a task starts when
 * the lane is free and what it needs is done. The step is as long as the lane
 * that takes longest, from its first task to the end of its update: lanes begin
 * one after the other, and the next step begins likewise; when every lane is
 * done with the step before by then, nobody waits. */
#include "oracle/oracle_priv.h"

struct pipe {
    const double *seconds[3]; /* by pass, of each stage */
    const struct pdl_tasks *order;
    double *done; /* [pass][stage][micro]; < 0: not yet */
};

static double *when(const struct pipe *p, int pass, int64_t stage,
                    int64_t micro)
{
    return &p->done[((int64_t)pass * p->order->nstages + stage) *
                        p->order->micro +
                    micro];
}

struct clock {
    int64_t next;
    double start, free;
};

/* Runs the lane's next task if what it waits for is done. */
static bool advance(struct pipe *p, int lane, struct clock *c)
{
    const struct pdl_task *t;
    double ready = 0;
    int pass, needs, from;

    if (c->next == p->order->n)
        return false;
    t = &p->order->task[lane][c->next];
    pass = pdl_task_pass(t->kind);
    if (pdl_task_needs(p->order, t, &needs, &from))
        ready = *when(p, needs, from, t->micro);
    if (ready < 0)
        return false;
    if (c->next == 0)
        c->start = ready;
    ready = c->free > ready ? c->free : ready;
    c->free = ready + p->seconds[pass][t->stage];
    *when(p, pass, t->stage, t->micro) = c->free;
    c->next++;
    return true;
}

/* The longest of what the lanes take; < 0: the order itself waits for ever. */
static double run(struct pipe *p, struct clock *c, double *lanes)
{
    double longest = 0;
    bool moved = true;

    while (moved) {
        moved = false;
        for (int l = 0; l < p->order->lanes; l++)
            while (advance(p, l, &c[l]))
                moved = true;
    }
    for (int l = 0; l < p->order->lanes; l++) {
        double busy = c[l].free - c[l].start;

        if (c[l].next != p->order->n)
            return -1;
        if (lanes)
            lanes[l] = busy;
        longest = busy > longest ? busy : longest;
    }
    return longest;
}

double oracle_makespan(const struct oracle *o, const double *forward,
                       const double *backward, const double *weights,
                       double *lanes)
{
    struct pipe p = {.seconds = {forward, backward, weights}};
    int passes = pdl_schedule_splits(o->p->strategy->schedule) ? 3 : 2;
    int64_t n = passes * (int64_t)o->p->nstages * o->p->micro_batches;
    struct clock *c = PDL_NEW(o->arena, struct clock, o->p->lanes);
    struct pdl_tasks order = {.n = 0};

    p.order = o->order ? o->order : &order;
    p.done = o->record ? o->record->done : PDL_NEW(o->arena, double, n);
    if (!p.done || !c ||
        (!o->order && pdl_plan_tasks(o->arena, o->p, &order, NULL) != PDL_OK))
        return -1;
    for (int64_t i = 0; i < n; i++)
        p.done[i] = -1;
    return run(&p, c, lanes);
}

/* ---- what is held ------------------------------------------------------------ */

static int stage_of_lane(const struct pdl_tasks *o, int lane, int i)
{
    return o->schedule == PDL_SCHEDULE_ZB_V && i > 0 ? o->nstages - 1 - lane
                                                     : i * o->lanes + lane;
}

/* Micro-batches of each stage between forward and backward (of inputs), when
 * its lane first holds as many as it ever does. */
static void count(const struct pdl_tasks *order, int64_t *now, int64_t *most)
{
    for (int l = 0; l < order->lanes; l++) {
        int64_t n = 0, peak = 0;

        for (int64_t k = 0; k < order->n; k++) {
            const struct pdl_task *t = &order->task[l][k];
            int step = t->kind == PDL_TASK_FORWARD   ? 1
                       : t->kind == PDL_TASK_WEIGHTS ? 0
                                                     : -1;

            now[t->stage] += step;
            n += step;
            if (n <= peak)
                continue;
            peak = n;
            for (int i = 0; i < order->nstages / order->lanes; i++) {
                int s = stage_of_lane(order, l, i);

                most[s] = now[s];
            }
        }
    }
}

bool oracle_find_order(struct oracle *o)
{
    struct pdl_tasks *order;
    int64_t *now, *most;

    if (o->p->nstages == 1)
        return true; /* accumulation: one after the other */
    order = PDL_NEW(o->arena, struct pdl_tasks, 1);
    now = PDL_NEW(o->arena, int64_t, o->p->nstages);
    most = PDL_NEW(o->arena, int64_t, o->p->nstages);
    if (!order || !now || !most ||
        pdl_plan_tasks(o->arena, o->p, order, NULL) != PDL_OK)
        return false;
    count(order, now, most);
    o->order = order;
    o->flight = most;
    return true;
}

int64_t oracle_in_flight(const struct oracle *o, int stage)
{
    return o->flight ? o->flight[stage] : 1;
}
