/* SPDX-License-Identifier: Apache-2.0
 *
 * The window of a rank: its operations that are looked at and not complete,
 * and what they wait for. Kept in a ring of 2^k places that grows with the
 * window's use. */
#include "sim_events.h"

#include <math.h>

void net_events_no_memory(struct net_events *e)
{
    if (e->status == PDL_OK)
        e->status = pdl_fail(e->err, PDL_ENOMEM,
                             "no memory for the messages under way");
}

void net_events_ready(struct net_events *e, int rank, int64_t op)
{
    if (e->nready == e->ready_cap) {
        int cap = e->ready_cap ? 2 * e->ready_cap : 256;
        struct net_ready *grown =
            pdl_arena_grow(e->arena, e->ready, (size_t)e->nready, (size_t)cap,
                           sizeof *e->ready);

        if (!grown) {
            net_events_no_memory(e);
            return;
        }
        e->ready = grown;
        e->ready_cap = cap;
    }
    e->ready[e->nready++] = (struct net_ready){rank, op};
}

bool net_events_keep(struct net_events *e, int slot,
                     const struct net_under_way *u)
{
    const struct net_wire *w = &e->sim->wire;

    if (slot >= e->nunder_way) {
        struct net_under_way *grown =
            pdl_arena_grow(e->arena, e->under_way, (size_t)e->nunder_way,
                           (size_t)w->nslots, sizeof *e->under_way);

        if (!grown)
            return false;
        for (int i = e->nunder_way; i < w->nslots; i++)
            grown[i].parent = -1;
        e->under_way = grown;
        e->nunder_way = w->nslots;
    }
    e->under_way[slot] = *u;
    return true;
}

void net_events_release(struct net_events *e, int rank, int64_t op,
                        double compute_s)
{
    struct net_under_way u = {
        .src = rank, .dst = -1, .src_op = op, .parent = -1};
    int slot;

    if (!(compute_s > 0)) {
        net_events_ready(e, rank, op);
        return;
    }
    slot = net_wire_pause(&e->sim->wire, compute_s);
    if (slot == NET_WIRE_INSTANT || !net_events_keep(e, slot, &u))
        net_events_no_memory(e);
}

/* ---- operations come into the window ----------------------------------- */

static enum pdl_status check_op(const struct net_events *e, int rank, int64_t i,
                                const struct pdl_traffic_op *op)
{
    int n = e->sim->nranks;

    if (op->send_to < -1 || op->send_to >= n || op->recv_from < -1 ||
        op->recv_from >= n || op->send_bytes < 0 || op->recv_bytes < 0)
        return pdl_fail(e->err, PDL_EINVAL,
                        "rank %d operation %lld: sends %lld bytes to %d and "
                        "receives %lld from %d, of %d ranks",
                        rank, (long long)i, (long long)op->send_bytes,
                        op->send_to, (long long)op->recv_bytes, op->recv_from,
                        n);
    if (!(op->compute_s >= 0) || !(op->compute_s < INFINITY))
        return pdl_fail(e->err, PDL_EINVAL,
                        "rank %d operation %lld computes for %g s", rank,
                        (long long)i, op->compute_s);
    if (op->nafter < 0 || op->nafter > 4)
        return pdl_fail(e->err, PDL_EINVAL,
                        "rank %d operation %lld waits for %d others", rank,
                        (long long)i, op->nafter);
    for (int k = 0; k < op->nafter; k++)
        if (op->after[k] < 0 || op->after[k] >= i)
            return pdl_fail(e->err, PDL_EINVAL,
                            "rank %d operation %lld waits for operation %lld",
                            rank, (long long)i, (long long)op->after[k]);
    return PDL_OK;
}

/* A ring twice as large, with what is in the window. */
static bool grow_ring(struct net_events *e, int rank)
{
    struct net_live_rank *r = &e->ranks[rank];
    int64_t grown = net_pool_take(&e->ops, r->log + 1);
    struct net_live_op *base = (struct net_live_op *)(void *)e->ops.base;
    int64_t size = r->log < 0 ? 0 : (int64_t)1 << r->log;

    if (grown < 0)
        return false;
    for (int64_t i = r->base; i < r->seen; i++)
        base[grown + (i & (2 * size - 1))] = base[r->ring + (i & (size - 1))];
    if (r->log >= 0)
        net_pool_give(&e->ops, r->ring, r->log);
    r->ring = grown;
    r->log++;
    return true;
}

/* Puts operation i on the lists of those it waits for. */
static void wait_for(struct net_events *e, int rank, int64_t i,
                     const struct pdl_traffic_op *op, struct net_live_op *live)
{
    for (int k = 0; k < op->nafter; k++) {
        struct net_live_op *first;

        if (op->after[k] < e->ranks[rank].base)
            continue;
        first = net_live_at(e, rank, op->after[k]);
        if (first->done)
            continue;
        live->next_dep[k] = first->first_dep;
        first->first_dep = 4 * (int)(i & e->mask) + k;
        live->waits++;
    }
}

static void look_at(struct net_events *e, int rank)
{
    struct net_live_rank *r = &e->ranks[rank];
    struct pdl_traffic_op op = {.nafter = 0};
    struct net_live_op *live;
    struct net_ends ends;
    int64_t i = r->seen;

    net_sim_op(e->sim, rank, i, &op, &ends);
    e->status = check_op(e, rank, i, &op);
    if (e->status != PDL_OK)
        return;
    if ((r->log < 0 || r->seen - r->base == (int64_t)1 << r->log) &&
        !grow_ring(e, rank)) {
        net_events_no_memory(e);
        return;
    }
    r->seen++;
    live = net_live_at(e, rank, i);
    *live = (struct net_live_op){.send_to = op.send_to,
                                 .recv_from = op.recv_from,
                                 .send_bytes = op.send_bytes,
                                 .recv_bytes = op.recv_bytes,
                                 .compute_s = op.compute_s,
                                 .seen = ends.to,
                                 .first_dep = -1};
    if (op.send_to >= 0) {
        live->parts |= NET_SEND;
        live->send_pair = net_match_count(&e->match, rank, ends.to, true,
                                          &live->send_ordinal);
    }
    if (op.recv_from >= 0) {
        live->parts |= NET_RECV;
        live->recv_pair = net_match_count(&e->match, op.recv_from, ends.as,
                                          false, &live->recv_ordinal);
    }
    if (e->match.failed)
        net_events_no_memory(e);
    wait_for(e, rank, i, &op, live);
    if (live->waits == 0)
        net_events_release(e, rank, i, live->compute_s);
}

void net_events_look(struct net_events *e, int rank)
{
    struct net_live_rank *r = &e->ranks[rank];

    while (e->status == PDL_OK && r->seen < e->sim->nops[rank] &&
           r->seen - r->base < e->sim->window)
        look_at(e, rank);
}
