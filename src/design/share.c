/* SPDX-License-Identifier: Apache-2.0
 *
 * The best plan of every workload on every machine, searched as rarely as it
 * takes:
 *   same     machines that differ in nothing a plan asks for share the answer;
 *   bound    where machine A is nowhere slower than B and all else is equal, no
 *            plan is faster on B than the best of A is on A. If one of the best
 *            plans of A (or of machines that B outdoes), priced on B, comes
 *            within the tolerance of that, B is settled;
 *   between  where B lies between searched machines A and C (latencies aside)
 *            that have the same best plan, or where the best of their plans is
 *            within 30 % of the bound, that one is taken: nothing is proved,
 *            but what it can be off by is stated (doc/design.md: what it was);
 *   search   else the space of B is searched.
 * Waves: machines that no open one outdoes are searched, all others tried, then
 * those that outdo no open one, and so on towards the middle. What is tried
 * depends on whole waves only, so that the answer is the same on any number of
 * threads. Plans that are slower on a faster machine than what is at hand are
 * not priced. */
#include "share.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TRIED = 120 };

/* ---- bounds ------------------------------------------------------------ */

/* Plans to try, each once, with the least it can take here. */
struct tries {
    const char *plan[MAX_TRIED];
    double least[MAX_TRIED];
    int n;
};

static void propose(struct tries *t, const struct cell *c, bool bounds)
{
    for (int i = 0; i < c->nplans; i++) {
        double least = bounds ? c->step_s[i] : 0;
        int k = 0;

        while (k < t->n && strcmp(t->plan[k], c->plan[i]) != 0)
            k++;
        if (k == MAX_TRIED)
            continue;
        if (k == t->n)
            t->least[t->n++] = 0;
        t->plan[k] = c->plan[i];
        t->least[k] = fmax(t->least[k], least);
    }
}

/* As many PEs of the same part of a batch. */
static bool same_job(const struct pdl_design_point *a,
                     const struct pdl_design_point *b)
{
    return a->text->pes == b->text->pes && a->jobs == b->jobs;
}

/* What searched machines say of one that is open. */
struct sides {
    const char *nothing; /* why a machine that outdoes it runs no plan */
    double least;        /* no plan is faster here; 0: not known */
    const struct cell *above, *below; /* the nearest; latencies aside */
    struct tries tries;
};

static void look_around(const struct sharing *s, const struct task *t,
                        struct sides *x)
{
    const struct design_rates *here = &s->rates[t->machine];
    const struct pdl_design_point *p = s->w->d->point;

    *x = (struct sides){.nothing = NULL};
    for (int u = 0; u < s->w->d->nmachines; u++) {
        const struct cell *c = cell_of(s, u, t->workload);
        bool up, down;

        if (s->first[u] != u || !c->searched || u == t->machine ||
            !same_job(&p[u], &p[t->machine]))
            continue;
        up = design_dominates(&s->rates[u], here, false);
        down = design_dominates(here, &s->rates[u], false);
        if (up && !c->run.strategy)
            x->nothing = c->run.reason;
        if (!c->run.strategy)
            continue;
        if (up && design_dominates(&s->rates[u], here, true)) {
            x->least = fmax(x->least, c->run.x.step_s);
            propose(&x->tries, c, true);
        } else if (up || down) {
            propose(&x->tries, c, false);
        }
        if (up && (!x->above || c->run.x.step_s > x->above->run.x.step_s))
            x->above = c;
        if (down && (!x->below || c->run.x.step_s < x->below->run.x.step_s))
            x->below = c;
    }
}

/* The best of the proposed plans here; those that cannot be are not priced. */
static const char *best_of(struct sharing *s, pdl_job *j, const struct sides *x,
                           double *step_s)
{
    const struct tries *t = &x->tries;
    const char *plan = NULL;

    *step_s = INFINITY;
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < t->n; i++) {
            bool nearest = (x->above && t->plan[i] == x->above->plan[0]) ||
                           (x->below && t->plan[i] == x->below->plan[0]);
            struct pdl_projection y;

            if (nearest == (round == 0) && t->least[i] < *step_s &&
                design_price(s, j, t->plan[i], &y) && y.step_s < *step_s) {
                *step_s = y.step_s;
                plan = t->plan[i];
            }
        }
    return plan;
}

static bool agree(const struct sides *x)
{
    return x->above && x->below && x->above->nplans > 0 &&
           x->below->nplans > 0 &&
           strcmp(x->above->plan[0], x->below->plan[0]) == 0;
}

static void try_bound(struct sharing *s, const struct task *t)
{
    const struct pdl_design_options *opt = s->w->opt;
    struct cell *c = cell_of(s, t->machine, t->workload);
    double tolerance = opt->tolerance > 0 ? opt->tolerance : 0.01;
    double between = opt->between > 0 ? opt->between : 0.3;
    double best = INFINITY, floor_s;
    struct sides x;
    const char *plan;
    pdl_job *j;

    look_around(s, t, &x);
    if (x.nothing) {
        c->run.reason = x.nothing;
        c->run.how = PDL_DESIGN_BOUNDED;
        c->done = true;
        return;
    }
    if (!x.above)
        return;
    j = design_job_of(s, t);
    plan = j ? best_of(s, j, &x, &best) : NULL;
    floor_s = x.least > 0 ? x.least : x.above->run.x.step_s;
    if (plan && x.least > 0 && best <= x.least * (1 + tolerance))
        design_settle(s, j, c, plan, PDL_DESIGN_BOUNDED);
    else if (plan && x.below && (agree(&x) || best <= floor_s * (1 + between)))
        design_settle(s, j, c, plan, PDL_DESIGN_BETWEEN);
    c->run.gap = c->done ? fmax(0, best / floor_s - 1) : 0;
    pdl_job_destroy(j);
}

/* ---- waves ------------------------------------------------------------- */

/* How many designs have this machine. */
static int64_t sharers(const struct sharing *s, int machine)
{
    int64_t n = 0;

    for (int i = 0; i < s->w->d->nmachines; i++)
        n += s->first[i] == machine;
    return n;
}

static bool run_search(void *ctx, int64_t i)
{
    struct sharing *s = ctx;

    design_search(s, &s->task[i]);
    return design_report(
        s, cell_of(s, s->task[i].machine, s->task[i].workload)->done
               ? sharers(s, s->task[i].machine)
               : 0);
}

static bool run_bound(void *ctx, int64_t i)
{
    struct sharing *s = ctx;

    try_bound(s, &s->task[i]);
    return design_report(
        s, cell_of(s, s->task[i].machine, s->task[i].workload)->done
               ? sharers(s, s->task[i].machine)
               : 0);
}

static bool is_open(const struct sharing *s, int u, int k)
{
    return s->first[u] == u && !cell_of(s, u, k)->done;
}

/* Is an open machine above (or below) this one? Of two that are equal but for
 * latencies, the first is above. */
static bool has_open(const struct sharing *s, int u, int k, bool above)
{
    for (int v = 0; v < s->w->d->nmachines; v++) {
        bool up, down;

        if (v == u || !is_open(s, v, k) ||
            !same_job(&s->w->d->point[u], &s->w->d->point[v]))
            continue;
        up = design_dominates(&s->rates[v], &s->rates[u], false);
        down = design_dominates(&s->rates[u], &s->rates[v], false);
        if (above ? up && (!down || v < u) : down && (!up || v > u))
            return true;
    }
    return false;
}

enum wave { TOP, BOTTOM, REST };

static void collect(struct sharing *s, enum wave wave)
{
    bool all = s->w->opt->exhaustive || wave == REST;

    s->ntasks = 0;
    for (int k = 0; k < s->w->q->nworkloads; k++)
        for (int u = 0; u < s->w->d->nmachines; u++)
            if (is_open(s, u, k) && (all || !has_open(s, u, k, wave == TOP)))
                s->task[s->ntasks++] = (struct task){u, k};
}

static bool do_wave(struct sharing *s, enum wave wave)
{
    int threads = s->w->opt->threads;

    collect(s, wave);
    s->alone = wave != REST && s->ntasks == 1 && threads != 1;
    return s->ntasks == 0 ||
           (pdl_parallel(s->ntasks, s->alone ? 1 : threads,
                         wave == REST ? run_bound : run_search, s) &&
            !atomic_load(&s->stop));
}

/* From both ends towards the middle, until all are settled. */
static void waves(struct sharing *s)
{
    for (;;) {
        if (!do_wave(s, TOP) || !do_wave(s, REST) || !do_wave(s, BOTTOM) ||
            !do_wave(s, REST))
            return;
        collect(s, REST);
        if (s->ntasks == 0)
            return;
    }
}

/* ---- beginning and end ------------------------------------------------- */

static uint64_t hash(uint64_t h, const char *text)
{
    for (; text && *text; text++)
        h = (h ^ (unsigned char)*text) * 0x100000001b3u;
    return (h ^ 0xff) * 0x100000001b3u;
}

static uint64_t key_of(const struct sharing *s, int u, int k)
{
    const struct pdl_workload *w = &s->w->q->workload[k];
    char text[64];
    uint64_t h = hash(0xcbf29ce484222325u, pdl_version());

    snprintf(text, sizeof text, "%lld %lld %lld", (long long)w->batch,
             (long long)s->w->d->point[u].text->pes,
             (long long)s->w->d->point[u].jobs);
    h = hash(hash(h, text), w->model);
    h = hash(hash(hash(h, w->framework), w->precision), w->optimizer);
    return hash(hash(h, w->dim), s->rates[u].same);
}

static enum pdl_status prepare(struct sharing *s, struct pdl_err *err)
{
    pdl_arena *a = s->w->arena;
    const struct pdl_question *q = s->w->q;
    size_t n = (size_t)s->w->d->nmachines, all = n * (size_t)q->nworkloads;
    struct pdl_design_run *runs =
        PDL_NEW(a, struct pdl_design_run, q->nworkloads);
    enum pdl_status st = PDL_OK;

    s->rates = PDL_NEW(a, struct design_rates, n);
    s->first = PDL_NEW(a, int, n);
    s->job = PDL_NEW(a, pdl_job *, q->nworkloads);
    s->cell = PDL_NEW(a, struct cell, all);
    s->task = PDL_NEW(a, struct task, all);
    if (!runs || !s->rates || !s->first || !s->job || !s->cell || !s->task)
        return pdl_fail(err, PDL_ENOMEM, "design: out of memory");
    for (int i = 0; i < s->w->d->nmachines && st == PDL_OK; i++) {
        const struct pdl_design_point *p = s->w->d->point;

        st = design_rates(a, &p[i].sys, &s->rates[i], err);
        for (int k = 0; k < i && st == PDL_OK; k++) /* one text for a shape */
            if (strcmp(s->rates[k].shape, s->rates[i].shape) == 0) {
                s->rates[i].shape = s->rates[k].shape;
                break;
            }
        for (s->first[i] = 0; st == PDL_OK && s->first[i] < i; s->first[i]++)
            if (same_job(&p[s->first[i]], &p[i]) &&
                strcmp(s->rates[s->first[i]].same, s->rates[i].same) == 0)
                break;
    }
    for (int k = 0; k < q->nworkloads && st == PDL_OK; k++) {
        st = design_job(&q->workload[k], &s->w->d->point[0].sys, &s->job[k],
                        err);
        if (st == PDL_OK)
            st = design_measure(&q->workload[k], s->job[k], &runs[k], err);
    }
    for (int u = 0; u < s->w->d->nmachines && st == PDL_OK; u++)
        for (int k = 0; k < q->nworkloads; k++) {
            cell_of(s, u, k)->run = runs[k];
            cell_of(s, u, k)->run.how = PDL_DESIGN_OPEN;
            cell_of(s, u, k)->key = key_of(s, u, k);
        }
    if (st == PDL_OK && s->w->opt->memo)
        st = design_memo_open(s->w->opt->memo, &s->memo, err);
    return st;
}

/* Hands the machines' answers to the designs that have them. */
static void hand_out(struct sharing *s)
{
    struct pdl_answer_stats *stats = &s->w->d->stats;

    for (int i = 0; i < s->w->d->nmachines; i++) {
        struct pdl_design_point *p = &s->w->d->point[i];

        p->complete = true;
        for (int k = 0; k < s->w->q->nworkloads; k++) {
            struct cell *c = cell_of(s, s->first[i], k);

            p->run[k] = c->run;
            p->run[k].exchange_s = design_between_sites(s->w->q, p, s->job[k]);
            if (!c->done)
                p->run[k].how = PDL_DESIGN_OPEN;
            else if (s->first[i] != i)
                p->run[k].how = PDL_DESIGN_SAME;
            p->complete = p->complete && c->done && c->run.strategy;
            s->w->d->stopped = s->w->d->stopped || !c->done;
            stats->runs++;
            stats->same += c->done && s->first[i] != i;
            *(c->remembered ? &stats->remembered : &stats->searched) +=
                c->searched && s->first[i] == i;
            if (c->done && !c->searched && s->first[i] == i)
                *(c->run.how == PDL_DESIGN_BETWEEN ? &stats->between
                                                   : &stats->bounded) += 1;
        }
    }
    stats->priced = atomic_load(&s->priced);
}

enum pdl_status design_plans(struct design_work *w, struct pdl_err *err)
{
    struct sharing s = {.w = w, .st = PDL_OK, .saved_s = pdl_clock_s()};
    enum pdl_status st, saved = PDL_OK;

    pthread_mutex_init(&s.lock, NULL);
    atomic_init(&s.stop, false);
    atomic_init(&s.ndone, 0);
    atomic_init(&s.priced, 0);
    st = prepare(&s, err);
    if (st == PDL_OK) {
        waves(&s);
        st = s.st;
        if (st != PDL_OK && err)
            *err = s.err;
    }
    if (st == PDL_OK)
        hand_out(&s);
    if (s.memo) /* also where something failed: what was found is */
        saved =
            design_memo_save(s.memo, w->opt->memo, st == PDL_OK ? err : NULL);
    for (int k = 0; s.job && k < w->q->nworkloads; k++)
        pdl_job_destroy(s.job[k]);
    design_memo_close(s.memo);
    pthread_mutex_destroy(&s.lock);
    return st != PDL_OK ? st : saved;
}
