/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples of the next step go to the device while it computes this one: from
 * the reader's memory to memory that copies take without a detour, and on, in
 * the stream of copies. A step that finds its samples there waits for no
 * reader and no bus. There are two places, used in turn: a step that is run
 * again (hunt.c) finds its own samples still there. */
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

/* Readers give numbers of four bytes. */
static bool is_wide(const pdl_trainer *t, int tensor)
{
    return t->arrays[tensor].dtype == PDL_BF16;
}

static int64_t staged_bytes(const pdl_trainer *t, int tensor)
{
    return is_wide(t, tensor) ? 4 * train_array_elements(&t->arrays[tensor])
                              : train_array_bytes(&t->arrays[tensor]);
}

static enum pdl_status fill(pdl_trainer *t, int tensor, int micro, void *to,
                            const struct pdl_train_feed *feed,
                            struct pdl_err *err)
{
    const struct pdl_plan_tensor *x = &t->plan->tensors[tensor];
    struct pdl_train_part part = train_part_of(t, tensor, micro);
    int64_t first = micro * (t->plan->batch / t->micros);

    part.data = to;
    if (is_wide(t, tensor))
        part.dtype = PDL_F32;
    return feed->fill(feed->ctx, first,
                      x->kind == PDL_PLAN_LABEL ? -1 : x->model_tensor, &part,
                      err);
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
    int64_t bytes = staged_bytes(t, tensor);
    enum pdl_status st = train_room_wait(t, &s->room, bytes, err);

    if (st == PDL_OK && !s->at[place])
        st = take(t, bytes, &s->at[place], err);
    if (st == PDL_OK)
        st = fill(t, tensor, micro, s->room.at, feed, err);
    if (st != PDL_OK)
        return st;
    if (s->used[place] && t->fault != TRAIN_FAULT_NO_EVENT)
        t->device->wait(t->backend_state, TRAIN_COPIES, s->used[place]);
    st = t->device->copy(t->backend_state, TRAIN_COPIES, TRAIN_TO_DEVICE,
                         s->at[place], s->room.at, bytes, err);
    s->sent[place] = t->device->record(t->backend_state, TRAIN_COPIES);
    s->room.busy = s->sent[place];
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

/* From now on samples come by another way. */
static enum pdl_status give_wide(pdl_trainer *t, struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    for (int i = 0; i < t->plan->ntensors && st == PDL_OK; i++) {
        if (!t->wide[i])
            continue;
        st = train_settled(t, err); /* nobody reads it any more */
        train_give_memory(t, t->wide[i]);
        t->wide[i] = NULL;
        t->sizes.taken -= 4 * train_array_elements(&t->arrays[i]);
    }
    return st;
}

enum pdl_status train_stage(pdl_trainer *t, const struct pdl_train_feed *feed,
                            struct pdl_err *err)
{
    struct train_staged *s;

    if ((t->staged && t->staged->next) || !may_stage(t, feed))
        return PDL_OK;
    if (!t->staged)
        t->staged = open(t);
    s = t->staged;
    if (!s)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for samples");
    if (!feed->advance(feed->ctx))
        return PDL_OK;
    s->st = give_wide(t, &s->err);
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
    if (is_wide(t, tensor))
        train_narrow(t, x->at[s->now], to,
                     train_array_elements(&t->arrays[tensor]));
    else
        train_move(t, to, x->at[s->now], staged_bytes(t, tensor));
    x->used[s->now] = t->device->record(t->backend_state, TRAIN_COMPUTE);
    return PDL_OK;
}

void train_staged_close(pdl_trainer *t)
{
    int64_t n = t->staged ? t->plan->ntensors * t->micros : 0;

    for (int64_t i = 0; i < 2 * n; i++)
        train_give_memory(t, t->staged->each[i / 2].at[i % 2]);
}
