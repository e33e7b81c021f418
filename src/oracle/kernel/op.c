/* SPDX-License-Identifier: Apache-2.0
 *
 * What an operation of a plan is: its operator, and the shape of what it
 * contracts on one rank. */
#include "oracle/context.h"

enum pdl_op_id oracle_op_id(const struct oracle *o, int op)
{
    int node = o->p->ops[op].node;

    return node >= 0 ? pdl_op_id(o->p->model->nodes[node].op) : PDL_ID_OTHER;
}

bool oracle_has_axis(const struct oracle *o, enum pdl_axis axis)
{
    const struct pdl_strategy *s = o->p->strategy;

    for (int c = 0; c < s->nclauses; c++)
        for (int t = 0; t < s->clause[c].nterms; t++)
            if (s->clause[c].term[t].axis == axis)
                return true;
    return false;
}

int64_t oracle_tensor_ranks(const struct oracle *o)
{
    const struct pdl_strategy *s = o->p->strategy;

    for (int c = 0; c < s->nclauses; c++)
        for (int t = 0; t < s->clause[c].nterms; t++)
            if (s->clause[c].term[t].axis == PDL_AXIS_TENSOR)
                return s->clause[c].term[t].size[0];
    return 1;
}

int64_t oracle_extent(const struct pdl_box *b, int d)
{
    return d >= 0 && d < b->ndims ? b->hi[d] - b->lo[d] : 1;
}

static void conv_shape(const struct pdl_attr *attr, const struct pdl_box *x,
                       const struct pdl_box *y, struct pdl_shape *s)
{
    s->n = oracle_extent(y, 0);
    s->c = oracle_extent(x, 1);
    s->f = oracle_extent(y, 1);
    s->nspatial = y->ndims - 2 > 3 ? 3 : y->ndims - 2;
    for (int d = 0; d < s->nspatial; d++) {
        s->in[d] = oracle_extent(x, d + 2);
        s->out[d] = oracle_extent(y, d + 2);
        s->kernel[d] = attr->kernel[d];
        s->stride[d] = attr->stride[d];
    }
}

/* Rows of the last dimension; its own extents. */
static void linear_shape(const struct pdl_box *x, const struct pdl_box *y,
                         struct pdl_shape *s)
{
    s->c = oracle_extent(x, x->ndims - 1);
    s->f = oracle_extent(y, y->ndims - 1);
    s->n = s->f > 0 ? pdl_box_volume(y) / s->f : 0;
}

/* The shape of the contraction, from the boxes of the forward operation (all
 * passes contract the same indices); false: the operator has none known. */
bool oracle_shape_of(const struct oracle *o, int op, int64_t rank,
                     struct pdl_shape *s)
{
    const struct pdl_plan_op *x = &o->p->ops[op], *f;
    const struct pdl_node *n;
    struct pdl_box in, out;

    if (x->node < 0 || x->part > 0 || o->p->forward_op[x->node] < 0)
        return false;
    n = &o->p->model->nodes[x->node];
    f = &o->p->ops[o->p->forward_op[x->node]];
    if (f->nin < 1 || f->nout < 1)
        return false;
    pdl_plan_box(o->p, f->in[0], rank, &in);
    pdl_plan_box(o->p, f->out[0], rank, &out);
    *s = (struct pdl_shape){.pass = x->pass, .precision = o->opt->precision};
    if (pdl_op_id(n->op) == PDL_ID_CONV && in.ndims > 2) {
        s->kind = PDL_SHAPE_CONV;
        conv_shape(&n->attr, &in, &out, s);
        s->groups = n->attr.groups > 1
                        ? n->attr.groups * s->c / o->p->tensors[f->in[0]].dim[1]
                        : 1;
        return s->groups >= 1;
    }
    if (pdl_op_id(n->op) == PDL_ID_LINEAR) {
        s->kind = PDL_SHAPE_MATMUL;
        linear_shape(&in, &out, s);
        return true;
    }
    return pdl_op_id(n->op) == PDL_ID_ATTENTION &&
           oracle_attention_shape(o, x->node, rank, s);
}
