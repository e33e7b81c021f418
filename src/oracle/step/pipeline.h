/* Pipelines (pipeline.c): the tasks of a schedule in one sequence, and what
 * follows from it. Which tasks, and in what order, plan/schedule.c says. */
#ifndef ORACLE_PIPELINE_H
#define ORACLE_PIPELINE_H

#include "paradl/plan.h"

/* A task of the sequence. `needs`: where in it what it waits for ends, counted
 * from 1; 0: nothing. */
struct order_task {
    int32_t needs;
    uint16_t lane, work; /* work: pass * nstages + stage */
};

/* Tasks of a lane that come n times, one after another: each pass * chunks +
 * place of its stage on the lane. */
enum { ORDER_RUN = 12 };
struct order_run {
    int64_t n;
    int length;
    uint8_t of[ORDER_RUN];
};
struct order_runs {
    int n;
    const struct order_run *run;
};

enum { ORACLE_PASSES = 3, ORACLE_MAX_STAGES = 256 };

/* Every task after what it needs. Of very many micro-batches only the first and
 * the last are written out: between them every lane does the same again and
 * again, and a span is longer by what a round more makes of it. */
struct oracle_order {
    enum pdl_schedule schedule;
    int lanes, nstages;
    int64_t asked;             /* micro-batches */
    int64_t rounds;            /* of them are not written out; of one each lane
                                  has a micro-batch */
    struct oracle_order *less; /* a round less than this; NULL: never made */
    int64_t micro, n, room;    /* n: tasks of all lanes; room: there is for */
    struct order_task *task;   /* [n] */
    int32_t *place;            /* [pass][stage][micro]: in task, from 1 */
    double *end;               /* [n + 1], of the tasks */
    int32_t *first;            /* [lanes]: what a lane's first task needs */
    int64_t *in_flight;        /* [nstages] micro-batches, when the lane first
                                holds as many as it ever does */
    struct order_runs *runs;   /* [lanes]; NULL: nobody asked yet */
};

/* Fills an order, or fills it again; what it needs for a moment lies in
 * scratch. whole: all of it is written out. */
bool oracle_order_fill(struct oracle_order *o, pdl_arena *keep,
                       pdl_arena *scratch, const struct pdl_tasks *shape,
                       bool whole);
/* The tasks of each lane as runs; NULL: out of memory. */
const struct order_runs *oracle_order_runs(struct oracle_order *o,
                                           pdl_arena *keep, pdl_arena *scratch);
/* The order of a plan's pipeline; NULL: out of memory. */
struct oracle_order *oracle_plan_order(pdl_arena *a, const struct pdl_plan *p,
                                       bool whole);
/* Each lane from its first task to its last (spans: NULL: nobody asks), and the
 * longest: seconds of the passes, of each stage. */
double oracle_order_span(const struct oracle_order *o,
                         const double *const seconds[ORACLE_PASSES],
                         double *spans);
/* When a task ended, after that; the order is whole. */
double oracle_order_end(const struct oracle_order *o, int pass, int stage,
                        int64_t micro);

#endif
