/* SPDX-License-Identifier: Apache-2.0
 *
 * What is kept of a small plan, which lies where the next one will: all that
 * prices depend on; of an update the tensors of weights alone, and of
 * backward's operations those that make or scatter gradients. Blocks that were
 * alike are alike. */
#include "oracle/search/blocks.h"

#include <string.h>

/* ---- what an update needs --------------------------------------------- */

struct slim {
    const struct pdl_plan *from;
    pdl_arena *arena;
    bool *update; /* of each item */
    int *id;      /* of each tensor: its number; -1: it is left out */
    struct pdl_plan_op *ops;
    int nops;
};

static bool is_of_weights(const struct pdl_plan_tensor *t)
{
    return t->kind == PDL_PLAN_WEIGHT || t->kind == PDL_PLAN_STATE ||
           t->kind == PDL_PLAN_WEIGHT_GRADIENT;
}

/* What an update reads and makes, and what is of weights. */
static void choose_tensors(struct slim *x)
{
    const struct pdl_plan *p = x->from;

    for (int t = 0; t < p->ntensors; t++)
        x->id[t] = is_of_weights(&p->tensors[t]) ? 0 : -1;
    for (int i = 0; i < p->nitems; i++)
        for (int k = 0; x->update[i] && k < p->items[i].nops; k++) {
            const struct pdl_plan_op *o = &p->ops[p->items[i].first_op + k];

            for (int j = 0; j < o->nin; j++)
                x->id[o->in[j]] = 0;
            for (int j = 0; j < o->nout; j++)
                x->id[o->out[j]] = 0;
        }
}

static struct pdl_plan_tensor *number_tensors(struct slim *x, int *n)
{
    const struct pdl_plan *p = x->from;
    struct pdl_plan_tensor *list;

    *n = 0;
    for (int t = 0; t < p->ntensors; t++)
        x->id[t] = x->id[t] >= 0 ? (*n)++ : -1;
    list = PDL_NEW(x->arena, struct pdl_plan_tensor, *n + 1);
    for (int t = 0; list && t < p->ntensors; t++)
        if (x->id[t] >= 0)
            list[x->id[t]] = p->tensors[t];
    return list;
}

static const int *map(const struct slim *x, const int *ids, int *n)
{
    int *list = PDL_NEW(x->arena, int, *n + 1), count = 0;

    for (int k = 0; list && k < *n; k++)
        if (x->id[ids[k]] >= 0)
            list[count++] = x->id[ids[k]];
    *n = count;
    return list;
}

static bool makes_gradient(const struct slim *x, const struct pdl_plan_op *o)
{
    for (int k = 0; k < o->nout; k++)
        if (x->from->tensors[o->out[k]].kind == PDL_PLAN_WEIGHT_GRADIENT)
            return true;
    return false;
}

static bool put_item(struct slim *x, int item, struct pdl_plan_item *it)
{
    int first = it->first_op, end = first + it->nops;

    it->first_op = x->nops;
    for (int i = first; i < end; i++) {
        struct pdl_plan_op *to = &x->ops[x->nops];

        if (!x->update[item] && !makes_gradient(x, &x->from->ops[i]))
            continue;
        *to = x->from->ops[i];
        to->in = map(x, to->in, &to->nin);
        to->out = map(x, to->out, &to->nout);
        if (!to->in || !to->out)
            return false;
        x->nops++;
    }
    it->nops = x->nops - it->first_op;
    return true;
}

static bool find_updates(struct slim *x)
{
    const struct pdl_plan *p = x->from;

    x->update = PDL_NEW(x->arena, bool, p->nitems + 1);
    for (int s = 0; x->update && s < p->nstages; s++)
        memset(x->update + p->stages[s].first_update, true,
               (size_t)p->stages[s].nupdate);
    return x->update != NULL;
}

const struct pdl_plan *oracle_only_update(pdl_arena *a,
                                          const struct pdl_plan *p)
{
    size_t n = (size_t)p->nitems;
    struct slim x = {.from = p, .arena = a};
    struct pdl_plan *out = PDL_NEW(a, struct pdl_plan, 1);
    struct pdl_plan_item *items =
        pdl_arena_grow(a, p->items, n, n + 1, sizeof *items);
    int *none = PDL_NEW(a, int, p->model->nnodes + 1);

    x.id = PDL_NEW(a, int, p->ntensors + 1);
    x.ops = PDL_NEW(a, struct pdl_plan_op, p->nops + 1);
    if (!out || !items || !none || !x.id || !x.ops || !find_updates(&x))
        return NULL;
    *out = *p;
    choose_tensors(&x);
    out->tensors = number_tensors(&x, &out->ntensors);
    for (int i = 0; out->tensors && i < p->nitems; i++)
        if (!put_item(&x, i, &items[i]))
            return NULL;
    for (int i = 0; i <= p->model->nnodes; i++)
        none[i] = -1;
    out->ops = x.ops;
    out->nops = x.nops;
    out->items = items;
    out->forward_op = none;
    return out->tensors ? out : NULL;
}

/* ---- what is kept of a lowered plan ----------------------------------- */

static const int *keep_ids(pdl_arena *a, const int *ids, int n)
{
    return n > 0 ? pdl_arena_grow(a, ids, (size_t)n, (size_t)n, sizeof *ids)
                 : ids;
}

/* For a sizer to copy: names and frames that stay. */
static bool keep_tensors(struct oracle_block_plans *g, struct block_plan *s)
{
    size_t n = (size_t)s->plan.ntensors;
    struct pdl_plan_tensor *list =
        pdl_arena_grow(g->scratch, s->plan.tensors, n, n + 1, sizeof *list);

    for (size_t t = 0; list && t < n; t++) {
        struct pdl_plan_tensor *x = &list[t];

        if (x->frame != pdl_no_frames)
            x->frame = pdl_arena_grow(g->arena, x->frame, PDL_BOX_DIMS,
                                      PDL_BOX_DIMS, sizeof *x->frame);
        x->name = x->kind == PDL_PLAN_WEIGHT
                      ? pdl_arena_strdup(g->arena, x->name)
                      : "";
        if (!x->frame || !x->name)
            return false;
    }
    s->plan.tensors = list;
    return list != NULL;
}

static bool keep_ops(pdl_arena *a, struct block_plan *s)
{
    int n = s->plan.nops;
    struct pdl_plan_op *ops =
        pdl_arena_grow(a, s->plan.ops, (size_t)n, (size_t)n + 1, sizeof *ops);

    for (int i = 0; ops && i < n; i++) {
        ops[i].in = keep_ids(a, ops[i].in, ops[i].nin);
        ops[i].out = keep_ids(a, ops[i].out, ops[i].nout);
        if ((ops[i].nin > 0 && !ops[i].in) || (ops[i].nout > 0 && !ops[i].out))
            return false;
    }
    s->plan.ops = ops;
    s->plan.forward_op =
        keep_ids(a, s->plan.forward_op, s->plan.model->nnodes + 1);
    return ops && s->plan.forward_op;
}

/* Its rounds, of a network of its own; the small plan's is that which is
 * written. */
static bool keep_roll(pdl_arena *a, const struct oracle_family *f,
                      struct block_plan *s)
{
    const struct pdl_plan_roll *from = s->plan.roll;
    struct pdl_plan_roll *r = PDL_NEW(a, struct pdl_plan_roll, 1);
    struct pdl_model *m = PDL_NEW(a, struct pdl_model, 1);
    size_t n = (size_t)from->ngroups, pushes = (size_t)from->npushes;

    if (!r || !m)
        return false;
    *m = s->model;
    m->segments = pdl_arena_grow(a, s->segments, (size_t)m->nsegments,
                                 (size_t)m->nsegments, sizeof *m->segments);
    *r = *from;
    r->model = m;
    r->groups = pdl_arena_grow(a, from->groups, n, n + 1, sizeof *from->groups);
    r->pushes = pdl_arena_grow(a, from->pushes, pushes, pushes + 1,
                               sizeof *from->pushes);
    for (size_t g = 0; g < n; g++)
        s->segments[f->block].repeat -=
            (from->groups[g].repeat - 1) * from->period;
    s->plan.roll = r;
    return m->segments && r->groups && r->pushes;
}

enum pdl_status oracle_keep_plan(struct oracle_block_plans *g,
                                 struct block_plan *s,
                                 const struct pdl_plan *plan,
                                 struct pdl_err *err)
{
    pdl_arena *a = g->arena;
    size_t n = (size_t)plan->nitems;
    enum pdl_status st;

    s->plan = *plan;
    s->plan.strategy = &s->strategy;
    memcpy(s->stages, plan->stages,
           (size_t)plan->nstages * sizeof s->stages[0]);
    s->plan.stages = s->stages;
    s->plan.items =
        pdl_arena_grow(a, plan->items, n, n + 1, sizeof *plan->items);
    s->plan.fallbacks = NULL;
    s->plan.nfallbacks = 0;
    if (plan->roll && !keep_roll(a, g->f, s))
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    s->rounds = (int)s->segments[g->f->block].repeat / plan->nstages;
    s->plan.model =
        oracle_written_out(g, &s->model, s->segments[g->f->block].repeat, NULL);
    if (!s->plan.items || !s->plan.model || !keep_tensors(g, s) ||
        !keep_ops(a, s))
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    st = pdl_plan_sizer_open(a, &s->plan, &s->sizer, err);
    if (st == PDL_OK)
        s->plan = *pdl_plan_sizer_plan(s->sizer);
    return st;
}
