/* SPDX-License-Identifier: Apache-2.0
 *
 * From the time of a step to the time of a training run: slow nodes hold up
 * every step, PEs fail (each at its own rate, so a job of twice as many fails
 * twice as often), work since the last checkpoint is lost, saving costs time.
 * Saved at Daly's interval; expected times (base: pdl_run_s). */
#include "oracle/oracle_priv.h"

#include <math.h>

void pdl_goodput(const struct pdl_long_run *q, struct pdl_goodput *out)
{
    double straggler = q->straggler > 1 ? q->straggler : 1;
    double work = q->steps_s * straggler;
    struct pdl_goodput x = {.work_s = q->steps_s};

    x.straggler_s = work - q->steps_s;
    x.mtbf_s = q->pes > 0 ? q->mtbf_pe_s / (double)q->pes : 0;
    x.train_s = work;
    if (x.mtbf_s > 0) {
        x.interval_s = pdl_ckpt_interval_s(q->checkpoint_s, x.mtbf_s, 0);
        x.interval_s = fmin(x.interval_s, work);
        x.train_s = pdl_run_s(work, x.interval_s, q->checkpoint_s, q->restart_s,
                              x.mtbf_s);
        x.saving_s = work / x.interval_s * q->checkpoint_s;
        x.failures = x.train_s / x.mtbf_s;
        x.restart_s = x.failures * q->restart_s;
        x.lost_s = fmax(0, x.train_s - work - x.saving_s - x.restart_s);
    }
    x.goodput = x.train_s > 0 ? q->steps_s / x.train_s : 0;
    *out = x;
}
