/* SPDX-License-Identifier: Apache-2.0
 *
 * What surrounds the products of a mixture of experts on one PE: the gated
 * activation between them, and, where a token travels once for every expert it
 * visits, the copies that put tokens in order of their experts and back.
 * Megatron-Core's dispatcher does that four times each way (permute, sort by
 * local expert, sort back, weighted sum: token_dispatcher.py, moe_utils.py,
 * MoEAlltoAllTokenDispatcher). Backward the same again.
 *
 * The products of experts are those of as many rows as an expert has tokens
 * (compute_gemm.c), which fill the units together; in eight bits tokens are
 * cast before each (Transformer Engine, GroupedLinear: splits are quantised,
 * weights with the first micro-batch only).
 *
 * Limits: experts of equal loads. */
#include "oracle/habit/habit.h"

#include <math.h>

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

/* Its own or, where they were sharded, gathered. */
static bool is_weight_of(const struct oracle *o, const struct pdl_node *n,
                         int tensor)
{
    int of = o->p->tensors[tensor].model_tensor;

    for (int i = 0; i < n->nweights; i++)
        if (n->weights[i] == of)
            return true;
    return false;
}

bool oracle_load_of(const struct oracle *o, int op, int64_t rank,
                    struct oracle_load *out)
{
    const struct pdl_plan_op *x = &o->p->ops[op];
    const struct pdl_plan_op *f = &o->p->ops[o->p->forward_op[x->node]];
    const struct pdl_node *n = &o->p->model->nodes[x->node];
    const struct pdl_attr *a = &n->attr;
    double all = 0, each;
    struct pdl_work w;

    if (x->nin < 1 || f->nin < 1)
        return false;
    out->hidden = (double)o->p->tensors[f->in[0]].dim[2];
    out->wide = (double)a->ffn;
    each = out->hidden * out->wide * (a->gated ? 3 : 2);
    for (int k = 0; k < f->nin; k++)
        if (is_weight_of(o, n, f->in[k]))
            all += (double)pdl_plan_elements(o->p, f->in[k], rank);
    if (!(each > 0) || !(all > 0))
        return false;
    pdl_plan_op_work(o->p, op, rank, &w);
    out->tokens = (double)w.flops / (2 * each);
    out->experts = ceil(all / each - .5);
    out->weights = all;
    return out->experts >= 1 && out->tokens > 0;
}

/* One product of every expert, all in one launch or one after the other on a
 * few streams: they fill the units together. */
static double product(const struct oracle *o, const struct oracle_load *l,
                      double c, double f, enum pdl_pass pass)
{
    struct pdl_shape s = {
        .kind = PDL_SHAPE_MATMUL,
        .pass = pass,
        .precision = o->opt->precision,
        .n = (int64_t)ceil(l->tokens / l->experts),
        .c = (int64_t)c,
        .f = (int64_t)f,
        .groups = (int64_t)l->experts,
    };

    return oracle_matmul(&o->pe, &s);
}

/* In eight bits what goes into a product is cast before it, each expert's part
 * by a kernel that looks for its largest value and one that writes; weights are
 * cast once a step, which is nothing beside it. */
static double casts(const struct oracle *o, const struct oracle_load *l,
                    double wide, enum pdl_pass pass)
{
    enum { OPERANDS = 2, KERNELS = 2 };
    double items = l->hidden + (pass == PDL_FORWARD ? l->wide : wide);

    if (!oracle_is_narrow(o->opt->precision) || pass == PDL_BACKWARD_WEIGHTS)
        return 0;
    return l->experts * OPERANDS * KERNELS * o->pe.launch_s +
           l->tokens * items * oracle_cast_bytes(o) / o->pe.bytes_per_s;
}

double oracle_experts_products(const struct oracle *o, int op, int64_t rank)
{
    const struct pdl_plan_op *x = &o->p->ops[op];
    const struct pdl_node *n = experts_of(o, op);
    struct oracle_load l;
    double wide;

    if (!n || x->part > 0 || o->pe.core || !oracle_load_of(o, op, rank, &l))
        return -1;
    wide = (n->attr.gated ? 2 : 1) * l.wide;
    return product(o, &l, l.hidden, wide, x->pass) +
           product(o, &l, l.wide, l.hidden, x->pass) +
           casts(o, &l, wide, x->pass);
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
