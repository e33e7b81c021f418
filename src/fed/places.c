/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a plan has what algorithms look at: the logits, the features that the
 * last layer reads, and the gradients of both. */
#include "fed/learner.h"

static const struct pdl_plan_op *writer(const struct pdl_plan *p, int tensor,
                                        enum pdl_pass pass)
{
    for (int i = 0; i < p->nops; i++)
        for (int k = 0; k < p->ops[i].nout; k++)
            if (p->ops[i].kind == PDL_PLAN_OP_COMPUTE &&
                p->ops[i].pass == pass && p->ops[i].out[k] == tensor)
                return &p->ops[i];
    return NULL;
}

static void find_last(const struct pdl_plan *p, struct fed_places *out)
{
    const struct pdl_plan_op *last;

    for (int i = 0; i < p->nops; i++)
        if (p->ops[i].kind == PDL_PLAN_OP_COMPUTE && p->ops[i].node < 0)
            out->loss_op = i;
    if (out->loss_op < 0)
        return;
    out->logits = p->ops[out->loss_op].in[0];
    last = writer(p, out->logits, PDL_FORWARD);
    if (!last)
        return;
    out->features = last->in[0];
    for (int i = 0; i < p->nops; i++)
        if (p->ops[i].kind == PDL_PLAN_OP_COMPUTE &&
            p->ops[i].pass == PDL_BACKWARD_DATA && p->ops[i].node == last->node)
            out->back_op = i;
}

/* Of a plan of two stages: what the first sends, what it gets back. */
static void find_messages(const struct pdl_plan *p, struct fed_places *out)
{
    for (int i = 0; i < p->nops && p->nstages == 2; i++) {
        const struct pdl_plan_op *o = &p->ops[i];
        int stage = o->nout > 0 ? p->tensors[o->out[0]].stage : 0;

        if (o->kind == PDL_PLAN_OP_SEND && stage == 1)
            out->out_op = i;
        if (o->kind == PDL_PLAN_OP_SEND && stage == 0)
            out->back_out_op = i;
        if (o->kind == PDL_PLAN_OP_RECV && stage == 1)
            out->in_op = i;
        if (o->kind == PDL_PLAN_OP_RECV && stage == 0)
            out->back_in_op = i;
    }
}

enum pdl_status fed_places_find(pdl_arena *a, const struct pdl_plan *p,
                                struct fed_places *out, struct pdl_err *err)
{
    *out = (struct fed_places){-1, -1, -1, -1, -1, -1, -1, -1, NULL};
    out->span = PDL_NEW(a, int, p->ntensors + 1);
    if (!out->span)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for a learner");
    for (int i = 0; i < p->ntensors; i++)
        out->span[i] = -1;
    find_last(p, out);
    find_messages(p, out);
    return PDL_OK;
}
