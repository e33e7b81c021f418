/* SPDX-License-Identifier: Apache-2.0
 *
 * From the time of a step to the time of a training: what batches that grow,
 * slow PEs, checkpoints and failures add.
 *
 *   ramp        steps of smaller batches, each priced as a plan of its own
 *   stragglers  every step waits for the slowest of n PEs whose times vary
 *               with a given relative standard deviation: the expected largest
 *               of n normal values (Blom 1958)
 *   failures    J. Daly (FGCS 22, 2006), the complete model: work T in pieces
 *               of tau, each followed by a checkpoint that takes d; failures
 *               come every M on average and cost R, also while writing and
 *               restarting: M e^(R/M) (e^((tau + d)/M) - 1) T / tau
 *
 * Failures are independent and equally likely at any time; the job's M is that
 * of a node over the number of nodes. */
#include "oracle_priv.h"

#include <math.h>

/* The value that a normal variable stays below with probability p. */
static double normal_quantile(double p)
{
    double low = -40, high = 40;

    for (int i = 0; i < 200; i++) {
        double mid = (low + high) / 2;

        if (erfc(-mid / sqrt(2)) / 2 < p)
            low = mid;
        else
            high = mid;
    }
    return low;
}

double pdl_straggler_factor(double jitter, int64_t pes)
{
    double n = (double)pes;

    if (!(jitter > 0) || pes < 2)
        return 1;
    return 1 + jitter * normal_quantile((n - .375) / (n + .25));
}

/* Bytes of one checkpoint: weights and what the optimizer keeps, once. */
static double state_bytes(const struct pdl_plan *p,
                          const struct pdl_oracle_options *opt)
{
    struct pdl_model_totals t;
    int item = 4;

    if (pdl_model_totals(p->model, &t, NULL) != PDL_OK)
        return 0;
    for (int i = 0; i < p->ntensors; i++)
        if (p->tensors[i].kind == PDL_PLAN_WEIGHT)
            item = pdl_dtype_bits(p->tensors[i].dtype) / 8;
    return (double)t.parameters *
           (item + 4 * opt->optimizer_slots + (item < 4 ? 4 : 0));
}

double pdl_checkpoint_seconds(const struct pdl_plan *p,
                              const struct pdl_system *sys,
                              const struct pdl_oracle_options *opt)
{
    double nodes = ceil((double)p->mesh->pes / (double)sys->node.pes);
    double rate = sys->storage.bytes_per_s;

    if (sys->storage.node_bytes_per_s > 0 &&
        (!(rate > 0) || nodes * sys->storage.node_bytes_per_s < rate))
        rate = nodes * sys->storage.node_bytes_per_s;
    return rate > 0 ? state_bytes(p, opt) / rate : 0;
}

static double with_failures(double work, double every, double cost,
                            double restart, double mtbf)
{
    if (!(mtbf > 0))
        return work * (1 + (isfinite(every) && every > 0 ? cost / every : 0));
    return mtbf * exp(restart / mtbf) * expm1((every + cost) / mtbf) * work /
           every;
}

/* Samples of smaller batches take their own steps; the rest is as projected. */
static double with_ramp(const struct pdl_goodput_options *o, double full_s,
                        double samples)
{
    double seconds = 0;

    for (int i = 0; i < o->nramp && samples > 0; i++) {
        double n = fmin(samples, o->ramp[i].samples);

        seconds += n / (double)o->ramp[i].batch * o->ramp[i].step_s;
        samples -= n;
    }
    return seconds + fmax(samples, 0) * full_s;
}

void pdl_goodput(const struct pdl_projection *x,
                 const struct pdl_goodput_options *o, struct pdl_goodput *out)
{
    double each = x->step_s / (double)x->batch, mtbf, work, ramped;
    double factor = pdl_straggler_factor(o->jitter, x->pes);

    *out = (struct pdl_goodput){.ideal_s = o->samples * each,
                                .checkpoint_s = o->checkpoint_s};
    mtbf = o->mtbf_s > 0 && o->nodes > 0 ? o->mtbf_s / (double)o->nodes : 0;
    ramped = with_ramp(o, each, o->samples);
    work = ramped * factor;
    out->ramp_s = ramped - out->ideal_s;
    out->stragglers_s = work - ramped;
    out->interval_s = o->every_s > 0
                          ? o->every_s
                          : pdl_ckpt_interval_s(o->checkpoint_s, mtbf, 0);
    if (out->interval_s > work) /* one at the end */
        out->interval_s = work;
    out->checkpoints_s =
        o->checkpoint_s > 0 ? work * o->checkpoint_s / out->interval_s : 0;
    out->train_s = with_failures(work, out->interval_s, o->checkpoint_s,
                                 o->restart_s, mtbf);
    if (!(mtbf > 0))
        out->train_s = work + out->checkpoints_s;
    out->lost_s = out->train_s - work - out->checkpoints_s;
    out->failures = mtbf > 0 ? out->train_s / mtbf : 0;
    out->goodput = out->train_s > 0 ? out->ideal_s / out->train_s : 0;
}
