/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations under way. Each is a small machine that is asked to go on; those
 * of one communicator go one after the other, exchanges as they come. Whoever
 * tests or waits for one moves all of them, and so does the communicator's
 * thread where it has one. */
#include "comm_core.h"

enum pdl_status comm_post(pdl_comm *c, struct comm_msg *m, struct pdl_err *err)
{
    m->done = false;
    m->moved = 0;
    if (c->area && c->seat_of_rank[m->peer] >= 0)
        return comm_mail_post(c, m, err);
    return comm_p2p_post(c, m, err);
}

enum pdl_status comm_progress(pdl_comm *c, struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    if (c->area)
        st = comm_mail_progress(c, err);
    if (st == PDL_OK && c->p2p.first)
        st = comm_p2p_progress(c, err);
    return st;
}

static void unlink_request(pdl_comm_request *r)
{
    pdl_comm *c = r->comm;
    pdl_comm_request **at = &c->first, *before = NULL;

    while (*at && *at != r) {
        before = *at;
        at = &before->next;
    }
    if (!*at)
        return;
    *at = r->next;
    if (c->last == r)
        c->last = before;
}

static void settle(pdl_comm_request *r, enum pdl_status st)
{
    r->done = true;
    r->status = st;
    unlink_request(r);
}

void comm_advance_all(pdl_comm *c)
{
    struct pdl_err why = {"", ""};
    enum pdl_status st = comm_usable(c, &why);
    pdl_comm_request *r = c->first, *next;
    bool waits = false; /* an ordered one before is under way */

    if (st == PDL_OK)
        st = comm_progress(c, &why);
    for (; r; r = next) {
        bool done = false;

        next = r->next;
        if (st == PDL_OK && (r->unordered || !waits))
            st = r->advance(r, &done, &why);
        /* the others are in the middle of it: nothing after it can work */
        if (st != PDL_OK && !*c->broken) {
            struct pdl_err cause = why;

            comm_break(c, &why, "%s: %.200s", r->what, cause.msg);
        }
        if (st != PDL_OK)
            r->why = why;
        if (done || st != PDL_OK)
            settle(r, st);
        else if (!r->unordered)
            waits = true;
    }
}

/* What a broken communicator left under way is kept until nobody can use it:
 * other threads as long as the area is there, MPI until it is cancelled. */
static void abandon(pdl_comm_request *r)
{
    pdl_comm *c = r->comm;

    if (c->mpi || c->mapped) {
        r->next = c->abandoned;
        c->abandoned = r;
        return;
    }
    r->next = atomic_load(&c->area->abandoned);
    while (!atomic_compare_exchange_weak(&c->area->abandoned, &r->next, r))
        ;
}

void comm_free_abandoned(pdl_comm_request *first)
{
    while (first) {
        pdl_comm_request *next = first->next;

        first->release(first, true);
        free(first);
        first = next;
    }
}

static void free_request(pdl_comm_request *r)
{
    if (r->release(r, false))
        free(r);
    else
        abandon(r);
}

enum pdl_status comm_enqueue(pdl_comm_request *r, pdl_comm_request **out,
                             struct pdl_err *err)
{
    pdl_comm *c = r->comm;
    enum pdl_status st;

    comm_lock(c);
    st = comm_usable(c, err);
    if (st == PDL_OK) {
        r->next = NULL;
        if (c->last)
            c->last->next = r;
        else
            c->first = r;
        c->last = r;
        if (c->engine)
            comm_engine_wake(c);
        else
            comm_advance_all(c);
        *out = r;
    }
    comm_unlock(c);
    if (st != PDL_OK)
        free_request(r);
    return st;
}

enum pdl_status pdl_comm_test(pdl_comm_request *req, bool *done,
                              struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    comm_lock(req->comm);
    if (!req->done)
        comm_advance_all(req->comm);
    if (req->done && req->status != PDL_OK) {
        if (err)
            *err = req->why;
        st = req->status;
    } else {
        *done = req->done;
    }
    comm_unlock(req->comm);
    return st;
}

enum pdl_status pdl_comm_wait(pdl_comm_request *req, struct pdl_err *err)
{
    struct comm_patience patience = {.is_long = req->is_long};
    enum pdl_status st = PDL_OK;
    pdl_comm *c = req->comm;

    comm_lock(c);
    while (st == PDL_OK && !req->done) {
        comm_advance_all(c);
        if (!req->done)
            st = comm_wait_turn(c, &patience, req->what, err);
    }
    if (st == PDL_OK && req->status != PDL_OK) {
        st = req->status;
        if (err)
            *err = req->why;
    }
    if (!req->done)
        settle(req, st);
    comm_unlock(c);
    free_request(req);
    return st;
}
