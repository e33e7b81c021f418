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

/* What an operation says of its items, on the host: losses, then guesses. */
struct train_taken {
    bool there;
    char *at[2];
};

static void add_items(pdl_trainer *t, int op, int micro, int k,
                      const void *data)
{
    const struct pdl_plan_op *o = &t->plan->ops[op];
    const struct pdl_plan_tensor *label = &t->plan->tensors[o->in[1]];
    const struct train_array *a = &t->arrays[t->ops[op].out[o->nout + k]];
    int64_t samples = t->plan->batch / t->micros, per = 1;
    int64_t n = a->box.hi[0] - a->box.lo[0], here;

    for (int d = 1; d < label->ndims; d++)
        per *= label->dim[d];
    per = t->opt.labels > 0 ? t->opt.labels : per;
    here = train_array_elements(a) / n;
    for (int64_t i = 0; i < n; i++) {
        double *to = &t->losses[2 * (micro * samples + a->box.lo[0] + i) + k];

        /* samples are outermost in any layout */
        for (int64_t j = 0; j < here; j++) {
            int64_t at = i * here + j;
            double v = a->dtype == PDL_F64 ? ((const double *)data)[at]
                                           : ((const float *)data)[at];

            *to += k == 0 ? v / (double)per : v;
        }
    }
}

static enum pdl_status open_taken(pdl_trainer *t, int op, struct pdl_err *err)
{
    struct train_op *x = &t->ops[op];
    int64_t n = t->micros;
    struct train_taken *taken = PDL_NEW(t->arena, struct train_taken, n + 1);

    struct train_room *rooms = PDL_NEW(t->arena, struct train_room, 2 * n + 1);

    /* memory that copies reach without the host's waiting for them */
    for (int64_t i = 0; taken && rooms && i < 2 * n; i++) {
        const struct train_array *a =
            &t->arrays[x->out[t->plan->ops[op].nout + i % 2]];

        rooms[i].next = t->rooms;
        t->rooms = &rooms[i];
        if (!train_grow(t, &rooms[i], train_array_bytes(a) + 8))
            rooms = NULL;
        else
            taken[i / 2].at[i % 2] = rooms[i].at;
    }
    taken = rooms ? taken : NULL;
    x->taken = taken;
    return taken ? PDL_OK
                 : pdl_fail(err, PDL_ENOMEM, "out of memory for losses");
}

/* slot: the micro-batch whose memory holds the losses. */
enum pdl_status train_losses_take(pdl_trainer *t, int op, int micro, int slot,
                                  struct pdl_err *err)
{
    struct train_op *x = &t->ops[op];
    enum pdl_status st = PDL_OK;

    if (!x->counts)
        return PDL_OK;
    if (t->device && !x->taken)
        st = open_taken(t, op, err);
    for (int k = 0; k < 2 && st == PDL_OK; k++) {
        int shadow = x->out[t->plan->ops[op].nout + k];
        void *data = train_data(t, shadow, slot);

        if (!t->device)
            add_items(t, op, micro, k, data);
        else if (x->taken)
            train_get_later(t, x->taken[micro].at[k], data,
                            train_array_bytes(&t->arrays[shadow]));
    }
    if (st == PDL_OK && t->device && x->taken) {
        x->taken[micro].there = true;
        t->losses_there = t->device->record(t->backend_state, TRAIN_COMPUTE);
    }
    return st;
}

/* What the device said is on the host. */
static void add_taken(pdl_trainer *t)
{
    for (int op = 0; op < t->plan->nops; op++)
        for (int m = 0; t->ops[op].taken && m < t->micros; m++) {
            struct train_taken *x = &t->ops[op].taken[m];

            for (int k = 0; k < 2 && x->there; k++)
                add_items(t, op, m, k, x->at[k]);
            x->there = false;
        }
}

/* As many samples as a task's arguments have room for. */
enum { WEIGHED = 120 };
struct weigh_args {
    enum pdl_dtype dtype;
    int64_t n, each; /* samples, elements of one */
    float weight[WEIGHED];
};
_Static_assert(sizeof(struct weigh_args) <= TRAIN_ARGS, "arguments of a task");

static void run_weigh(const void *args, void *const *at)
{
    const struct weigh_args *a = args;
    int64_t bytes = a->each * pdl_dtype_bits(a->dtype) / 8;

    for (int64_t i = 0; i < a->n; i++)
        train_scale(a->dtype, (char *)at[0] + i * bytes, a->each,
                    (double)a->weight[i]);
}

static const struct train_work weigh_work = {"weigh", run_weigh};

void train_losses_weigh(pdl_trainer *t, int op, int micro, int slot)
{
    int dy = t->ops[op].out[0];
    const struct train_array *a = &t->arrays[dy];
    int64_t n = a->box.hi[0] - a->box.lo[0];
    int64_t first = micro * (t->plan->batch / t->micros) + a->box.lo[0];
    int64_t bytes = n > 0 ? train_array_bytes(a) / n : 0;
    char *at = train_data(t, dy, slot);

    /* samples are outermost in any layout */
    for (int64_t i = 0; i < n; i += WEIGHED) {
        struct weigh_args w = {.dtype = a->dtype,
                               .n = n - i < WEIGHED ? n - i : WEIGHED,
                               .each = train_array_elements(a) / n};
        struct train_task task = {
            .work = &weigh_work,
            .args = &w,
            .args_bytes = sizeof w,
            .n = 1,
            .span = {{at + i * bytes, w.n * bytes, true, true}}};

        for (int64_t k = 0; k < w.n; k++)
            w.weight[k] = (float)t->weights[first + i + k];
        train_launch(t, &task);
    }
}

enum pdl_status train_losses_sum(pdl_trainer *t, int64_t samples,
                                 struct pdl_train_result *out,
                                 struct pdl_err *err)
{
    double right = 0, *votes = t->losses + 2 * t->plan->batch;
    enum pdl_status st = train_transfer_flush(t, err);

    /* backward goes on meanwhile, and updates queue up behind it */
    if (st == PDL_OK && t->device) {
        if (t->losses_there)
            st = t->device->finish(t->backend_state, t->losses_there, err);
        if (st == PDL_OK && t->device_st != PDL_OK)
            st = train_settled(t, err);
        t->losses_there = 0;
        add_taken(t);
    }
    votes[0] = t->vote_stop;
    votes[1] = t->vote_save;
    votes[2] = t->vote_failed;
    if (st == PDL_OK && pdl_comm_size(t->world) > 1)
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
