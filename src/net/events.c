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
#include "sim_events.h"

#include <math.h>

enum pdl_status net_events_create(struct net_events **out, struct net_sim *sim,
                                  pdl_arena *a, struct pdl_err *err)
{
    struct net_events *e = PDL_NEW(a, struct net_events, 1);

    if (e) {
        *e = (struct net_events){.sim = sim, .arena = a};
        e->ranks = PDL_NEW(a, struct net_live_rank, sim->nranks + 1);
    }
    if (!e || !e->ranks)
        return pdl_fail(err, PDL_ENOMEM, "no memory for %d ranks", sim->nranks);
    net_pool_init(&e->ops, a, sizeof(struct net_live_op));
    net_match_init(&e->match, a);
    e->mask = (1 << net_log2_up(sim->window)) - 1;
    for (int r = 0; r < sim->nranks; r++)
        e->ranks[r].log = -1;
    *out = e;
    return PDL_OK;
}

/* ---- completion -------------------------------------------------------- */

static void complete(struct net_events *e, int rank, int64_t i)
{
    struct net_live_rank *r = &e->ranks[rank];
    struct net_live_op *op = net_live_at(e, rank, i);
    int64_t was = r->base;

    op->done = true;
    e->ahead++;
    for (int dep = op->first_dep, next; dep >= 0; dep = next) {
        int64_t j = r->base + ((dep / 4 - r->base) & e->mask);
        struct net_live_op *waiting = net_live_at(e, rank, j);

        next = waiting->next_dep[dep % 4];
        if (--waiting->waits == 0)
            net_events_release(e, rank, j, waiting->compute_s);
    }
    while (r->base < r->seen && net_live_at(e, rank, r->base)->done)
        r->base++;
    e->ahead -= (int)(r->base - was);
    e->sim->finish_s[rank] = e->sim->wire.now;
    if (r->base == e->sim->nops[rank])
        e->unfinished--;
    else if (r->base > was)
        net_events_look(e, rank);
}

static void part_done(struct net_events *e, int rank, int64_t i, int part)
{
    struct net_live_op *op = net_live_at(e, rank, i);

    op->parts &= ~part;
    if (op->parts == 0)
        complete(e, rank, i);
}

static void arrived(struct net_events *e, const struct net_under_way *u,
                    int node)
{
    int *tips = e->sim->path.tips;

    if (u->dst < 0) {
        e->computed++;
        net_events_ready(e, u->src, u->src_op);
        return;
    }
    if (node >= 0) {
        tips[u->dst] = node;
        if (!u->detached)
            tips[u->src] = node;
    }
    if (!u->detached)
        part_done(e, u->src, u->src_op, NET_SEND);
    part_done(e, u->dst, u->dst_op, NET_RECV);
}

/* ---- posting ----------------------------------------------------------- */

/* Both sides are there; `last` came last. */
static void start(struct net_events *e, const struct net_post *send,
                  const struct net_post *recv, int last)
{
    struct net_sim *sim = e->sim;
    struct net_under_way u = {send->rank,
                              recv->rank,
                              send->op,
                              recv->op,
                              net_model_detached(&sim->wire.model, send->bytes),
                              sim->path.on ? sim->path.tips[last] : -1};
    /* a send that is folded is not detached: it is still there */
    int seen = sim->wire.model.fold ? net_live_at(e, send->rank, send->op)->seen
                                    : recv->rank;
    struct net_send message =
        net_sim_send(sim, send->rank, recv->rank, seen, send->bytes);
    bool itself = net_sim_to_itself(sim, send->rank, recv->rank, seen);
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
    slot = itself ? NET_WIRE_INSTANT : net_wire_start(&sim->wire, &message);
    if (sim->wire.failed) {
        net_events_no_memory(e);
        return;
    }
    if (slot == NET_WIRE_INSTANT) {
        sim->wire.messages += itself;
        arrived(e, &u, u.parent);
        return;
    }
    if (!net_events_keep(e, slot, &u))
        net_events_no_memory(e);
}

static void post_side(struct net_events *e, int pair,
                      const struct net_post *post)
{
    struct net_post other;

    if (!net_match_post(&e->match, pair, post, &other)) {
        if (e->match.failed)
            net_events_no_memory(e);
        return;
    }
    if (post->send)
        start(e, post, &other, post->rank);
    else
        start(e, &other, post, post->rank);
}

static void post(struct net_events *e, int rank, int64_t i)
{
    struct net_live_op op = *net_live_at(e, rank, i);
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
        part_done(e, rank, i, NET_SEND);
}

/* ---- the loop ---------------------------------------------------------- */

static void post_ready(struct net_events *e)
{
    while (e->ready_at < e->nready && e->status == PDL_OK) {
        struct net_ready r = e->ready[e->ready_at++];

        post(e, r.rank, r.op);
    }
    e->nready = e->ready_at = e->computed = 0;
}

/* Nobody can go on: says who waits, and for what. */
static enum pdl_status stuck(struct net_events *e)
{
    int rank = 0;
    int64_t i;
    const struct net_live_op *op;

    while (e->ranks[rank].base == e->sim->nops[rank])
        rank++;
    i = e->ranks[rank].base;
    op = net_live_at(e, rank, i);
    e->status =
        op->parts & NET_SEND
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
    struct net_under_way *u = &e->under_way[slot];
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
        net_events_look(e, r);
}

enum pdl_status net_events_run(struct net_events *e, struct pdl_err *err)
{
    struct net_wire *w = &e->sim->wire;
    int64_t round;

    e->err = err;
    e->status = PDL_OK;
    begin(e);
    for (int64_t turn = 1; e->status == PDL_OK; turn++) {
        double t;

        post_ready(e);
        net_wire_share(w);
        if (w->failed)
            net_events_no_memory(e);
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
        if (e->sim->by_rounds && w->ndone > 0 && at_barrier(e, &round) &&
            e->sim->stay-- <= 0) {
            e->sim->round = round;
            e->sim->time_s = w->now;
            return e->status;
        }
        if (turn % 256 == 0 && e->status == PDL_OK)
            e->status = net_sim_pulse(e->sim, err);
    }
    return e->status;
}
