/* SPDX-License-Identifier: Apache-2.0
 *
 * What one operation holds that no tensor of the plan stands for: scores of
 * attention, places of maxima, masks and indices that a framework keeps for
 * backward, and the loss's own copy of the logits. */
#include "oracle/step/stage.h"

/* Scores that attention stores for backward. */
static int64_t scores(const struct oracle *o, int op, int64_t rank)
{
    const struct pdl_plan_op *x = &o->p->ops[op];
    struct pdl_shape s = {.kind = PDL_SHAPE_ATTENTION};

    if (!o->opt->unfused || oracle_steps_flash(o) ||
        x->kind != PDL_PLAN_OP_COMPUTE ||
        oracle_op_id(o, op) != PDL_ID_ATTENTION ||
        !oracle_attention_shape(o, x->node, rank, &s))
        return 0;
    return (int64_t)((double)(s.n * s.groups * s.in[0] * s.out[0]) *
                     oracle_score_bytes(o));
}

/* Where each maximum was found, which our runtime keeps: a byte, or four where
 * a window has more places (src/train/backends/cpu/cpu_pool.c). */
static int64_t positions(const struct oracle *o, int op, int64_t rank)
{
    const struct pdl_plan_op *x = &o->p->ops[op];
    const struct pdl_node *n;
    int64_t volume = 1;

    if (!o->pe.own || o->opt->parameters == PDL_IDEAL ||
        x->kind != PDL_PLAN_OP_COMPUTE || x->part > 0 ||
        oracle_op_id(o, op) != PDL_ID_MAX_POOL || o->p->forward_op[x->node] < 0)
        return 0;
    n = &o->p->model->nodes[x->node];
    for (int i = 0; i < PDL_MAX_SPATIAL; i++)
        volume *= n->attr.kernel[i] > 0 ? n->attr.kernel[i] : 1;
    return pdl_plan_elements(o->p, o->p->ops[o->p->forward_op[x->node]].out[0],
                             rank) *
           (volume < 256 ? 1 : 4);
}

int64_t oracle_keeps(const struct oracle *o, int op, int64_t rank)
{
    int64_t found = positions(o, op, rank);

    if (!o->opt->unfused && !o->opt->framework)
        return found;
    return found + scores(o, op, rank) +
           oracle_eager_indices(o, &o->p->ops[op], rank) +
           oracle_steps_keeps(o, op, rank);
}

/* Are the classes of the logits on several ranks? */
static bool is_cut(const struct pdl_plan *p, int t)
{
    for (int f = 0; f < p->mesh->nfactors; f++)
        if (p->tensors[t].place.at[f] == p->tensors[t].ndims - 1)
            return true;
    return false;
}

int64_t oracle_logits(const struct oracle *o, const struct pdl_plan_op *op,
                      const int64_t *size)
{
    const struct pdl_framework *f = o->opt->framework;
    double each;

    if (!f || op->kind != PDL_PLAN_OP_COMPUTE || op->node >= 0 || op->nin < 1)
        return 0;
    each = f->cut_logit_bytes > 0 && is_cut(o->p, op->in[0])
               ? f->cut_logit_bytes
               : f->logit_bytes;
    return (int64_t)((double)size[op->in[0]] / 2 * each);
}
