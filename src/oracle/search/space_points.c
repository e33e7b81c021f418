/* SPDX-License-Identifier: Apache-2.0
 *
 * Every configuration of a transformer of equal blocks (space_axes.c says
 * which), composed from pieces (point.c): a point costs microseconds.
 *
 * Exact pruning. Memory is composed for every counted point, so what fits of
 * these is counted exactly. The time of a point that does not fit is not
 * composed. One that fits is skipped where the work of one lane, after the
 * forwards and before the backwards of the lanes before it, already takes
 * longer than the last of the best so far: neither the schedule nor exchange
 * can make a step shorter than that. Choices that other planners have not
 * (oracle_axes_counted) are held to that bound before they are asked to fit.
 *
 * The meshes that differ in pipe and data alone are a task of a thread. All
 * start from the same best so far, that of a few points of every mesh, and know
 * their own besides: counts and answers do not depend on threads. */
#include "oracle/search/best.h"
#include "oracle/search/blocks.h"
#include "oracle/search/space_axes.h"

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_MESHES = 8192, FEW = 2, MAX_FRONT = 256 };

struct mesh {
    struct oracle_point point;
    struct oracle_pricer *compose; /* while it is worked on */
    struct oracle_best best;
    int64_t first; /* index of its first point */
    /* what no step of this micro-batch and number of chunks can be shorter
     * than, by schedule; 0: not known */
    double least[ORACLE_BUBBLE_V + 1];
    double bar; /* what it knows of that of all */
    int64_t points, evaluated, refused, too_large, too_slow, feasible, pieces;
    int64_t unasked; /* of too_slow: whether they fit is not known */
    struct pdl_projection closest; /* of what is too large */
    double over;                   /* so many times; 0: none */
    double pieces_s;
};

struct points {
    const struct oracle_family *f;
    const struct pdl_search_options *opt;
    pdl_arena *arena;
    struct oracle_axes axes;
    struct mesh *mesh;
    int64_t *group, ngroups; /* the first mesh of each */
    int64_t n, top;
    double bar; /* of the goal: what is worse is not among the best */
    bool few;   /* a few points of every mesh */
    int64_t done, total;
    bool no_memory;
    struct oracle_idle idle, large; /* for the next mesh; its large forms */
    pthread_mutex_t lock;
};

/* ---- pricing ---------------------------------------------------------- */

/* Is it excluded before its memory is looked at? What recomputes or leaves
 * activations to the host does all that the same point without does. */
static bool is_skipped(const struct points *s, struct mesh *m,
                       const struct oracle_point *p, double least, double bar)
{
    double *base = &m->least[p->bubble];

    if (s->opt->goal != PDL_GOAL_TIME ||
        (!s->opt->uncounted &&
         (s->opt->exhaustive || oracle_axes_counted(&s->axes, p))))
        return false;
    if (fmax(least, *base) * (1 - 1e-9) <= bar)
        return false;
    m->too_slow++;
    m->unasked++;
    return true;
}

/* Is it one of many that do not fit? Where they are counted each is asked, as
 * lowering may refuse some. */
static bool is_hopeless(const struct points *s, struct mesh *m,
                        const struct oracle_point *p)
{
    if (!s->opt->uncounted || !oracle_point_hopeless(m->compose, p))
        return false;
    m->too_large++;
    return true;
}

static void note_large(const struct points *s, struct mesh *m,
                       const struct pdl_projection *x)
{
    double over = oracle_times_memory(s->f->sys, s->opt->pes, x);

    m->too_large++;
    if (m->over > 0 && m->over <= over)
        return;
    m->over = over;
    m->closest = *x;
}

/* Does the point fit? Overlap changes no byte. */
static enum pdl_status ask(const struct points *s, struct mesh *m,
                           const struct oracle_point *p, struct pdl_err *err)
{
    struct pdl_projection x;
    double least;
    enum pdl_status st;

    if (p->no_overlap || is_hopeless(s, m, p))
        return PDL_OK;
    st = oracle_point_memory(m->compose, p, &x, &least, err);
    if (st == PDL_OK && x.feasible)
        m->feasible++;
    else if (st == PDL_OK)
        note_large(s, m, &x);
    return st;
}

static enum pdl_status price(struct points *s, struct mesh *m,
                             const struct oracle_point *p, int64_t index,
                             struct pdl_err *err)
{
    struct oracle_kept k = {.point = *p, .index = index};
    double least, bar = fmin(m->bar, oracle_best_bar(&m->best));
    enum pdl_status st;

    if (s->opt->only_fits)
        return ask(s, m, p, err);
    if (is_skipped(s, m, p, 0, bar))
        return PDL_OK;
    st = oracle_point_floor(m->compose, p, &least, err);
    if (st == PDL_OK && p->recompute == PDL_RECOMPUTE_NONE && !p->activations)
        m->least[p->bubble] = least;
    if (st == PDL_OK &&
        (is_skipped(s, m, p, least, bar) || is_hopeless(s, m, p)))
        return PDL_OK;
    if (st == PDL_OK)
        st = oracle_point_memory(m->compose, p, &k.x, &least, err);
    if (st != PDL_OK)
        return st;
    m->feasible += k.x.feasible;
    if (!s->opt->exhaustive && !k.x.feasible) {
        note_large(s, m, &k.x);
        return PDL_OK;
    }
    if (!s->opt->exhaustive &&
        ((s->opt->goal == PDL_GOAL_TIME && least * (1 - 1e-9) > bar) ||
         oracle_best_beats(&m->best, &k.x, least))) {
        m->too_slow++;
        return PDL_OK;
    }
    st = oracle_point_time(m->compose, p, &k.x, err);
    if (st != PDL_OK)
        return st;
    m->evaluated++;
    k.goal = oracle_goal(s->opt->goal, &k.x, s->f->sys);
    oracle_best_keep(&m->best, &k);
    return PDL_OK;
}

/* What is worse than the best of one mesh is not among the best of all. Where
 * points are counted the bar stays, so that counts do not depend on threads. */
static void share_bar(struct points *s, struct mesh *m)
{
    if (s->opt->uncounted && !s->few)
        s->bar = fmin(s->bar, oracle_best_bar(&m->best));
    m->bar = s->bar;
}

/* Of deep networks even a few points take long. */
static bool is_stopped(struct points *s)
{
    bool stopped;

    pthread_mutex_lock(&s->lock);
    stopped =
        s->opt->progress && !s->opt->progress(s->opt->ctx, s->done, s->total);
    pthread_mutex_unlock(&s->lock);
    return stopped;
}

/* Work of one kind, with every choice that leaves it as it is. */
static bool price_choices(struct points *s, struct mesh *m,
                          const struct oracle_point *p, int64_t *index)
{
    struct oracle_point list[ORACLE_CHOICES];
    struct pdl_err err = {"", ""};
    int n = oracle_axes_choices(&s->axes, p, s->few, list);
    bool go_on;

    for (int i = 0; i < n && !s->no_memory; i++) {
        enum pdl_status st = price(s, m, &list[i], (*index)++, &err);

        m->points++;
        if (st == PDL_ENOMEM)
            s->no_memory = true;
        else if (st != PDL_OK)
            m->refused++;
    }
    if (s->few)
        return !is_stopped(s);
    pthread_mutex_lock(&s->lock);
    s->done += n;
    share_bar(s, m);
    go_on =
        !s->no_memory && !(s->opt->only_fits && m->feasible > 0) &&
        (!s->opt->progress || s->opt->progress(s->opt->ctx, s->done, s->total));
    pthread_mutex_unlock(&s->lock);
    return go_on;
}

/* All points of one micro-batch and number of chunks; a few: without
 * recomputation. */
static bool price_kinds(struct points *s, struct mesh *m, struct oracle_point p,
                        int64_t *index)
{
    bool all = !s->few && !s->opt->only_fits;
    int bubbles = all ? oracle_axes_bubbles(&s->axes, &p) : 0;

    for (int r = 0; r < (s->few ? 1 : ORACLE_RECOMPUTES); r++) {
        p.recompute =
            s->axes
                .recompute[s->opt->only_fits ? ORACLE_RECOMPUTES - 1 - r : r];
        for (p.bubble = 0; p.bubble <= bubbles; p.bubble++)
            if (!price_choices(s, m, &p, index))
                return false;
    }
    return true;
}

/* Where nothing fits (and nothing was left out), interleaved stages do not
 * either, nor do larger micro-batches: both have no fewer samples in flight. */
static bool hopeless(const struct mesh *m, int64_t fit_before)
{
    return m->feasible + m->unasked == fit_before;
}

/* All points of a mesh, or those of few micro-batches and the fewest and most
 * chunks. */
static bool price_points(struct points *s, struct mesh *m)
{
    struct oracle_point p = m->point;
    struct oracle_values micro = oracle_axes_micro(&s->axes, &p);
    int64_t index = m->first;

    for (int b = 0; b < micro.n && (!s->few || b < FEW); b++) {
        struct oracle_values chunks;
        int64_t fit = m->feasible + m->unasked;

        p.micro = micro.v[b];
        chunks = oracle_axes_chunks(&s->axes, &p);
        for (int c = 0; c < chunks.n; c++) {
            p.chunks = chunks.v[c];
            if (c > 0 && s->opt->uncounted && !s->few && hopeless(m, fit))
                break;
            memset(m->least, 0, sizeof m->least);
            if (s->few && c > 0 && c < chunks.n - 1)
                continue;
            if (s->opt->only_fits && p.chunks > 1)
                continue;
            if (!price_kinds(s, m, p, &index))
                return false;
        }
        if (s->opt->uncounted && !s->few && hopeless(m, fit))
            break;
    }
    return true;
}

/* Threads may find it at the same time. */
static void note_memory(struct points *s, bool lacks)
{
    pthread_mutex_lock(&s->lock);
    s->no_memory = s->no_memory || lacks;
    pthread_mutex_unlock(&s->lock);
}

/* Pieces go with the mesh that they belong to. */
static bool price_mesh(struct points *s, struct mesh *m,
                       struct oracle_block_plans *g)
{
    pdl_arena *a = oracle_borrow(&s->idle);
    bool go_on;

    pthread_mutex_lock(&s->lock);
    share_bar(s, m);
    pthread_mutex_unlock(&s->lock);
    m->compose = a ? oracle_pricer_make(a, g, s->f, &m->point) : NULL;
    note_memory(s, !m->compose);
    go_on = m->compose && price_points(s, m);
    m->compose = NULL;
    oracle_give_back(&s->idle, a);
    return go_on;
}

/* Meshes that differ in pipe and data alone share their small plans. */
static bool price_meshes(struct points *s, int64_t at)
{
    struct mesh *first = &s->mesh[s->group[at]];
    pdl_arena *a = oracle_borrow(&s->idle), *scratch = oracle_borrow(&s->idle);
    pdl_arena *kept = oracle_borrow(&s->idle),
              *large = oracle_borrow(&s->large);
    struct oracle_block_plans *g =
        a && scratch ? oracle_block_plans_make(a, scratch, s->f, &first->point)
                     : NULL;
    bool go_on = g != NULL;

    note_memory(s, !g);
    if (g)
        oracle_block_plans_lend(g, kept, large);
    for (int64_t k = s->group[at]; go_on && k < s->n; k++)
        if (oracle_point_alike(&s->mesh[k].point, &first->point))
            go_on = price_mesh(s, &s->mesh[k], g);
    if (g) {
        scratch = g->scratch; /* it may be another now */
        first->pieces += g->effort.lowered + g->effort.priced;
        first->pieces_s += g->effort.seconds;
    }
    oracle_give_back(&s->large, large);
    oracle_give_back(&s->idle, kept);
    oracle_give_back(&s->idle, scratch);
    oracle_give_back(&s->idle, a);
    return go_on;
}

static bool price_group(void *ctx, int64_t i)
{
    struct points *s = ctx;
    /* those that cut most are likeliest to fit */
    int64_t at = s->opt->only_fits ? s->ngroups - 1 - i : i;

    /* what all start from needs none that are seldom good */
    if (s->few && oracle_axes_further(&s->axes, &s->mesh[s->group[at]].point))
        return true;
    return price_meshes(s, at);
}

/* ---- meshes ----------------------------------------------------------- */

static bool add_mesh(struct points *s, const struct oracle_point *p)
{
    struct mesh *m = &s->mesh[s->n];

    if (s->n == MAX_MESHES)
        return true;
    m->point = *p;
    m->first =
        s->n > 0 ? m[-1].first + oracle_axes_count(&s->axes, m[-1].point) : 0;
    s->n++;
    m->best.cap = s->top;
    m->best.front = s->opt->goal == PDL_GOAL_PARETO;
    m->best.list = PDL_NEW(s->arena, struct oracle_kept, s->top);
    return m->best.list != NULL;
}

static void find_groups(struct points *s)
{
    for (int64_t i = 0; i < s->n; i++) {
        int64_t k = 0;

        while (
            k < s->ngroups &&
            !oracle_point_alike(&s->mesh[i].point, &s->mesh[s->group[k]].point))
            k++;
        if (k == s->ngroups)
            s->group[s->ngroups++] = i;
    }
}

static bool make_meshes(struct points *s)
{
    struct oracle_point *list =
        PDL_NEW(s->arena, struct oracle_point, MAX_MESHES);
    int64_t n = list ? oracle_axes_meshes(&s->axes, list, MAX_MESHES) : -1;

    for (int64_t i = 0; i < n; i++)
        if (!add_mesh(s, &list[i]))
            return false;
    if (s->n > 0) /* behind the last */
        s->total = s->mesh[s->n - 1].first +
                   oracle_axes_count(&s->axes, s->mesh[s->n - 1].point);
    return n >= 0;
}

/* The best of a few points of every mesh: what all of them start from. */
static void set_bar(struct points *s)
{
    struct oracle_best all = {.n = 0, .cap = s->top};

    all.list = calloc((size_t)s->top, sizeof *all.list);
    s->few = true;
    pdl_parallel(s->ngroups, s->opt->threads, price_group, s);
    s->few = false;
    for (int64_t i = 0; i < s->n; i++) {
        struct mesh *m = &s->mesh[i];

        for (int64_t k = 0; all.list && k < m->best.n; k++)
            oracle_best_keep(&all, &m->best.list[k]);
        m->best.n = m->points = m->evaluated = m->refused = 0;
        m->too_large = m->too_slow = m->feasible = m->unasked = 0;
    }
    if (all.list)
        s->bar = oracle_best_bar(&all);
    free(all.list);
}

/* ---- the answer ------------------------------------------------------- */

static enum pdl_status collect(pdl_arena *a, struct points *s,
                               struct pdl_search_result *out,
                               struct pdl_err *err)
{
    struct oracle_best all = {.cap = s->top,
                              .front = s->opt->goal == PDL_GOAL_PARETO};

    all.list = PDL_NEW(a, struct oracle_kept, s->top);
    out->list = PDL_NEW(a, struct pdl_found, s->top);
    if (!all.list || !out->list)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (int64_t i = 0; i < s->n; i++) {
        const struct mesh *m = &s->mesh[i];

        for (int64_t k = 0; k < m->best.n; k++)
            oracle_best_keep(&all, &m->best.list[k]);
        out->points += oracle_axes_count(&s->axes, m->point);
        out->evaluated += m->evaluated;
        out->refused += m->refused;
        out->too_large += m->too_large;
        if (m->over > 0 && (out->over == 0 || m->over < out->over)) {
            out->over = m->over;
            out->closest = m->closest;
        }
        out->too_slow += m->too_slow;
        out->unasked += m->unasked;
        out->feasible += m->feasible;
        out->pieces += m->pieces;
        out->pieces_s += m->pieces_s;
    }
    out->pruned = out->refused + out->too_large + out->too_slow;
    oracle_best_sort(&all);
    for (int64_t i = 0; i < all.n; i++) {
        struct pdl_strategy as;

        oracle_point_strategy(s->f, &all.list[i].point, &as);
        out->list[i] =
            (struct pdl_found){.strategy = oracle_strategy_text(a, &as),
                               .priced = true,
                               .x = all.list[i].x,
                               .goal = all.list[i].goal};
        if (!out->list[i].strategy)
            return pdl_fail(err, PDL_ENOMEM, "out of memory");
    }
    out->n = all.n;
    return PDL_OK;
}

static enum pdl_status search(pdl_arena *a, struct points *s,
                              struct pdl_search_result *out,
                              struct pdl_err *err)
{
    s->group = PDL_NEW(a, int64_t, MAX_MESHES);
    if (!s->group || !make_meshes(s))
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    find_groups(s);
    if (!s->opt->exhaustive && !s->opt->only_fits &&
        s->opt->goal == PDL_GOAL_TIME)
        set_bar(s);
    out->stopped = !pdl_parallel(s->ngroups, s->opt->threads, price_group, s);
    if (s->no_memory)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    return collect(a, s, out, err);
}

enum pdl_status oracle_search_points(pdl_arena *a,
                                     const struct oracle_family *f,
                                     const struct pdl_search_options *opt,
                                     struct pdl_search_result *out,
                                     struct pdl_err *err)
{
    struct oracle_cuts cuts = {.lock = PTHREAD_MUTEX_INITIALIZER, .arena = a};
    struct oracle_family family = *f;
    struct points s = {.f = &family,
                       .opt = opt,
                       .arena = a,
                       .top = opt->goal == PDL_GOAL_PARETO ? MAX_FRONT
                              : opt->top > 0               ? opt->top
                                                           : 20,
                       .bar = INFINITY,
                       .idle = {.lock = PTHREAD_MUTEX_INITIALIZER},
                       .large = {.lock = PTHREAD_MUTEX_INITIALIZER},
                       .lock = PTHREAD_MUTEX_INITIALIZER};
    struct pdl_search_options all = *opt;
    enum pdl_status st;

    family.cuts = &cuts;
    oracle_axes_make(&family, opt, &s.axes);
    s.mesh = PDL_NEW(a, struct mesh, MAX_MESHES);
    if (!s.mesh)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    st = search(a, &s, out, err);
    oracle_free_idle(&s.idle);
    oracle_free_idle(&s.large);
    out->axes = s.axes.words;
    out->naxes = s.axes.nwords;
    /* where nothing fits, the best of what does not */
    if (st == PDL_OK && out->n == 0 && out->too_large > 0 && !out->stopped &&
        !opt->uncounted && !opt->only_fits) {
        struct pdl_search_result second = {.list = NULL};

        all.exhaustive = true;
        st = oracle_search_points(a, f, &all, &second, err);
        out->list = second.list;
        out->n = second.n;
    }
    return st;
}
