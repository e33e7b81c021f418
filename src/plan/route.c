/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokens go to the experts they visit. Placement alone gathers all tokens on
 * every rank of an expert axis and adds up what the experts say, which is
 * right but moves tokens to ranks that have no use for them. This pass turns
 * such a gather into an exchange of the tokens that are wanted (alltoallv),
 * and such a sum likewise: each token visits `topk` experts, so that a rank
 * of n gets topk / n of them on average (at most all). Only tensors that
 * nothing but the experts themselves touch may be so. */
#include "plan_priv.h"

struct routes {
    struct plan_lower *lo;
    int *writer, *reader; /* of each tensor: the operation, the last one */
    bool *only;           /* nothing but experts and moves touch it */
};

static bool is_experts(const struct plan_lower *lo, const struct pdl_plan_op *o)
{
    return o->kind == PDL_PLAN_OP_COMPUTE && o->node >= 0 &&
           plan_is(&lo->model->nodes[o->node], PDL_ID_EXPERTS);
}

static uint32_t expert_factors(const struct plan_lower *lo, int node)
{
    uint32_t set = 0;

    if (!plan_is(&lo->model->nodes[node], PDL_ID_EXPERTS))
        return 0;
    for (int f = 0; f < lo->mesh->nfactors; f++) {
        const struct pdl_mesh_term *t = plan_term_of(lo, node, f);

        if (t && t->axis == PDL_AXIS_EXPERT && lo->at[node].is_cut[f] &&
            lo->at[node].cut[f].w[0] == 0)
            set |= UINT32_C(1) << f;
    }
    return set;
}

/* Tokens meet over other axes before they travel to experts, and part after:
 * then what travels is for this pass to see. */
bool plan_route_outside(const struct plan_lower *lo, int node,
                        struct pdl_place *p)
{
    uint32_t set = expert_factors(lo, node);

    for (int f = 0; f < lo->mesh->nfactors; f++)
        if (set >> f & 1)
            p->at[f] = 0;
    return set != 0;
}

static void look(struct routes *r)
{
    struct plan_lower *lo = r->lo;

    for (int i = 0; i < lo->plan.nops; i++) {
        const struct pdl_plan_op *o = &lo->ops[i];
        bool ours = is_experts(lo, o);

        for (int k = 0; k < o->nin; k++) {
            r->only[o->in[k]] = r->only[o->in[k]] &&
                                (ours || o->kind == PDL_PLAN_OP_REDUCE_SCATTER);
            r->reader[o->in[k]] = i;
        }
        for (int k = 0; k < o->nout; k++) {
            r->only[o->out[k]] = r->only[o->out[k]] &&
                                 (ours || o->kind == PDL_PLAN_OP_ALLGATHER);
            r->writer[o->out[k]] = i;
        }
    }
}

/* Loads are counted in so many parts of a token. */
enum { PARTS = 1000 };

static void thin_out(struct routes *r, int t, int node, uint32_t group)
{
    const struct pdl_attr *attr = &r->lo->model->nodes[node].attr;
    double x = r->lo->strategy->imbalance;
    int64_t n = 1;

    for (int f = 0; f < r->lo->mesh->nfactors; f++)
        if (group >> f & 1)
            n *= r->lo->mesh->factor[f];
    r->lo->tensors[t].some = attr->topk < n ? attr->topk : n;
    r->lo->tensors[t].of = n;
    if (x > 1) { /* the busiest rank sets the pace: all are as it is */
        int64_t some = (int64_t)((double)(PARTS * attr->topk) * x + .5);

        r->lo->tensors[t].of = PARTS * n;
        r->lo->tensors[t].some = some < PARTS * n ? some : PARTS * n;
    }
}

static void route(struct routes *r, int op, int t, int kind, int node)
{
    uint32_t group = expert_factors(r->lo, node);
    struct pdl_plan_op *o = op >= 0 ? &r->lo->ops[op] : NULL;

    if (!o || !group || (int)o->kind != kind || o->group != group ||
        o->nin != 1 || !r->only[t])
        return;
    o->kind = PDL_PLAN_OP_ALLTOALLV;
    thin_out(r, t, node, group);
}

/* Tokens and gradients come, results and gradients go; scores stay whole. */
static void route_op(struct routes *r, const struct pdl_plan_op *o)
{
    const struct pdl_node *n = &r->lo->model->nodes[o->node];
    int nw = n->nweights, node = o->node;
    int in[2] = {o->in[0], -1};

    if (o->pass == PDL_BACKWARD_DATA)
        in[1] = o->in[1 + nw];
    else if (o->pass == PDL_BACKWARD_WEIGHTS)
        in[1] = o->in[n->nin];
    for (int k = 0; k < 2; k++)
        if (in[k] >= 0)
            route(r, r->writer[in[k]], in[k], PDL_PLAN_OP_ALLGATHER, node);
    if (o->pass != PDL_BACKWARD_WEIGHTS)
        route(r, r->reader[o->out[0]], o->out[0], PDL_PLAN_OP_REDUCE_SCATTER,
              node);
}

void plan_route(struct plan_lower *lo)
{
    struct routes r = {.lo = lo};
    int n = lo->plan.ntensors + 1;

    if (lo->status != PDL_OK)
        return;
    r.writer = PDL_NEW(lo->arena, int, n);
    r.reader = PDL_NEW(lo->arena, int, n);
    r.only = PDL_NEW(lo->arena, bool, n);
    if (!r.writer || !r.reader || !r.only) {
        plan_fail(lo, "out of memory");
        return;
    }
    for (int t = 0; t < n; t++) {
        r.writer[t] = r.reader[t] = -1;
        r.only[t] = true;
    }
    look(&r);
    for (int i = 0; i < lo->plan.nops; i++)
        if (is_experts(lo, &lo->ops[i]))
            route_op(&r, &lo->ops[i]);
}
