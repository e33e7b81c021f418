/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples of the next step go to the device while it computes this one, in the
 * stream of copies: from where their reader put them, if copies may begin
 * there, else from a room that they are put into. A step that finds its samples
 * there waits for no reader and no bus. There are two places, used in turn: a
 * step that is run again (hunt.c) finds its own samples still there. */
#include "train/train_priv.h"

struct staged {
    struct train_room room;
    void *at[2];      /* on the device */
    uint64_t sent[2]; /* when it is there */
    uint64_t used[2]; /* when nobody reads it any more */
};

struct train_staged {
    struct staged *each; /* by tensor and micro-batch */
    int now;             /* place of this step's samples */
    bool here, next;     /* this step's, the next one's are staged */
    const void *whose;   /* the next one's: of which feed */
    uint64_t last;       /* the latest copy of samples; 0: waited for */
    enum pdl_status st;  /* of the next one's: told when they are wanted */
    struct pdl_err err;
};

static struct train_staged *open(pdl_trainer *t)
{
    int64_t n = t->plan->ntensors * t->micros;
    struct train_staged *s = PDL_NEW(t->arena, struct train_staged, 1);

    if (s)
        s->each = PDL_NEW(t->arena, struct staged, n + 1);
    if (!s || !s->each)
        return NULL;
    for (int64_t i = 0; i < n; i++) {
        s->each[i].room.next = t->rooms;
        t->rooms = &s->each[i].room;
    }
    return s;
}

static bool is_staged(const pdl_trainer *t, int tensor)
{
    return t->loads[tensor] && !pdl_box_empty(&t->arrays[tensor].box) &&
           !train_is_constant(t->plan, tensor);
}

/* Where the samples are to be copied from: where their reader put them, or a
 * room that they are put into. */
static enum pdl_status find(pdl_trainer *t, int tensor, int micro,
                            const struct pdl_train_feed *feed,
                            const void **from, struct pdl_err *err)
{
    const struct pdl_plan_tensor *x = &t->plan->tensors[tensor];
    struct train_room *room = &t->staged->each[tensor * t->micros + micro].room;
    struct pdl_train_part part = train_part_of(t, tensor, micro);
    int64_t first = micro * (t->plan->batch / t->micros);
    int of = x->kind == PDL_PLAN_LABEL ? -1 : x->model_tensor;
    enum pdl_status st;

    *from = feed->at ? feed->at(feed->ctx, first, of, &part) : NULL;
    if (*from)
        return PDL_OK;
    st = train_room_wait(t, room, train_array_bytes(&t->arrays[tensor]), err);
    *from = part.data = room->at;
    return st == PDL_OK ? feed->fill(feed->ctx, first, of, &part, err) : st;
}

/* Memory that nothing else touches: not even to make it zeros, in another
 * stream. */
static enum pdl_status take(pdl_trainer *t, int64_t bytes, void **out,
                            struct pdl_err *err)
{
    enum pdl_status st = train_take(t, bytes, err);

    return st == PDL_OK ? t->device->alloc(t->backend_state, bytes, out, err)
                        : st;
}

static enum pdl_status stage_one(pdl_trainer *t, int tensor, int micro,
                                 const struct pdl_train_feed *feed,
                                 struct pdl_err *err)
{
    struct staged *s = &t->staged->each[tensor * t->micros + micro];
    int place = !t->staged->now;
    int64_t bytes = train_array_bytes(&t->arrays[tensor]);
    const void *from = NULL;
    enum pdl_status st = find(t, tensor, micro, feed, &from, err);

    if (st == PDL_OK && !s->at[place])
        st = take(t, bytes, &s->at[place], err);
    if (st != PDL_OK)
        return st;
    if (s->used[place] && t->fault != TRAIN_FAULT_NO_EVENT)
        t->device->wait(t->backend_state, TRAIN_COPIES, s->used[place]);
    st = t->device->copy(t->backend_state, TRAIN_COPIES, TRAIN_TO_DEVICE,
                         s->at[place], from, bytes, err);
    s->sent[place] = t->device->record(t->backend_state, TRAIN_COPIES);
    s->room.busy = from == s->room.at ? s->sent[place] : s->room.busy;
    t->staged->last = s->sent[place];
    return st;
}

/* A plan whose ranks read runs of positions, and one that has a limit of
 * memory, loads when it is time. */
static bool may_stage(const pdl_trainer *t, const struct pdl_train_feed *feed)
{
    if (!t->device || !feed->advance || t->opt.memory > 0)
        return false;
    for (int i = 0; i < t->plan->ntensors; i++)
        if (is_staged(t, i) && pdl_plan_dealt(t->plan, i))
            return false;
    return true;
}

/* The reader goes on: what was copied from its memory is on the device. */
static enum pdl_status let_go(pdl_trainer *t, struct pdl_err *err)
{
    uint64_t last = t->staged->last;

    t->staged->last = 0;
    return last && t->fault != TRAIN_FAULT_NO_EVENT
               ? t->device->finish(t->backend_state, last, err)
               : PDL_OK;
}

enum pdl_status train_stage(pdl_trainer *t, const struct pdl_train_feed *feed,
                            struct pdl_err *err)
{
    struct train_staged *s;
    enum pdl_status st;

    if ((t->staged && t->staged->next) || !may_stage(t, feed))
        return PDL_OK;
    if (!t->staged)
        t->staged = open(t);
    s = t->staged;
    if (!s)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for samples");
    st = let_go(t, err);
    if (st != PDL_OK || !feed->advance(feed->ctx))
        return st;
    s->st = PDL_OK;
    s->next = true;
    s->whose = feed->ctx;
    for (int i = 0; i < t->plan->ntensors; i++)
        for (int m = 0; is_staged(t, i) && m < t->micros; m++)
            if (s->st == PDL_OK)
                s->st = stage_one(t, i, m, feed, &s->err);
    return PDL_OK;
}

/* What is staged for training stays while something else is evaluated. */
void train_staged_turn(pdl_trainer *t, const struct pdl_train_feed *feed)
{
    struct train_staged *s = t->staged;

    if (!s)
        return;
    s->here = s->next && s->whose == feed->ctx;
    s->next = s->next && !s->here;
    if (s->here)
        s->now = !s->now;
}

void train_staged_forget(pdl_trainer *t, const void *whose)
{
    if (t->staged && t->staged->whose == whose)
        t->staged->here = t->staged->next = false;
}

enum pdl_status train_staged_take(pdl_trainer *t, int tensor, int64_t micro,
                                  void *to, bool *taken, struct pdl_err *err)
{
    struct train_staged *s = t->staged;
    struct staged *x;

    *taken = s && s->here && is_staged(t, tensor);
    if (!*taken)
        return PDL_OK;
    if (s->st != PDL_OK) {
        *err = s->err;
        return s->st;
    }
    x = &s->each[tensor * t->micros + micro];
    if (t->fault != TRAIN_FAULT_NO_EVENT)
        t->device->wait(t->backend_state, TRAIN_COMPUTE, x->sent[s->now]);
    train_move(t, to, x->at[s->now], train_array_bytes(&t->arrays[tensor]));
    x->used[s->now] = t->device->record(t->backend_state, TRAIN_COMPUTE);
    return PDL_OK;
}

void train_staged_close(pdl_trainer *t)
{
    int64_t n = t->staged ? t->plan->ntensors * t->micros : 0;

    for (int64_t i = 0; i < 2 * n; i++)
        train_give_memory(t, t->staged->each[i / 2].at[i % 2]);
}
