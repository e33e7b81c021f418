/* SPDX-License-Identifier: Apache-2.0
 *
 * What a framework makes of a strategy. */
#include "oracle/habit/framework.h"

static bool has_convolutions(const struct pdl_model *m)
{
    for (int i = 0; i < m->nnodes; i++)
        if (pdl_op_id(m->nodes[i].op) == PDL_ID_CONV)
            return true;
    return false;
}

/* A framework that splits convolutions only: the feature axes of a plain
 * strategy become a clause of them. */
static void split_convolutions(const struct pdl_model *m,
                               struct pdl_strategy *s)
{
    struct pdl_clause all = s->clause[0], own = {.layers = "@conv"};

    s->exchange_paper = true;
    s->bn = PDL_BN_LOCAL;
    if (s->nclauses != 1 || !has_convolutions(m))
        return;
    s->clause[0].nterms = 0;
    for (int t = 0; t < all.nterms; t++)
        if (all.term[t].axis == PDL_AXIS_FILTER ||
            all.term[t].axis == PDL_AXIS_CHANNEL)
            own.term[own.nterms++] = all.term[t];
        else
            s->clause[0].term[s->clause[0].nterms++] = all.term[t];
    if (own.nterms == 0)
        s->clause[0] = all;
    else /* nothing may be left for the rest */
        s->clause[s->clause[0].nterms > 0 ? s->nclauses++ : 0] = own;
}

void pdl_framework_adapt(const struct pdl_framework *f,
                         const struct pdl_model *model, struct pdl_strategy *s)
{
    if (f && f->convolutions_only)
        split_convolutions(model, s);
}
