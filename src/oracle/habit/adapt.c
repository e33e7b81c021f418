/* SPDX-License-Identifier: Apache-2.0
 *
 * What a framework makes of a strategy. */
#include "oracle/oracle_priv.h"

#include <fnmatch.h>
#include <string.h>

static bool has_node(const struct pdl_model *m, const char *glob)
{
    for (int i = 0; i < m->nnodes; i++)
        if (pdl_op_id(m->nodes[i].op) == PDL_ID_CONV &&
            fnmatch(glob, m->nodes[i].name, 0) == 0)
            return true;
    return false;
}

/* A framework that splits convolutions only: the feature axes of a plain
 * strategy become a clause of the layers that are convolutions. */
static void split_convolutions(const struct pdl_model *m,
                               struct pdl_strategy *s)
{
    static const char *const globs[] = {"*conv*", "*downsample.0"};
    struct pdl_clause all = s->clause[0], own = {.nterms = 0};

    s->exchange_paper = true;
    s->bn = PDL_BN_LOCAL;
    if (s->nclauses != 1)
        return;
    s->clause[0].nterms = 0;
    for (int t = 0; t < all.nterms; t++)
        if (all.term[t].axis == PDL_AXIS_FILTER ||
            all.term[t].axis == PDL_AXIS_CHANNEL)
            own.term[own.nterms++] = all.term[t];
        else
            s->clause[0].term[s->clause[0].nterms++] = all.term[t];
    for (int i = 0; own.nterms > 0 && i < 2; i++)
        if (has_node(m, globs[i])) {
            own.layers = globs[i];
            s->clause[s->nclauses++] = own;
        }
    if (s->nclauses == 1)
        s->clause[0] = all;
    else if (s->clause[0].nterms == 0) { /* nothing is left for the rest */
        s->nclauses--;
        memmove(&s->clause[0], &s->clause[1],
                (size_t)s->nclauses * sizeof s->clause[0]);
    }
}

void pdl_framework_adapt(const struct pdl_framework *f,
                         const struct pdl_model *model, struct pdl_strategy *s)
{
    if (f && f->convolutions_only)
        split_convolutions(model, s);
}
