/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan less what gradient exchange and update do not look at: of its tensors
 * those of weights, and of backward's operations those that make or scatter
 * gradients are left. Blocks that were alike are alike. */
#include "oracle/search/blocks.h"

#include <string.h>

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
    struct pdl_plan_tensor *list =
        PDL_NEW(x->arena, struct pdl_plan_tensor, p->ntensors + 1);

    *n = 0;
    for (int t = 0; list && t < p->ntensors; t++)
        if (x->id[t] >= 0) {
            x->id[t] = *n;
            list[(*n)++] = p->tensors[t];
        }
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
