/* SPDX-License-Identifier: Apache-2.0
 *
 * Energy and cost of a step. A PE draws its peak power while it computes and
 * its idle power while it waits; where no idle power is described the peak is
 * taken throughout, so that the figure is an upper bound and never a guess.
 * Hosts and switches count as long as the step lasts. Cost is the price of the
 * PEs' time: none is built in, prices change and are yours to give. */
#include "oracle/oracle_priv.h"

#include <math.h>

void pdl_project_bill(const struct pdl_projection *x,
                      const struct pdl_system *sys, struct pdl_bill *out)
{
    double busy = fmin(x->compute_s, x->step_s), wait = x->step_s - busy;
    const struct pdl_pe *pe = &sys->pe;
    double idle = pe->idle_w > 0 ? pe->idle_w : pe->peak_w;
    double nodes = ceil((double)x->pes / (double)sys->node.pes);
    double host_w = sys->node.peak_w;

    for (int64_t i = 0; i < sys->network.ntiers; i++)
        host_w += sys->network.tiers[i].switch_w;
    *out = (struct pdl_bill){
        .energy_j = pe->peak_w > 0
                        ? (double)x->pes * (pe->peak_w * busy + idle * wait) +
                              nodes * host_w * x->step_s
                        : 0,
        .upper_bound = pe->idle_w <= 0,
        .cost = (double)x->pes * pe->price_per_hour * x->step_s / 3600,
    };
}
