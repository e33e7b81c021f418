/* SPDX-License-Identifier: Apache-2.0
 *
 * The search: the strategies of a space, priced on all cores, and ranked. A
 * small space is a list, each lowered and priced like any single one; what a
 * limit forbids is kept with its reason. Of a large one (space_points.c) the
 * best come as a list. The order of the answer does not depend on threads; a
 * search that is stopped answers with what it has priced. */
#include "oracle/habit/framework.h"
#include "oracle/search/point.h"
#include "oracle/search/space.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CANDIDATES = 1 << 20 };

void oracle_space_add(struct oracle_space *s, const char *text)
{
    const char **list;

    if (s->failed || !text || s->n == MAX_CANDIDATES)
        return;
    if (s->n == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 256;
        list = PDL_NEW(s->arena, const char *, s->cap);
        if (list && s->n > 0)
            memcpy(list, s->list, (size_t)s->n * sizeof *list);
        s->list = list;
    }
    s->failed =
        !s->list || !(s->list[s->n++] = pdl_arena_strdup(s->arena, text));
}

bool oracle_space_wants(const struct oracle_space *s, enum pdl_axis axis)
{
    const char *p = s->opt->axes, *name = pdl_axis_name(axis);
    size_t n = strlen(name);

    if (!p)
        return true;
    for (; p; p = strchr(p, ',')) {
        p += *p == ',';
        if (strncmp(p, name, n) == 0 && (p[n] == ',' || p[n] == '\0'))
            return true;
    }
    return false;
}

/* ---- arenas ----------------------------------------------------------- */

pdl_arena *oracle_borrow(struct oracle_idle *x)
{
    pdl_arena *a = NULL;

    pthread_mutex_lock(&x->lock);
    if (x->n > 0)
        a = x->arena[--x->n];
    pthread_mutex_unlock(&x->lock);
    return a ? a : pdl_arena_create(PDL_ARENA_DEFAULT);
}

void oracle_give_back(struct oracle_idle *x, pdl_arena *a)
{
    if (a)
        pdl_arena_reset(a);
    pthread_mutex_lock(&x->lock);
    if (a && x->n < ORACLE_IDLE) {
        x->arena[x->n++] = a;
        a = NULL;
    }
    pthread_mutex_unlock(&x->lock);
    pdl_arena_destroy(a);
}

void oracle_free_idle(struct oracle_idle *x)
{
    while (x->n > 0)
        pdl_arena_destroy(x->arena[--x->n]);
}

/* ---- pricing ---------------------------------------------------------- */

struct search {
    const struct pdl_model *model;
    const struct pdl_system *sys;
    const struct pdl_oracle_options *oracle;
    const struct pdl_search_options *opt;
    struct pdl_found *list;
    int64_t n, done;
    pdl_arena *arena; /* of the reasons */
    struct oracle_idle idle;
    pthread_mutex_t lock;
    bool no_memory;
    bool fits; /* one does, and no more was asked */
};

double oracle_goal(enum pdl_goal goal, const struct pdl_projection *x,
                   const struct pdl_system *sys)
{
    struct pdl_bill bill;

    pdl_project_bill(x, sys, &bill);
    return goal == PDL_GOAL_MEMORY   ? (double)x->peak_bytes
           : goal == PDL_GOAL_ENERGY ? bill.energy_j
           : goal == PDL_GOAL_COST   ? bill.cost
                                     : x->step_s;
}

bool oracle_dominates(const struct pdl_projection *a,
                      const struct pdl_projection *b)
{
    return a->step_s <= b->step_s && a->peak_bytes <= b->peak_bytes;
}

enum pdl_status oracle_price_found(pdl_arena *a, const struct pdl_model *model,
                                   const struct pdl_system *sys,
                                   const struct pdl_oracle_options *oracle,
                                   const struct pdl_search_options *opt,
                                   struct pdl_found *f, struct pdl_err *err)
{
    struct pdl_plan_options po = {
        .rolled = true, .batch = opt->batch, .allow_empty = opt->allow_empty};
    struct pdl_strategy *strategy = PDL_NEW(a, struct pdl_strategy, 1);
    struct pdl_system laid = *sys; /* nodes in the order of ranks */
    const struct pdl_plan *plan;
    enum pdl_status st;

    if (!strategy)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    st = pdl_strategy_parse(a, f->strategy, strategy, err);
    if (st == PDL_OK)
        st = pdl_strategy_lay(a, sys, oracle->precision, opt->batch, strategy,
                              &laid, err);
    if (st == PDL_OK)
        st = pdl_framework_plans(oracle->framework, strategy, err);
    if (st == PDL_OK)
        st = pdl_oracle_lower(a, model, &laid, oracle, &po, strategy, &plan,
                              err);
    if (st == PDL_OK)
        st = pdl_project(plan, &laid, oracle, &f->x, err);
    f->priced = st == PDL_OK;
    return st;
}

/* Reasons go to the common arena; so does what must be counted. */
static bool finish(struct search *s, struct pdl_found *f, enum pdl_status st,
                   const struct pdl_err *err)
{
    bool go_on;

    pthread_mutex_lock(&s->lock);
    s->done++;
    if (st == PDL_OK)
        f->goal = oracle_goal(s->opt->goal, &f->x, s->sys);
    else
        f->excluded = pdl_arena_strdup(s->arena, err->msg);
    s->no_memory = s->no_memory || st == PDL_ENOMEM;
    s->fits = s->fits || (s->opt->only_fits && st == PDL_OK && f->x.feasible);
    go_on = !s->no_memory && !s->fits &&
            (!s->opt->progress || s->opt->progress(s->opt->ctx, s->done, s->n));
    pthread_mutex_unlock(&s->lock);
    return go_on;
}

static bool body(void *ctx, int64_t i)
{
    struct search *s = ctx;
    pdl_arena *a = oracle_borrow(&s->idle);
    struct pdl_err err = {"out of memory", ""};
    enum pdl_status st = PDL_ENOMEM;

    if (a)
        st = oracle_price_found(a, s->model, s->sys, s->oracle, s->opt,
                                &s->list[i], &err);
    oracle_give_back(&s->idle, a);
    return finish(s, &s->list[i], st, &err);
}

/* Priced before the rest, what fits before what does not; then the goal, or of
 * what does not fit how near it is. */
static int by_goal(const void *pa, const void *pb)
{
    const struct pdl_found *a = pa, *b = pb;

    if (a->priced != b->priced)
        return b->priced - a->priced;
    if (a->x.feasible != b->x.feasible)
        return b->x.feasible - a->x.feasible;
    if (!a->x.feasible && a->x.peak_bytes != b->x.peak_bytes)
        return a->x.peak_bytes < b->x.peak_bytes ? -1 : 1;
    if (a->goal != b->goal)
        return a->goal < b->goal ? -1 : 1;
    if (a->x.step_s != b->x.step_s)
        return a->x.step_s < b->x.step_s ? -1 : 1;
    return strcmp(a->strategy, b->strategy);
}

static void make_space(struct oracle_space *s)
{
    bool transformer = strcmp(s->model->kind, "transformer") == 0;

    if (transformer)
        oracle_space_transformer(s);
    else
        oracle_space_pairs(s);
    oracle_space_groups(s);
}

/* Of a sorted list, quickest first, what needs less memory than all before. */
static int64_t front_of(struct pdl_found *list, int64_t n)
{
    int64_t kept = 0;

    for (int64_t i = 0; i < n; i++)
        if (list[i].priced && list[i].x.feasible &&
            (kept == 0 || !oracle_dominates(&list[kept - 1].x, &list[i].x)))
            list[kept++] = list[i];
    return kept;
}

/* Lowers and prices every strategy of a list. */
static enum pdl_status price_all(struct search *s, const char *const *list,
                                 struct pdl_search_result *out,
                                 struct pdl_err *err)
{
    s->list = PDL_NEW(s->arena, struct pdl_found, s->n + 1);
    if (!s->list)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (int64_t i = 0; i < s->n; i++)
        s->list[i].strategy = list[i];
    out->list = s->list;
    out->n = s->n;
    out->stopped = !pdl_parallel(s->n, s->opt->threads, body, s) && !s->fits;
    oracle_free_idle(&s->idle);
    return s->no_memory ? pdl_fail(err, PDL_ENOMEM, "out of memory") : PDL_OK;
}

static enum pdl_status price_list(struct search *s, const char *const *list,
                                  struct pdl_search_result *out,
                                  struct pdl_err *err)
{
    enum pdl_status st = price_all(s, list, out, err);

    if (st == PDL_OK)
        qsort(s->list, (size_t)s->n, sizeof s->list[0], by_goal);
    return st;
}

static enum pdl_status small_space(struct search *s,
                                   struct pdl_search_result *out,
                                   struct pdl_err *err)
{
    struct oracle_space space = {
        .model = s->model,
        .sys = s->sys,
        .opt = s->opt,
        .framework = s->oracle->framework,
        .most_zero = oracle_most_zero(s->oracle->framework, s->opt),
        .arena = s->arena};
    enum pdl_status st;

    make_space(&space);
    s->n = out->points = space.n;
    st = space.failed ? pdl_fail(err, PDL_ENOMEM, "out of memory")
                      : price_list(s, space.list, out, err);
    for (int64_t i = 0; st == PDL_OK && i < s->n; i++) {
        out->evaluated += s->list[i].priced;
        out->pruned += s->list[i].excluded != NULL;
        out->feasible += s->list[i].priced && s->list[i].x.feasible;
    }
    out->refused = out->pruned;
    if (s->fits) { /* which one was first depends on threads */
        out->n = out->evaluated = 0;
        out->feasible = 1;
    }
    if (st == PDL_OK && s->opt->goal == PDL_GOAL_PARETO)
        out->n = front_of(s->list, s->n);
    return st;
}

/* ---- other orders ----------------------------------------------------- */

/* Other orders of the axes in the mesh. The search over configurations has
 * tensor innermost and the pipeline outermost, as in Megatron-LM; which axis
 * lies inside nodes changes the price of every collective, but not what is
 * computed or held. So the best of the search are priced once more in other
 * orders, as whole plans: every order of up to three axes; of more, each axis
 * moved to any other place. Frameworks that want equal stages (Megatron-LM)
 * know one other order, with the data axis outermost.
 *
 * Limits: a plan that only another order would bring among the best is not
 * found. */
enum { ALL_ORDERS = 3, MOST_AXES = 8 };

struct orders {
    struct oracle_space *space;
    struct pdl_strategy s; /* with its axes in the order at hand */
};

static void add_order(struct orders *x)
{
    oracle_space_add(x->space, oracle_strategy_text(x->space->arena, &x->s));
}

/* From place `from` to place `to`; those between make room. */
static void move_term(struct pdl_clause *c, int from, int to)
{
    int step = from < to ? 1 : -1;

    for (int i = from; i != to; i += step) {
        struct pdl_term t = c->term[i];

        c->term[i] = c->term[i + step];
        c->term[i + step] = t;
    }
}

/* Every order of the axes from place k on; the first is the one given. */
static void every_order(struct orders *x, int k, bool given)
{
    struct pdl_clause *c = &x->s.clause[0];

    if (k + 1 >= c->nterms && !given)
        add_order(x);
    for (int i = k; k + 1 < c->nterms && i < c->nterms; i++) {
        move_term(c, i, k);
        every_order(x, k + 1, given && i == k);
        move_term(c, k, i);
    }
}

/* Neighbours change places once. */
static void every_move(struct orders *x)
{
    struct pdl_clause *c = &x->s.clause[0];

    for (int i = 0; i < c->nterms; i++)
        for (int k = 0; k < c->nterms; k++) {
            if (k == i || k == i - 1)
                continue;
            move_term(c, i, k);
            add_order(x);
            move_term(c, k, i);
        }
}

static void data_outermost(struct orders *x)
{
    struct pdl_clause *c = &x->s.clause[0];

    for (int i = 1; i < c->nterms; i++)
        if (c->term[i].axis == PDL_AXIS_DATA &&
            c->term[0].axis == PDL_AXIS_PIPE) {
            move_term(c, i, 0);
            add_order(x);
        }
}

static enum pdl_status add_orders(struct oracle_space *s, const char *text,
                                  enum pdl_rank_orders orders,
                                  struct pdl_err *err)
{
    struct orders x = {.space = s};
    enum pdl_status st = pdl_strategy_parse(s->arena, text, &x.s, err);

    if (st != PDL_OK || x.s.nclauses != 1)
        return st;
    oracle_drop_ones(&x.s.clause[0]);
    if (x.s.clause[0].nterms > MOST_AXES)
        return PDL_OK;
    if (orders == PDL_ORDERS_DATA_FIRST)
        data_outermost(&x);
    else if (orders == PDL_ORDERS_FIXED)
        return PDL_OK;
    else if (x.s.clause[0].nterms <= ALL_ORDERS)
        every_order(&x, 0, true);
    else
        every_move(&x);
    return s->failed ? pdl_fail(err, PDL_ENOMEM, "out of memory") : PDL_OK;
}

enum { REORDERED = 10 }; /* a whole plan is a hundred points of the search */

/* The best so far in other orders of their axes. One that is quicker than all
 * others of its plan, and than the plan, takes a place of its own. */
static enum pdl_status other_orders(struct search *s,
                                    struct pdl_search_result *out,
                                    struct pdl_err *err)
{
    struct pdl_search_result more = {.list = NULL};
    struct oracle_space space = {
        .model = s->model, .sys = s->sys, .opt = s->opt, .arena = s->arena};
    struct search again = *s;
    struct pdl_found *all = PDL_NEW(s->arena, struct pdl_found, 2 * out->n + 1);
    int64_t n = out->n, *from = PDL_NEW(s->arena, int64_t, n + 1);
    enum pdl_rank_orders orders =
        oracle_framework_plans(s->oracle->framework)->orders;
    enum pdl_status st = PDL_OK;

    if (!all || !from)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (int64_t i = 0; i < n && st == PDL_OK; i++) {
        from[i] = space.n;
        if (i < REORDERED && out->list[i].priced && out->list[i].x.feasible)
            st = add_orders(&space, out->list[i].strategy, orders, err);
    }
    from[n] = again.n = space.n;
    if (st == PDL_OK)
        st = price_all(&again, space.list, &more, err);
    for (int64_t i = 0; i < n && st == PDL_OK; i++) {
        const struct pdl_found *best = &out->list[i];

        all[i] = out->list[i];
        for (int64_t k = from[i]; k < from[i + 1]; k++)
            if (more.list[k].priced && more.list[k].x.feasible &&
                more.list[k].goal < best->goal * (1 - 1e-9))
                best = &more.list[k];
        if (best != &out->list[i])
            all[n + out->reordered++] = *best;
    }
    if (st != PDL_OK)
        return st;
    qsort(all, (size_t)(n + out->reordered), sizeof all[0], by_goal);
    out->list = all;
    out->orders = space.n;
    return PDL_OK;
}

/* ---- all of it -------------------------------------------------------- */

/* The best of a large space once more, as whole plans. */
static enum pdl_status large_space(struct search *s,
                                   const struct oracle_family *f,
                                   struct pdl_search_result *out,
                                   struct pdl_err *err)
{
    struct pdl_search_options quiet = *s->opt;
    struct search again = *s;
    enum pdl_status st = oracle_search_points(s->arena, f, s->opt, out, err);
    const char **list = PDL_NEW(s->arena, const char *, out->n + 1);
    bool stopped = out->stopped;

    if (st != PDL_OK)
        return st;
    if (!list)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (int64_t i = 0; i < out->n; i++)
        list[i] = out->list[i].strategy;
    quiet.progress = NULL;
    again.opt = &quiet;
    again.n = out->n;
    st = price_list(&again, list, out, err);
    if (st == PDL_OK && !stopped && !s->opt->one_order &&
        s->opt->goal != PDL_GOAL_PARETO && s->opt->goal != PDL_GOAL_MEMORY)
        st = other_orders(&again, out, err);
    out->stopped = stopped;
    return st;
}

/* Block by block, too. */
static enum pdl_status with_offload(struct search *s, bool large,
                                    struct pdl_search_result *out,
                                    struct pdl_err *err)
{
    enum pdl_status st = oracle_offload(s->arena, s->model, s->sys, s->oracle,
                                        s->opt, large, out, err);

    if (st != PDL_OK || out->n == 0)
        return st;
    qsort(out->list, (size_t)out->n, sizeof out->list[0], by_goal);
    if (s->opt->goal == PDL_GOAL_PARETO)
        out->n = front_of(out->list, out->n);
    return PDL_OK;
}

/* Of what is listed though it does not fit. */
static void find_closest(const struct search *s, struct pdl_search_result *out)
{
    for (int64_t i = 0; i < out->n; i++) {
        const struct pdl_projection *x = &out->list[i].x;
        double over;

        if (!out->list[i].priced || out->list[i].excluded || x->feasible)
            continue;
        over = oracle_times_memory(s->sys, s->opt->pes, x);
        if (out->over > 0 && out->over <= over)
            continue;
        out->over = over;
        out->closest = *x;
    }
}

enum pdl_status pdl_search(pdl_arena *a, const struct pdl_model *model,
                           const struct pdl_system *sys,
                           const struct pdl_oracle_options *oracle,
                           const struct pdl_search_options *opt,
                           struct pdl_search_result *out, struct pdl_err *err)
{
    struct search s = {.model = model,
                       .sys = sys,
                       .oracle = oracle,
                       .opt = opt,
                       .arena = a,
                       .idle = {.lock = PTHREAD_MUTEX_INITIALIZER},
                       .lock = PTHREAD_MUTEX_INITIALIZER};
    struct pdl_plan_options po = {
        .batch = opt->batch,
        .dtype = pdl_precision_storage(oracle->precision),
        .split = pdl_framework_split(oracle->framework),
        .allow_empty = opt->allow_empty};
    struct oracle_family f;
    enum pdl_status st;
    bool large;

    *out = (struct pdl_search_result){.list = NULL};
    large = oracle_family_make(model, sys, oracle, &po, &f);
    st = large ? large_space(&s, &f, out, err) : small_space(&s, out, err);
    if (st == PDL_OK && opt->offload == PDL_OFFLOAD_AUTO && !out->stopped)
        st = with_offload(&s, large, out, err);
    if (st == PDL_OK)
        find_closest(&s, out);
    return st;
}
