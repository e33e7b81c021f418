/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages between tensors of ranks. Where tensors are on the host a transfer
 * is the communicator's request. Elsewhere it goes through a room on the host:
 * the copy out waits, in its own stream, for the work that makes the bytes; the
 * message begins when the copy has arrived, in the order in which transfers
 * were asked for (ranks must agree on it); and what has come is copied in,
 * behind the work that may still use the place and before all that follows.
 * Whoever waits for a message first sees to it that all others are on their
 * way: the peer may wait for one of them. */
#include "train/exec/device.h"
#include "train/train_priv.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64 };

struct train_transfer {
    pdl_comm *comm;
    pdl_comm_request *req;
    struct train_transfer *next; /* waiting to begin, or free */
    bool begun;
    uint64_t copied; /* the ticket of the copies out */
    struct train_room room, list;
    /* an allreduce, or messages with their places on the device */
    bool sum;
    int64_t count, bytes;
    enum pdl_comm_type type;
    enum pdl_comm_op op;
    void *to;
    int nsends, nrecvs;
    struct pdl_comm_message *message; /* in the room: sends, then receives */
    void **place;                     /* of each receive */
};

static struct train_transfer *take(pdl_trainer *t, struct pdl_err *err)
{
    struct train_transfer *x = t->transfers;

    if (x) {
        t->transfers = x->next;
        x->next = NULL;
        x->begun = false;
        return x;
    }
    x = PDL_NEW(t->arena, struct train_transfer, 1);
    if (!x)
        pdl_fail(err, PDL_ENOMEM, "out of memory for messages");
    else if (t->device) { /* its rooms are freed with the trainer */
        x->room.next = t->rooms;
        x->list.next = &x->room;
        t->rooms = &x->list;
    }
    return x;
}

static void give(pdl_trainer *t, struct train_transfer *x)
{
    x->next = t->transfers;
    t->transfers = x;
}

void train_close_rooms(pdl_trainer *t)
{
    for (struct train_room *r = t->rooms; r; r = r->next)
        train_empty(t, r);
    train_empty(t, &t->view);
}

/* ---- out -------------------------------------------------------------- */

static enum pdl_status begin(struct train_transfer *x, struct pdl_err *err)
{
    x->begun = true;
    if (x->sum)
        return pdl_comm_start_allreduce(x->comm, x->room.at, x->room.at,
                                        x->count, x->type, x->op, &x->req, err);
    return pdl_comm_start_exchange(x->comm, x->nsends, x->message, x->nrecvs,
                                   x->message + x->nsends, &x->req, err);
}

static enum pdl_status begin_first(pdl_trainer *t, struct pdl_err *err)
{
    struct train_transfer *x = t->waiting;

    t->waiting = x->next;
    x->next = NULL;
    return begin(x, err);
}

enum pdl_status train_transfer_push(pdl_trainer *t, struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    while (st == PDL_OK && t->waiting &&
           t->device->reached(t->backend_state, t->waiting->copied))
        st = begin_first(t, err);
    return st;
}

enum pdl_status train_transfer_flush(pdl_trainer *t, struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    while (st == PDL_OK && t->waiting) {
        st = t->device->finish(t->backend_state, t->waiting->copied, err);
        if (st == PDL_OK)
            st = begin_first(t, err);
    }
    return st;
}

static void queue(pdl_trainer *t, struct train_transfer *x)
{
    struct train_transfer **at = &t->waiting;

    x->copied = t->device->record(t->backend_state, TRAIN_COPIES);
    while (*at)
        at = &(*at)->next;
    *at = x;
    x->next = NULL;
}

/* Copies from now on come behind the work so far. */
static void follow(pdl_trainer *t)
{
    if (t->fault != TRAIN_FAULT_NO_EVENT)
        t->device->wait(t->backend_state, TRAIN_COPIES,
                        t->device->record(t->backend_state, TRAIN_COMPUTE));
}

static enum pdl_status copy_out(pdl_trainer *t, struct train_transfer *x,
                                int64_t at, const void *from, int64_t bytes,
                                struct pdl_err *err)
{
    return bytes > 0
               ? t->device->copy(t->backend_state, TRAIN_COPIES, TRAIN_TO_HOST,
                                 (char *)x->room.at + at, from, bytes, err)
               : PDL_OK;
}

static int64_t align(int64_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

/* The messages, with places in the room instead of the tensors'. */
static enum pdl_status move_in(pdl_trainer *t, struct train_transfer *x,
                               const struct pdl_comm_message *out,
                               const struct pdl_comm_message *in,
                               struct pdl_err *err)
{
    int n = x->nsends + x->nrecvs;
    int64_t bytes = 0, at = 0;
    enum pdl_status st;

    for (int i = 0; i < n; i++)
        bytes += align((i < x->nsends ? out[i] : in[i - x->nsends]).bytes);
    st = train_room_wait(t, &x->room, bytes, err);
    if (st == PDL_OK &&
        !train_grow(t, &x->list,
                    n * (int64_t)(sizeof *x->message + sizeof *x->place)))
        st = pdl_fail(err, PDL_ENOMEM, "out of memory for messages");
    if (st != PDL_OK)
        return st;
    x->message = x->list.at;
    x->place = (void **)(void *)(x->message + n);
    for (int i = 0; i < n && st == PDL_OK; i++) {
        x->message[i] = i < x->nsends ? out[i] : in[i - x->nsends];
        x->place[i] = x->message[i].data;
        x->message[i].data = (char *)x->room.at + at;
        if (i < x->nsends)
            st = copy_out(t, x, at, x->place[i], x->message[i].bytes, err);
        at += align(x->message[i].bytes);
    }
    return st;
}

enum pdl_status train_start_exchange(pdl_trainer *t, pdl_comm *comm,
                                     const struct train_messages *m,
                                     struct train_transfer **out,
                                     struct pdl_err *err)
{
    struct train_transfer *x = take(t, err);
    enum pdl_status st;

    if (!x)
        return PDL_ENOMEM;
    x->comm = comm;
    x->sum = false;
    x->nsends = m->nsends;
    x->nrecvs = m->nrecvs;
    *out = x;
    if (!t->device)
        return pdl_comm_start_exchange(comm, m->nsends, m->sends, m->nrecvs,
                                       m->recvs, &x->req, err);
    follow(t);
    st = move_in(t, x, m->sends, m->recvs, err);
    if (st == PDL_OK)
        queue(t, x);
    return st == PDL_OK ? train_transfer_push(t, err) : st;
}

enum pdl_status train_start_sum(pdl_trainer *t, pdl_comm *comm,
                                const struct train_run *r, enum pdl_comm_op op,
                                struct train_transfer **out,
                                struct pdl_err *err)
{
    struct train_transfer *x = take(t, err);
    enum pdl_status st;

    if (!x)
        return PDL_ENOMEM;
    x->comm = comm;
    x->sum = true;
    x->bytes = r->bytes;
    x->count = r->bytes * 8 / pdl_dtype_bits(r->dtype);
    x->type = train_comm_type(r->dtype);
    x->op = op;
    x->to = r->to;
    *out = x;
    if (!t->device)
        return pdl_comm_start_allreduce(comm, r->from, r->to, x->count, x->type,
                                        op, &x->req, err);
    follow(t);
    st = train_room_wait(t, &x->room, r->bytes, err);
    if (st == PDL_OK)
        st = copy_out(t, x, 0, r->from, r->bytes, err);
    if (st == PDL_OK)
        queue(t, x);
    return st == PDL_OK ? train_transfer_push(t, err) : st;
}

/* ---- and in ----------------------------------------------------------- */

static enum pdl_status copy_in(pdl_trainer *t, struct train_transfer *x,
                               struct pdl_err *err)
{
    const struct train_device *d = t->device;
    enum pdl_status st = PDL_OK;

    follow(t);
    if (x->sum)
        st = d->copy(t->backend_state, TRAIN_COPIES, TRAIN_TO_DEVICE, x->to,
                     x->room.at, x->bytes, err);
    for (int i = x->nsends; !x->sum && i < x->nsends + x->nrecvs; i++)
        if (st == PDL_OK && x->message[i].bytes > 0)
            st = d->copy(t->backend_state, TRAIN_COPIES, TRAIN_TO_DEVICE,
                         x->place[i], x->message[i].data, x->message[i].bytes,
                         err);
    x->room.busy = d->record(t->backend_state, TRAIN_COPIES);
    if (t->fault != TRAIN_FAULT_NO_EVENT)
        d->wait(t->backend_state, TRAIN_COMPUTE, x->room.busy);
    return st;
}

enum pdl_status train_transfer_test(pdl_trainer *t, struct train_transfer *x,
                                    bool *done, struct pdl_err *err)
{
    enum pdl_status st = t->waiting ? train_transfer_push(t, err) : PDL_OK;

    *done = false;
    if (st != PDL_OK || (t->device && !x->begun))
        return st;
    return pdl_comm_test(x->req, done, err);
}

enum pdl_status train_transfer_wait(pdl_trainer *t, struct train_transfer *x,
                                    struct pdl_err *err)
{
    enum pdl_status st = train_transfer_flush(t, err);

    if (st == PDL_OK)
        st = pdl_comm_wait(x->req, err);
    if (st == PDL_OK && t->device)
        st = copy_in(t, x, err);
    give(t, x);
    return st;
}

enum pdl_status train_exchange_now(pdl_trainer *t, pdl_comm *comm,
                                   const struct train_messages *m,
                                   struct pdl_err *err)
{
    struct train_transfer *x;
    enum pdl_status st = train_start_exchange(t, comm, m, &x, err);

    return st == PDL_OK ? train_transfer_wait(t, x, err) : st;
}

enum pdl_status train_sum_now(pdl_trainer *t, pdl_comm *comm,
                              const struct train_run *r, enum pdl_comm_op op,
                              struct pdl_err *err)
{
    struct train_transfer *x;
    enum pdl_status st;

    if (!t->device)
        return pdl_comm_allreduce(comm, r->from, r->to,
                                  r->bytes * 8 / pdl_dtype_bits(r->dtype),
                                  train_comm_type(r->dtype), op, err);
    st = train_start_sum(t, comm, r, op, &x, err);
    return st == PDL_OK ? train_transfer_wait(t, x, err) : st;
}
