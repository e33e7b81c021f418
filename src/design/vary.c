/* SPDX-License-Identifier: Apache-2.0
 *
 * What would change the answer. For the recommended design: a tenth more of
 * each resource (its plans priced again, pdl_job_explain; of memory its space
 * searched again) and of each number of the accounts. For all designs: by which
 * factor a price, or the step of the best one, must be off for another design
 * to become the best. */
#include "design_priv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CHANGES = 64, MAX_FLIPS = 64, HALVINGS = 40 };
#define MORE   1.1
#define EQUAL  1e-6
#define WIDEST 8.0 /* a factor beyond this is no answer */

static double goal_with(const struct design_work *w, int i, const double *value)
{
    struct design_totals t = design_total(w, i, value, false);

    return design_goal_of(w->q, &t);
}

/* What a projection gets wrong it gets wrong of the same plans too. */
static bool same_steps(const struct design_work *w, int a, int b)
{
    const struct pdl_design_run *x = w->d->point[a].run,
                                *y = w->d->point[b].run;

    for (int k = 0; k < w->q->nworkloads; k++)
        if (x[k].x.step_s != y[k].x.step_s ||
            strcmp(x[k].strategy, y[k].strategy) != 0)
            return false;
    return true;
}

/* first: a factor on the goal of the best. */
static int best_with(const struct design_work *w, const double *value,
                     double first)
{
    int best = -1;
    double least = INFINITY;

    for (int i = 0; i < w->d->nfit; i++) {
        int at = w->d->order[i];
        bool like = first != 1 && same_steps(w, at, w->d->order[0]);
        double g = goal_with(w, at, value) * (like ? first : 1);

        if (g < least) {
            least = g;
            best = at;
        }
    }
    return best;
}

/* ---- changes ----------------------------------------------------------- */

static void add_change(struct design_work *w, const char *what, double value)
{
    struct pdl_designs *d = w->d;
    const char *copy = pdl_arena_strdup(w->arena, what);

    if (copy && d->nchanges < MAX_CHANGES && isfinite(value))
        d->change[d->nchanges++] = (struct pdl_design_change){copy, value};
}

/* Factors on the steps, a row a resource, a column a workload of a machine that
 * the design is at some time. */
struct gains {
    const char *resource[MAX_CHANGES];
    double *step;
    int n, width;
};

static int row_of(pdl_arena *a, struct gains *g, const char *resource)
{
    for (int i = 0; i < g->n; i++)
        if (strcmp(g->resource[i], resource) == 0)
            return i;
    if (g->n == MAX_CHANGES)
        return -1;
    g->resource[g->n] = pdl_arena_strdup(a, resource);
    for (int k = 0; k < g->width; k++)
        g->step[g->n * g->width + k] = 1;
    return g->resource[g->n] ? g->n++ : -1;
}

static bool go_on(void *ctx, int64_t done, int64_t total)
{
    const struct design_work *w = ctx;
    int64_t runs = w->d->stats.runs;

    (void)done;
    (void)total;
    return !w->opt->progress || w->opt->progress(w->opt->ctx, runs, runs);
}

/* More memory is worth what the best plan gains that it admits. */
static double with_memory(const struct pdl_design_point *p, pdl_job *j,
                          double step_s)
{
    struct pdl_system more = p->sys;
    struct pdl_search_result r = {.n = 0};
    pdl_arena *scratch = pdl_arena_create(PDL_ARENA_DEFAULT);
    double factor = 1;

    more.pe.memory_bytes = (int64_t)((double)more.pe.memory_bytes * MORE);
    pdl_job_use_system(j, &more);
    if (scratch && pdl_job_set(j, "top", "24", NULL) == PDL_OK &&
        pdl_job_search(j, &r, NULL) == PDL_OK)
        for (int64_t i = 0; i < r.n; i++)
            if (design_runs(scratch, j, &r.list[i])) {
                factor = fmin(1, r.list[i].x.step_s / step_s);
                break;
            }
    pdl_arena_destroy(scratch);
    pdl_job_use_system(j, &p->sys);
    return factor;
}

static enum pdl_status gains_of(struct design_work *w, int machine, int at,
                                struct gains *g, struct pdl_err *err)
{
    const struct pdl_design_point *p = &w->d->point[machine];
    int k = at % w->q->nworkloads, row;
    struct pdl_explanation e = {.ngains = 0};
    pdl_job *j = NULL;
    enum pdl_status st = design_job(&w->q->workload[k], &p->sys, &j, err);

    if (st == PDL_OK)
        st = design_job_size(&w->q->workload[k], p, j, err);
    if (j)
        pdl_job_on_progress(j, go_on, w);
    if (st == PDL_OK)
        st = pdl_job_set(j, "strategy", p->run[k].strategy, err);
    if (st == PDL_OK)
        st = pdl_job_explain(j, &e, err);
    for (int i = 0; st == PDL_OK && i < e.ngains; i++) {
        if (strcmp(e.gains[i].resource, "memory") == 0)
            continue;
        row = row_of(w->arena, g, e.gains[i].resource);
        if (row >= 0)
            g->step[row * g->width + at] =
                e.gains[i].step_s / p->run[k].x.step_s;
    }
    row = st == PDL_OK ? row_of(w->arena, g, "memory") : -1;
    if (row >= 0)
        g->step[row * g->width + at] = with_memory(p, j, p->run[k].x.step_s);
    pdl_job_destroy(j);
    return st;
}

/* As people say it: "memory_bw" is of the PE, "link:node" of a level. */
static void say_resource(const char *resource, char *buf, size_t size)
{
    static const struct {
        const char *name, *text;
    } words[] = {{"flops", "arithmetic +10 %"},
                 {"memory_bw", "memory bandwidth +10 %"},
                 {"memory", "memory +10 %, planned again"}};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(words[i].name, resource) == 0) {
            snprintf(buf, size, "%s", words[i].text);
            return;
        }
    if (strncmp(resource, "link:", 5) == 0)
        snprintf(buf, size, "%.40s level bandwidth +10 %%", resource + 5);
    else if (strncmp(resource, "latency:", 8) == 0)
        snprintf(buf, size, "%.40s level latency -9 %%", resource + 8);
    else
        snprintf(buf, size, "%.60s +10 %%", resource);
}

static enum pdl_status change_rates(struct design_work *w, double now,
                                    struct pdl_err *err)
{
    int n = w->q->nworkloads, best = w->d->order[0];
    struct gains g = {.width = 0};
    double *step = PDL_NEW(w->arena, double, w->d->nmachines *n);
    enum pdl_status st = PDL_OK;
    char text[96];

    for (int m = best; m >= 0; m = design_next(w, m))
        g.width += n;
    g.step = PDL_NEW(w->arena, double, (int64_t)MAX_CHANGES *g.width);
    if (!g.step || !step)
        return pdl_fail(err, PDL_ENOMEM, "design: out of memory");
    for (int m = best, at = 0; m >= 0; m = design_next(w, m))
        for (int k = 0; k < n && st == PDL_OK; k++, at++)
            if (w->d->point[m].part > 0)
                st = gains_of(w, m, at, &g, err);
    w->step = step;
    for (int i = 0; i < g.n && st == PDL_OK; i++) {
        const double *row = &g.step[(size_t)i * (size_t)g.width];

        for (int m = best; m >= 0; m = design_next(w, m), row += n)
            memcpy(&step[(size_t)m * (size_t)n], row, (size_t)n * sizeof *row);
        say_resource(g.resource[i], text, sizeof text);
        add_change(w, text, goal_with(w, best, w->value) / now);
    }
    w->step = NULL;
    return st;
}

static void change_prices(struct design_work *w, double now)
{
    int best = w->d->order[0];
    char text[96];

    for (int i = 0; i < w->d->prices.n; i++) {
        double was = w->value[i], g;

        w->value[i] = was * MORE;
        g = goal_with(w, best, w->value);
        w->value[i] = was;
        snprintf(text, sizeof text, "%.60s +10 %%", w->d->prices.item[i].item);
        if (g != now)
            add_change(w, text, g / now);
    }
}

static int by_size(const void *a, const void *b)
{
    const struct pdl_design_change *x = a, *y = b;
    double dx = fabs(log(x->value)), dy = fabs(log(y->value));

    return dx != dy ? (dx < dy) - (dx > dy) : strcmp(x->what, y->what);
}

/* ---- flips ------------------------------------------------------------- */

/* The factor nearest to 1, up or down, from which on another one wins. */
static double flip_at(struct design_work *w, int item, double limit,
                      int *winner)
{
    int now = w->d->order[0], then;
    double was = item < 0 ? 1 : w->value[item], near = 0, far = log(limit);

#define WINNER(f)                              \
    (item < 0 ? best_with(w, w->value, exp(f)) \
              : (w->value[item] = was * exp(f), best_with(w, w->value, 1)))
    then = WINNER(far);
    if (then == now) {
        if (item >= 0)
            w->value[item] = was;
        return 0;
    }
    for (int i = 0; i < HALVINGS; i++) {
        double middle = (near + far) / 2;
        int wins = WINNER(middle);

        if (wins == now) {
            near = middle;
        } else {
            far = middle;
            then = wins;
        }
    }
#undef WINNER
    if (item >= 0)
        w->value[item] = was;
    *winner = then;
    return exp(far);
}

static void add_flip(struct design_work *w, const char *what, int item)
{
    struct pdl_designs *d = w->d;
    int up = 0, down = 0;
    double more = flip_at(w, item, WIDEST, &up);
    double less = flip_at(w, item, 1 / WIDEST, &down);
    bool first = more > 0 && (less <= 0 || log(more) <= -log(less));
    const char *copy;

    if (!(more > 0) && !(less > 0))
        return;
    if (fabs(log(first ? more : less)) < EQUAL)
        return; /* a design that is as good */
    copy = pdl_arena_strdup(w->arena, what);
    if (copy && d->nflips < MAX_FLIPS)
        d->flip[d->nflips++] = (struct pdl_design_flip){
            copy, first ? more : less, first ? up : down};
}

static int by_nearness(const void *a, const void *b)
{
    const struct pdl_design_flip *x = a, *y = b;
    double dx = fabs(log(x->factor)), dy = fabs(log(y->factor));

    return dx != dy ? (dx > dy) - (dx < dy) : strcmp(x->what, y->what);
}

enum pdl_status design_vary(struct design_work *w, struct pdl_err *err)
{
    struct pdl_designs *d = w->d;
    double now = goal_with(w, d->order[0], w->value);
    enum pdl_status st;

    d->change = PDL_NEW(w->arena, struct pdl_design_change, MAX_CHANGES);
    d->flip = PDL_NEW(w->arena, struct pdl_design_flip, MAX_FLIPS);
    if (!d->change || !d->flip)
        return pdl_fail(err, PDL_ENOMEM, "design: out of memory");
    st = change_rates(w, now, err);
    if (st != PDL_OK)
        return st;
    change_prices(w, now);
    qsort(d->change, (size_t)d->nchanges, sizeof *d->change, by_size);
    if (d->nfit < 2)
        return PDL_OK;
    add_flip(w, "the projection of the best", -1);
    for (int i = 0; i < d->prices.n; i++)
        add_flip(w, d->prices.item[i].item, i);
    qsort(d->flip, (size_t)d->nflips, sizeof *d->flip, by_nearness);
    return PDL_OK;
}
