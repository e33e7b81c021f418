/* SPDX-License-Identifier: Apache-2.0
 *
 * How often to write a checkpoint: J. Daly, "A higher order estimate of the
 * optimum checkpoint interval for restart dumps", Future Generation Computer
 * Systems 22, 2006, equation 37; capped as CheckFreq does (J. Mohan et al.,
 * FAST 2021). The runtime's saver and the oracle's goodput both ask here. */
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
