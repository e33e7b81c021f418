/* SPDX-License-Identifier: Apache-2.0
 *
 * Long runs on machines that fail: how often to save, and how long a run then
 * takes (J. T. Daly, "A higher order estimate of the optimum checkpoint
 * interval for restart dumps", FGCS 22, 2006). Failures come at random, at
 * a constant rate; saving and restarting can fail too. */
#include "paradl/base.h"

#include <math.h>

double pdl_ckpt_interval_s(double cost_s, double mtbf_s, double max_overhead)
{
    double least, daly;

    if (!(cost_s > 0))
        cost_s = 1e-9;
    least = max_overhead > 0 ? cost_s / max_overhead : 0;
    if (!(mtbf_s > 0)) /* never fails: as seldom as nobody minds */
        return least > 0 ? least : (double)INFINITY;
    if (cost_s < 2 * mtbf_s) {
        double x = cost_s / (2 * mtbf_s);

        daly = sqrt(2 * cost_s * mtbf_s) * (1 + sqrt(x) / 3 + x / 9) - cost_s;
    } else {
        daly = mtbf_s;
    }
    return daly > least ? daly : least;
}

/* Daly's equation 20: every interval with its checkpoint is tried until it
 * goes through, after a restart each time it does not. */
double pdl_run_s(double work_s, double interval_s, double cost_s,
                 double restart_s, double mtbf_s)
{
    if (!(work_s > 0))
        return 0;
    if (!(mtbf_s > 0))
        return work_s * (1 + (isfinite(interval_s) ? cost_s / interval_s : 0));
    return mtbf_s * exp(restart_s / mtbf_s) *
           expm1((interval_s + cost_s) / mtbf_s) * work_s / interval_s;
}

/* Nodes come back one by one, each after repair_s in the mean, and none fails
 * while the job stands still: Erlang's loss formula, where a server is a node
 * that may be away, and what is lost is time (A. K. Erlang, 1917). */
double pdl_waiting_part(int64_t spares, double repair_s, double mtbf_s)
{
    double load = mtbf_s > 0 ? repair_s / mtbf_s : 0, part = 1;

    for (int64_t i = 1; i <= spares + 1 && part > 1e-12; i++)
        part = load * part / ((double)i + load * part);
    return part;
}
