/* SPDX-License-Identifier: Apache-2.0
 *
 * The work of an operation on one rank, from the boxes of its tensors. FLOPs
 * come from the model's own operator table, asked about the local shapes, so
 * there is one formula for whole and for split layers. Backward-data and
 * backward-weights contract the same indices as forward: the same count. */
#include "plan_priv.h"

#include <string.h>

int64_t pdl_plan_elements(const struct pdl_plan *p, int tensor, int64_t rank)
{
    struct pdl_box b;

    pdl_plan_box(p, tensor, rank, &b);
    if (p->tensors[tensor].of > 0)
        return (int64_t)((double)pdl_box_volume(&b) *
                         (double)p->tensors[tensor].some /
                         (double)p->tensors[tensor].of);
    return pdl_box_volume(&b);
}

static int64_t bytes(const struct pdl_plan *p, int tensor, int64_t rank)
{
    int bits = pdl_dtype_bits(p->tensors[tensor].dtype);

    return pdl_plan_elements(p, tensor, rank) * bits / 8;
}

/* The local part as the operator table sees tensors: without N. */
static struct pdl_tensor local(const struct pdl_plan *p, int t, int64_t rank,
                               int64_t *samples)
{
    const struct pdl_plan_tensor *x = &p->tensors[t];
    struct pdl_tensor m = {.rank = 0};
    struct pdl_box b;

    if (x->model_tensor >= 0)
        m = p->model->tensors[x->model_tensor];
    pdl_plan_box(p, t, rank, &b);
    if (x->kind == PDL_PLAN_WEIGHT ||
        (x->model_tensor >= 0 && m.rank == b.ndims)) {
        for (int d = 0; d < b.ndims && d < PDL_MAX_RANK; d++)
            m.dim[d] = b.hi[d] - b.lo[d];
        return m;
    }
    *samples = b.ndims ? b.hi[0] - b.lo[0] : 0;
    m.rank = b.ndims - 1;
    for (int d = 1; d < b.ndims; d++)
        m.dim[d - 1] = b.hi[d] - b.lo[d];
    return m;
}

/* The forward operation of a node decides the contraction of all passes. */
static const struct pdl_plan_op *forward_of(const struct pdl_plan *p, int op)
{
    int first = p->forward_op[p->ops[op].node];

    return first >= 0 ? &p->ops[first] : NULL;
}

/* A rank has its share of the heads: whole groups that share keys, or some
 * heads of one group and its keys. */
static void local_heads(const struct pdl_node *n, const struct pdl_tensor *x,
                        struct pdl_attr *attr)
{
    int64_t size = attr->head_dim;

    if (attr->heads <= 0 || size <= 0 || x[0].rank < 1)
        return;
    if (attr->kv_heads > 0 && n->nin > 1 && x[1].rank > 0)
        attr->kv_heads = x[1].dim[x[1].rank - 1] / size;
    attr->heads = x[0].dim[x[0].rank - 1] / size;
}

/* What the busiest rank of an expert axis does over the mean: as given, but no
 * token visits more experts than it chooses, or than the rank has. */
static double load_of(const struct pdl_plan *p, const struct pdl_attr *attr,
                      int64_t mine)
{
    double x = p->strategy ? p->strategy->imbalance : 0;
    double mean = (double)attr->topk * (double)mine / (double)attr->experts;
    double most = (double)(attr->topk < mine ? attr->topk : mine);

    if (!(x > 1) || mine >= attr->experts || !(mean > 0))
        return 1;
    return x * mean < most ? x : most / mean;
}

static int64_t scaled(int64_t n, double by)
{
    return (int64_t)((double)n * by);
}

static int64_t flops(const struct pdl_plan *p, int op, int64_t rank)
{
    const struct pdl_plan_op *o = &p->ops[op], *f;
    struct pdl_tensor t[PLAN_MAX_IN + PDL_OP_MAX_WEIGHTS + PLAN_MAX_OUT];
    const struct pdl_tensor *in[PLAN_MAX_IN], *w[PDL_OP_MAX_WEIGHTS];
    const struct pdl_node *n;
    struct pdl_attr attr;
    struct pdl_op_use use;
    int64_t samples = 0, ignored, result = 0;
    int k = 0;

    if (o->kind != PDL_PLAN_OP_COMPUTE || o->node < 0 || o->part > 0)
        return 0;
    n = &p->model->nodes[o->node];
    f = forward_of(p, op);
    if (!n->op->flops || !f || f->nin < n->nin || f->nout < 1)
        return 0;
    for (int i = 0; i < n->nin; i++, k++) {
        t[k] = local(p, f->in[i], rank, &ignored);
        in[i] = &t[k];
    }
    for (int j = 0; j < f->nin - n->nin && j < n->nweights; j++, k++) {
        t[k] = local(p, f->in[n->nin + j], rank, &ignored);
        w[j] = &t[k];
    }
    t[k] = local(p, f->out[0], rank, &samples);
    attr = n->attr;
    if (attr.groups > 1) /* a rank has its share of the groups */
        attr.groups =
            attr.groups * t[0].dim[0] / p->model->tensors[n->in[0]].dim[0];
    local_heads(n, t, &attr);
    use = (struct pdl_op_use){&attr, in, w, n->nin, f->nin - n->nin};
    if (!n->op->flops(&use, &t[k], &result))
        return 0;
    if (attr.experts > 0 && f->nin > n->nin) /* its share of the experts */
        return scaled(result / attr.experts * w[0]->dim[0] * samples,
                      load_of(p, &attr, w[0]->dim[0]));
    return result * samples;
}

void pdl_plan_op_work(const struct pdl_plan *p, int op, int64_t rank,
                      struct pdl_work *out)
{
    const struct pdl_plan_op *o = &p->ops[op];

    *out = (struct pdl_work){.flops = flops(p, op, rank)};
    for (int k = 0; k < o->nin; k++)
        out->read_bytes += bytes(p, o->in[k], rank);
    for (int k = 0; k < o->nout; k++)
        out->write_bytes += bytes(p, o->out[k], rank);
}

int64_t pdl_plan_transfer(const struct pdl_plan *p, int from, int to,
                          int64_t peer, int64_t rank)
{
    int64_t bytes;

    pdl_plan_transfers(p, from, to, &peer, 1, rank, &bytes);
    return bytes;
}
