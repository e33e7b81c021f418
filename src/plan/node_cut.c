/* SPDX-License-Identifier: Apache-2.0
 *
 * The cut of a node by a factor of the mesh: the index that its role names
 * where the node has weights, else what the shards of its inputs allow; and
 * whether the index is long enough for it. */
#include "plan_priv.h"

#include <string.h>

/* ---- limits ----------------------------------------------------------- */

static int64_t activation_dim(const struct plan_lower *lo,
                              const struct pdl_tensor *t, int d)
{
    return d == 0 ? lo->samples : t->dim[d - 1];
}

/* The smallest extent the cut divides. */
static int64_t smallest_extent(const struct plan_lower *lo,
                               const struct plan_site *s,
                               const struct plan_cut *cut)
{
    int64_t n = INT64_MAX;

    for (int i = 0; i < s->node->nin && i < PLAN_MAX_IN; i++)
        if (cut->x[i] >= 0) {
            int64_t e = activation_dim(lo, &lo->model->tensors[s->node->in[i]],
                                       cut->x[i]);

            n = e < n ? e : n;
        }
    for (int i = 0; i < s->node->nout && i < PLAN_MAX_OUT; i++)
        if (cut->y[i] >= 0) {
            int64_t e = activation_dim(lo, &lo->model->tensors[s->node->out[i]],
                                       cut->y[i]);

            n = e < n ? e : n;
        }
    return cut->items > 0 && cut->items < n ? cut->items : n;
}

static const char *index_name(enum pdl_axis axis)
{
    return axis == PDL_AXIS_DATA      ? "samples"
           : axis == PDL_AXIS_FILTER  ? "filters"
           : axis == PDL_AXIS_CHANNEL ? "channels"
           : axis == PDL_AXIS_EXPERT  ? "experts or samples"
           : axis == PDL_AXIS_CONTEXT ? "positions"
           : axis == PDL_AXIS_TENSOR  ? "groups of heads"
                                      : "rows";
}

/* ---- cuts ------------------------------------------------------------- */

bool plan_is_feature_axis(const struct pdl_mesh_term *t)
{
    return t && (t->axis == PDL_AXIS_FILTER || t->axis == PDL_AXIS_CHANNEL);
}

/* The image channels of a first layer are too few for the channel axis: it
 * falls back, as the papers' runs did. */
static bool reads_the_input(const struct plan_lower *lo, int node)
{
    const struct pdl_node *n = &lo->model->nodes[node];

    return n->nin > 0 &&
           lo->model->tensors[n->in[0]].kind == PDL_TENSOR_INPUT &&
           !(lo->opt->inner && lo->opt->inner[n->in[0]]);
}

/* Filter and channel both cut the groups of a grouped convolution: together
 * they must divide them. */
static int64_t feature_parts(const struct plan_lower *lo, int node,
                             const struct pdl_mesh_term *t)
{
    int c = lo->clause[node];
    int64_t n = 1;

    if (!plan_is_feature_axis(t))
        return t->size;
    for (int i = 0; i < lo->mesh->nterms[c]; i++)
        if (plan_is_feature_axis(&lo->mesh->term[c][i]))
            n *= lo->mesh->term[c][i].size;
    return n;
}

/* Rows that a pool already brought together, because they had become too few,
 * stay together. A layer that itself leaves fewer of them is refused whether
 * or not they lie together: else 64 parts of 56 rows were fine where 8 of 7
 * are not. */
static bool already_whole(const struct plan_lower *lo,
                          const struct plan_site *s, int f,
                          const struct pdl_mesh_term *t,
                          const struct plan_cut *cut)
{
    int d = cut->x[0] - 1; /* of the model's tensors */

    return t->axis == PDL_AXIS_SPATIAL && cut->y[0] == cut->x[0] &&
           s->y->dim[d] >= s->x->dim[d] &&
           plan_value_place(lo, s->node->in[0], f) == PDL_REPLICATED;
}

/* The units in which an operand lies now are the items of the index. */
static int64_t items_of(const struct plan_lower *lo, int tensor, int d)
{
    const struct pdl_tensor *m = &lo->model->tensors[tensor];
    const struct plan_value *v = &lo->values[tensor];
    int64_t unit = v->versions ? lo->tensors[v->versions->tensor].unit[d] : 0;

    return d > 0 && unit > 1 && m->dim[d - 1] % unit == 0 ? m->dim[d - 1] / unit
                                                          : 0;
}

/* A linear layer after a cut one contracts its features; one before takes a
 * cut that its readers keep (tensor.c). */
static bool cut_tensor(const struct plan_lower *lo, const struct plan_site *s,
                       int f, int64_t size, struct plan_cut *cut)
{
    int64_t items;
    bool keys;

    if (plan_value_place(lo, s->node->in[0], f) == s->x->rank)
        return plan_rule_role(s, PDL_AXIS_CHANNEL, 0, cut);
    items = plan_keeps_features(lo, s->node->out[0], size, &keys);
    if (items < 0 || !plan_rule_role(s, PDL_AXIS_FILTER, 0, cut))
        return false;
    cut->items = items;
    /* the mesh ends a factor at the groups, so each part is one of them */
    cut->groups = keys && size > items && size % items == 0 ? items : 0;
    return true;
}

static bool cut_by_role(struct plan_lower *lo, int node, int f,
                        const struct pdl_mesh_term *t, struct plan_cut *cut)
{
    struct plan_site s;
    int64_t extent;
    bool whole;

    plan_site_init(lo->model, node, feature_parts(lo, node, t), &s);
    if (t->axis == PDL_AXIS_TENSOR && plan_is(s.node, PDL_ID_LINEAR)
            ? !cut_tensor(lo, &s, f, t->size, cut)
            : !plan_rule_role(&s, t->axis, t->dim, cut))
        return false;
    if (cut->x[0] > 0 && plan_value_place(lo, s.node->in[0], f) == cut->x[0] &&
        plan_is(s.node, PDL_ID_LINEAR))
        cut->items = items_of(lo, s.node->in[0], cut->x[0]);
    extent = smallest_extent(lo, &s, cut);
    if (t->size <= extent || cut->groups > 0 || lo->opt->allow_empty)
        return true;
    if (reads_the_input(lo, node) ? t->axis == PDL_AXIS_CHANNEL
                                  : already_whole(lo, &s, f, t, cut))
        return false;
    whole = t->axis != PDL_AXIS_TENSOR || t->size % extent == 0;
    plan_fail(
        lo, "%s: %s=%lld cuts only %lld %s%s", s.node->name,
        pdl_axis_name(t->axis), (long long)t->size, (long long)extent,
        t->axis == PDL_AXIS_TENSOR && whole ? "heads" : index_name(t->axis),
        whole ? "" : " and is no multiple of them");
    return false;
}

static int64_t sample_parts(const struct plan_lower *lo, int tensor)
{
    int64_t parts = 1;

    for (int f = 0; f < lo->mesh->nfactors; f++)
        if (plan_value_place(lo, tensor, f) == 0)
            parts *= lo->mesh->factor[f];
    return parts;
}

/* A spatial shard ends at a flatten: hand each part whole samples, if there
 * are enough (plan rule: default tail). */
static bool cut_tail(const struct plan_lower *lo, const struct plan_site *s,
                     int f, struct plan_cut *cut)
{
    int in = s->node->in[0];

    if (!plan_is(s->node, PDL_ID_FLATTEN) ||
        sample_parts(lo, in) * lo->mesh->factor[f] > lo->samples)
        return false;
    return plan_rule_follow(s, 0, 0, cut);
}

static int64_t value_size(const struct plan_lower *lo, int tensor)
{
    return pdl_tensor_elements(&lo->model->tensors[tensor]);
}

/* Ranks of an axis among which dimension d of a value is dealt. */
static int64_t axis_parts(const struct plan_lower *lo, int tensor,
                          const struct pdl_mesh_term *t, int d)
{
    int64_t n = 1;

    for (int f = t->first; f < t->first + t->count; f++)
        if (plan_value_place(lo, tensor, f) == d)
            n *= lo->mesh->factor[f];
    return n;
}

/* The largest sharded operand leads; the others are brought to it. */
static bool cut_by_inputs(struct plan_lower *lo, int node, int f,
                          const struct pdl_mesh_term *t, struct plan_cut *cut)
{
    struct plan_site s;
    int64_t best = -1, now;
    int lead = -1, d;

    plan_site_init(lo->model, node, lo->mesh->factor[f], &s);
    for (int i = 0; i < s.node->nin; i++)
        if (plan_value_place(lo, s.node->in[i], f) >= 0 &&
            value_size(lo, s.node->in[i]) > best) {
            best = value_size(lo, s.node->in[i]);
            lead = i;
        }
    if (lead < 0)
        return false;
    d = plan_value_place(lo, s.node->in[lead], f);
    if (!plan_rule_follow(&s, lead, d, cut))
        return d >= 2 && cut_tail(lo, &s, f, cut);
    /* units that hold several of the operator's items will do */
    now = items_of(lo, s.node->in[lead], d);
    if (cut->items == 0 || (now > 0 && cut->items % now == 0))
        cut->items = now;
    if (cut->items == 0 && d == 1 && plan_is(s.node, PDL_ID_FLATTEN))
        cut->items = s.x->dim[0];
    /* too few for every part: the operator works on the whole instead */
    if (t &&
        axis_parts(lo, s.node->in[lead], t, d) > smallest_extent(lo, &s, cut) &&
        !lo->opt->allow_empty) {
        if (f == t->first)
            plan_fallback(lo, node, t->axis);
        return false;
    }
    return true;
}

/* Was the axis written for this very layer, not for the whole model? */
static bool named_here(const struct plan_lower *lo, int node,
                       const struct pdl_mesh_term *t)
{
    const struct pdl_clause *c = &lo->strategy->clause[lo->clause[node]];

    if (strcmp(c->layers, lo->model->nodes[node].name) != 0)
        return false;
    for (int i = 0; i < c->nterms; i++)
        if (c->term[i].axis == t->axis)
            return true;
    return false;
}

/* context=N(a2a): positions everywhere, heads in attention (Jacobs et al.
 * 2023); otherwise attention keeps the positions of its queries and gathers
 * keys and values. */
static bool cut_heads(const struct plan_lower *lo, int node,
                      const struct pdl_mesh_term *t, struct plan_cut *cut)
{
    struct plan_site s;

    plan_site_init(lo->model, node, 1, &s);
    return t && t->axis == PDL_AXIS_CONTEXT &&
           lo->strategy->context_kind == PDL_CONTEXT_A2A &&
           plan_is(s.node, PDL_ID_ATTENTION) &&
           plan_rule_follow(&s, 0, 2, cut) &&
           (cut->items >= t->size || lo->opt->allow_empty);
}

void plan_find_cut(struct plan_lower *lo, int node, int f)
{
    const struct pdl_mesh_term *t = plan_term_of(lo, node, f);
    const struct pdl_node *n = &lo->model->nodes[node];
    struct plan_at *at = &lo->at[node];
    struct plan_cut *cut = &at->cut[f];
    bool weighted = n->nweights > 0 && plan_rule_has_role(n);

    at->is_cut[f] = false;
    if (plan_shares_keys(lo, node, f, t))
        return;
    if (t && t->axis != PDL_AXIS_PIPE && weighted) {
        at->is_cut[f] = cut_by_role(lo, node, f, t, cut);
        if (at->is_cut[f] || lo->status != PDL_OK)
            return;
        if (named_here(lo, node, t))
            plan_fail(lo, "%s: has no index that %s could cut", n->name,
                      pdl_axis_name(t->axis));
        if (f == t->first)
            plan_fallback(lo, node, t->axis);
    }
    if (lo->strategy->exchange_paper && plan_is_feature_axis(t))
        return;
    at->is_cut[f] =
        cut_heads(lo, node, t, cut) || plan_cut_queries(lo, node, f, t, cut);
    if (at->is_cut[f] || lo->status != PDL_OK)
        return;
    at->is_cut[f] = cut_by_inputs(lo, node, f, t, cut);
}
