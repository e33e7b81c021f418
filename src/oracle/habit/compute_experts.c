/* SPDX-License-Identifier: Apache-2.0
 *
 * What surrounds the products of a mixture of experts on one PE: the gated
 * activation between them, and, where a token travels once for every expert it
 * visits, the copies that put tokens in order of their experts and back.
 * Megatron-Core's dispatcher does that four times each way (permute, sort by
 * local expert, sort back, weighted sum: token_dispatcher.py, moe_utils.py,
 * MoEAlltoAllTokenDispatcher). Backward the same again.
 *
 * Limits: experts of equal loads; grouped products have the rate of one large
 * product. */
#include "oracle/habit/habit.h"

enum { ORDERS = 4 }; /* copies of tokens each way */

static const struct pdl_node *experts_of(const struct oracle *o, int op)
{
    int node = o->p->ops[op].node;

    return node >= 0 && pdl_op_id(o->p->model->nodes[node].op) == PDL_ID_EXPERTS
               ? &o->p->model->nodes[node]
               : NULL;
}

double oracle_experts_more(const struct oracle *o, int op, int64_t rank)
{
    const struct pdl_plan_op *x = &o->p->ops[op];
    const struct pdl_node *n = experts_of(o, op);
    const struct pdl_framework *f = o->opt->framework;
    double wide, hidden, tokens, bytes;
    struct pdl_work w;

    if (!n || x->nin < 1 || x->pass == PDL_BACKWARD_WEIGHTS || o->pe.core)
        return 0;
    hidden = (double)o->p->tensors[x->in[0]].dim[2];
    wide = (double)n->attr.ffn;
    pdl_plan_op_work(o->p, op, rank, &w);
    if (!(hidden > 0) || !(wide > 0))
        return 0;
    /* one for each expert that a token visits here */
    tokens = (double)w.flops / (2 * hidden * wide * (n->attr.gated ? 3 : 2));
    bytes = wide * (x->pass == PDL_FORWARD ? 3 : 5);
    if (f && f->token_copies)
        bytes += 2 * ORDERS * hidden;
    return tokens * bytes * o->pe16.item_bytes / o->pe.bytes_per_s;
}

/* Experts that a token visits; 0: there are none. All layers choose alike. */
double oracle_visits(const struct oracle *o)
{
    const struct pdl_model *m = o->p->model;

    for (int i = 0; i < m->nnodes; i++)
        if (pdl_op_id(m->nodes[i].op) == PDL_ID_EXPERTS)
            return (double)m->nodes[i].attr.topk;
    return 0;
}

/* Times what the plan sends: it has a token travel once to each rank. */
double oracle_token_copies(const struct oracle *o, double ranks)
{
    const struct pdl_framework *f = o->opt->framework;
    double visits = oracle_visits(o);

    return f && f->token_copies && o->opt->parameters != PDL_IDEAL &&
                   visits > ranks
               ? visits / ranks
               : 1;
}
