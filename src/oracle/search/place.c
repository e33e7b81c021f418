/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the ranks of a mesh go. A placement is an order of the axes (which of
 * them lies inside nodes, which crosses them) and an order of the nodes; each
 * is priced as a plan of its own by the projection everybody uses. Orders of
 * axes are tried all. Nodes differ only by the switch they hang on: where they
 * are few, every different sequence of switches is tried; otherwise the order
 * given and the one that keeps switches together, larger ones first.
 *
 * The order given is always among them, so the answer is never worse. */
#include "oracle/oracle_priv.h"

#include <string.h>

enum { MOST_AXES = 7, MOST_NODES = 7 };

struct search {
    pdl_arena *arena;
    const struct pdl_place_job *job;
    struct pdl_placement *out;
    struct pdl_strategy s; /* with its axes in the order at hand */
    const struct pdl_plan *plan;
    int64_t *node; /* of the machine, in the order at hand */
    int *at;       /* index of that node in the list given */
    struct pdl_err *err;
    enum pdl_status status;
};

/* ---- one placement ---------------------------------------------------- */

static void price(struct search *x)
{
    struct pdl_oracle_options o = *x->job->oracle;
    struct pdl_projection p;

    o.nodes = x->node;
    x->status = pdl_project(x->plan, x->job->system, &o, &p, x->err);
    if (x->status != PDL_OK)
        return;
    if (x->out->tried++ == 0)
        x->out->given_s = p.step_s;
    else if (!(p.step_s < x->out->step_s * (1 - 1e-12)))
        return;
    x->out->step_s = p.step_s;
    x->out->strategy = x->s;
    memcpy(x->out->node, x->at, (size_t)x->job->nnodes * sizeof *x->at);
}

/* ---- orders of nodes -------------------------------------------------- */

static void put(struct search *x, int k, int from)
{
    x->at[k] = from;
    x->node[k] = x->job->nodes[from];
}

static int64_t group_of(const struct search *x, int64_t node)
{
    const struct pdl_system *sys = x->job->system;
    int64_t per = sys->nlevels > 2 ? sys->levels[1].pes / sys->node.pes : 1;

    return sys->nlevels > 2 && per > 0 ? node / per : 0;
}

/* Every sequence of switches once: of nodes on one switch the first unused. */
static void all_orders(struct search *x, int k, bool *used)
{
    int n = (int)x->job->nnodes;

    if (k == n) {
        price(x);
        return;
    }
    for (int i = 0; i < n && x->status == PDL_OK; i++) {
        bool again = used[i];

        for (int j = 0; j < i && !again; j++)
            again = !used[j] && group_of(x, x->job->nodes[j]) ==
                                    group_of(x, x->job->nodes[i]);
        if (again)
            continue;
        used[i] = true;
        put(x, k, i);
        all_orders(x, k + 1, used);
        used[i] = false;
    }
}

/* Switches together, the one with most nodes first. */
static void by_switch(struct search *x)
{
    int n = (int)x->job->nnodes, k = 0;
    bool *used = PDL_NEW(x->arena, bool, n);

    while (used && k < n) {
        int64_t best = -1;
        int most = 0;

        for (int i = 0; i < n; i++) {
            int size = 0;

            for (int j = 0; j < n && !used[i]; j++)
                size += !used[j] && group_of(x, x->job->nodes[j]) ==
                                        group_of(x, x->job->nodes[i]);
            if (size > most) {
                most = size;
                best = group_of(x, x->job->nodes[i]);
            }
        }
        for (int i = 0; i < n; i++)
            if (!used[i] && group_of(x, x->job->nodes[i]) == best) {
                used[i] = true;
                put(x, k++, i);
            }
    }
    if (used)
        price(x);
}

static void orders_of_nodes(struct search *x)
{
    int n = (int)x->job->nnodes;
    bool used[MOST_NODES] = {false};

    for (int i = 0; i < n; i++)
        put(x, i, i);
    price(x);
    if (x->job->system->nlevels < 3 || x->status != PDL_OK)
        return; /* one level above the node: all orders are alike */
    if (n <= MOST_NODES)
        all_orders(x, 0, used);
    else
        by_switch(x);
}

/* ---- orders of axes --------------------------------------------------- */

static void lower_and_try(struct search *x)
{
    pdl_arena *all = x->arena;
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    int n = (int)x->job->nnodes;

    if (!a) {
        x->status = pdl_fail(x->err, PDL_ENOMEM, "out of memory");
        return;
    }
    x->arena = a;
    x->node = PDL_NEW(a, int64_t, n);
    x->at = PDL_NEW(a, int, n);
    x->status = x->node && x->at
                    ? pdl_plan_lower(a, x->job->model, &x->s, x->job->plan,
                                     &x->plan, x->err)
                    : pdl_fail(x->err, PDL_ENOMEM, "out of memory");
    if (x->status == PDL_OK)
        orders_of_nodes(x);
    x->arena = all;
    pdl_arena_destroy(a);
}

static void swap(struct pdl_term *a, struct pdl_term *b)
{
    struct pdl_term t = *a;

    *a = *b;
    *b = t;
}

/* The first permutation is the order given. */
static void orders_of_axes(struct search *x, int k)
{
    struct pdl_clause *c = &x->s.clause[0];

    if (k + 1 >= c->nterms) {
        lower_and_try(x);
        return;
    }
    for (int i = k; i < c->nterms && x->status == PDL_OK; i++) {
        swap(&c->term[k], &c->term[i]);
        orders_of_axes(x, k + 1);
        swap(&c->term[k], &c->term[i]);
    }
}

enum pdl_status pdl_place(pdl_arena *a, const struct pdl_place_job *job,
                          struct pdl_placement *out, struct pdl_err *err)
{
    struct search x = {
        .arena = a, .job = job, .out = out, .s = *job->strategy, .err = err};

    *out = (struct pdl_placement){.tried = 0};
    out->node = PDL_NEW(a, int, job->nnodes + 1);
    if (!out->node)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    if (job->strategy->nclauses == 1 &&
        job->strategy->clause[0].nterms <= MOST_AXES)
        orders_of_axes(&x, 0);
    else
        lower_and_try(&x); /* layers with axes of their own keep their mesh */
    return x.status;
}

/* ---- who is where ----------------------------------------------------- */

/* The coordinate of a rank along each term of the first clause. */
static void coordinates(const struct pdl_strategy *s, int64_t rank, int64_t *at)
{
    const struct pdl_clause *c = &s->clause[0];

    for (int t = c->nterms - 1; t >= 0; t--) {
        int64_t n = 1;

        for (int k = 0; k < c->term[t].nsizes; k++)
            n *= c->term[t].size[k];
        at[c->term[t].axis] = rank % n;
        rank /= n;
    }
}

int64_t pdl_placed(const struct pdl_strategy *given,
                   const struct pdl_placement *p, int64_t rank)
{
    const struct pdl_clause *c = &p->strategy.clause[0];
    int64_t at[PDL_NAXES] = {0}, slot = 0;

    if (given->nclauses > 1)
        return rank;
    coordinates(given, rank, at);
    for (int t = 0; t < c->nterms; t++) {
        int64_t n = 1;

        for (int k = 0; k < c->term[t].nsizes; k++)
            n *= c->term[t].size[k];
        slot = slot * n + at[c->term[t].axis];
    }
    return slot;
}
