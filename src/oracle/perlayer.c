/* SPDX-License-Identifier: Apache-2.0
 *
 * A strategy for each layer. Candidates are the axes and products of two of
 * the whole-model search, without pipelines; units of layers and the moves
 * between them are priced by their own plans (perlayer_cost.c) and one
 * candidate is chosen for each unit (choice.c). What is returned is the price
 * of the whole plan, never the sum: sums only say which plans to look at.
 *
 * Sums do not know how much of the gradient exchange hides behind backward, so
 * the choice is made for several shares of it. Axes of all layers must nest in
 * one mesh, so it is made for each chain of divisors of the number of PEs. A
 * strategy has at most PDL_MAX_CLAUSES clauses: where a choice needs more, a
 * switch is made to cost more until it fits. Where nothing fits into memory,
 * bytes are made to cost time. */
#include "perlayer.h"
#include "space.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CHAINS = 24, MOST_TRIES = 256, MOST_PRIMES = PDL_MAX_FACTORS };

/* ---- candidates ------------------------------------------------------------------ */

static void two(struct oracle_space *s, enum pdl_axis axis, int64_t most)
{
    char text[96];

    for (int64_t n = 2; n <= most && n <= s->opt->pes; n++) {
        if (s->opt->pes % n != 0 || !oracle_space_wants(s, axis))
            continue;
        if (n == s->opt->pes)
            snprintf(text, sizeof text, "%s=%lld", pdl_axis_name(axis),
                     (long long)n);
        else
            snprintf(text, sizeof text, "data=%lld,%s=%lld",
                     (long long)(s->opt->pes / n), pdl_axis_name(axis),
                     (long long)n);
        oracle_space_add(s, text);
    }
}

/* Transformers: data, and data with tensor inside a node or with context. */
static void transformer_space(struct oracle_space *s)
{
    char text[64];

    snprintf(text, sizeof text, "data=%lld", (long long)s->opt->pes);
    oracle_space_add(s, text);
    two(s, PDL_AXIS_TENSOR, s->sys->node.pes);
    two(s, PDL_AXIS_CONTEXT, s->opt->pes);
}

/* The primes of n, sorted; their number, or -1: more than a mesh has room
 * for. */
static int primes_of(int64_t n, int64_t *p)
{
    int k = 0;

    for (int64_t d = 2; n > 1; d += d * d > n ? n - d : 1)
        for (; n % d == 0; n /= d) {
            if (k == MOST_PRIMES)
                return -1;
            p[k++] = d;
        }
    return k;
}

/* The next order of the same primes; false: that was the last. */
static bool next_order(int64_t *p, int n)
{
    int i = n - 2, j = n - 1;
    int64_t t;

    while (i >= 0 && p[i] >= p[i + 1])
        i--;
    if (i < 0)
        return false;
    while (p[j] <= p[i])
        j--;
    t = p[i], p[i] = p[j], p[j] = t;
    for (int a = i + 1, b = n - 1; a < b; a++, b--)
        t = p[a], p[a] = p[b], p[b] = t;
    return true;
}

/* Do all axes of the strategy end at suffix products of the mesh? */
static bool nests(const struct pdl_mesh *m, const struct pdl_strategy *s)
{
    const struct pdl_clause *c = &s->clause[0];
    int64_t product = 1, mesh = 1;
    int f = m->nfactors;

    for (int t = c->nterms - 1; t >= 0; t--)
        for (int k = c->term[t].nsizes - 1; k >= 0; k--) {
            product *= c->term[t].size[k];
            while (f > 0 && mesh < product)
                mesh *= m->factor[--f];
            if (mesh != product)
                return false;
        }
    return product == m->pes;
}

static enum pdl_status make_mesh(const struct oracle_layers *x, int which,
                                 struct pdl_mesh *m, struct pdl_err *err)
{
    m->pes = x->opt->pes;
    m->nfactors = primes_of(m->pes, m->factor);
    if (m->nfactors < 0)
        return pdl_fail(err, PDL_EINVAL,
                        "%lld PEs have more than %d mesh factors",
                        (long long)m->pes, PDL_MAX_FACTORS);
    for (int i = 0; i < which; i++)
        if (!next_order(m->factor, m->nfactors))
            return PDL_EWRONG;
    return PDL_OK;
}

static enum pdl_status list_texts(struct oracle_layers *x,
                                  struct oracle_space *space,
                                  struct pdl_err *err)
{
    if (strcmp(x->units.model->kind, "transformer") == 0)
        transformer_space(space);
    else
        oracle_space_pairs(space);
    x->strategy = space->failed
                      ? NULL
                      : PDL_NEW(x->arena, struct pdl_strategy, space->n + 1);
    x->text =
        x->strategy ? PDL_NEW(x->arena, const char *, space->n + 1) : NULL;
    return x->text ? PDL_OK : pdl_fail(err, PDL_ENOMEM, "out of memory");
}

bool oracle_layers_space(struct oracle_layers *x, int which,
                         struct pdl_err *err)
{
    struct oracle_space space = {.model = x->units.model,
                                 .sys = x->sys,
                                 .opt = x->opt,
                                 .arena = x->arena};

    x->k = 0;
    if (which >= MOST_CHAINS || make_mesh(x, which, &x->mesh, err) != PDL_OK ||
        list_texts(x, &space, err) != PDL_OK)
        return false;
    for (int64_t i = 0; i < space.n; i++) {
        struct pdl_strategy *s = &x->strategy[x->k];

        *s = (struct pdl_strategy){0};
        if (strncmp(space.list[i], "pipe", 4) == 0 ||
            pdl_strategy_parse(x->arena, space.list[i], s, err) != PDL_OK ||
            !nests(&x->mesh, s))
            continue;
        ((const char **)x->text)[x->k++] = space.list[i];
    }
    return true;
}

/* ---- writing a choice ------------------------------------------------------------- */

/* The first node after `i` whose unit picks otherwise. */
static int end_of_range(const struct oracle_layers *x, const int *pick, int i)
{
    int c = pick[x->units.unit_of[i]];

    while (i < x->units.model->nnodes && pick[x->units.unit_of[i]] == c)
        i++;
    return i;
}

static bool is_plain(const char *name)
{
    return strpbrk(name, "*?[\\:;,() ") == NULL && !strstr(name, "..");
}

/* A single layer by its name: but an axis that finds nothing to cut is only
 * allowed to a range. */
static const char *range_text(const struct oracle_layers *x, int from, int to,
                              int c)
{
    const char *a = x->units.model->nodes[from].name;
    const char *b = x->units.model->nodes[to].name;
    int64_t at = (int64_t)x->units.unit_of[from] * x->k + c;

    if (from == to && is_plain(a) && !x->falls_back[at])
        return a;
    return pdl_arena_printf(x->arena, "%s..%s", a, b);
}

static int most_ranges(const struct oracle_layers *x, const int *pick)
{
    int *ranges = PDL_NEW(x->arena, int, x->k + 1), best = 0;
    int n = x->units.model->nnodes;

    for (int i = 0; ranges && i < n; i = end_of_range(x, pick, i))
        ranges[pick[x->units.unit_of[i]]]++;
    for (int c = 0; ranges && c < x->k; c++)
        best = ranges[c] > ranges[best] ? c : best;
    return best;
}

static void add_clause(struct pdl_strategy *s, const char *layers,
                       const struct pdl_strategy *from)
{
    if (s->nclauses < PDL_MAX_CLAUSES) {
        s->clause[s->nclauses] = from->clause[0];
        s->clause[s->nclauses].layers = layers ? layers : "";
    }
    s->nclauses++;
}

/* One clause a range; where these are too many, one for the whole network,
 * and one for each range that is otherwise. */
static void add_ranges(const struct oracle_layers *x, const int *pick,
                       int usual, struct pdl_strategy *s)
{
    int n = x->units.model->nnodes;

    s->nclauses = 0;
    if (usual >= 0)
        add_clause(s, range_text(x, 0, n - 1, usual), &x->strategy[usual]);
    for (int i = 0, end; i < n; i = end) {
        int c = pick[x->units.unit_of[i]];

        end = end_of_range(x, pick, i);
        if (c != usual)
            add_clause(s, range_text(x, i, end - 1, c), &x->strategy[c]);
    }
}

const char *oracle_layers_write(const struct oracle_layers *x, const int *pick)
{
    struct pdl_strategy *s = PDL_NEW(x->arena, struct pdl_strategy, 1);
    const char *text = NULL;
    struct pdl_buf b;

    if (!s)
        return NULL;
    *s = x->strategy[pick[0]];
    if (end_of_range(x, pick, 0) < x->units.model->nnodes)
        add_ranges(x, pick, -1, s);
    if (s->nclauses > PDL_MAX_CLAUSES)
        add_ranges(x, pick, most_ranges(x, pick), s);
    if (s->nclauses > PDL_MAX_CLAUSES)
        return NULL;
    pdl_buf_init(&b);
    pdl_strategy_print(s, &b.sink);
    if (!b.sink.failed)
        text = pdl_arena_strdup(x->arena, b.text);
    pdl_buf_free(&b);
    return text;
}

/* ---- the problem ------------------------------------------------------------------- */

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
        own[i] = x->spare[i] && !w->spare
                     ? INFINITY
                     : x->step[i] + w->exposed * x->exchange[i] +
                           w->s_per_byte * x->bytes[i];
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

/* ---- the search ---------------------------------------------------------------------- */

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

static void note(struct search *s, const char *text, bool exact, bool limited,
                 struct pdl_err *err)
{
    struct try *t = &s->list[s->n];

    for (int i = 0; i < s->n; i++)
        if (strcmp(s->list[i].found.strategy, text) == 0)
            return;
    if (s->n == MOST_TRIES)
        return;
    *t = (struct try){.found = {.strategy = text},
                      .hidden_s = sum_with(s, 0, err),
                      .exposed_s = sum_with(s, 1, err),
                      .clauses = count_clauses(text),
                      .k = s->x.k,
                      .npairs = s->x.npairs,
                      .exact = exact,
                      .limited = limited};
    s->n++;
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
            note(s, text, exact, i > 0, err);
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
            most = fmax(most, s->x.bytes[(int64_t)u * s->x.k + c]);
        sum += most;
    }
    return sum > 0 ? sum : 1;
}

/* One mesh: every share of exchange; and where nothing fits, bytes at a
 * price, from a tenth of the step for all of them to a thousand steps. */
static enum pdl_status search_mesh(struct search *s, struct pdl_err *err)
{
    static const double exposed[] = {1, .5, .25, 0};
    enum pdl_status st = oracle_layers_price(&s->x, err);
    double scale;

    for (int i = 0; i < 8 && st == PDL_OK; i++)
        st = choose(
            s,
            (struct oracle_weights){.exposed = exposed[i / 2], .spare = i % 2},
            err);
    if (st == PDL_OK)
        st = price_tries(s, err);
    if (st != PDL_OK || !s->out->layered.priced || s->out->layered.x.feasible)
        return st;
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
    struct pdl_plan_options po = {.batch = s->x.opt->batch,
                                  .dtype = s->x.opt->dtype};
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

static enum pdl_status search_layers(struct search *s, struct pdl_err *err)
{
    enum pdl_status st = expand(s, err);

    if (st != PDL_OK)
        return st;
    s->out->units = s->x.units.n;
    for (int u = 0; u < s->x.units.n; u++)
        s->out->classes += s->x.units.unit[u].class == u;
    for (int which = 0; st == PDL_OK && oracle_layers_space(&s->x, which, err);
         which++)
        if (s->x.k > 0)
            st = search_levels(s, err);
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
    struct pdl_search_result all;
    enum pdl_status st = refuse(oracle, opt, err);

    *out = (struct pdl_layers_result){.exact = true};
    if (st == PDL_OK)
        st = pdl_search(a, model, sys, oracle, opt, &all, err);
    if (st != PDL_OK)
        return st;
    if (all.n > 0)
        out->uniform = all.list[0];
    out->stopped = all.stopped;
    if (!all.stopped)
        st = search_layers(&s, err);
    out->better = is_better(&out->layered, &out->uniform);
    out->best = out->better ? out->layered : out->uniform;
    return st;
}
