/* SPDX-License-Identifier: Apache-2.0
 *
 * PEs of unequal speed: a stage is as fast as the slowest of its PEs. */
#include "plan_priv.h"

static double speed_of(const struct pdl_plan_options *o, int64_t rank)
{
    for (int i = 0; i < o->nspeeds; i++) {
        if (rank < o->speeds[i].pes)
            return o->speeds[i].speed;
        rank -= o->speeds[i].pes;
    }
    return o->speeds[o->nspeeds - 1].speed;
}

const double *plan_speeds(struct plan_lower *lo)
{
    int lanes = lo->plan.lanes, n = lo->plan.nstages;
    double *stage, *lane, most = 0;

    if (!lo->opt->speeds || lo->opt->nspeeds < 1 || n < 2)
        return NULL;
    stage = PDL_NEW(lo->arena, double, n);
    lane = PDL_NEW(lo->arena, double, lanes);
    if (!stage || !lane) {
        plan_fail(lo, "out of memory");
        return NULL;
    }
    for (int64_t r = 0; r < lo->mesh->pes; r++) {
        double s = speed_of(lo->opt, r);
        int l = plan_lane_of(lo->mesh, lo->plan.pipe_factors, r);

        lane[l] = !(lane[l] > 0) || s < lane[l] ? s : lane[l];
    }
    for (int l = 0; l < lanes; l++)
        most = lane[l] > most ? lane[l] : most;
    for (int s = 0; s < n; s++)
        stage[s] =
            lane[pdl_schedule_lane(lo->strategy->schedule, lanes, s)] / most;
    return stage;
}
