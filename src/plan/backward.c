/* SPDX-License-Identifier: Apache-2.0
 *
 * Backward, typed rather than transposed: every gradient operator is a
 * contraction over the same indices. With a factor that shards index i,
 *   dy is sharded where y has i, else needed everywhere;
 *   dx is sharded where x has i, else a partial sum;
 *   dw is sharded where w has i, else a partial sum;
 * and a factor that does not cut the node leaves all of them whole on every
 * rank. backward-data of a window gathers a halo of dy, it never scatters. */
#include "plan_priv.h"

#include <string.h>

/* ---- gradients of a value --------------------------------------------- */

void plan_contribute(struct plan_lower *lo, int tensor, int grad)
{
    struct plan_contribution *c;

    if (grad < 0)
        return;
    c = PDL_NEW(lo->arena, struct plan_contribution, 1);
    if (!c) {
        plan_fail(lo, "out of memory");
        return;
    }
    *c = (struct plan_contribution){grad, lo->values[tensor].grads};
    lo->values[tensor].grads = c;
}

static void contribute_later(struct plan_lower *lo, int tensor, int grad)
{
    struct plan_contribution *c =
        PDL_NEW(lo->arena, struct plan_contribution, 1);

    if (!c) {
        plan_fail(lo, "out of memory");
        return;
    }
    *c = (struct plan_contribution){grad, lo->values[tensor].returned};
    lo->values[tensor].returned = c;
}

int plan_add(struct plan_lower *lo, int a, int b)
{
    int in[2] = {a, b}, out;

    if (a < 0 || b < 0 || lo->status != PDL_OK)
        return a < 0 ? b : a;
    out = plan_add_tensor(lo, &lo->tensors[a]);
    plan_emit(lo, PDL_PLAN_OP_ADD, PDL_BACKWARD_DATA, -1, in, 2, &out, 1);
    return out;
}

/* The sum of all contributions, at `need`: equal placements are added before
 * they move, so that a partial sum crosses the network once. */
static int gradient(struct plan_lower *lo, int tensor,
                    const struct plan_layout *need)
{
    struct plan_contribution *list = lo->values[tensor].grads;
    int sum = -1;

    while (list && lo->status == PDL_OK) {
        struct plan_contribution *rest = NULL, *next;
        int part = list->tensor;

        for (struct plan_contribution *c = list->next; c; c = next) {
            next = c->next;
            if (plan_lie_alike(lo, part, c->tensor)) {
                part = plan_add(lo, part, c->tensor);
            } else {
                c->next = rest;
                rest = c;
            }
            if (lo->status != PDL_OK)
                return -1;
        }
        sum = plan_add(lo, sum, plan_move_to(lo, part, need));
        list = rest;
    }
    lo->values[tensor].grads = NULL;
    return sum;
}

static struct plan_layout dy_layout(const struct plan_lower *lo, int node,
                                    int k)
{
    const struct plan_at *at = &lo->at[node];
    struct plan_layout l = plan_layout_of(lo, at->y[k]);

    for (int f = 0; f < lo->mesh->nfactors; f++)
        l.place.at[f] = at->is_cut[f]           ? at->cut[f].y[k]
                        : plan_has(at->sums, f) ? PDL_PARTIAL
                                                : PDL_REPLICATED;
    return l;
}

/* Of the factors over which dy may be partial, those over which all of it is:
 * what another stage sends is not. */
static uint32_t partial_sums(const struct plan_lower *lo, int node)
{
    const struct pdl_node *n = &lo->model->nodes[node];
    uint32_t set = lo->at[node].sums;

    for (int f = 0; f < lo->mesh->nfactors && set; f++)
        for (int k = 0; k < n->nout && plan_has(set, f); k++)
            for (const struct plan_contribution *c =
                     lo->values[n->out[k]].grads;
                 c; c = c->next)
                if (lo->tensors[c->tensor].place.at[f] != PDL_PARTIAL)
                    set &= ~(UINT32_C(1) << f);
    return set;
}

static struct pdl_place result_place(const struct plan_lower *lo, int node,
                                     const int8_t *dims)
{
    const struct plan_at *at = &lo->at[node];
    struct pdl_place p = plan_everywhere();

    for (int f = 0; f < lo->mesh->nfactors; f++)
        if (at->is_cut[f])
            p.at[f] = dims[f] >= 0 ? dims[f] : PDL_PARTIAL;
        else if (plan_has(at->sums, f))
            p.at[f] = PDL_PARTIAL;
    return p;
}

/* ---- weights ---------------------------------------------------------- */

/* A bias has only the index of y's features: where a factor makes y partial,
 * dy is whole on every rank and so is the bias's gradient. */
static struct pdl_place dw_place(const struct plan_lower *lo, int node, int j)
{
    const struct plan_at *at = &lo->at[node];
    int8_t dims[PDL_MAX_FACTORS];
    struct pdl_place p;

    for (int f = 0; f < lo->mesh->nfactors; f++)
        dims[f] = at->cut[f].w[j];
    p = result_place(lo, node, dims);
    if (j == 1 && plan_rule_has_bias(&lo->model->nodes[node]))
        for (int f = 0; f < lo->mesh->nfactors; f++)
            if (at->is_cut[f] && at->cut[f].y[0] < 0)
                p.at[f] = PDL_REPLICATED;
    return p;
}

static int new_weight_grad(struct plan_lower *lo, int node, int j,
                           const struct pdl_place *place)
{
    struct pdl_plan_tensor t = lo->tensors[lo->at[node].w[j]];

    t.kind = PDL_PLAN_WEIGHT_GRADIENT;
    t.name = plan_name(lo, "d(", t.name, ")");
    t.place = *place;
    return plan_add_tensor(lo, &t);
}

/* Tied weights have one gradient: contributions meet at one placement. */
static void keep_weight_grad(struct plan_lower *lo, int node, int j, int dw)
{
    struct plan_weight *w =
        plan_weight_here(lo, lo->model->nodes[node].weights[j]);
    struct plan_layout home;

    if (dw < 0 || !w || lo->status != PDL_OK)
        return;
    home = plan_zero_home(lo, w);
    if (w->grad >= 0 && !plan_lie_alike(lo, dw, w->grad)) {
        dw = plan_move_to(lo, dw, &home);
        w->grad = plan_move_to(lo, w->grad, &home);
    }
    w->grad = w->grad < 0 ? dw : plan_add(lo, w->grad, dw);
    if (++w->made == w->uses && lo->strategy->zero >= 2)
        w->grad = plan_zero_scatter(lo, w);
}

static bool is_learned(const struct plan_lower *lo, int node, int j)
{
    const struct pdl_node *n = &lo->model->nodes[node];

    return lo->model->tensors[n->weights[j]].kind == PDL_TENSOR_WEIGHT;
}

/* Was the operand gathered over positions, from shards of sequence or
 * context parallelism? */
static bool was_gathered(const struct plan_lower *lo, int node, int shard,
                         int whole)
{
    const struct pdl_plan_tensor *t = lo->tensors;

    if (shard == whole)
        return false;
    for (int f = 0; f < lo->mesh->nfactors; f++) {
        const struct pdl_mesh_term *x = plan_term_of(lo, node, f);
        bool axis = x && (x->axis == PDL_AXIS_CONTEXT ||
                          (x->axis == PDL_AXIS_TENSOR && lo->strategy->seq));
        /* a ring has only ever two blocks: there is nothing to keep */
        bool ring = axis && x->axis == PDL_AXIS_CONTEXT &&
                    lo->strategy->context_kind == PDL_CONTEXT_RING;

        if (axis && (ring || !lo->strategy->save_gathered) &&
            t[shard].place.at[f] == 1 && t[whole].place.at[f] == PDL_REPLICATED)
            return true;
    }
    return false;
}

/* What forward kept of operand i: itself, or (save=sharded) the shard it was
 * gathered from, gathered again. */
static int kept_operand(struct plan_lower *lo, int node, int i)
{
    struct plan_value *v = &lo->values[lo->model->nodes[node].in[i]];
    int x = lo->at[node].x[i];
    struct plan_layout l = plan_layout_of(lo, x), outside = l;
    struct plan_version *again;
    int t;

    if (!v->versions ||
        lo->tensors[v->versions->tensor].stage != lo->tensors[x].stage ||
        !was_gathered(lo, node, v->versions->tensor, x))
        return x;
    for (again = v->again; again; again = again->next)
        if (plan_lies(lo, again->tensor, &l))
            return again->tensor;
    again = PDL_NEW(lo->arena, struct plan_version, 1);
    if (!again) {
        plan_fail(lo, "out of memory");
        return -1;
    }
    t = v->versions->tensor;
    if (i == 0 && plan_route_outside(lo, node, &outside.place))
        t = plan_move_to(lo, t, &outside);
    *again = (struct plan_version){plan_move_to(lo, t, &l), v->again};
    v->again = again;
    return again->tensor;
}

/* The weight; with ZeRO 3 what was gathered for forward is gone. Gathered once
 * for both backward passes: again[j] is -1 until then. */
static int kept_weight(struct plan_lower *lo, int node, int j, int *again)
{
    int w = lo->at[node].w[j];
    const struct plan_weight *kept =
        plan_weight_here(lo, lo->model->nodes[node].weights[j]);
    struct plan_layout l;

    if (lo->strategy->zero < 3 || !kept || kept->tensor == w)
        return w;
    l = plan_layout_of(lo, w);
    if (again[j] < 0)
        again[j] = plan_move_to(lo, kept->tensor, &l);
    return again[j];
}

static void backward_weights(struct plan_lower *lo, int node, const int *dy,
                             int sums, int *again)
{
    const struct pdl_node *n = &lo->model->nodes[node];
    int in[PLAN_MAX_IN + PLAN_MAX_OUT + PDL_OP_MAX_WEIGHTS + 1];
    int out[PDL_OP_MAX_WEIGHTS];
    int which[PDL_OP_MAX_WEIGHTS], nin = 0, nout = 0;
    uint32_t group = sums >= 0 ? plan_statistics_group(lo, node) : 0;

    for (int j = 0; j < n->nweights; j++) {
        struct pdl_place p;

        if (!is_learned(lo, node, j))
            continue;
        p = dw_place(lo, node, j);
        for (int f = 0; f < lo->mesh->nfactors; f++)
            if (group >> f & 1) /* the exchanged sums are whole there */
                p.at[f] = PDL_REPLICATED;
        which[nout] = j;
        out[nout++] = new_weight_grad(lo, node, j, &p);
    }
    if (nout == 0)
        return;
    if (sums >= 0) {
        in[nin++] = sums;
    } else {
        for (int i = 0; i < n->nin; i++)
            in[nin++] = kept_operand(lo, node, i);
        for (int k = 0; k < n->nout; k++)
            in[nin++] = dy[k];
        for (int j = 0; n->op->flags & PDL_OP_DW_READS_W && j < n->nweights;
             j++)
            in[nin++] = kept_weight(lo, node, j, again);
    }
    plan_emit(lo, PDL_PLAN_OP_COMPUTE, PDL_BACKWARD_WEIGHTS, node, in, nin, out,
              nout);
    for (int j = 0; j < nout; j++)
        keep_weight_grad(lo, node, which[j], out[j]);
}

/* ---- data ------------------------------------------------------------- */

static int new_dx(struct plan_lower *lo, int node, int i)
{
    const struct pdl_node *n = &lo->model->nodes[node];
    const struct plan_at *at = &lo->at[node];
    int8_t dims[PDL_MAX_FACTORS];
    struct pdl_place p;
    int t;

    for (int f = 0; f < lo->mesh->nfactors; f++)
        dims[f] = at->cut[f].x[i];
    p = result_place(lo, node, dims);
    t = plan_new_activation(lo, n->in[i], PDL_PLAN_GRADIENT, &p);
    if (t >= 0)
        memcpy(lo->tensors[t].unit, lo->tensors[at->x[i]].unit,
               sizeof lo->tensors[t].unit);
    return t;
}

/* What backward-data reads besides dy: weights, and what forward saved. */
static int saved(struct plan_lower *lo, int node, int *again, int *in, int nin)
{
    const struct pdl_node *n = &lo->model->nodes[node];
    const struct plan_at *at = &lo->at[node];

    for (int j = 0; j < n->nweights; j++)
        if (j == 0 || !plan_rule_has_bias(n))
            in[nin++] = kept_weight(lo, node, j, again);
    if (n->op->flags & PDL_OP_SAVES_X)
        for (int i = 0; i < n->nin; i++)
            in[nin++] = kept_operand(lo, node, i);
    /* a max pool's positions travel with dy across the border */
    if (n->op->flags & (PDL_OP_SAVES_Y | PDL_OP_SAVES_MASK))
        for (int k = 0; k < n->nout; k++)
            in[nin++] = plan_framed(lo, node, at->y[k], false);
    if (at->stats >= 0)
        in[nin++] = at->stats;
    return nin;
}

static bool wants_grad(const struct plan_lower *lo, int tensor)
{
    return lo->values[tensor].needs_grad;
}

/* add and sub hand dy on where no operand is broadcast. */
static bool passes_on(const struct plan_lower *lo, int node)
{
    const struct pdl_node *n = &lo->model->nodes[node];
    const struct pdl_tensor *t = lo->model->tensors;

    if (!plan_is(n, PDL_ID_ADD))
        return false;
    for (int i = 0; i < n->nin; i++)
        if (pdl_tensor_elements(&t[n->in[i]]) !=
            pdl_tensor_elements(&t[n->out[0]]))
            return false;
    return true;
}

static void backward_data(struct plan_lower *lo, int node, const int *dy,
                          int sums, int *again)
{
    const struct pdl_node *n = &lo->model->nodes[node];
    int in[2 * PLAN_MAX_IN + PLAN_MAX_OUT + PDL_OP_MAX_WEIGHTS + 2], nin = 0;
    int out[PLAN_MAX_IN], to[PLAN_MAX_IN], nout = 0;

    for (int i = 0; i < n->nin; i++)
        if (wants_grad(lo, n->in[i])) {
            to[nout] = n->in[i];
            out[nout++] = passes_on(lo, node) ? dy[0] : new_dx(lo, node, i);
        }
    if (nout > 0 && !passes_on(lo, node)) {
        for (int k = 0; k < n->nout; k++)
            in[nin++] = k == 0 ? plan_framed(lo, node, dy[0], false) : dy[k];
        if (sums >= 0)
            in[nin++] = sums;
        nin = saved(lo, node, again, in, nin);
        plan_add_op(lo, &(struct pdl_plan_op){.kind = PDL_PLAN_OP_COMPUTE,
                                              .pass = PDL_BACKWARD_DATA,
                                              .part = sums >= 0,
                                              .node = node,
                                              .nin = nin,
                                              .in = in,
                                              .nout = nout,
                                              .out = out});
    }
    for (int i = 0; i < nout; i++) {
        struct pdl_place outside = lo->tensors[out[i] >= 0 ? out[i] : 0].place;

        if (to[i] == n->in[0] && plan_route_outside(lo, node, &outside))
            out[i] = plan_move(lo, out[i], &outside);
        plan_contribute(lo, to[i], plan_settle(lo, node, out[i]));
    }
}

/* Batch norm with shared statistics: (sum dy, sum dy*xhat) meet first; they
 * are also the gradients of shift and scale. */
static int backward_sums(struct plan_lower *lo, int node, int dy)
{
    struct plan_at *at = &lo->at[node];
    int raw, in[3];

    if (at->stats < 0)
        return -1;
    raw = plan_new_statistics(lo, node);
    in[0] = dy;
    in[1] = at->x[0];
    in[2] = at->stats;
    plan_emit(lo, PDL_PLAN_OP_COMPUTE, PDL_BACKWARD_DATA, node, in, 3, &raw, 1);
    return plan_resolve_partial(lo, raw);
}

void plan_backward_node(struct plan_lower *lo, int node)
{
    const struct pdl_node *n = &lo->model->nodes[node];
    int dy[PLAN_MAX_OUT] = {0}, again[PDL_OP_MAX_WEIGHTS], sums;
    bool any = false;

    for (int k = 0; k < n->nout; k++)
        any = any || lo->values[n->out[k]].grads;
    if (!any || n->nout == 0 || lo->status != PDL_OK)
        return;
    lo->at[node].sums = partial_sums(lo, node);
    for (int k = 0; k < n->nout; k++) {
        struct plan_layout need = dy_layout(lo, node, k), outside = need;

        plan_route_outside(lo, node, &outside.place);
        dy[k] = gradient(lo, n->out[k], &outside);
        if (dy[k] >= 0)
            dy[k] = plan_move_to(lo, dy[k], &need);
        if (dy[k] < 0)
            plan_fail(lo, "%s: an output has no gradient", n->name);
    }
    if (lo->status != PDL_OK)
        return;
    sums = backward_sums(lo, node, dy[0]);
    for (int j = 0; j < PDL_OP_MAX_WEIGHTS; j++)
        again[j] = -1;
    backward_weights(lo, node, dy, sums, again);
    backward_data(lo, node, dy, sums, again);
}

/* ---- across stages ---------------------------------------------------- */

/* The gradient of a value that came from another stage goes back there, at
 * the placement in which the value was sent. */
void plan_send_gradients(struct plan_lower *lo)
{
    for (int t = 0; t < lo->model->ntensors && lo->status == PDL_OK; t++) {
        struct plan_value *v = &lo->values[t];
        struct plan_layout sent_as;
        int grad, there, home;

        if (!v->grads || !v->received || v->home_stage == lo->stage_now)
            continue;
        sent_as = plan_layout_of(lo, v->received->tensor);
        grad = gradient(lo, t, &sent_as);
        if (grad < 0)
            return;
        home = lo->stage_now;
        lo->stage_now = v->home_stage;
        there = plan_add_tensor(lo, &lo->tensors[grad]);
        lo->stage_now = home;
        plan_add_op(lo, &(struct pdl_plan_op){.kind = PDL_PLAN_OP_SEND,
                                              .node = -1,
                                              .nin = 1,
                                              .in = &grad,
                                              .nout = 1,
                                              .out = &there,
                                              .group = lo->plan.pipe_factors});
        contribute_later(lo, t, there);
    }
}

void plan_receive_gradients(struct plan_lower *lo)
{
    for (int t = 0; t < lo->model->ntensors && lo->status == PDL_OK; t++) {
        struct plan_value *v = &lo->values[t];

        if (v->home_stage != lo->stage_now)
            continue;
        for (struct plan_contribution *c = v->returned; c; c = c->next) {
            plan_add_op(lo,
                        &(struct pdl_plan_op){.kind = PDL_PLAN_OP_RECV,
                                              .node = -1,
                                              .nout = 1,
                                              .out = &c->tensor,
                                              .group = lo->plan.pipe_factors});
            plan_contribute(lo, t, c->tensor);
        }
        v->returned = NULL;
    }
}
