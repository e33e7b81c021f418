/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensor axes wider than the groups of heads that share keys (grouped and
 * multi-query attention: Ainslie et al. 2023, Shazeer 2019). The mesh ends a
 * factor at the groups (mesh.c). Far factors cut the groups; close ones deal
 * the queries of one group among ranks that have the same keys, which each of
 * them projects. The gradients of those keys are partial sums over the close
 * factors and stay so up to the projection: all of it is linear in them. */
#include "plan_priv.h"

/* Is an axis a multiple of the groups of heads that share keys? */
static bool is_wide(const struct pdl_mesh_term *t, int64_t groups)
{
    return t && t->axis == PDL_AXIS_TENSOR && groups > 0 && t->size > groups &&
           t->size % groups == 0;
}

/* Then its far factors cut the groups, and a close one deals the queries of
 * each among ranks that have the same keys. */
static bool is_within_group(const struct plan_lower *lo, int f,
                            const struct pdl_mesh_term *t, int64_t groups)
{
    int64_t n = 1;

    for (int k = t->first; k < f; k++)
        n *= lo->mesh->factor[k];
    return is_wide(t, groups) && n >= groups;
}

/* Are these keys or values that the ranks of factor f share? They are then
 * projected by each of them, and what they say of the gradient is added. */
static bool makes_shared_keys(const struct plan_lower *lo,
                              const struct plan_site *s, int f,
                              const struct pdl_mesh_term *t)
{
    int64_t items;
    bool keys;

    if (!t || t->axis != PDL_AXIS_TENSOR || !plan_is(s->node, PDL_ID_LINEAR) ||
        plan_value_place(lo, s->node->in[0], f) == s->x->rank)
        return false;
    items = plan_keeps_features(lo, s->node->out[0], t->size, &keys);
    return keys && is_within_group(lo, f, t, items);
}

/* Does the node make keys that the ranks of factor f share, or does it hand
 * them on (a norm, a rotation)? Noted, for its gradient. */
bool plan_shares_keys(struct plan_lower *lo, int node, int f,
                      const struct pdl_mesh_term *t)
{
    struct plan_site s;
    bool shares;

    plan_site_init(lo->model, node, 1, &s);
    if (s.node->nin != 1)
        return false;
    shares = makes_shared_keys(lo, &s, f, t) ||
             (plan_has(lo->values[s.node->in[0]].shared, f) &&
              !plan_rule_has_role(s.node) &&
              plan_value_place(lo, s.node->in[0], f) == PDL_REPLICATED);
    if (shares)
        lo->at[node].sums |= UINT32_C(1) << f;
    return shares;
}

static bool has_context(const struct plan_lower *lo, int node)
{
    for (int f = 0; f < lo->mesh->nfactors; f++) {
        const struct pdl_mesh_term *t = plan_term_of(lo, node, f);

        if (t && t->axis == PDL_AXIS_CONTEXT)
            return true;
    }
    return false;
}

/* A tensor axis wider than the groups of heads: far factors cut queries and
 * keys, close ones the queries only. */
bool plan_cut_queries(struct plan_lower *lo, int node, int f,
                      const struct pdl_mesh_term *t, struct plan_cut *cut)
{
    int64_t groups = plan_key_groups(&lo->model->nodes[node]);
    struct plan_site s;

    plan_site_init(lo->model, node, 1, &s);
    if (!is_wide(t, groups) || plan_value_place(lo, s.node->in[0], f) != 2)
        return false;
    if (lo->strategy->context_kind == PDL_CONTEXT_A2A && has_context(lo, node))
        plan_fail(lo,
                  "%s: context=N(a2a) cuts only groups of heads, of which "
                  "tensor=%lld leaves none",
                  s.node->name, (long long)t->size);
    if (is_within_group(lo, f, t, groups))
        return plan_rule_queries(&s, cut);
    if (!plan_rule_follow(&s, 0, 2, cut))
        return false;
    cut->items = s.node->attr.heads;
    cut->groups = groups;
    return true;
}
