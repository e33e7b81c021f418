/* SPDX-License-Identifier: Apache-2.0
 *
 * The loss of a step. Each sample's loss is written by the one rank that
 * counts it; adding the tables of all ranks adds zeros, so every rank then
 * holds the same numbers that a serial run has, and sums them in the order of
 * the samples. The loss of a run is thus as exact as its logits. */
#include "train_priv.h"

#include <math.h>
#include <string.h>

/* Does this rank count its box of the loss? The lowest rank of those with the
 * same box does. */
static bool counts(const pdl_trainer *t, int op)
{
    int tensor = t->plan->ops[op].in[1];
    struct pdl_box mine, other;

    pdl_plan_box(t->plan, tensor, t->rank, &mine);
    for (int64_t r = 0; r < t->rank; r++) {
        bool same = train_stage_of(t->plan, r) == t->stage;

        pdl_plan_box(t->plan, tensor, r, &other);
        for (int d = 0; d < mine.ndims; d++)
            same =
                same && mine.lo[d] == other.lo[d] && mine.hi[d] == other.hi[d];
        if (same)
            return false;
    }
    return !pdl_box_empty(&mine);
}

enum pdl_status train_losses_open(pdl_trainer *t, struct pdl_err *err)
{
    t->losses = PDL_NEW(t->arena, double, 2 * t->plan->batch);
    if (!t->losses)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for losses");
    for (int i = 0; i < t->plan->nops; i++)
        if (t->ops[i].mine && t->plan->ops[i].kind == PDL_PLAN_OP_COMPUTE &&
            t->plan->ops[i].node < 0)
            t->ops[i].counts = counts(t, i);
    return PDL_OK;
}

void train_losses_clear(pdl_trainer *t)
{
    memset(t->losses, 0, 2 * (size_t)t->plan->batch * sizeof t->losses[0]);
}

/* slot: the micro-batch whose memory holds the losses. */
void train_losses_take(pdl_trainer *t, int op, int micro, int slot)
{
    const struct pdl_plan_op *o = &t->plan->ops[op];
    const struct train_op *x = &t->ops[op];
    const struct pdl_plan_tensor *label = &t->plan->tensors[o->in[1]];
    int64_t samples = t->plan->batch / t->micros, per = 1, here;

    if (!x->counts)
        return;
    for (int d = 1; d < label->ndims; d++)
        per *= label->dim[d];
    for (int k = 0; k < 2; k++) {
        int shadow = x->out[o->nout + k];
        const struct train_array *a = &t->arrays[shadow];
        struct pdl_train_part p = {.dtype = a->dtype, .box = a->box};
        int64_t n = a->box.hi[0] - a->box.lo[0];

        p.data = train_data(t, shadow, slot);
        here = train_array_elements(a) / n;
        for (int64_t i = 0; i < n; i++) {
            double *to =
                &t->losses[2 * (micro * samples + a->box.lo[0] + i) + k];

            /* samples are outermost in any layout */
            for (int64_t j = 0; j < here; j++) {
                int64_t at = i * here + j;
                double v = p.dtype == PDL_F64 ? ((double *)p.data)[at]
                                              : ((float *)p.data)[at];

                *to += k == 0 ? v / (double)per : v;
            }
        }
    }
}

enum pdl_status train_losses_sum(pdl_trainer *t, int64_t samples,
                                 struct pdl_train_result *out,
                                 struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;
    double right = 0;

    if (pdl_comm_size(t->world) > 1)
        st = pdl_comm_allreduce(t->world, t->losses, t->losses,
                                2 * t->plan->batch, PDL_COMM_F64, PDL_COMM_SUM,
                                err);
    if (st != PDL_OK)
        return st;
    *out = (struct pdl_train_result){.loss = 0};
    for (int64_t i = 0; i < samples; i++) {
        out->loss += t->losses[2 * i];
        right += t->losses[2 * i + 1];
    }
    out->loss_sum = out->loss;
    out->loss /= (double)samples;
    out->correct = (int64_t)right;
    out->counted = samples * t->positions;
    out->finite = isfinite(out->loss);
    return PDL_OK;
}
