/* SPDX-License-Identifier: Apache-2.0
 *
 * Inputs and labels of a micro-batch: what was staged is there, the rest comes
 * from the feed, to where tensors are. */
#include "train/train_priv.h"

#include <stdlib.h>
#include <string.h>

/* A part whose positions are several runs is read run by run. */
static enum pdl_status load_runs(pdl_trainer *t, int tensor,
                                 const struct pdl_train_part *whole,
                                 const struct train_loading *l,
                                 struct pdl_err *err)
{
    const struct pdl_plan_tensor *x = &t->plan->tensors[tensor];
    int64_t lo = whole->box.lo[1], hi = whole->box.hi[1], n;
    struct train_array run = t->arrays[tensor];
    char *room = malloc((size_t)train_array_bytes(&run) + 1);
    enum pdl_status st = PDL_OK;

    for (int64_t at = lo; at < hi && room && st == PDL_OK; at += n) {
        struct pdl_train_part part = *whole;
        int64_t from = pdl_deal_position(&t->plan->deal, at);

        n = pdl_deal_run(&t->plan->deal, at, hi);
        if (t->fault == TRAIN_FAULT_DEAL) /* the runs in the other order */
            from = pdl_deal_position(&t->plan->deal, lo + hi - at - n);
        part.data = room;
        part.box.lo[1] = from;
        part.box.hi[1] = from + n;
        run.box.lo[1] = at;
        run.box.hi[1] = at + n;
        st = l->feed->fill(l->feed->ctx, l->first,
                           x->kind == PDL_PLAN_LABEL ? -1 : x->model_tensor,
                           &part, err);
        if (st == PDL_OK)
            train_copy(&t->arrays[tensor], whole->data, &run, room, &run.box);
    }
    free(room);
    return room ? st : pdl_fail(err, PDL_ENOMEM, "out of memory for samples");
}

static enum pdl_status load_tensor(pdl_trainer *t, int tensor,
                                   const struct train_loading *l,
                                   struct pdl_err *err)
{
    int micro = l->micro;
    const struct pdl_plan_tensor *x = &t->plan->tensors[tensor];
    int64_t bytes = train_array_bytes(&t->arrays[tensor]);
    struct train_room *room =
        t->device ? &t->fed[tensor * t->micros + micro] : NULL;
    struct pdl_train_part part = train_part_of(t, tensor, micro);
    bool dealt = pdl_plan_dealt(t->plan, tensor);
    void *at = part.data;
    bool taken = false;
    enum pdl_status st = PDL_OK;

    st = train_staged_take(t, tensor, l->staged, part.data, &taken, err);
    if (taken || st != PDL_OK)
        return st;
    if (room) {
        st = train_room_wait(t, room, bytes, err);
        part.data = room->at;
    }
    if (st != PDL_OK)
        return st;
    if (train_is_constant(t->plan, tensor)) /* token type 0, say */
        memset(part.data, 0, (size_t)bytes);
    else if (dealt)
        st = load_runs(t, tensor, &part, l, err);
    else
        st = l->feed->fill(l->feed->ctx, l->first,
                           x->kind == PDL_PLAN_LABEL ? -1 : x->model_tensor,
                           &part, err);
    if (st == PDL_OK && room)
        train_room_send(t, room, at, bytes);
    return st;
}

enum pdl_status train_load(pdl_trainer *t, const struct train_loading *l,
                           struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    for (int i = 0; i < t->plan->ntensors && st == PDL_OK; i++)
        if (t->loads[i] && !pdl_box_empty(&t->arrays[i].box))
            st = load_tensor(t, i, l, err);
    return st;
}
