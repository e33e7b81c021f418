/* SPDX-License-Identifier: Apache-2.0
 *
 * One redistribution as a plan of its own: what a search asks that wants to
 * know what it costs when two neighbouring layers lie differently. The
 * operations are those of move.c, so they are the ones that a lowering of both
 * layers would have between them. */
#include "plan_priv.h"

#include <string.h>

/* A model without layers: reserve() and prices look at its counts. */
static const struct pdl_model no_model = {.name = "", .kind = "other"};

enum pdl_status pdl_plan_move(pdl_arena *a, const struct pdl_strategy *strategy,
                              const struct pdl_mesh *mesh,
                              const struct pdl_plan_tensor *from,
                              const struct pdl_place *to, const int64_t *unit,
                              const struct pdl_plan **out, struct pdl_err *err)
{
    struct plan_lower lo = {.arena = a,
                            .round_now = -1,
                            .model = &no_model,
                            .strategy = strategy,
                            .mesh = mesh,
                            .err = err};
    struct pdl_plan_stage *stage = PDL_NEW(a, struct pdl_plan_stage, 1);
    struct pdl_plan *plan = PDL_NEW(a, struct pdl_plan, 1);
    struct plan_layout l = {.place = *to};

    if (!stage || !plan)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    memcpy(l.unit, unit, sizeof l.unit);
    plan_begin_item(&lo, 0, 1);
    plan_move_to(&lo, plan_add_tensor(&lo, from), &l);
    plan_end_item(&lo);
    if (lo.status != PDL_OK)
        return lo.status;
    stage->nforward = 1;
    *plan = lo.plan;
    plan->model = plan->given = lo.model;
    plan->strategy = strategy;
    plan->mesh = mesh;
    plan->micro_batches = 1;
    plan->nstages = 1;
    plan->lanes = 1;
    plan->tensors = lo.tensors;
    plan->ops = lo.ops;
    plan->items = lo.items;
    plan->stages = stage;
    *out = plan;
    return PDL_OK;
}
