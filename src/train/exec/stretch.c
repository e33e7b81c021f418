/* SPDX-License-Identifier: Apache-2.0
 *
 * Stretches of the program that are the same in every step: nothing in them is
 * loaded, exchanged, copied elsewhere or read by the host. In the first step a
 * device is given their work piece by piece, in the second it keeps it
 * (train_device.hold), and from then on is told to do a stretch again: on a GPU
 * one launch instead of one for each kernel. What a device will not keep is
 * given piece by piece in every step. */
#include "train/train_priv.h"

enum { SHORT = 4 }; /* not worth it */

struct train_stretch {
    int from, to; /* actions [from,to) */
    void *held;
    bool refused;
};

static bool is_plain(const pdl_trainer *t, const struct train_action *s)
{
    const struct pdl_plan_op *o;

    if (s->kind == TRAIN_ACCUMULATE)
        return true;
    if (s->kind != TRAIN_OP || s->micro == TRAIN_UPDATE)
        return false;
    o = &t->plan->ops[s->op];
    return o->kind == PDL_PLAN_OP_FREE || o->kind == PDL_PLAN_OP_ADD ||
           (o->kind == PDL_PLAN_OP_COMPUTE && !t->ops[s->op].ring &&
            !train_ends_loss(o));
}

enum pdl_status train_find_stretches(pdl_trainer *t, struct pdl_err *err)
{
    int to;

    if (!t->device || !t->device->hold || t->far || t->opt.watch)
        return PDL_OK;
    t->stretches = PDL_NEW(t->arena, struct train_stretch, t->nsteps + 1);
    if (!t->stretches)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for the program");
    for (int from = 0; from < t->nsteps; from = to + 1) {
        for (to = from; to < t->nsteps && is_plain(t, &t->steps[to]);)
            to++;
        if (to - from >= SHORT)
            t->stretches[t->nstretches++] =
                (struct train_stretch){.from = from, .to = to};
    }
    return PDL_OK;
}

struct train_stretch *train_stretch_at(pdl_trainer *t, int step)
{
    for (int i = 0; t->passes > 0 && i < t->nstretches; i++)
        if (t->stretches[i].from == step && !t->stretches[i].refused)
            return &t->stretches[i];
    return NULL;
}

int train_stretch_end(const struct train_stretch *s)
{
    return s->to;
}

bool train_stretch_is_held(const struct train_stretch *s)
{
    return s->held != NULL;
}

static struct train_moment moment(const pdl_trainer *t)
{
    return (struct train_moment){.seed = t->opt.seed,
                                 .step = t->now,
                                 .first_sample = t->now * t->plan->batch};
}

bool train_stretch_hold(pdl_trainer *t, const struct train_stretch *s)
{
    struct train_moment when = moment(t);

    return !train_stretch_is_held(s) && t->device_st == PDL_OK &&
           t->device->hold(t->backend_state, &when, NULL) == PDL_OK;
}

/* An error on the way is none: nothing was done. */
void train_stretch_held(pdl_trainer *t, struct train_stretch *s, bool whole)
{
    enum pdl_status st = t->device->held(t->backend_state, &s->held, NULL);

    s->refused = st != PDL_OK || !whole || t->device_st != PDL_OK;
    t->device_st = PDL_OK;
}

/* False: nothing of it was done. */
bool train_stretch_again(pdl_trainer *t, struct train_stretch *s,
                         enum pdl_status *st, struct pdl_err *err)
{
    struct train_moment when = moment(t);

    if (s->refused || !s->held)
        return false;
    *st = t->device->repeat(t->backend_state, s->held, &when, err);
    return true;
}
