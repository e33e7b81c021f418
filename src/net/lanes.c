/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading rounds: what every rank sends and receives in one, whether it is the
 * same as in the round before, and the ways of its messages. */
#include "sim_rounds.h"

#include <math.h>
#include <string.h>

/* Does the operation wait for the one before, and for no later one? */
static bool follows(const struct pdl_traffic_op *op, int64_t i)
{
    bool last = i == 0;

    for (int k = 0; k < op->nafter; k++) {
        if (op->after[k] >= i || op->after[k] < 0)
            return false;
        last = last || op->after[k] == i - 1;
    }
    return last;
}

int net_rounds_read(struct net_rounds *r, int64_t i)
{
    bool peers = r->counted, bytes = true;
    struct pdl_traffic_op op;
    struct net_ends ends;

    for (int k = 0; k < r->nranks; k++) {
        op.send_to = op.recv_from = -1;
        op.send_bytes = op.recv_bytes = 0;
        op.nafter = 0;
        op.compute_s = 0;
        ends.to = ends.as = -1;
        if (i < r->sim->nops[k]) {
            net_sim_op(r->sim, k, i, &op, &ends);
            if (op.nafter < 0 || op.nafter > 4 || op.compute_s != 0 ||
                !follows(&op, i))
                return NET_ODD;
        }
        if (op.send_to != r->to[k] || op.recv_from != r->from[k] ||
            ends.to != r->ends[k].to) {
            if (peers)
                net_rounds_count(r);
            peers = false;
            if (op.send_to < -1 || op.send_to >= r->nranks ||
                op.recv_from < -1 || op.recv_from >= r->nranks)
                return NET_ODD;
            r->to[k] = op.send_to;
            r->from[k] = op.recv_from;
        }
        r->ends[k] = ends;
        bytes = bytes && op.send_bytes == r->send[k];
        r->send[k] = op.send_bytes;
        r->recv[k] = op.recv_bytes;
    }
    return !peers ? NET_NEW_PEERS : bytes ? NET_SAME : NET_NEW_BYTES;
}

bool net_rounds_match(const struct net_rounds *r)
{
    for (int i = 0; i < r->nranks; i++) {
        int to = r->to[i];

        if (to >= 0 && (r->from[to] != i || r->recv[to] != r->send[i] ||
                        r->send[i] < 0 || r->ends[to].as != r->ends[i].to))
            return false;
        if (r->from[i] >= 0 && r->to[r->from[i]] != i)
            return false;
    }
    return true;
}

static bool widen(struct net_rounds *r, int nuses)
{
    if (nuses <= r->stride)
        return true;
    r->stride = nuses + 8;
    r->uses = pdl_arena_alloc(r->sim->wire.arena, (size_t)r->nranks + 1,
                              (size_t)r->stride * sizeof *r->uses);
    return r->uses;
}

/* Finds the way of rank i's message. False: no memory, or the lanes so far
 * must be made again. */
static bool make_lane(struct net_rounds *r, int i)
{
    struct net_sim *s = r->sim;
    struct net_message *msg = &s->wire.msg;
    struct net_send send =
        net_sim_send(s, i, r->to[i], r->ends[i].to, r->send[i]);
    struct net_lane *lane = &r->lane[i];
    struct net_lane_use *u;
    int stride = r->stride;

    net_model_message(&s->wire.model, &send, msg);
    if (!widen(r, msg->nuses))
        return false;
    *lane = (struct net_lane){
        .latency_s = msg->latency_s,
        .rate = msg->rate,
        .nuses = msg->nuses,
        .nlinks = msg->nlinks,
        .detached = net_model_detached(&s->wire.model, r->send[i])};
    u = r->uses + (size_t)i * (size_t)r->stride;
    for (int k = 0; k < msg->nuses; k++)
        u[k] = (struct net_lane_use){msg->uses[k].amount, msg->uses[k].link,
                                     msg->times[k]};
    return r->stride == stride;
}

void net_rounds_time(struct net_rounds *r)
{
    bool zero = r->sim->config->zero_bytes;

    for (int i = 0; i < r->nranks; i++)
        if (r->to[i] >= 0)
            r->lane[i].seconds =
                zero ? 0 : (double)r->send[i] / r->lane[i].rate;
}

bool net_rounds_lanes(struct net_rounds *r)
{
    r->disjoint = true;
    for (int i = 0; i < r->nranks; i++)
        if (r->to[i] >= 0 && !make_lane(r, i)) {
            if (!r->uses)
                return false;
            i = -1; /* wider now: from the start */
        }
    memset(r->stamp, 0, (size_t)r->nlinks * sizeof *r->stamp);
    for (int i = 0; i < r->nranks; i++) {
        const struct net_lane_use *u = r->uses + (size_t)i * (size_t)r->stride;

        r->bytes[i] = 0;
        r->seconds[i] = 0;
        r->first[i] = INFINITY;
        for (int k = 0; r->to[i] >= 0 && k < r->lane[i].nuses; k++)
            if (r->stamp[u[k].link]++)
                r->disjoint = false;
    }
    r->counted = true;
    net_rounds_time(r);
    return true;
}
