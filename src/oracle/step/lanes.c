/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory lane by lane: the walk over lifetimes that prices the fullest PE of
 * all, kept apart for each lane of the pipeline. First stages hold the most
 * activations, last ones the logits: which of them is full decides what
 * helps. */
#include "oracle/oracle_priv.h"

static bool fill(struct oracle *o, struct pdl_projection *lane)
{
    if (!oracle_prepare(o) || !oracle_find_order(o) || !oracle_find_again(o))
        return false;
    for (int l = 0; l < o->p->lanes; l++) {
        struct pdl_projection x = {.reason = ""};

        if (!oracle_memory_lane(o, l, &x))
            return false;
        lane[l] = x;
    }
    return true;
}

enum pdl_status pdl_lane_memory(pdl_arena *a, const struct pdl_plan *plan,
                                const struct pdl_system *sys,
                                const struct pdl_oracle_options *opt,
                                struct pdl_lane_memory *out,
                                struct pdl_err *err)
{
    struct oracle o = {.p = plan, .sys = sys, .opt = opt, .err = err};
    struct pdl_projection *lane =
        PDL_NEW(a, struct pdl_projection, plan->lanes + 1);
    struct oracle_changed changed;
    bool filled;

    if (plan->nstages > ORACLE_MAX_STAGES)
        return pdl_fail(err, PDL_EINVAL, "more than %d stages",
                        ORACLE_MAX_STAGES);
    oracle_settle(&o, &changed);
    o.arena = lane ? pdl_arena_create(PDL_ARENA_DEFAULT) : NULL;
    filled = o.arena && fill(&o, lane);
    pdl_arena_destroy(o.arena);
    if (!filled)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    *out = (struct pdl_lane_memory){plan->lanes, lane};
    return PDL_OK;
}
