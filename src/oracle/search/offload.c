/* SPDX-License-Identifier: Apache-2.0
 *
 * --offload auto: beside the strategies that a space has, those whose blocks
 * keep, make again or send to the host what backward reads (step/outofcore.c).
 *
 * What is decided on are bases: strategies of one stage that neither recompute
 * nor offload, with and without the optimizer on the host, of networks that are
 * no transformers also with their states sharded. A small space has them all.
 * Of a large one they come from searches as if memory were several times what
 * it is: the shortest steps that so much would allow. Decisions only ever add
 * to a step in core but for its update, which the host may do beside it: that
 * much is a bound, and bases are decided on in its order, until it is no better
 * than the best that fits. */
#include "oracle/habit/framework.h"
#include "oracle/search/space.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_BASES = 512, MOST_DECIDED = 24, RELAXED = 8 };

/* Times the memory that there is. */
static const int64_t more[] = {1, 2, 4, 16, 256};

struct base {
    const char *strategy;
    struct pdl_projection x; /* in core */
    double least;            /* no decisions are better */
};

struct bases {
    pdl_arena *arena;
    const struct pdl_model *model;
    const struct pdl_system *sys;
    const struct pdl_oracle_options *oracle;
    const struct pdl_search_options *opt;
    bool host; /* the rates of copies are known */
    struct base *list;
    int n;
};

/* ---- bases ------------------------------------------------------------ */

/* One PE is "serial" where the space calls it so. */
static const char *text_of(pdl_arena *a, const struct pdl_strategy *s,
                           bool serial)
{
    static const char ONE[] = "data=1";
    struct pdl_buf b;
    const char *text;

    pdl_buf_init(&b);
    pdl_strategy_print(s, &b.sink);
    if (b.sink.failed)
        text = NULL;
    else if (serial && strncmp(b.text, ONE, sizeof ONE - 1) == 0)
        text = pdl_arena_printf(a, "serial%s", b.text + sizeof ONE - 1);
    else
        text = pdl_arena_strdup(a, b.text);
    pdl_buf_free(&b);
    return text;
}

static bool is_there(const struct bases *b, const char *text)
{
    for (int i = 0; i < b->n; i++)
        if (strcmp(b->list[i].strategy, text) == 0)
            return true;
    return false;
}

/* What a host has room for of a PE's states. */
static int64_t host_room(const struct bases *b, const struct pdl_projection *x)
{
    int64_t node = b->sys->node.pes, all = b->sys->node.host.memory_bytes;

    if (!b->host)
        return 0;
    return all > 0 ? all / (x->pes < node ? x->pes : node) : INT64_MAX;
}

/* No decisions are better. */
static double least_of(const struct bases *b, const struct pdl_projection *x)
{
    double rest = x->step_s > 0 ? 1 - x->update_s / x->step_s : 1;

    return oracle_goal(b->opt->goal, x, b->sys) * (b->host ? rest : 1);
}

/* Priced in core; what cannot be lowered, or that no decision makes fit, is
 * none. */
static enum pdl_status add(struct bases *b, const struct pdl_strategy *s,
                           bool serial, struct pdl_err *err)
{
    struct pdl_found f = {.strategy = text_of(b->arena, s, serial)};
    pdl_arena *a;
    enum pdl_status st;

    if (!f.strategy)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    if (b->n == MOST_BASES || is_there(b, f.strategy))
        return PDL_OK;
    a = pdl_arena_create(PDL_ARENA_DEFAULT);
    st = a ? oracle_price_found(a, b->model, b->sys, b->oracle, b->opt, &f, err)
           : pdl_fail(err, PDL_ENOMEM, "out of memory");
    pdl_arena_destroy(a);
    if (st == PDL_ENOMEM)
        return st;
    if (st == PDL_OK && f.x.weights_bytes <= f.x.capacity_bytes &&
        f.x.weights_bytes + f.x.optimizer_bytes - f.x.capacity_bytes <=
            host_room(b, &f.x))
        b->list[b->n++] = (struct base){f.strategy, f.x, least_of(b, &f.x)};
    return PDL_OK;
}

static bool has_stages(const struct pdl_strategy *s)
{
    for (int t = 0; s->nclauses > 0 && t < s->clause[0].nterms; t++)
        if (s->clause[0].term[t].axis == PDL_AXIS_PIPE)
            return true;
    return false;
}

/* A strategy as a base, and what else its states can do. */
static enum pdl_status add_all(struct bases *b, const char *text, int most_zero,
                               struct pdl_err *err)
{
    struct pdl_strategy *s = PDL_NEW(b->arena, struct pdl_strategy, 1);
    enum pdl_status st = s ? pdl_strategy_parse(b->arena, text, s, err)
                           : pdl_fail(err, PDL_ENOMEM, "out of memory");

    if (st != PDL_OK || s->nclauses > 1 || s->swap != PDL_SWAP_NONE ||
        has_stages(s))
        return st;
    s->recompute = PDL_RECOMPUTE_NONE;
    s->offload_activations = false;
    s->prefetch = 0;
    for (int64_t z = s->zero; z == s->zero || z <= most_zero; z++)
        for (int host = 0; host < (b->host ? 2 : 1) && st == PDL_OK; host++) {
            struct pdl_strategy x = *s;

            x.zero = z;
            x.offload_optimizer = host;
            st = add(b, &x, strncmp(text, "serial", 6) == 0, err);
        }
    return st;
}

/* Every axis and product of a small space. */
static enum pdl_status of_list(struct bases *b,
                               const struct pdl_search_result *r, int most_zero,
                               struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    for (int64_t i = 0; i < r->n && st == PDL_OK; i++)
        if (r->list[i].priced)
            st = add_all(b, r->list[i].strategy, most_zero, err);
    return st;
}

/* The best of a large space with more memory. */
static enum pdl_status of_searches(struct bases *b, struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    for (size_t i = 0; i < sizeof more / sizeof more[0] && st == PDL_OK; i++) {
        struct pdl_system sys = *b->sys;
        struct pdl_search_options opt = *b->opt;
        struct pdl_search_result r;
        int64_t n;

        opt.offload = PDL_OFFLOAD_NONE;
        opt.top = RELAXED;
        opt.one_order = opt.uncounted = true;
        opt.only_fits = false;
        opt.goal = PDL_GOAL_TIME;
        if (!pdl_mul64(sys.pe.memory_bytes, more[i], &n))
            break;
        sys.pe.memory_bytes = n;
        st = pdl_search(b->arena, b->model, &sys, b->oracle, &opt, &r, err);
        if (st == PDL_OK)
            st = of_list(b, &r, 0, err);
        if (r.stopped)
            break;
    }
    return st;
}

static int by_least(const void *pa, const void *pb)
{
    const struct base *a = pa, *b = pb;

    if (a->least != b->least)
        return a->least < b->least ? -1 : 1;
    return strcmp(a->strategy, b->strategy);
}

/* ---- deciding --------------------------------------------------------- */

static enum pdl_status decide(const struct bases *b, const struct base *x,
                              struct pdl_found *f, struct pdl_err *err)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    enum pdl_status st = PDL_ENOMEM;

    *f = (struct pdl_found){.strategy = x->strategy, .priced = true, .x = x->x};
    if (!x->x.feasible) {
        f->strategy = pdl_arena_printf(b->arena, "%s,swap=karma", x->strategy);
        if (a && f->strategy)
            st = oracle_price_found(a, b->model, b->sys, b->oracle, b->opt, f,
                                    err);
        else
            pdl_fail(err, PDL_ENOMEM, "out of memory");
    } else {
        st = PDL_OK;
    }
    pdl_arena_destroy(a);
    f->goal = oracle_goal(b->opt->goal, &f->x, b->sys);
    return st;
}

/* The best goal that fits so far; whether there is one. */
static bool best_of(const struct pdl_search_result *r, double *goal)
{
    bool any = false;

    for (int64_t i = 0; i < r->n; i++)
        if (r->list[i].priced && r->list[i].x.feasible &&
            (!any || r->list[i].goal < *goal)) {
            *goal = r->list[i].goal;
            any = true;
        }
    return any;
}

static bool is_listed(const struct pdl_search_result *r, const char *strategy)
{
    for (int64_t i = 0; i < r->n; i++)
        if (strcmp(r->list[i].strategy, strategy) == 0)
            return true;
    return false;
}

static enum pdl_status
decide_all(struct bases *b, struct pdl_search_result *out, struct pdl_err *err)
{
    bool bounds =
        b->opt->goal != PDL_GOAL_MEMORY && b->opt->goal != PDL_GOAL_PARETO;
    struct pdl_found *all =
        PDL_NEW(b->arena, struct pdl_found, out->n + MOST_DECIDED + 1);

    if (!all)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    if (out->n > 0)
        memcpy(all, out->list, (size_t)out->n * sizeof *all);
    out->list = all;
    qsort(b->list, (size_t)b->n, sizeof *b->list, by_least);
    for (int i = 0; i < b->n && out->decided < MOST_DECIDED; i++) {
        struct pdl_found f;
        double best = 0;
        bool any = best_of(out, &best);
        enum pdl_status st;

        if (any && ((bounds && b->list[i].least >= best) || b->opt->only_fits))
            break;
        if (is_listed(out, b->list[i].strategy) && b->list[i].x.feasible)
            continue;
        st = decide(b, &b->list[i], &f, err);
        if (st == PDL_ENOMEM)
            return st;
        out->decided++;
        if (st != PDL_OK || !f.x.feasible)
            continue;
        out->feasible++;
        out->evaluated++;
        all[out->n++] = f;
    }
    return PDL_OK;
}

enum pdl_status oracle_offload(pdl_arena *a, const struct pdl_model *model,
                               const struct pdl_system *sys,
                               const struct pdl_oracle_options *oracle,
                               const struct pdl_search_options *opt, bool large,
                               struct pdl_search_result *out,
                               struct pdl_err *err)
{
    const struct pdl_host *h = &sys->node.host;
    struct bases b = {
        .arena = a,
        .model = model,
        .sys = sys,
        .oracle = oracle,
        .opt = opt,
        .host = h->pcie_bytes_per_s > 0 && h->memory_bytes_per_s > 0,
        .list = PDL_NEW(a, struct base, MOST_BASES)};
    const struct pdl_abilities *r = oracle_framework_plans(oracle->framework);
    enum pdl_status st;

    if (!b.list)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    if (opt->only_fits && out->feasible > 0)
        return PDL_OK;
    st = large
             ? of_searches(&b, err)
             : of_list(&b, out,
                       opt->pes == 1 || (r->known && !r->zero[1]) ? 0 : 3, err);
    return st == PDL_OK ? decide_all(&b, out, err) : st;
}
