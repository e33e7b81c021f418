/* SPDX-License-Identifier: Apache-2.0
 *
 * The loss of a step. Each sample's loss is written by the one rank that
 * counts it; adding the tables of all ranks adds zeros, so every rank then
 * holds the same numbers that a serial run has, and sums them in the order of
 * the samples. The loss of a run is thus as exact as its logits. What ranks
 * must decide together (to stop, to save) travels with it. */
#include "train/train_priv.h"

#include <string.h>

enum { VOTES = 3 }; /* stop, save, failed */

void pdl_trainer_vote(pdl_trainer *t, bool stop, bool save, bool failed)
{
    t->vote_stop = stop;
    t->vote_save = save;
    t->vote_failed = failed;
}

enum pdl_status train_losses_open(pdl_trainer *t, struct pdl_err *err)
{
    t->losses = PDL_NEW(t->arena, double, 2 * t->plan->batch + VOTES);
    if (!t->losses)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for losses");
    for (int i = 0; i < t->plan->nops; i++)
        if (t->ops[i].mine && train_ends_loss(&t->plan->ops[i]))
            t->ops[i].counts = train_is_owner(t, t->plan->ops[i].in[1]);
    return PDL_OK;
}

void train_losses_clear(pdl_trainer *t)
{
    memset(t->losses, 0,
           (2 * (size_t)t->plan->batch + VOTES) * sizeof t->losses[0]);
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
    double right = 0, *votes = t->losses + 2 * t->plan->batch;
    enum pdl_status st = PDL_OK;

    votes[0] = t->vote_stop;
    votes[1] = t->vote_save;
    votes[2] = t->vote_failed;
    if (pdl_comm_size(t->world) > 1)
        st = pdl_comm_allreduce(t->world, t->losses, t->losses,
                                2 * t->plan->batch + VOTES, PDL_COMM_F64,
                                PDL_COMM_SUM, err);
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
    out->stop = (int64_t)votes[0];
    out->save = (int64_t)votes[1];
    out->failed = (int64_t)votes[2];
    return PDL_OK;
}
