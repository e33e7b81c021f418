/* SPDX-License-Identifier: Apache-2.0
 *
 * Zero-bubble pipelines (Qi et al. 2023) run the gradients of weights later
 * than those of inputs. A pass over backward programs: what makes gradients of
 * weights of products, and what only that reads (an activation gathered once
 * more for it), moves to a second item of the program, in its old order.
 * Nothing of the first item reads what the second makes: only updates read
 * gradients of weights. What is computed again stays in the first. Lifetimes
 * are found afterwards, so what waits for the second item is what it reads. */
#include "plan_priv.h"

struct split {
    struct plan_lower *lo;
    struct pdl_plan_op *old;
    bool *later;  /* of each operation */
    int *readers; /* of each tensor: operations of the first item */
};

/* (Kernels of norms and element-wise layers make both at once.) */
static bool only_gradients(const struct split *s, const struct pdl_plan_op *o)
{
    if (o->kind == PDL_PLAN_OP_COMPUTE &&
        (o->node < 0 || !plan_rule_has_role(&s->lo->model->nodes[o->node])))
        return false;
    for (int k = 0; k < o->nout; k++)
        if (s->lo->tensors[o->out[k]].kind != PDL_PLAN_WEIGHT_GRADIENT)
            return false;
    return o->nout > 0;
}

/* Moves data, and nobody of the first item reads it. */
static bool serves_later(const struct split *s, const struct pdl_plan_op *o)
{
    if (o->kind == PDL_PLAN_OP_COMPUTE || o->kind == PDL_PLAN_OP_ADD ||
        o->kind == PDL_PLAN_OP_SEND || o->kind == PDL_PLAN_OP_RECV ||
        o->kind == PDL_PLAN_OP_COPY_IN)
        return false;
    for (int k = 0; k < o->nout; k++)
        if (s->readers[o->out[k]] > 0)
            return false;
    return o->nout > 0;
}

static void choose(struct split *s, const struct pdl_plan_item *it)
{
    for (int i = it->first_op + it->nops - 1; i >= it->first_op; i--) {
        const struct pdl_plan_op *o = &s->old[i];

        s->later[i] = only_gradients(s, o) || serves_later(s, o);
        for (int k = 0; !s->later[i] && k < o->nin; k++)
            s->readers[o->in[k]]++;
    }
}

static void push(struct split *s, const struct pdl_plan_item *it, bool later)
{
    plan_begin_item(s->lo, it->segment, it->repeat);
    for (int i = it->first_op; i < it->first_op + it->nops; i++)
        if (s->later[i] == later)
            plan_push_op(s->lo, &s->old[i]);
    plan_end_item(s->lo);
}

static bool is_backward(const struct plan_lower *lo,
                        const struct pdl_plan_stage *stages, int item)
{
    for (int s = 0; s < lo->plan.nstages; s++)
        if (item >= stages[s].first_backward &&
            item < stages[s].first_backward + stages[s].nbackward)
            return true;
    return false;
}

/* Programs keep their order; backward has one item more than before. */
static void renumber(struct plan_lower *lo, struct pdl_plan_stage *stages)
{
    int n = lo->plan.nstages;

    for (int s = 0; s < n; s++) {
        stages[s].first_backward += n - 1 - s;
        stages[s].nbackward++;
        stages[s].first_update += n;
    }
}

void plan_split_backward(struct plan_lower *lo, struct pdl_plan_stage *stages)
{
    struct split s = {.lo = lo, .old = lo->ops};
    struct pdl_plan_item *items = lo->items;
    int nitems = lo->plan.nitems;

    if (lo->status != PDL_OK || !pdl_schedule_splits(lo->strategy->schedule) ||
        lo->plan.nstages < 2)
        return;
    s.later = PDL_NEW(lo->arena, bool, lo->plan.nops + 1);
    s.readers = PDL_NEW(lo->arena, int, lo->plan.ntensors + 1);
    if (!s.later || !s.readers) {
        plan_fail(lo, "out of memory");
        return;
    }
    lo->ops = NULL;
    lo->items = NULL;
    lo->op_cap = lo->plan.nops = lo->item_cap = lo->plan.nitems = 0;
    for (int i = 0; i < nitems && lo->status == PDL_OK; i++) {
        bool back = is_backward(lo, stages, i);

        if (back)
            choose(&s, &items[i]);
        push(&s, &items[i], false);
        if (back)
            push(&s, &items[i], true);
    }
    renumber(lo, stages);
}
