/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks and their operations, event by event. An operation is looked at when
 * it enters its rank's window, is ready when what it waits for is complete,
 * and its two sides are then posted; a message starts when both its sides
 * are (rendezvous), and completes them when it arrives, except that a
 * detached send is complete at once.
 *
 * Memory: the windows and the messages under way. Cost: some hundred
 * nanoseconds a message and what sharing the links takes. */
#include "sim_priv.h"

#include <math.h>

enum { SEND = 1, RECV = 2 };

struct live_op {
    int send_to, recv_from, send_pair, recv_pair;
    int64_t send_bytes, recv_bytes, send_ordinal, recv_ordinal;
    int first_dep;   /* first of those that wait for it: 4 * place + k, -1 */
    int next_dep[4]; /* the next one waiting for after[k] */
    double compute_s;
    int waits;
    int parts; /* SEND and RECV still open */
    bool done;
};

struct live_rank {
    int64_t base, seen; /* all before base are complete; seen are in window */
    int64_t ring;       /* block of operations, 2^log */
    int log;
};

struct under_way {
    int src, dst; /* ranks; dst -1: src computes before its src_op */
    int64_t src_op, dst_op;
    bool detached;
    int parent; /* of the critical path */
};

struct ready {
    int rank;
    int64_t op;
};

struct net_events {
    struct net_sim *sim;
    pdl_arena *arena;
    struct live_rank *ranks;
    struct net_pool ops;
    int mask; /* of places in a window */
    struct net_match match;
    struct ready *ready;
    int nready, ready_at, ready_cap;
    int computed; /* of the ready ones: have computed, must not again */
    struct under_way *under_way; /* by slot */
    int nunder_way;
    int unfinished; /* ranks */
    int ahead;      /* operations complete behind one that is not */
    enum pdl_status status;
    struct pdl_err *err;
};

enum pdl_status net_events_create(struct net_events **out, struct net_sim *sim,
                                  pdl_arena *a, struct pdl_err *err)
{
    struct net_events *e = PDL_NEW(a, struct net_events, 1);

    if (e) {
        *e = (struct net_events){.sim = sim, .arena = a};
        e->ranks = PDL_NEW(a, struct live_rank, sim->nranks + 1);
    }
    if (!e || !e->ranks)
        return pdl_fail(err, PDL_ENOMEM, "no memory for %d ranks", sim->nranks);
    net_pool_init(&e->ops, a, sizeof(struct live_op));
    net_match_init(&e->match, a);
    e->mask = (1 << net_log2_up(sim->window)) - 1;
    for (int r = 0; r < sim->nranks; r++)
        e->ranks[r].log = -1;
    *out = e;
    return PDL_OK;
}

static void fail_memory(struct net_events *e)
{
    if (e->status == PDL_OK)
        e->status = pdl_fail(e->err, PDL_ENOMEM,
                             "no memory for the messages under way");
}

static struct live_op *op_at(struct net_events *e, int rank, int64_t i)
{
    const struct live_rank *r = &e->ranks[rank];
    int64_t place = i & (((int64_t)1 << r->log) - 1);

    return (struct live_op *)(void *)e->ops.base + r->ring + place;
}

static void push_ready(struct net_events *e, int rank, int64_t op)
{
    if (e->nready == e->ready_cap) {
        int cap = e->ready_cap ? 2 * e->ready_cap : 256;
        struct ready *grown =
            pdl_arena_grow(e->arena, e->ready, (size_t)e->nready, (size_t)cap,
                           sizeof *e->ready);

        if (!grown) {
            fail_memory(e);
            return;
        }
        e->ready = grown;
        e->ready_cap = cap;
    }
    e->ready[e->nready++] = (struct ready){rank, op};
}

static bool keep_under_way(struct net_events *e, int slot,
                           const struct under_way *u)
{
    const struct net_wire *w = &e->sim->wire;

    if (slot >= e->nunder_way) {
        struct under_way *grown =
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

/* Nothing to wait for any more: computes, or is ready at once. */
static void released(struct net_events *e, int rank, int64_t op,
                     double compute_s)
{
    struct under_way u = {.src = rank, .dst = -1, .src_op = op, .parent = -1};
    int slot;

    if (!(compute_s > 0)) {
        push_ready(e, rank, op);
        return;
    }
    slot = net_wire_pause(&e->sim->wire, compute_s);
    if (slot == NET_WIRE_INSTANT || !keep_under_way(e, slot, &u))
        fail_memory(e);
}

/* ---- operations come into the window --------------------------------------- */

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
    struct live_rank *r = &e->ranks[rank];
    int64_t grown = net_pool_take(&e->ops, r->log + 1);
    struct live_op *base = (struct live_op *)(void *)e->ops.base;
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
                     const struct pdl_traffic_op *op, struct live_op *live)
{
    for (int k = 0; k < op->nafter; k++) {
        struct live_op *first;

        if (op->after[k] < e->ranks[rank].base)
            continue;
        first = op_at(e, rank, op->after[k]);
        if (first->done)
            continue;
        live->next_dep[k] = first->first_dep;
        first->first_dep = 4 * (int)(i & e->mask) + k;
        live->waits++;
    }
}

static void look_at(struct net_events *e, int rank)
{
    struct live_rank *r = &e->ranks[rank];
    const struct pdl_traffic *traffic = e->sim->traffic;
    struct pdl_traffic_op op = {.nafter = 0};
    struct live_op *live;
    int64_t i = r->seen;

    traffic->op(traffic->ctx, rank, i, &op);
    e->status = check_op(e, rank, i, &op);
    if (e->status != PDL_OK)
        return;
    if ((r->log < 0 || r->seen - r->base == (int64_t)1 << r->log) &&
        !grow_ring(e, rank)) {
        fail_memory(e);
        return;
    }
    r->seen++;
    live = op_at(e, rank, i);
    *live = (struct live_op){.send_to = op.send_to,
                             .recv_from = op.recv_from,
                             .send_bytes = op.send_bytes,
                             .recv_bytes = op.recv_bytes,
                             .compute_s = op.compute_s,
                             .first_dep = -1};
    if (op.send_to >= 0) {
        live->parts |= SEND;
        live->send_pair = net_match_count(&e->match, rank, op.send_to, true,
                                          &live->send_ordinal);
    }
    if (op.recv_from >= 0) {
        live->parts |= RECV;
        live->recv_pair = net_match_count(&e->match, op.recv_from, rank, false,
                                          &live->recv_ordinal);
    }
    if (e->match.failed)
        fail_memory(e);
    wait_for(e, rank, i, &op, live);
    if (live->waits == 0)
        released(e, rank, i, live->compute_s);
}

static void fill_window(struct net_events *e, int rank)
{
    struct live_rank *r = &e->ranks[rank];

    while (e->status == PDL_OK && r->seen < e->sim->nops[rank] &&
           r->seen - r->base < e->sim->window)
        look_at(e, rank);
}

/* ---- completion --------------------------------------------------------------- */

static void complete(struct net_events *e, int rank, int64_t i)
{
    struct live_rank *r = &e->ranks[rank];
    struct live_op *op = op_at(e, rank, i);
    int64_t was = r->base;

    op->done = true;
    e->ahead++;
    for (int dep = op->first_dep, next; dep >= 0; dep = next) {
        int64_t j = r->base + ((dep / 4 - r->base) & e->mask);
        struct live_op *waiting = op_at(e, rank, j);

        next = waiting->next_dep[dep % 4];
        if (--waiting->waits == 0)
            released(e, rank, j, waiting->compute_s);
    }
    while (r->base < r->seen && op_at(e, rank, r->base)->done)
        r->base++;
    e->ahead -= (int)(r->base - was);
    e->sim->finish_s[rank] = e->sim->wire.now;
    if (r->base == e->sim->nops[rank])
        e->unfinished--;
    else if (r->base > was)
        fill_window(e, rank);
}

static void part_done(struct net_events *e, int rank, int64_t i, int part)
{
    struct live_op *op = op_at(e, rank, i);

    op->parts &= ~part;
    if (op->parts == 0)
        complete(e, rank, i);
}

static void arrived(struct net_events *e, const struct under_way *u, int node)
{
    int *tips = e->sim->path.tips;

    if (u->dst < 0) {
        e->computed++;
        push_ready(e, u->src, u->src_op);
        return;
    }
    if (node >= 0) {
        tips[u->dst] = node;
        if (!u->detached)
            tips[u->src] = node;
    }
    if (!u->detached)
        part_done(e, u->src, u->src_op, SEND);
    part_done(e, u->dst, u->dst_op, RECV);
}

/* ---- posting ------------------------------------------------------------------- */

/* Both sides are there; `last` came last. */
static void start(struct net_events *e, const struct net_post *send,
                  const struct net_post *recv, int last)
{
    struct net_sim *sim = e->sim;
    struct under_way u = {send->rank,
                          recv->rank,
                          send->op,
                          recv->op,
                          net_model_detached(&sim->wire.model, send->bytes),
                          sim->path.on ? sim->path.tips[last] : -1};
    struct net_send message =
        net_sim_send(sim, send->rank, recv->rank, send->bytes);
    int slot;

    if (send->bytes != recv->bytes) {
        e->status = pdl_fail(
            e->err, PDL_EINVAL,
            "rank %d operation %lld sends %lld bytes to rank %d, whose "
            "operation %lld receives %lld",
            send->rank, (long long)send->op, (long long)send->bytes, recv->rank,
            (long long)recv->op, (long long)recv->bytes);
        return;
    }
    slot = send->rank == recv->rank ? NET_WIRE_INSTANT
                                    : net_wire_start(&sim->wire, &message);
    if (sim->wire.failed) {
        fail_memory(e);
        return;
    }
    if (slot == NET_WIRE_INSTANT) {
        sim->wire.messages += send->rank == recv->rank;
        arrived(e, &u, u.parent);
        return;
    }
    if (!keep_under_way(e, slot, &u))
        fail_memory(e);
}

static void post_side(struct net_events *e, int pair,
                      const struct net_post *post)
{
    struct net_post other;

    if (!net_match_post(&e->match, pair, post, &other)) {
        if (e->match.failed)
            fail_memory(e);
        return;
    }
    if (post->send)
        start(e, post, &other, post->rank);
    else
        start(e, &other, post, post->rank);
}

static void post(struct net_events *e, int rank, int64_t i)
{
    struct live_op op = *op_at(e, rank, i);
    bool detached = op.send_to >= 0 &&
                    net_model_detached(&e->sim->wire.model, op.send_bytes);

    if (op.parts == 0) {
        complete(e, rank, i);
        return;
    }
    if (op.send_to >= 0)
        post_side(e, op.send_pair,
                  &(struct net_post){.rank = rank,
                                     .op = i,
                                     .ordinal = op.send_ordinal,
                                     .bytes = op.send_bytes,
                                     .send = true});
    if (op.recv_from >= 0 && e->status == PDL_OK)
        post_side(e, op.recv_pair,
                  &(struct net_post){.rank = rank,
                                     .op = i,
                                     .ordinal = op.recv_ordinal,
                                     .bytes = op.recv_bytes});
    if (detached && e->status == PDL_OK)
        part_done(e, rank, i, SEND);
}

/* ---- the loop ------------------------------------------------------------------- */

static void post_ready(struct net_events *e)
{
    while (e->ready_at < e->nready && e->status == PDL_OK) {
        struct ready r = e->ready[e->ready_at++];

        post(e, r.rank, r.op);
    }
    e->nready = e->ready_at = e->computed = 0;
}

/* Nobody can go on: says who waits, and for what. */
static enum pdl_status stuck(struct net_events *e)
{
    int rank = 0;
    int64_t i;
    const struct live_op *op;

    while (e->ranks[rank].base == e->sim->nops[rank])
        rank++;
    i = e->ranks[rank].base;
    op = op_at(e, rank, i);
    e->status =
        op->parts & SEND
            ? pdl_fail(e->err, PDL_EINVAL,
                       "rank %d operation %lld: rank %d never receives its "
                       "%lld bytes",
                       rank, (long long)i, op->send_to,
                       (long long)op->send_bytes)
            : pdl_fail(e->err, PDL_EINVAL,
                       "rank %d operation %lld: rank %d never sends the %lld "
                       "bytes it waits for",
                       rank, (long long)i, op->recv_from,
                       (long long)op->recv_bytes);
    pdl_hint(e->err,
             "%d ranks wait; a cycle of waits, a missing operation or a "
             "window of %d that is too small",
             e->unfinished, e->sim->window);
    return e->status;
}

/* Every rank about to begin the same operation and nothing under way? */
static bool at_barrier(const struct net_events *e, int64_t *round)
{
    int64_t most = 0;

    if (e->sim->wire.nflying > 0 || e->match.waiting > 0 || e->ahead > 0 ||
        e->computed > 0)
        return false;
    for (int r = 0; r < e->sim->nranks; r++)
        if (e->ranks[r].base > most)
            most = e->ranks[r].base;
    for (int r = 0; r < e->sim->nranks; r++)
        if (e->ranks[r].base < most && e->ranks[r].base < e->sim->nops[r])
            return false;
    *round = most;
    return true;
}

static int path_of(struct net_events *e, int slot)
{
    const struct net_wire *w = &e->sim->wire;
    const struct net_wire_flow *f = &w->flows[slot];
    struct under_way *u = &e->under_way[slot];
    struct pdl_path_step step = {u->src, u->dst, u->dst_op, f->start, w->now};
    int parent = u->parent;

    if (!e->sim->path.on || u->dst < 0)
        return -1;
    u->parent = -1;
    return net_path_add(&e->sim->path, parent, &step, f->latency, f->alone_s);
}

/* Makes room for the steps of what has just arrived. */
static void trim_path(struct net_events *e)
{
    struct net_path *path = &e->sim->path;
    int n = e->nunder_way;
    int **live;
    pdl_arena *scratch;

    if (!path->on || path->n + e->sim->wire.ndone <= path->cap)
        return;
    scratch = pdl_arena_create((size_t)n * sizeof *live + 4096);
    live = scratch ? PDL_NEW(scratch, int *, n) : NULL;
    for (int i = 0; live && i < n; i++)
        live[i] = &e->under_way[i].parent;
    if (live)
        net_path_trim(path, e->sim->wire.ndone, live, n);
    else
        path->on = false;
    pdl_arena_destroy(scratch);
}

static void begin(struct net_events *e)
{
    struct net_sim *sim = e->sim;

    net_match_clear(&e->match);
    e->nready = e->ready_at = e->computed = e->unfinished = e->ahead = 0;
    for (int r = 0; r < sim->nranks; r++) {
        int64_t at = sim->round < sim->nops[r] ? sim->round : sim->nops[r];

        e->ranks[r].base = e->ranks[r].seen = at;
        e->unfinished += at < sim->nops[r];
    }
    net_wire_go(&sim->wire, sim->time_s);
    for (int r = 0; r < sim->nranks; r++)
        fill_window(e, r);
}

enum pdl_status net_events_run(struct net_events *e, struct pdl_err *err)
{
    struct net_wire *w = &e->sim->wire;

    e->err = err;
    e->status = PDL_OK;
    begin(e);
    for (int64_t turn = 1; e->status == PDL_OK; turn++) {
        double t;

        post_ready(e);
        net_wire_share(w);
        if (w->failed)
            fail_memory(e);
        if (e->status != PDL_OK)
            break;
        t = net_wire_next(w);
        if (!(t < INFINITY)) {
            e->sim->done = true;
            e->sim->time_s = w->now;
            return e->unfinished ? stuck(e) : PDL_OK;
        }
        net_wire_go(w, t);
        trim_path(e);
        for (int i = 0; i < w->ndone && e->status == PDL_OK; i++)
            arrived(e, &e->under_way[w->done[i]], path_of(e, w->done[i]));
        if (e->sim->by_rounds && w->ndone > 0 &&
            at_barrier(e, &e->sim->round)) {
            e->sim->time_s = w->now;
            return e->status;
        }
        if (turn % 256 == 0 && e->status == PDL_OK)
            e->status = net_sim_pulse(e->sim, err);
    }
    return e->status;
}
