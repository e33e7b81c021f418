/* SPDX-License-Identifier: Apache-2.0
 *
 * A strategy for each layer. Candidates are the axes and products of two of
 * the whole-model search, without pipelines; units of layers and the moves
 * between them are priced by their own plans (unit_prices.c) and one
 * candidate is chosen for each unit (unit_choice.c). What is returned is the
 * price of the whole plan, never the sum: sums only say which plans to look at.
 *
 * Sums do not know how much of the gradient exchange hides behind backward, so
 * the choice is made for several shares of it. Axes of all layers must nest in
 * one mesh, so it is made for each chain of divisors of the number of PEs. A
 * strategy has at most PDL_MAX_CLAUSES clauses: where a choice needs more, a
 * switch is made to cost more until it fits. Where nothing fits into memory,
 * bytes are made to cost time. */
#include "oracle/bylayer/bylayer.h"
#include "oracle/search/space.h"

#include <math.h>
#include <string.h>

enum { MOST_TRIES = 256, MOST_ROOMS = 5, MOST_HALVED = 2 };
/* a part of the memory that is as good as all of it */
static const double FULL = .96;

/* ---- the problem ------------------------------------------------------ */

enum pdl_status oracle_layers_problem(const struct oracle_layers *x,
                                      const struct oracle_weights *w,
                                      struct oracle_choice *out,
                                      struct pdl_err *err)
{
    int64_t n = (int64_t)x->units.n * x->k, kk = (int64_t)x->k * x->k;
    double *own = PDL_NEW(x->arena, double, n + 1), *other;
    struct oracle_pair *pair =
        PDL_NEW(x->arena, struct oracle_pair, 2 * (int64_t)x->npairs + 1);

    other = PDL_NEW(x->arena, double, kk + 1);
    if (!own || !pair || !other)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (int64_t i = 0; i < n; i++)
        own[i] = x->cost[i].spare && !w->spare
                     ? INFINITY
                     : x->cost[i].step + w->exposed * x->cost[i].exchange +
                           w->s_per_byte * x->cost[i].bytes;
    for (int64_t i = 0; i < kk; i++)
        other[i] = i / x->k == i % x->k ? 0 : w->s_per_switch;
    for (int i = 0; i < x->npairs; i++) {
        pair[i] = x->pair[i];
        pair[x->npairs + i] =
            (struct oracle_pair){x->pair[i].u, x->pair[i].v, other};
    }
    *out = (struct oracle_choice){
        .n = x->units.n,
        .k = x->k,
        .own = own,
        .npairs = w->s_per_switch > 0 ? 2 * x->npairs : x->npairs,
        .pair = pair};
    return PDL_OK;
}

/* ---- the search ------------------------------------------------------- */

struct
try {
    struct pdl_found found;
    double hidden_s, exposed_s;
    int clauses, k, npairs;
    bool exact, limited;
};

struct search {
    struct oracle_layers x;
    const struct pdl_model *model;
    struct pdl_layers_result *out;
    struct try *list;
    int n, priced;
    int *pick;
    const struct pdl_search_result *all; /* for all layers alike */
};

static double sum_with(struct search *s, double exposed, struct pdl_err *err)
{
    const struct oracle_weights w = {.exposed = exposed, .spare = true};
    struct oracle_choice c;

    return oracle_layers_problem(&s->x, &w, &c, err) == PDL_OK
               ? oracle_choice_cost(&c, s->pick)
               : INFINITY;
}

static int count_clauses(const char *text)
{
    int n = 1;

    for (; *text; text++)
        n += *text == ';';
    return n;
}

/* A strategy that was not tried before; NULL: it was, or there are enough. */
static struct try *note(struct search *s, const char *text)
{
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->list[i].found.strategy, text) == 0)
            return NULL;
    if (s->n == MOST_TRIES)
        return NULL;
    s->list[s->n] = (struct try){.found = {.strategy = text},
                                 .clauses = count_clauses(text),
                                 .k = s->x.k,
                                 .npairs = s->x.npairs};
    return &s->list[s->n++];
}

static void note_choice(struct search *s, const char *text, bool exact,
                        bool limited, struct pdl_err *err)
{
    struct try *t = note(s, text);

    if (!t)
        return;
    t->hidden_s = sum_with(s, 0, err);
    t->exposed_s = sum_with(s, 1, err);
    t->exact = exact;
    t->limited = limited;
}

/* The best choice at these weights that the notation can hold. */
static enum pdl_status choose(struct search *s, struct oracle_weights w,
                              struct pdl_err *err)
{
    const char *text = NULL;
    struct oracle_choice c;
    double least;
    bool exact;

    for (int i = 0; i < 48 && !text; i++) {
        enum pdl_status st = oracle_layers_problem(&s->x, &w, &c, err);

        if (st != PDL_OK)
            return st;
        least = oracle_choice_solve(s->x.arena, &c, s->pick, &exact);
        if (!isfinite(least))
            return PDL_OK; /* nothing at all is possible */
        text = oracle_layers_write(&s->x, s->pick);
        w.s_per_switch = i == 0 ? least / c.n / 1e4 : 2 * w.s_per_switch;
        if (text)
            note_choice(s, text, exact, i > 0, err);
    }
    return PDL_OK;
}

static bool price_body(void *ctx, int64_t i)
{
    struct search *s = ctx;
    struct pdl_found *f = &s->list[s->priced + i].found;
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_err err;
    enum pdl_status st = PDL_ENOMEM;

    if (a)
        st = oracle_price_found(a, s->model, s->x.sys, s->x.oracle, s->x.opt, f,
                                &err);
    f->goal = f->x.step_s;
    pdl_arena_destroy(a);
    return st != PDL_ENOMEM;
}

/* What fits before what does not; then time. */
static bool is_better(const struct pdl_found *a, const struct pdl_found *b)
{
    if (a->priced != b->priced)
        return a->priced;
    if (a->priced && a->x.feasible != b->x.feasible)
        return a->x.feasible;
    return a->priced && a->x.step_s < b->x.step_s;
}

static enum pdl_status price_tries(struct search *s, struct pdl_err *err)
{
    bool done =
        pdl_parallel(s->n - s->priced, s->x.opt->threads, price_body, s);
    struct pdl_layers_result *r = s->out;

    if (!done)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (; s->priced < s->n; s->priced++) {
        const struct try *t = &s->list[s->priced];

        if (!is_better(&t->found, &r->layered))
            continue;
        r->layered = t->found;
        r->hidden_s = t->hidden_s;
        r->exposed_s = t->exposed_s;
        r->clauses = t->clauses;
        r->candidates = t->k;
        r->pairs = t->npairs;
        r->exact = t->exact;
        r->limited = t->limited;
    }
    r->tried = s->n;
    return PDL_OK;
}

static double worst_bytes(const struct search *s)
{
    double sum = 0;

    for (int u = 0; u < s->x.units.n; u++) {
        double most = 0;

        for (int c = 0; c < s->x.k; c++)
            most = fmax(most, s->x.cost[(int64_t)u * s->x.k + c].bytes);
        sum += most;
    }
    return sum > 0 ? sum : 1;
}

/* One mesh: every share of exchange; and where nothing fits, bytes at a
 * price, from a tenth of the step for all of them to a thousand steps. */
static enum pdl_status search_mesh(struct search *s, struct pdl_err *err)
{
    enum pdl_status st;
    double scale;

    s->x.prune = true;
    st = oracle_layers_price(&s->x, err);
    for (int i = 0; i < 2 * ORACLE_SHARES && st == PDL_OK; i++)
        st = choose(s,
                    (struct oracle_weights){.exposed = oracle_shares[i / 2],
                                            .spare = i % 2},
                    err);
    if (st == PDL_OK)
        st = price_tries(s, err);
    if (st != PDL_OK || !s->out->layered.priced || s->out->layered.x.feasible)
        return st;
    s->x.prune = false; /* memory counts too */
    st = oracle_layers_price(&s->x, err);
    scale = s->out->layered.x.step_s / worst_bytes(s);
    for (int i = 0; i < 5 && st == PDL_OK; i++, scale *= 10)
        st = choose(s,
                    (struct oracle_weights){
                        .exposed = .5, .s_per_byte = scale / 10, .spare = true},
                    err);
    return st == PDL_OK ? price_tries(s, err) : st;
}

/* Strategies that name layers need the blocks written out, as lowering does
 * it: a plan on one PE has them. */
static enum pdl_status expand(struct search *s, struct pdl_err *err)
{
    struct pdl_plan_options po = {
        .batch = s->x.opt->batch,
        .dtype = pdl_precision_storage(s->x.oracle->precision)};
    struct pdl_strategy *one = PDL_NEW(s->x.arena, struct pdl_strategy, 1);
    const struct pdl_plan *plan;
    enum pdl_status st;

    if (!one)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    st = pdl_strategy_parse(s->x.arena, "data=1", one, err);
    if (st == PDL_OK)
        st = pdl_plan_lower(s->x.arena, s->model, one, &po, &plan, err);
    if (st == PDL_OK)
        st = oracle_units_make(s->x.arena, plan->model, &s->x.units, err);
    if (st != PDL_OK)
        return st;
    s->pick = PDL_NEW(s->x.arena, int, s->x.units.n + 1);
    s->list = PDL_NEW(s->x.arena, struct try, MOST_TRIES + 1);
    return s->pick && s->list ? PDL_OK
                              : pdl_fail(err, PDL_ENOMEM, "out of memory");
}

/* Without pipelines large transformers need what saves memory: the choice of
 * the best for all layers first, then sharded states, then recomputation. It
 * is one for the whole plan. */
enum { LEVELS = 3 };

static enum pdl_status set_options(struct search *s, int level,
                                   struct pdl_err *err)
{
    struct pdl_strategy *u = PDL_NEW(s->x.arena, struct pdl_strategy, 1);
    enum pdl_status st = PDL_OK;

    if (!u)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    if (s->out->uniform.priced)
        st = pdl_strategy_parse(s->x.arena, s->out->uniform.strategy, u, err);
    for (int c = 0; c < s->x.k && st == PDL_OK; c++) {
        s->x.strategy[c].zero = level > 0 ? 3 : u->zero;
        s->x.strategy[c].recompute =
            level > 1 ? PDL_RECOMPUTE_FULL : u->recompute;
    }
    return st;
}

static enum pdl_status search_levels(struct search *s, struct pdl_err *err)
{
    bool more = strcmp(s->x.units.model->kind, "transformer") == 0;
    enum pdl_status st = PDL_OK;

    for (int level = 0; level < (more ? LEVELS : 1) && st == PDL_OK; level++) {
        if (more)
            st = set_options(s, level, err);
        if (st == PDL_OK)
            st = search_mesh(s, err);
        if (s->out->layered.priced && s->out->layered.x.feasible)
            break;
    }
    return st;
}

/* ---- pipelines -------------------------------------------------------- */

static void note_stages(void *ctx, const char *text)
{
    note(ctx, text);
}

/* Rooms that were tried: the most that led to a plan that fits, and the least
 * that did not (0: none). */
struct rooms {
    double fits, over;
    int halved;
};

/* Peaks of the last tries: the largest that fits, the least that does not. */
static void peaks_of(const struct search *s, int first, double *fits,
                     double *over)
{
    *fits = 0;
    *over = INFINITY;
    for (int i = first; i < s->n; i++) {
        const struct pdl_found *f = &s->list[i].found;
        double peak = (double)f->x.peak_bytes;

        if (f->priced && f->x.feasible)
            *fits = fmax(*fits, peak);
        else if (f->priced)
            *over = fmin(*over, peak);
    }
}

/* The next room: sums of memory are not the plan's, so where what was found
 * does not fit there is less, and more where it saves memory and leaves some;
 * where nothing is saved any more, half the way back. 0: enough. */
static double next_room(const struct search *s, struct rooms *r, double room,
                        int first, bool saves)
{
    double capacity = (double)s->out->uniform.x.capacity_bytes, next;
    double fits, over;

    peaks_of(s, first, &fits, &over);
    if (!saves && isinf(over)) { /* it fits, or is known to */
        r->over = room;
        return r->fits > 0 && r->halved++ < MOST_HALVED ? (r->fits + room) / 2
                                                        : 0;
    }
    if (fits == 0 && isinf(over)) /* sums may be too large */
        return s->n > first || r->fits > 0 ? 0 : 1.2 * room;
    if (fits > FULL * capacity || (fits > 0 && r->halved > 0))
        return 0;
    *(fits > 0 ? &r->fits : &r->over) = room;
    next = room * (fits > 0 ? capacity / fits : fmin(capacity / over, .97));
    if (r->fits > 0 && r->over > 0 && (next <= r->fits || next >= r->over))
        next = (r->fits + r->over) / 2;
    return next;
}

/* One mesh of one pipeline. */
static enum pdl_status search_stages(struct search *s, struct oracle_stages *p,
                                     struct pdl_err *err)
{
    double room = (double)s->out->uniform.x.capacity_bytes;
    struct rooms r = {.fits = 0};
    enum pdl_status st = PDL_OK;

    for (int i = 0; i < MOST_ROOMS && st == PDL_OK && room > 0; i++) {
        int first = s->n;

        p->room = room;
        p->saves = true; /* unless an answer does without */
        st = oracle_layers_stages(p, err);
        for (int k = first; k < s->n; k++)
            s->list[k].exact = p->exact;
        if (st == PDL_OK)
            st = price_tries(s, err);
        room = next_room(s, &r, room, first, p->saves);
    }
    return st;
}

/* The axes of `base` for all layers: only stages and savings are chosen. */
static enum pdl_status search_alike(struct search *s, struct oracle_stages *p,
                                    struct pdl_err *err)
{
    struct pdl_strategy *all = p->x.strategy, one = *p->base;
    struct pdl_clause *c = &one.clause[0];
    int k = p->x.k;
    enum pdl_status st;

    if (p->lanes > 1) /* its first term */
        memmove(c->term, c->term + 1, (size_t)--c->nterms * sizeof *c->term);
    if (c->nterms == 0)
        c->term[c->nterms++] =
            (struct pdl_term){.axis = PDL_AXIS_DATA, .nsizes = 1, .size = {1}};
    one.schedule = PDL_SCHEDULE_1F1B;
    one.micro_batches = one.virtual_stages = one.accumulate = 0;
    one.recompute = PDL_RECOMPUTE_NONE;
    one.offload_activations = false;
    p->x.strategy = &one;
    p->x.k = 1;
    st = search_stages(s, p, err);
    p->priced[0] = p->priced[1] = NULL;
    p->x.strategy = all;
    p->x.k = k;
    return st;
}

static enum pdl_status search_pipe(struct search *s,
                                   const struct pdl_strategy *base,
                                   struct pdl_err *err)
{
    struct oracle_stages *p = PDL_NEW(s->x.arena, struct oracle_stages, 1);
    enum pdl_status st = PDL_OK;
    bool more = true;

    if (!p)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    p->x = s->x;
    p->x.prune = false;
    p->note = note_stages;
    p->ctx = s;
    p->exact = true;
    if (!oracle_stages_of(p, s->x.opt, base))
        return PDL_OK;
    s->out->pipelines++;
    if (p->stages > p->lanes)
        st = oracle_stages_cut(p, s->model, s->x.opt, err);
    for (int which = 0; st == PDL_OK && more; which++) {
        p->priced[0] = p->priced[1] = NULL;
        st = oracle_layers_space(&p->x, which, &more, err);
        for (int c = 0; c < p->x.k; c++) {
            p->x.strategy[c].zero = base->zero;
            p->x.strategy[c].zero_group = base->zero_group;
            p->x.strategy[c].seq = base->seq;
        }
        if (st == PDL_OK && which == 0)
            st = search_alike(s, p, err);
        if (st == PDL_OK && more && p->x.k > 1)
            st = search_stages(s, p, err);
    }
    s->x.lowered = p->x.lowered;
    s->x.moves = p->x.moves;
    return st;
}

/* Without stages only where nothing better has been found. */
static enum pdl_status search_pipes(struct search *s, bool stages,
                                    struct pdl_err *err)
{
    struct pdl_strategy *base =
        PDL_NEW(s->x.arena, struct pdl_strategy, ORACLE_MOST_PIPES + 1);
    enum pdl_status st;
    int n = 0;

    if (!base)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    st = oracle_layers_pipes(s->x.arena, s->all, stages, base, &n, err);
    for (int i = 0; i < n && st == PDL_OK; i++)
        st = search_pipe(s, &base[i], err);
    return st;
}

/* ---- all of it -------------------------------------------------------- */

static enum pdl_status search_layers(struct search *s, struct pdl_err *err)
{
    enum pdl_status st = expand(s, err);
    bool more = true;

    if (st != PDL_OK)
        return st;
    s->out->units = s->x.units.n;
    for (int u = 0; u < s->x.units.n; u++)
        s->out->classes += s->x.units.unit[u].class == u;
    for (int which = 0; st == PDL_OK && more; which++) {
        st = oracle_layers_space(&s->x, which, &more, err);
        if (st == PDL_OK && more && s->x.k > 0)
            st = search_levels(s, err);
    }
    if (st == PDL_OK)
        st = search_pipes(s, true, err);
    if (st == PDL_OK && !is_better(&s->out->layered, &s->out->uniform))
        st = search_pipes(s, false, err);
    s->out->lowered = s->x.lowered;
    s->out->moves = s->x.moves;
    return st;
}

static enum pdl_status refuse(const struct pdl_oracle_options *oracle,
                              const struct pdl_search_options *opt,
                              struct pdl_err *err)
{
    if (opt->goal != PDL_GOAL_TIME)
        return pdl_fail(err, PDL_EINVAL,
                        "strategies by layer are found for time only");
    if (oracle->framework && oracle->framework->convolutions_only)
        return pdl_fail(err, PDL_EINVAL,
                        "%s splits convolutions only: it has no strategies "
                        "by layer",
                        oracle->framework->name);
    return PDL_OK;
}

enum pdl_status pdl_search_layers(pdl_arena *a, const struct pdl_model *model,
                                  const struct pdl_system *sys,
                                  const struct pdl_oracle_options *oracle,
                                  const struct pdl_search_options *opt,
                                  struct pdl_layers_result *out,
                                  struct pdl_err *err)
{
    struct search s = {
        .x = {.arena = a, .sys = sys, .oracle = oracle, .opt = opt},
        .model = model,
        .out = out};
    struct pdl_search_options fast = *opt;
    struct pdl_search_result all;
    enum pdl_status st = refuse(oracle, opt, err);

    *out = (struct pdl_layers_result){.exact = true};
    fast.uncounted = true; /* only the best are asked for */
    fast.one_order = true;
    if (st == PDL_OK)
        st = pdl_search(a, model, sys, oracle, &fast, &all, err);
    if (st != PDL_OK)
        return st;
    if (all.n > 0)
        out->uniform = all.list[0];
    out->stopped = all.stopped;
    s.all = &all;
    if (!all.stopped)
        st = search_layers(&s, err);
    out->better = is_better(&out->layered, &out->uniform);
    out->best = out->better ? out->layered : out->uniform;
    return st;
}
