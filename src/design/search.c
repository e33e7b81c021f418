/* SPDX-License-Identifier: Apache-2.0
 *
 * One workload on one machine: a job of it, the price of a plan, and the search
 * of its space, of which the best plans are kept. */
#include "share.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 60 };
#define SAVE_S 5.0  /* between two writes of what was found */
#define SAME   1e-6 /* a plan's price, by the search and by itself */

void design_failed(struct sharing *s, enum pdl_status st,
                   const struct pdl_err *err)
{
    pthread_mutex_lock(&s->lock);
    if (s->st == PDL_OK) {
        s->st = st;
        s->err = *err;
    }
    pthread_mutex_unlock(&s->lock);
    atomic_store(&s->stop, true);
}

static const char *keep(struct sharing *s, const char *text)
{
    const char *copy;

    pthread_mutex_lock(&s->lock);
    copy = pdl_arena_strdup(s->w->arena, text);
    pthread_mutex_unlock(&s->lock);
    return copy;
}

bool design_report(struct sharing *s, int64_t more)
{
    const struct pdl_design_options *opt = s->w->opt;
    int64_t total = (int64_t)s->w->d->nmachines * s->w->q->nworkloads;
    int64_t done = atomic_fetch_add(&s->ndone, more) + more;
    bool go = true;

    if (!opt->progress)
        return !atomic_load(&s->stop);
    pthread_mutex_lock(&s->lock);
    go = opt->progress(opt->ctx, done, total);
    pthread_mutex_unlock(&s->lock);
    if (!go)
        atomic_store(&s->stop, true);
    return !atomic_load(&s->stop);
}

static bool go_on(void *ctx, int64_t done, int64_t total)
{
    (void)done;
    (void)total;
    return design_report(ctx, 0);
}

/* ---- one plan ---------------------------------------------------------- */

/* Prices a plan; false: it does not run or does not fit there. */
bool design_price(struct sharing *s, pdl_job *j, const char *strategy,
                  struct pdl_projection *out)
{
    atomic_fetch_add(&s->priced, 1);
    if (pdl_job_set(j, "strategy", strategy, NULL) != PDL_OK ||
        pdl_job_project(j, out, NULL) != PDL_OK)
        return false;
    return out->feasible;
}

/* The plan is the machine's: its interval, and what is counted later. */
void design_settle(struct sharing *s, pdl_job *j, struct cell *c,
                   const char *strategy, enum pdl_design_how how)
{
    struct pdl_err err = {"", ""};
    enum pdl_status st = pdl_job_set(j, "strategy", strategy, &err);

    if (st == PDL_OK)
        st = pdl_job_interval(j, &err);
    if (st != PDL_OK) {
        design_failed(s, st, &err);
        return;
    }
    c->run.how = how;
    c->run.x = *pdl_job_projection(j);
    c->run.spread =
        c->run.x.high_s > 0 ? log(c->run.x.high_s / c->run.x.step_s) : 0;
    c->run.strategy = keep(s, strategy);
    c->done = true;
}

pdl_job *design_job_of(struct sharing *s, const struct task *t)
{
    pdl_job *j = pdl_job_fork(s->job[t->workload]);
    const struct pdl_design_point *p = &s->w->d->point[t->machine];
    struct pdl_err err = {"", ""};
    enum pdl_status st = PDL_OK;

    if (!j) {
        design_failed(s, PDL_ENOMEM, &(struct pdl_err){"out of memory", ""});
        return NULL;
    }
    pdl_job_use_system(j, &p->sys);
    st = design_job_size(&s->w->q->workload[t->workload], p, j, &err);
    if (st == PDL_OK && !s->alone)
        st = pdl_job_set(j, "threads", "1", &err);
    if (st != PDL_OK) {
        design_failed(s, st, &err);
        pdl_job_destroy(j);
        return NULL;
    }
    pdl_job_on_progress(j, go_on, s);
    return j;
}

/* ---- search ------------------------------------------------------------ */

bool design_runs(pdl_arena *a, const pdl_job *j, const struct pdl_found *x)
{
    const struct pdl_framework *f = pdl_job_options(j)->framework;
    struct pdl_strategy *t = PDL_NEW(a, struct pdl_strategy, 1);

    return t && !x->excluded && x->priced && x->x.feasible &&
           pdl_strategy_parse(a, x->strategy, t, NULL) == PDL_OK &&
           pdl_framework_can(f, t, NULL) == PDL_OK;
}

/* Those that the framework runs, best first. */
static int runnable(struct sharing *s, const pdl_job *j,
                    const struct pdl_search_result *r, struct cell *c)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    int n = 0;

    for (int64_t i = 0; a && i < r->n && n < KEPT; i++) {
        if (!design_runs(a, j, &r->list[i]))
            continue;
        c->plan[n] = keep(s, r->list[i].strategy);
        c->step_s[n] = r->list[i].x.step_s;
        n += c->plan[n] != NULL;
    }
    pdl_arena_destroy(a);
    return n;
}

/* By how much the plan that takes least is too large. */
static const char *too_large(struct sharing *s, const struct task *t,
                             const struct pdl_search_result *r)
{
    const struct pdl_node_desc *node = &s->w->d->point[t->machine].sys.node;
    const struct pdl_projection *x = &r->closest;
    bool host = x->peak_bytes <= x->capacity_bytes;
    double takes = host ? r->over * (double)node->host.memory_bytes
                        : (double)x->peak_bytes;
    char a[32], b[32], text[160];

    if (!(r->over > 1))
        return "no plan fits into its memory";
    snprintf(text, sizeof text,
             "no plan fits into its memory; the closest takes %s of %s of %s "
             "(%.3g times)",
             pdl_unit_format(takes, PDL_UNIT_BYTES, a, sizeof a),
             pdl_unit_format(takes / r->over, PDL_UNIT_BYTES, b, sizeof b),
             host ? "a host" : "a PE", r->over);
    return keep(s, text);
}

/* Why none of them is to be had. */
static const char *reason_of(struct sharing *s, const pdl_job *j,
                             const struct task *t,
                             const struct pdl_search_result *r)
{
    const char *limit = NULL;
    char text[240];

    for (int64_t i = 0; i < r->n; i++) {
        if (!r->list[i].excluded)
            return too_large(s, t, r);
        limit = limit ? limit : r->list[i].excluded;
    }
    if (!limit && r->too_large > 0)
        return too_large(s, t, r);
    snprintf(text, sizeof text,
             "no plan for %.20s PEs and a batch of %.20s%s%.160s",
             pdl_job_get(j, "pes"), pdl_job_get(j, "batch"), limit ? ": " : "",
             limit ? limit : "");
    return keep(s, text);
}

static enum pdl_status find(struct sharing *s, pdl_job *j, const struct task *t,
                            int top, bool *stopped, struct pdl_err *err)
{
    struct cell *c = cell_of(s, t->machine, t->workload);
    struct pdl_search_result r = {.n = 0};
    char text[16];
    enum pdl_status st;

    snprintf(text, sizeof text, "%d", top);
    st = pdl_job_set(j, "top", text, err);
    if (st == PDL_OK)
        st = pdl_job_search(j, &r, err);
    *stopped = r.stopped;
    if (st == PDL_OK && !r.stopped)
        c->nplans = runnable(s, j, &r, c);
    if (st == PDL_OK && c->nplans == 0)
        c->run.reason = reason_of(s, j, t, &r);
    return st;
}

/* What a search found before, if the best of it costs what it did then. */
static bool recall(struct sharing *s, pdl_job *j, struct cell *c)
{
    struct design_memo_entry old[KEPT];
    struct pdl_projection x;
    int n = 0;

    pthread_mutex_lock(&s->lock);
    if (s->memo)
        n = design_memo_find(s->memo, c->key, old, KEPT);
    pthread_mutex_unlock(&s->lock);
    if (n == 0 || !design_price(s, j, old[0].strategy, &x) ||
        fabs(x.step_s / old[0].step_s - 1) > SAME)
        return false;
    for (int i = 0; i < n; i++) {
        c->plan[c->nplans] = keep(s, old[i].strategy);
        c->step_s[c->nplans] = old[i].step_s;
        c->nplans += c->plan[c->nplans] != NULL;
    }
    return c->remembered = c->nplans > 0;
}

/* Written now and then, so that a job that is killed goes on from there. */
static void remember(struct sharing *s, const struct cell *c)
{
    struct pdl_err err = {"", ""};
    enum pdl_status st = PDL_OK;

    pthread_mutex_lock(&s->lock);
    design_memo_put(s->memo, c->key, c->plan, c->step_s, c->nplans);
    if (pdl_clock_s() > s->saved_s + SAVE_S) {
        st = design_memo_save(s->memo, s->w->opt->memo, &err);
        s->saved_s = pdl_clock_s();
    }
    pthread_mutex_unlock(&s->lock);
    if (st != PDL_OK)
        design_failed(s, st, &err);
}

void design_search(struct sharing *s, const struct task *t)
{
    struct cell *c = cell_of(s, t->machine, t->workload);
    pdl_job *j = design_job_of(s, t);
    struct pdl_err err = {"", ""};
    enum pdl_status st = PDL_OK;
    bool stopped = false;

    if (!j)
        return;
    if (!recall(s, j, c)) {
        st = find(s, j, t, KEPT, &stopped, &err);
        if (st == PDL_OK && !stopped && c->nplans == 0)
            st = find(s, j, t, MANY, &stopped, &err);
    }
    if (st == PDL_EINVAL && !stopped) { /* no plan of this number of PEs */
        c->run.reason = keep(s, err.msg);
        c->run.how = PDL_DESIGN_SEARCHED;
        c->done = c->searched = true;
    } else if (st != PDL_OK) {
        design_failed(s, st, &err);
    } else if (!stopped) {
        c->searched = true;
        c->run.how = PDL_DESIGN_SEARCHED;
        if (c->nplans > 0)
            design_settle(s, j, c, c->plan[0], PDL_DESIGN_SEARCHED);
        c->done = true;
        if (s->memo && !c->remembered)
            remember(s, c);
    }
    pdl_job_destroy(j);
}
