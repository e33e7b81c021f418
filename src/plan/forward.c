/* SPDX-License-Identifier: Apache-2.0
 *
 * Forward: for each node and factor find the cut (node_cut.c), bring the
 * operands to it, compute, and resolve partial sums at once: nearly everything
 * that follows is not linear. */
#include "plan_priv.h"

#include <string.h>

const struct pdl_mesh_term *plan_term_of(const struct plan_lower *lo, int node,
                                         int f)
{
    int c = lo->clause[node];

    for (int t = 0; c >= 0 && t < lo->mesh->nterms[c]; t++) {
        const struct pdl_mesh_term *x = &lo->mesh->term[c][t];

        if (f >= x->first && f < x->first + x->count)
            return x;
    }
    return NULL;
}

int plan_value_place(const struct plan_lower *lo, int tensor, int f)
{
    const struct plan_value *v = &lo->values[tensor];

    return v->versions ? lo->tensors[v->versions->tensor].place.at[f]
                       : PDL_REPLICATED;
}

/* ---- operands --------------------------------------------------------- */

static int version_with(struct plan_lower *lo, int tensor,
                        const struct plan_layout *need)
{
    struct plan_value *v = &lo->values[tensor];
    struct plan_version *made;
    int t;

    for (struct plan_version *x = v->versions; x; x = x->next)
        if (plan_lies(lo, x->tensor, need))
            return x->tensor;
    if (!v->versions) {
        plan_fail(lo, "%s is read before it is made",
                  lo->model->tensors[tensor].name);
        return -1;
    }
    t = plan_move_to(lo, v->versions->tensor, need);
    made = t >= 0 ? PDL_NEW(lo->arena, struct plan_version, 1) : NULL;
    if (made) { /* behind the first: that one stays what it was made as */
        *made = (struct plan_version){t, v->versions->next};
        v->versions->next = made;
    }
    return t;
}

/* Factor f cuts dimension d of a tensor with extents `dim` in `items`: where
 * it lies. */
static void cut_layout(int64_t items, int f, int d, const int64_t *dim,
                       int first, struct plan_layout *l)
{
    l->place.at[f] = (int8_t)d;
    if (d >= first && items > 0 && dim[d - first] / items > l->unit[d])
        l->unit[d] = dim[d - first] / items;
}

static struct plan_layout need_of(const struct plan_lower *lo, int node,
                                  int operand)
{
    const struct plan_at *at = &lo->at[node];
    int id = lo->model->nodes[node].in[operand];
    struct plan_layout l = {.place = plan_everywhere()};

    for (int f = 0; f < lo->mesh->nfactors; f++)
        if (at->is_cut[f])
            cut_layout(operand > 0 && at->cut[f].groups > 0 ? at->cut[f].groups
                                                            : at->cut[f].items,
                       f, at->cut[f].x[operand], lo->model->tensors[id].dim, 1,
                       &l);
    return l;
}

static void frames_of(const struct plan_lower *lo, int node, bool forward,
                      struct pdl_frame *frames)
{
    struct plan_site s;

    plan_site_init(lo->model, node, 1, &s);
    for (int d = 0; d < PDL_BOX_DIMS; d++) {
        bool swap;

        frames[d] = (struct pdl_frame){.kind = PDL_FRAME_NONE};
        if (d >= 2 && d < 2 + PDL_MAX_SPATIAL &&
            plan_rule_window(&s, d, &frames[d].window, &swap))
            frames[d].kind =
                forward != swap ? PDL_FRAME_READS : PDL_FRAME_READERS;
    }
}

int plan_framed(struct plan_lower *lo, int node, int tensor, bool forward)
{
    struct pdl_frame frames[PDL_BOX_DIMS];

    if (!plan_rule_has_window(&lo->model->nodes[node]))
        return plan_move_frames(lo, tensor, pdl_no_frames);
    frames_of(lo, node, forward, frames);
    return plan_move_frames(lo, tensor, frames);
}

/* A weight that is kept as `kept` and, where ZeRO updates a part of it, the
 * part; returns it as the layer wants it. */
static int new_weight(struct plan_lower *lo, int id, struct pdl_plan_tensor *t,
                      const struct plan_layout *kept,
                      const struct plan_layout *part,
                      const struct plan_layout *wanted)
{
    struct plan_weight *w;

    t->place = kept->place;
    memcpy(t->unit, kept->unit, sizeof t->unit);
    w = plan_new_weight(lo, id, plan_add_tensor(lo, t));
    if (!w)
        return -1;
    w->uses = 1;
    if (part) {
        t->kind = PDL_PLAN_STATE;
        t->place = part->place;
        memcpy(t->unit, part->unit, sizeof t->unit);
        w->state = plan_add_tensor(lo, t);
    }
    return plan_move_to(lo, w->tensor, wanted);
}

static int weight_of(struct plan_lower *lo, int node, int j)
{
    const struct plan_at *at = &lo->at[node];
    int id = lo->model->nodes[node].weights[j];
    const struct pdl_tensor *w = &lo->model->tensors[id];
    struct plan_weight *made;
    struct pdl_plan_tensor t = {.name = w->name,
                                .kind = PDL_PLAN_WEIGHT,
                                .dtype = lo->opt->dtype,
                                .ndims = w->rank,
                                .model_tensor = id};
    struct plan_layout l = {.place = plan_everywhere()}, part;

    for (int f = 0; f < lo->mesh->nfactors; f++)
        if (at->is_cut[f])
            cut_layout(at->cut[f].items, f, at->cut[f].w[j], w->dim, 0, &l);
    made = plan_weight_here(lo, id);
    if (made) {
        made->uses++;
        return plan_move_to(lo, made->tensor, &l);
    }
    memcpy(t.dim, w->dim, (size_t)w->rank * sizeof t.dim[0]);
    part = l;
    if (!plan_zero_part(lo, node, id, &part))
        return new_weight(lo, id, &t, &l, NULL, &l);
    return lo->strategy->zero == 3 ? new_weight(lo, id, &t, &part, NULL, &l)
                                   : new_weight(lo, id, &t, &l, &part, &l);
}

/* ---- results ---------------------------------------------------------- */

int plan_new_activation(struct plan_lower *lo, int model_tensor,
                        enum pdl_plan_kind kind, const struct pdl_place *place)
{
    const struct pdl_tensor *m = &lo->model->tensors[model_tensor];
    struct pdl_plan_tensor t = {.kind = kind,
                                .dtype = lo->opt->dtype,
                                .ndims = m->rank + 1,
                                .place = *place,
                                .model_tensor = model_tensor};

    t.name =
        kind == PDL_PLAN_GRADIENT ? plan_name(lo, "d(", m->name, ")") : m->name;
    t.dim[0] = lo->samples;
    memcpy(t.dim + 1, m->dim, (size_t)m->rank * sizeof t.dim[0]);
    return plan_add_tensor(lo, &t);
}

static struct plan_layout made_as(const struct plan_lower *lo, int node, int k)
{
    const struct plan_at *at = &lo->at[node];
    int id = lo->model->nodes[node].out[k];
    struct plan_layout l = {.place = plan_everywhere()};

    for (int f = 0; f < lo->mesh->nfactors; f++) {
        int d = at->is_cut[f] ? at->cut[f].y[k] : PDL_REPLICATED;

        if (at->is_cut[f])
            cut_layout(at->cut[f].items, f, d >= 0 ? d : PDL_PARTIAL,
                       lo->model->tensors[id].dim, 1, &l);
    }
    return l;
}

/* The dimension of channels: 1, of a linear layer the last. */
static int feature_dim(const struct plan_lower *lo, int node)
{
    const struct pdl_node *n = &lo->model->nodes[node];

    return plan_is(n, PDL_ID_LINEAR) ? lo->model->tensors[n->out[0]].rank : 1;
}

static bool by_positions(const struct plan_lower *lo,
                         const struct pdl_mesh_term *t,
                         const struct pdl_tensor *y)
{
    return t && t->axis == PDL_AXIS_TENSOR && lo->strategy->seq &&
           y->rank >= 2 && (y->dim[0] >= t->size || lo->opt->allow_empty);
}

/* Where a partial sum is resolved to: over a channel axis to shards of C (the
 * next channel layer wants them so, and it is half the traffic), over a tensor
 * axis with sequence parallelism to shards of T (Korthikanti et al. 2022),
 * else everywhere. The papers' exchange: everywhere. */
static struct pdl_place resolved(const struct plan_lower *lo, int node,
                                 const struct pdl_place *raw)
{
    const struct pdl_tensor *y =
        &lo->model->tensors[lo->model->nodes[node].out[0]];
    bool paper = lo->strategy->exchange_paper;
    int c = feature_dim(lo, node);
    struct pdl_place p = *raw;

    for (int f = 0; f < lo->mesh->nfactors; f++) {
        const struct pdl_mesh_term *t = plan_term_of(lo, node, f);
        bool channel = t && t->axis == PDL_AXIS_CHANNEL;

        if (raw->at[f] == PDL_PARTIAL)
            p.at[f] = t && t->axis == PDL_AXIS_EXPERT ? 0
                      : channel && !paper && y->dim[c - 1] >= t->size
                          ? (int8_t)c
                      : by_positions(lo, t, y) ? 1
                                               : PDL_REPLICATED;
    }
    return p;
}

/* The papers sum and gather what filter and channel split right after the
 * layer, forward and backward. */
int plan_settle(struct plan_lower *lo, int node, int t)
{
    struct pdl_place p;

    if (t < 0 || !lo->strategy->exchange_paper)
        return t;
    p = lo->tensors[t].place;
    for (int f = 0; f < lo->mesh->nfactors; f++)
        if (p.at[f] == PDL_PARTIAL ||
            plan_is_feature_axis(plan_term_of(lo, node, f)))
            p.at[f] = PDL_REPLICATED;
    return plan_move(lo, t, &p);
}

static bool any_partial(const struct plan_lower *lo, const struct pdl_place *p)
{
    for (int f = 0; f < lo->mesh->nfactors; f++)
        if (p->at[f] == PDL_PARTIAL)
            return true;
    return false;
}

static void set_value(struct plan_lower *lo, int tensor, int t, uint32_t shared)
{
    struct plan_version *v = PDL_NEW(lo->arena, struct plan_version, 1);

    if (!v) {
        plan_fail(lo, "out of memory");
        return;
    }
    v->tensor = t;
    lo->values[tensor].versions = v;
    lo->values[tensor].home_stage = lo->stage_now;
    lo->values[tensor].shared = shared;
}

/* ---- batch norm ------------------------------------------------------- */

uint32_t plan_statistics_group(const struct plan_lower *lo, int node)
{
    const struct plan_at *at = &lo->at[node];
    uint32_t set = 0;

    for (int f = 0; f < lo->mesh->nfactors; f++) {
        int d = at->is_cut[f] ? at->cut[f].x[0] : PDL_REPLICATED;
        bool spatial = d >= 2 && lo->strategy->bn != PDL_BN_LOCAL;
        bool samples = d == 0 && lo->strategy->bn == PDL_BN_SYNC;

        if (spatial || samples)
            set |= UINT32_C(1) << f;
    }
    return set;
}

/* Sums [groups, 2, C]: one row of groups for each set of ranks that share
 * statistics; partial over the ranks of a set. */
int plan_new_statistics(struct plan_lower *lo, int node)
{
    const struct pdl_node *n = &lo->model->nodes[node];
    const struct plan_at *at = &lo->at[node];
    uint32_t group = plan_statistics_group(lo, node);
    struct pdl_plan_tensor t = {.kind = PDL_PLAN_STATISTIC,
                                .dtype = lo->opt->dtype,
                                .ndims = 3,
                                .place = plan_everywhere(),
                                .model_tensor = -1};

    t.dim[0] = 1;
    t.dim[1] = 2;
    t.dim[2] = lo->model->tensors[n->in[0]].dim[0];
    for (int f = 0; f < lo->mesh->nfactors; f++) {
        int d = at->is_cut[f] ? at->cut[f].x[0] : PDL_REPLICATED;

        if (group >> f & 1)
            t.place.at[f] = PDL_PARTIAL;
        else if (d == 1)
            t.place.at[f] = 2;
        else if (d >= 0) {
            t.place.at[f] = 0;
            t.dim[0] *= lo->mesh->factor[f];
        }
    }
    t.name = pdl_arena_printf(lo->arena, "%s.sums", n->name);
    return plan_add_tensor(lo, &t);
}

/* Partial over its set only: resolve to everywhere there. */
int plan_resolve_partial(struct plan_lower *lo, int t)
{
    struct pdl_place p;

    if (t < 0)
        return -1;
    p = lo->tensors[t].place;
    for (int f = 0; f < lo->mesh->nfactors; f++)
        if (p.at[f] <= PDL_PARTIAL)
            p.at[f] = PDL_REPLICATED;
    return plan_move(lo, t, &p);
}

static void compute_with_statistics(struct plan_lower *lo, int node, int y)
{
    struct plan_at *at = &lo->at[node];
    const struct pdl_node *n = &lo->model->nodes[node];
    int raw = plan_new_statistics(lo, node);
    int in[2 + PDL_OP_MAX_WEIGHTS], nin = 0;

    plan_emit(lo, PDL_PLAN_OP_COMPUTE, PDL_FORWARD, node, at->x, 1, &raw, 1);
    at->stats = plan_resolve_partial(lo, raw);
    in[nin++] = at->x[0];
    in[nin++] = at->stats;
    for (int j = 0; j < n->nweights; j++)
        in[nin++] = at->w[j];
    plan_add_op(lo, &(struct pdl_plan_op){.kind = PDL_PLAN_OP_COMPUTE,
                                          .pass = PDL_FORWARD,
                                          .part = 1,
                                          .node = node,
                                          .nin = nin,
                                          .in = in,
                                          .nout = 1,
                                          .out = &y});
}

/* ---- one node --------------------------------------------------------- */

static void compute(struct plan_lower *lo, int node, bool with_bias)
{
    const struct pdl_node *n = &lo->model->nodes[node];
    struct plan_at *at = &lo->at[node];
    int in[PLAN_MAX_IN + PDL_OP_MAX_WEIGHTS], nin = 0;

    for (int i = 0; i < n->nin; i++)
        in[nin++] = at->x[i];
    for (int j = 0; j < n->nweights; j++)
        if (with_bias || j != 1)
            in[nin++] = at->w[j];
    plan_emit(lo, PDL_PLAN_OP_COMPUTE, PDL_FORWARD, node, in, nin, at->y,
              n->nout);
}

/* A bias is added once, after the partial sums have met, on the shard that
 * results: the bias is brought there. */
static int add_bias(struct plan_lower *lo, int node, int y)
{
    struct plan_at *at = &lo->at[node];
    struct plan_layout l = {.place = plan_everywhere()};
    struct pdl_plan_tensor t;
    int in[2], out, c;

    if (y < 0 || lo->status != PDL_OK)
        return -1;
    t = lo->tensors[y];
    c = feature_dim(lo, node);
    for (int f = 0; f < lo->mesh->nfactors; f++)
        if (t.place.at[f] == c)
            l.place.at[f] = 0;
    l.unit[0] = t.unit[c];
    in[0] = y;
    in[1] = plan_move_to(lo, at->w[1], &l);
    out = plan_add_tensor(lo, &t);
    plan_add_op(lo, &(struct pdl_plan_op){.kind = PDL_PLAN_OP_COMPUTE,
                                          .pass = PDL_FORWARD,
                                          .part = 1,
                                          .node = node,
                                          .nin = 2,
                                          .in = in,
                                          .nout = 1,
                                          .out = &out});
    return out;
}

static void gather_operands(struct plan_lower *lo, int node)
{
    const struct pdl_node *n = &lo->model->nodes[node];
    struct plan_at *at = &lo->at[node];

    bool turned =
        plan_is(n, PDL_ID_EXPERTS); /* tokens travel by their scores */

    for (int k = 0; k < n->nin; k++) {
        int i = turned ? n->nin - 1 - k : k;
        struct plan_layout need = need_of(lo, node, i);
        struct plan_layout outside = need;

        if (i == 0 && plan_route_outside(lo, node, &outside.place))
            at->x[i] =
                plan_move_to(lo, version_with(lo, n->in[i], &outside), &need);
        else
            at->x[i] = version_with(lo, n->in[i], &need);
        if (i == 0)
            at->x[i] = plan_framed(lo, node, at->x[i], true);
    }
    for (int j = 0; j < n->nweights; j++)
        at->w[j] = weight_of(lo, node, j);
}

void plan_forward_node(struct plan_lower *lo, int node)
{
    const struct pdl_node *n = &lo->model->nodes[node];
    struct plan_at *at = &lo->at[node];
    struct pdl_place raw;
    bool partial;

    for (int f = 0; f < lo->mesh->nfactors && lo->status == PDL_OK; f++)
        if (!(lo->plan.pipe_factors >> f & 1))
            plan_find_cut(lo, node, f);
    gather_operands(lo, node);
    for (int k = 0; k < n->nout && lo->status == PDL_OK; k++) {
        struct plan_layout l = made_as(lo, node, k);

        at->y[k] =
            plan_new_activation(lo, n->out[k], PDL_PLAN_ACTIVATION, &l.place);
        if (at->y[k] >= 0)
            memcpy(lo->tensors[at->y[k]].unit, l.unit, sizeof l.unit);
    }
    if (lo->status != PDL_OK || n->nout == 0)
        return;
    raw = lo->tensors[at->y[0]].place;
    partial = any_partial(lo, &raw);
    at->stats = -1;
    if (plan_rule_has_statistics(n) && plan_statistics_group(lo, node))
        compute_with_statistics(lo, node, at->y[0]);
    else
        compute(lo, node, !(partial && plan_rule_has_bias(n)));
    for (int k = 0; k < n->nout; k++) {
        struct pdl_place to = resolved(lo, node, &lo->tensors[at->y[k]].place);
        struct pdl_place outside = lo->tensors[at->y[k]].place;
        int y = at->y[k];

        if (plan_route_outside(lo, node, &outside))
            y = plan_move(lo, y, &outside);
        y = plan_move(lo, y, &to);
        if (partial && plan_rule_has_bias(n))
            y = add_bias(lo, node, y);
        set_value(lo, n->out[k], plan_settle(lo, node, y), at->sums);
    }
}
