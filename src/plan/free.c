/* SPDX-License-Identifier: Apache-2.0
 *
 * Lifetimes: a tensor lives from its first write to its last read. One FREE
 * operation after each operation that reads something for the last time;
 * weights are state and stay. */
#include "plan_priv.h"

#include <string.h>

static bool is_state(const struct pdl_plan_tensor *t)
{
    return t->kind == PDL_PLAN_WEIGHT || t->kind == PDL_PLAN_STATE;
}

/* The last operation that touches each tensor. */
static int *last_uses(struct plan_lower *lo)
{
    int *last = PDL_NEW(lo->arena, int, lo->plan.ntensors + 1);

    for (int i = 0; last && i < lo->plan.ntensors; i++)
        last[i] = -1;
    for (int i = 0; last && i < lo->plan.nops; i++) {
        for (int k = 0; k < lo->ops[i].nin; k++)
            last[lo->ops[i].in[k]] = i;
        /* what is sent away lives with the receiver */
        for (int k = 0; k < lo->ops[i].nout; k++)
            if (lo->ops[i].kind != PDL_PLAN_OP_SEND)
                last[lo->ops[i].out[k]] = i;
    }
    return last;
}

/* (A pass that frees something itself has done so already.) */
static int collect(const struct plan_lower *lo, const struct pdl_plan_op *op,
                   int index, const int *last, int *dead)
{
    int n = 0;

    if (op->kind == PDL_PLAN_OP_FREE)
        return 0;

    for (int k = 0; k < op->nin + op->nout; k++) {
        int t = k < op->nin ? op->in[k] : op->out[k - op->nin];
        bool again = false;

        for (int j = 0; j < n; j++)
            again = again || dead[j] == t;
        /* what is sent away belongs to the receiver */
        if (op->kind == PDL_PLAN_OP_SEND && k >= op->nin)
            continue;
        if (last[t] == index && !again && !is_state(&lo->tensors[t]))
            dead[n++] = t;
    }
    return n;
}

void plan_insert_frees(struct plan_lower *lo)
{
    struct pdl_plan_op *old = lo->ops;
    int nold = lo->plan.nops, *last, *dead, item = 0;
    int most = 1;

    if (lo->status != PDL_OK)
        return;
    for (int i = 0; i < nold; i++)
        most =
            old[i].nin + old[i].nout > most ? old[i].nin + old[i].nout : most;
    last = last_uses(lo);
    dead = PDL_NEW(lo->arena, int, most);
    if (!last || !dead) {
        plan_fail(lo, "out of memory");
        return;
    }
    lo->ops = NULL;
    lo->op_cap = lo->plan.nops = 0;
    for (int i = 0; i < nold && lo->status == PDL_OK; i++) {
        int n;

        while (item < lo->plan.nitems && lo->items[item].first_op == i &&
               lo->items[item].nops == 0)
            lo->items[item++].first_op = lo->plan.nops;
        if (item < lo->plan.nitems && lo->items[item].first_op == i)
            lo->items[item].first_op = -1 - lo->plan.nops;
        plan_push_op(lo, &old[i]);
        lo->round_now = old[i].round;
        n = collect(lo, &old[i], i, last, dead);
        if (n > 0)
            plan_emit(lo, PDL_PLAN_OP_FREE, PDL_FORWARD, -1, dead, n, NULL, 0);
        if (item < lo->plan.nitems && --lo->items[item].nops == 0) {
            struct pdl_plan_item *it = &lo->items[item++];

            it->first_op = -1 - it->first_op;
            it->nops = lo->plan.nops - it->first_op;
        }
    } /* empty items behind the last operation */
    for (; item < lo->plan.nitems; item++)
        lo->items[item].first_op = lo->plan.nops;
}
