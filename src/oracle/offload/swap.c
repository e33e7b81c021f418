/* SPDX-License-Identifier: Apache-2.0
 *
 * swap=auto: as few layers as it takes let what backward reads wait in the
 * host's memory. In every stage the first blocks go: their activations have
 * the longest way to backward, so copies have most time (the order of
 * SuperNeurons, Wang et al. 2018, and of vDNN). What fits with n blocks fits
 * with more, so the least n is found by halving, each time with the price of
 * the whole plan. The decision becomes clauses "first..last:
 * offload=activations"; plans only know these. */
#include "oracle/oracle_priv.h"

#include <string.h>

struct swap {
    pdl_arena *arena;
    const struct pdl_model *model, *whole; /* blocks written out */
    const struct pdl_system *sys;
    const struct pdl_oracle_options *oracle;
    const struct pdl_plan_options *po;
    const struct pdl_strategy *plain;
    int stages, *begin; /* [stages + 1]: first nodes */
    int *start, nunits; /* first nodes of blocks, or of layers */
};

/* The last node of the first n units that begin in [from, to). */
static int end_of(const struct swap *w, int from, int to, int n)
{
    int end = to - 1;

    for (int i = 0; i < w->nunits; i++) {
        if (w->start[i] < from || w->start[i] >= to)
            continue;
        if (n-- == 0)
            end = w->start[i] - 1;
    }
    return end;
}

static enum pdl_status with(const struct swap *w, int n,
                            struct pdl_strategy *out, struct pdl_err *err)
{
    *out = *w->plain;
    for (int s = 0; s < w->stages && n > 0; s++) {
        int last = end_of(w, w->begin[s], w->begin[s + 1], n);
        struct pdl_clause *c = &out->clause[out->nclauses];

        if (out->nclauses == PDL_MAX_CLAUSES)
            return pdl_fail(err, PDL_EINVAL,
                            "swap=auto: a strategy has at most %d clauses, "
                            "one for each stage",
                            PDL_MAX_CLAUSES);
        *c = (struct pdl_clause){.offload = true};
        c->layers = pdl_arena_printf(w->arena, "%s..%s",
                                     w->whole->nodes[w->begin[s]].name,
                                     w->whole->nodes[last].name);
        if (!c->layers)
            return pdl_fail(err, PDL_ENOMEM, "out of memory");
        out->nclauses++;
    }
    return PDL_OK;
}

static enum pdl_status fits(const struct swap *w, int n, bool *yes,
                            struct pdl_err *err)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_strategy *s = a ? PDL_NEW(a, struct pdl_strategy, 1) : NULL;
    struct pdl_projection x = {.feasible = false};
    const struct pdl_plan *plan;
    enum pdl_status st =
        s ? with(w, n, s, err) : pdl_fail(err, PDL_ENOMEM, "out of memory");

    if (st == PDL_OK)
        st = pdl_plan_lower(a, w->model, s, w->po, &plan, err);
    if (st == PDL_OK)
        st = pdl_project(plan, w->sys, w->oracle, &x, err);
    *yes = x.feasible;
    pdl_arena_destroy(a);
    return st;
}

/* Stages as the plan cuts them, and what may be swapped together. */
static enum pdl_status look(struct swap *w, struct pdl_err *err)
{
    const struct pdl_plan *p;
    enum pdl_status st =
        pdl_plan_lower(w->arena, w->model, w->plain, w->po, &p, err);

    if (st != PDL_OK)
        return st;
    w->whole = p->model;
    w->stages = p->nstages;
    w->begin = PDL_NEW(w->arena, int, p->nstages + 1);
    w->start = PDL_NEW(w->arena, int, p->model->nnodes + 1);
    if (!w->begin || !w->start)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (int s = 0; s < p->nstages; s++)
        w->begin[s] = oracle_first_node(p, s);
    w->begin[p->nstages] = p->model->nnodes;
    for (int i = 0; i < p->model->nnodes; i++)
        if (i == 0 || !pdl_same_block(p->model->nodes[i - 1].name,
                                      p->model->nodes[i].name))
            w->start[w->nunits++] = i;
    return PDL_OK;
}

enum pdl_status pdl_swap_settle(pdl_arena *a, const struct pdl_model *model,
                                const struct pdl_system *sys,
                                const struct pdl_oracle_options *oracle,
                                const struct pdl_plan_options *po,
                                struct pdl_strategy *s, struct pdl_err *err)
{
    struct pdl_strategy *plain = PDL_NEW(a, struct pdl_strategy, 1);
    struct swap w = {.arena = a,
                     .model = model,
                     .sys = sys,
                     .oracle = oracle,
                     .po = po,
                     .plain = plain};
    int lo = -1, hi;
    enum pdl_status st;

    if (s->swap == PDL_SWAP_NONE)
        return PDL_OK;
    if (s->swap == PDL_SWAP_KARMA) {
        struct pdl_outofcore *x = PDL_NEW(a, struct pdl_outofcore, 1);

        return x ? pdl_outofcore(a, model, sys, oracle, po, s, x, err)
                 : pdl_fail(err, PDL_ENOMEM, "out of memory");
    }
    if (!plain)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    if (s->nclauses > 1 || s->offload_activations)
        return pdl_fail(err, PDL_EINVAL,
                        "swap=auto chooses the layers that offload: it goes "
                        "with one clause, and not with offload=activations");
    s->swap = PDL_SWAP_NONE;
    *plain = *s;
    st = look(&w, err);
    hi = w.nunits; /* all, whether it fits or not */
    while (st == PDL_OK && hi - lo > 1) {
        int mid = lo + (hi - lo) / 2;
        bool yes;

        st = fits(&w, mid, &yes, err);
        *(yes ? &hi : &lo) = mid;
    }
    return st == PDL_OK ? with(&w, hi, s, err) : st;
}
