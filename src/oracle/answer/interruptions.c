/* SPDX-License-Identifier: Apache-2.0
 *
 * A whole run simulated, from event to event: nodes fail and are replaced by
 * spares as long as there are any, some failures wait for a person, nodes turn
 * slow and are found, work since the last checkpoint is lost. What expected
 * times (goodput.c) leave out: that spares run out, and how far two runs
 * differ. The part between two events is done in whole cycles of work and
 * checkpoint, so a run takes as long as it has events. */
#include "oracle/oracle_priv.h"

#include <math.h>
#include <stdlib.h>

enum { MAX_EVENTS = 1 << 20, MAX_DOWN = 4096, RUNS = 200 };

struct sim {
    const struct pdl_interruptions *q;
    struct pdl_rng rng;
    double cycle_s;              /* work between checkpoints */
    double saved, cycle, saving; /* work that is safe; since; of a checkpoint */
    double wall;                 /* what the work since took */
    double slow;                 /* factor on steps; 1: none */
    double found;                /* when the slow node is */
    double back[MAX_DOWN];       /* when nodes are repaired */
    int down;
    struct pdl_interrupted x;
};

static double wait_for(struct sim *s, double mean)
{
    return mean > 0 ? -mean * log1p(-pdl_rng_unit(&s->rng)) : (double)INFINITY;
}

static double needed(const struct sim *s)
{
    return fmin(s->cycle_s, s->q->run.steps_s - s->saved);
}

/* Whole cycles at once. */
static double skip(struct sim *s, double dt)
{
    double one = s->cycle_s * s->slow + s->q->run.checkpoint_s;
    double n = floor((s->q->run.steps_s - s->saved) / s->cycle_s - 1);

    n = fmin(n, floor(dt / one));
    if (s->cycle > 0 || s->saving > 0 || !(n > 0))
        return 0;
    s->saved += n * s->cycle_s;
    s->x.saving_s += n * s->q->run.checkpoint_s;
    s->x.slow_s += n * s->cycle_s * (s->slow - 1);
    return n * one;
}

static void keep(struct sim *s)
{
    s->x.slow_s += s->wall - s->cycle;
    s->saved += s->cycle;
    s->cycle = s->wall = s->saving = 0;
}

/* Trains for dt; what is left of it where the run is done. */
static double train(struct sim *s, double dt)
{
    while (dt > 0) {
        double rest;

        dt -= skip(s, dt);
        rest = (needed(s) - s->cycle) * s->slow;
        if (dt < rest) {
            s->cycle += dt / s->slow;
            s->wall += dt;
            return 0;
        }
        dt -= rest;
        s->wall += rest;
        s->cycle = needed(s);
        if (s->saved + s->cycle >= s->q->run.steps_s * (1 - 1e-12)) {
            s->x.slow_s += s->wall - s->cycle;
            s->saved = s->q->run.steps_s;
            return dt;
        }
        rest = s->q->run.checkpoint_s - s->saving;
        if (dt < rest) {
            s->saving += dt;
            return 0;
        }
        dt -= rest;
        s->x.saving_s += s->q->run.checkpoint_s;
        keep(s);
    }
    return 0;
}

/* A node leaves; when another takes its place. */
static double replace(struct sim *s, double now)
{
    double spares = (double)s->q->spares, first = INFINITY;
    int at = 0;

    for (int i = 0; i < s->down;)
        if (s->back[i] <= now)
            s->back[i] = s->back[--s->down];
        else
            i++;
    if (!(s->q->repair_s > 0) || s->down == MAX_DOWN)
        return 0;
    s->back[s->down++] = now + wait_for(s, s->q->repair_s);
    if (s->down <= spares)
        return 0;
    for (int i = 0; i < s->down; i++)
        if (s->back[i] < first) {
            first = s->back[i];
            at = i;
        }
    s->back[at] = s->back[--s->down];
    s->x.waiting_s += first - now;
    return first - now;
}

static double start_again(struct sim *s)
{
    const struct pdl_interruptions *q = s->q;
    double down = q->run.restart_s;

    s->x.restart_s += down;
    if (q->manual > 0 && pdl_rng_unit(&s->rng) < q->manual) {
        double person = wait_for(s, q->manual_s);

        person = isfinite(person) ? person : 0;
        s->x.manual_s += person;
        down += person;
    }
    return down;
}

static double fail(struct sim *s, double now)
{
    double away = replace(s, now);

    s->x.failures++;
    s->x.lost_s += s->wall + s->saving;
    s->cycle = s->wall = s->saving = 0;
    s->slow = 1;
    return away + start_again(s);
}

/* A slow node is taken out behind a checkpoint. */
static double take_out(struct sim *s, double now)
{
    double away = replace(s, now) + s->q->run.checkpoint_s;

    s->x.found++;
    s->x.saving_s += s->q->run.checkpoint_s;
    s->x.lost_s += s->saving;
    keep(s);
    s->slow = 1;
    s->x.restart_s += s->q->run.restart_s;
    return away + s->q->run.restart_s;
}

static double mean_of_job(const struct pdl_interruptions *q, double of_pe)
{
    return q->run.pes > 0 ? of_pe / (double)q->run.pes : 0;
}

/* False: it never ends. */
static bool simulate(struct sim *s)
{
    const struct pdl_interruptions *q = s->q;
    double now = 0, broken = wait_for(s, mean_of_job(q, q->run.mtbf_pe_s));
    double slow = wait_for(s, mean_of_job(q, q->slow_mtbf_pe_s));
    int64_t events = 0;

    while (s->saved < q->run.steps_s && events++ < MAX_EVENTS) {
        double next =
            fmin(broken, fmin(slow, s->slow > 1 ? s->found : (double)INFINITY));
        double left, away = 0;

        left = train(s, isfinite(next) ? next - now : 1e30);
        now = isfinite(next) ? next : now + 1e30;
        if (s->saved >= q->run.steps_s) {
            s->x.train_s = now - left;
            return true;
        }
        if (next == broken) {
            away = fail(s, now);
            broken = now + away + wait_for(s, mean_of_job(q, q->run.mtbf_pe_s));
        } else if (s->slow > 1) {
            away = take_out(s, now);
            broken += away; /* what stands still does not break */
        } else {
            s->slow = q->slow_by;
            s->found = now + wait_for(s, q->found_s);
        }
        now += away;
        if (next == slow || slow < now)
            slow = now + wait_for(s, mean_of_job(q, q->slow_mtbf_pe_s));
    }
    return false;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void add(struct pdl_interrupted *sum, const struct pdl_interrupted *x)
{
    sum->train_s += x->train_s;
    sum->saving_s += x->saving_s;
    sum->lost_s += x->lost_s;
    sum->restart_s += x->restart_s;
    sum->manual_s += x->manual_s;
    sum->waiting_s += x->waiting_s;
    sum->slow_s += x->slow_s;
    sum->failures += x->failures;
    sum->found += x->found;
}

static void divide(struct pdl_interrupted *x, double n)
{
    x->train_s /= n;
    x->saving_s /= n;
    x->lost_s /= n;
    x->restart_s /= n;
    x->manual_s /= n;
    x->waiting_s /= n;
    x->slow_s /= n;
    x->failures /= n;
    x->found /= n;
}

static double interval_of(const struct pdl_interruptions *q)
{
    double mtbf = mean_of_job(q, q->run.mtbf_pe_s);
    double s = q->interval_s > 0
                   ? q->interval_s
                   : pdl_ckpt_interval_s(q->run.checkpoint_s, mtbf, 0);

    return fmax(fmin(s, q->run.steps_s), 1e-9 * q->run.steps_s);
}

/* One factor for all steps: so much more work. */
static struct pdl_interruptions held_up(const struct pdl_interruptions *q)
{
    struct pdl_interruptions all = *q;

    if (q->run.straggler > 1)
        all.run.steps_s *= q->run.straggler;
    return all;
}

enum pdl_status
pdl_interruptions_simulate(const struct pdl_interruptions *asked,
                           struct pdl_interrupted *out, struct pdl_err *err)
{
    struct pdl_interruptions all = held_up(asked), *q = &all;
    int runs = q->runs > 0 ? q->runs : RUNS;
    double *times = calloc((size_t)runs, sizeof *times);
    struct sim *s = calloc(1, sizeof *s);
    struct pdl_interrupted sum = {.interval_s = interval_of(q)};
    bool ends = true;

    for (int i = 0; times && s && ends && i < runs; i++) {
        *s = (struct sim){.q = q,
                          .rng = {.key = q->seed, .stream = (uint64_t)i},
                          .cycle_s = sum.interval_s,
                          .slow = 1};
        ends = simulate(s);
        times[i] = s->x.train_s;
        add(&sum, &s->x);
    }
    if (times && s && ends) {
        divide(&sum, runs);
        qsort(times, (size_t)runs, sizeof *times, by_size);
        sum.low_s = times[runs / 10];
        sum.high_s = times[runs - 1 - runs / 10];
        sum.slow_s += q->run.steps_s - asked->run.steps_s;
        sum.goodput = asked->run.steps_s / sum.train_s;
        *out = sum;
    }
    free(times);
    free(s);
    return !times || !s ? pdl_fail(err, PDL_ENOMEM, "out of memory")
           : ends       ? PDL_OK
                        : pdl_fail(err, PDL_EINVAL,
                                   "the run would never end: more than %d "
                                         "interruptions",
                                   (int)MAX_EVENTS);
}
