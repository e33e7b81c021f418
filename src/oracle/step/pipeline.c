/* SPDX-License-Identifier: Apache-2.0
 *
 * Pipelines by event simulation of their schedule: every lane runs its tasks
 * in the order that the plan room generates (schedule.c); a task starts when
 * the lane is free and what it needs is done. The step is as long as the lane
 * that takes longest, from its first task to the end of its update: lanes begin
 * one after the other, and the next step begins likewise; when every lane is
 * done with the step before by then, nobody waits.
 *
 * When a task may run does not depend on how long tasks take. So the events are
 * put in a sequence once (a task of each lane in turn: neighbours of the
 * sequence then seldom wait for each other), and a span is one pass over it.
 * Nothing here knows a schedule by name. */
#include "oracle/step/pipeline.h"

#include <string.h>

/* ---- the sequence ----------------------------------------------------- */

static int32_t *place_of(const struct oracle_order *o, int pass, int64_t stage,
                         int64_t micro)
{
    return &o->place[((int64_t)pass * o->nstages + stage) * o->micro + micro];
}

/* Puts the lane's next task into the sequence, if what it needs is there. */
static bool put_next(struct oracle_order *o, const struct pdl_tasks *tasks,
                     int lane, int64_t *next)
{
    const struct pdl_task *t = &tasks->task[lane][*next];
    int pass = pdl_task_pass(t->kind), needs, from;
    int32_t at = 0;

    if (pdl_task_needs(tasks, t, &needs, &from)) {
        at = *place_of(o, needs, from, t->micro);
        if (at == 0)
            return false;
    }
    if (*next == 0)
        o->first[lane] = at;
    o->task[o->n++] = (struct order_task){
        at, (uint16_t)lane, (uint16_t)(pass * o->nstages + t->stage)};
    *place_of(o, pass, t->stage, t->micro) = (int32_t)o->n;
    ++*next;
    return true;
}

/* False: the order itself waits for ever. */
static bool put_all(struct oracle_order *o, const struct pdl_tasks *tasks,
                    int64_t *next)
{
    bool moved = true;

    o->n = 0;
    while (moved) {
        moved = false;
        for (int l = 0; l < o->lanes; l++)
            if (next[l] < tasks->n && put_next(o, tasks, l, &next[l]))
                moved = true;
    }
    return o->n == tasks->n * o->lanes;
}

/* ---- what is held ----------------------------------------------------- */

/* Micro-batches of each stage between forward and backward (of inputs), when
 * its lane first holds as many as it ever does. */
static void count_lane(struct oracle_order *o, const struct pdl_tasks *tasks,
                       int lane, int64_t *now)
{
    int mine[ORACLE_MAX_STAGES], nmine = 0;
    int64_t n = 0, peak = 0;

    for (int s = 0; s < o->nstages; s++)
        if (pdl_schedule_lane(o->schedule, o->lanes, s) == lane)
            mine[nmine++] = s;
    for (int64_t k = 0; k < tasks->n; k++) {
        const struct pdl_task *t = &tasks->task[lane][k];
        int step = t->kind == PDL_TASK_FORWARD   ? 1
                   : t->kind == PDL_TASK_WEIGHTS ? 0
                                                 : -1;

        now[t->stage] += step;
        n += step;
        for (int i = 0; n > peak && i < nmine; i++)
            o->in_flight[mine[i]] = now[mine[i]];
        peak = n > peak ? n : peak;
    }
}

/* How often the next `length` tasks come, one time after the other. */
static int64_t times(const uint8_t *of, int64_t n, int length)
{
    int64_t k = length;

    while (k < n && of[k] == of[k - length])
        k++;
    return k / length;
}

/* The longest run of tasks that are repeated. */
static struct order_run next_run(const uint8_t *of, int64_t n)
{
    struct order_run best = {1, 1, {of[0]}};

    for (int length = 1; length <= ORDER_RUN && length <= n; length++) {
        int64_t k = times(of, n, length);

        if (k * length <= best.n * best.length || (k == 1 && length > 1))
            continue;
        best.n = k;
        best.length = length;
        memcpy(best.of, of, (size_t)length);
    }
    return best;
}

/* The tasks of all lanes, lane by lane: each pass * chunks + place of its
 * stage. */
static bool list_lanes(const struct oracle_order *o, pdl_arena *scratch,
                       uint8_t *of)
{
    int64_t *n = PDL_NEW(scratch, int64_t, o->lanes), each = o->n / o->lanes;
    int chunks = o->nstages / o->lanes;

    for (int64_t i = 0; n && i < o->n; i++) {
        const struct order_task *t = &o->task[i];
        int pass = t->work / o->nstages, stage = t->work % o->nstages;

        of[t->lane * each + n[t->lane]++] =
            (uint8_t)(pass * chunks + stage / o->lanes);
    }
    return n != NULL;
}

const struct order_runs *oracle_order_runs(struct oracle_order *o,
                                           pdl_arena *keep, pdl_arena *scratch)
{
    int64_t each = o->n / o->lanes;
    struct order_runs *runs;
    struct order_run *run;
    uint8_t *of;

    if (o->runs)
        return o->runs;
    runs = PDL_NEW(keep, struct order_runs, o->lanes);
    run = PDL_NEW(scratch, struct order_run, each);
    of = PDL_NEW(scratch, uint8_t, o->n);
    if (!runs || !run || !of || !list_lanes(o, scratch, of))
        return NULL;
    for (int l = 0; l < o->lanes; l++) {
        struct order_runs *x = &runs[l];

        for (int64_t at = 0; at < each; x->n++) {
            run[x->n] = next_run(of + l * each + at, each - at);
            at += run[x->n].n * run[x->n].length;
        }
        x->run =
            pdl_arena_grow(keep, run, (size_t)x->n, (size_t)x->n, sizeof *run);
        if (!x->run)
            return NULL;
    }
    o->runs = runs;
    return runs;
}

/* ---- making it -------------------------------------------------------- */

static bool make_room(struct oracle_order *o, pdl_arena *keep, int64_t slots)
{
    if (slots <= o->room && o->first)
        return true;
    o->room = o->room > 0 ? slots + slots / 2 : slots;
    o->task = PDL_NEW(keep, struct order_task, o->room);
    o->place = PDL_NEW(keep, int32_t, o->room);
    o->end = PDL_NEW(keep, double, o->room + 1);
    return o->task && o->place && o->end;
}

/* All micro-batches of the shape. */
static bool fill_whole(struct oracle_order *o, pdl_arena *keep,
                       pdl_arena *scratch, const struct pdl_tasks *shape)
{
    int64_t slots = ORACLE_PASSES * (int64_t)shape->nstages * shape->micro;
    struct pdl_tasks tasks;
    int64_t *next = PDL_NEW(scratch, int64_t, shape->lanes + shape->nstages);

    if (!next || shape->nstages > ORACLE_MAX_STAGES ||
        pdl_tasks_make(scratch, shape->schedule, shape->lanes, shape->nstages,
                       shape->micro, &tasks, NULL) != PDL_OK ||
        !make_room(o, keep, slots))
        return false;
    if (shape->lanes != o->lanes || shape->nstages != o->nstages) {
        o->first = PDL_NEW(keep, int32_t, shape->lanes);
        o->in_flight = PDL_NEW(keep, int64_t, shape->nstages);
    }
    if (!o->first || !o->in_flight)
        return false;
    o->schedule = shape->schedule;
    o->lanes = shape->lanes;
    o->nstages = shape->nstages;
    o->asked = o->micro = shape->micro;
    o->rounds = 0;
    memset(o->place, 0, (size_t)slots * sizeof *o->place);
    o->runs = NULL;
    for (int l = 0; l < o->lanes; l++)
        count_lane(o, &tasks, l, next + o->lanes);
    return put_all(o, &tasks, next);
}

/* Micro-batches that are written out; a lane's pipeline has long been in step
 * by then. */
enum { WRITTEN = 4096 };

/* Without the rounds in the middle. A schedule that holds more the more there
 * are (gpipe) has no middle: *done says whether this one has. */
static bool fill_ends(struct oracle_order *o, pdl_arena *keep,
                      pdl_arena *scratch, const struct pdl_tasks *shape,
                      bool *done)
{
    int64_t round = shape->lanes;
    struct pdl_tasks ends = *shape, less;

    ends.micro = WRITTEN - WRITTEN % round + shape->micro % round;
    less = ends;
    less.micro -= round;
    if (!o->less)
        o->less = PDL_NEW(keep, struct oracle_order, 1);
    if (!o->less || !fill_whole(o, keep, scratch, &ends) ||
        !fill_whole(o->less, keep, scratch, &less))
        return false;
    *done = memcmp(o->in_flight, o->less->in_flight,
                   (size_t)o->nstages * sizeof *o->in_flight) == 0;
    o->asked = shape->micro;
    o->rounds = (shape->micro - ends.micro) / round;
    return true;
}

bool oracle_order_fill(struct oracle_order *o, pdl_arena *keep,
                       pdl_arena *scratch, const struct pdl_tasks *shape,
                       bool whole)
{
    bool done = false;

    if (!whole && shape->micro > WRITTEN + 2 * (int64_t)shape->lanes &&
        !fill_ends(o, keep, scratch, shape, &done))
        return false;
    return done || fill_whole(o, keep, scratch, shape);
}

struct oracle_order *oracle_plan_order(pdl_arena *a, const struct pdl_plan *p,
                                       bool whole)
{
    struct oracle_order *o = PDL_NEW(a, struct oracle_order, 1);
    /* accumulation: nobody waits for a forward, so none is run ahead */
    struct pdl_tasks shape = {
        .schedule = p->nstages == 1 ? PDL_SCHEDULE_1F1B : p->strategy->schedule,
        .lanes = p->lanes,
        .nstages = p->nstages,
        .micro = p->micro_batches};

    return o && oracle_order_fill(o, a, a, &shape, whole) ? o : NULL;
}

/* ---- how long it takes ------------------------------------------------ */

static void written_spans(const struct oracle_order *o, const double *work,
                          double *spans)
{
    double free_at[ORACLE_MAX_STAGES];

    for (int l = 0; l < o->lanes; l++)
        free_at[l] = 0;
    o->end[0] = 0;
    for (int64_t i = 0; i < o->n; i++) {
        const struct order_task *t = &o->task[i];
        double ready = o->end[t->needs], at = free_at[t->lane];

        at = (at > ready ? at : ready) + work[t->work];
        free_at[t->lane] = o->end[i + 1] = at;
    }
    for (int l = 0; l < o->lanes; l++)
        spans[l] = free_at[l] - o->end[o->first[l]];
}

/* A round of the lane's own tasks. */
static double round_of(const struct oracle_order *o, const double *work,
                       int lane)
{
    int passes = pdl_schedule_splits(o->schedule) ? 3 : 2;
    double sum = 0;

    for (int s = 0; s < o->nstages; s++)
        if (pdl_schedule_lane(o->schedule, o->lanes, s) == lane)
            for (int p = 0; p < passes; p++)
                sum += work[p * o->nstages + s];
    return sum * o->lanes;
}

/* What the rounds that are not written out take: all lanes go at the pace of
 * the slowest. */
static double rounds_between(const struct oracle_order *o, const double *work,
                             const double *spans)
{
    double less[ORACLE_MAX_STAGES], pace = 0;

    if (o->rounds == 0)
        return 0;
    written_spans(o->less, work, less);
    for (int l = 0; l < o->lanes; l++) {
        double own = round_of(o, work, l);

        pace = spans[l] - less[l] > pace ? spans[l] - less[l] : pace;
        pace = own > pace ? own : pace;
    }
    return (double)o->rounds * pace;
}

double oracle_order_span(const struct oracle_order *o,
                         const double *const seconds[ORACLE_PASSES],
                         double *spans)
{
    double work[ORACLE_PASSES * ORACLE_MAX_STAGES], own[ORACLE_MAX_STAGES],
        longest = 0, between;

    work[0] = 0;
    for (int p = 0; p < ORACLE_PASSES; p++)
        for (int s = 0; s < o->nstages; s++)
            work[p * o->nstages + s] = seconds[p] ? seconds[p][s] : 0;
    written_spans(o, work, own);
    between = rounds_between(o, work, own);
    for (int l = 0; l < o->lanes; l++) {
        own[l] += between;
        if (spans)
            spans[l] = own[l];
        longest = own[l] > longest ? own[l] : longest;
    }
    return longest;
}

double oracle_order_end(const struct oracle_order *o, int pass, int stage,
                        int64_t micro)
{
    return o->end[*place_of(o, pass, stage, micro)];
}
