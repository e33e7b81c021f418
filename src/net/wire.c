/* SPDX-License-Identifier: Apache-2.0
 *
 * Flows in time. A message pays its latency, then its bytes flow at the rate
 * that share.c gives; its end is known as soon as its rate is, and moves when
 * the rate does. What happens in one instant happens together: all ends and
 * beginnings are taken before the links are shared anew, once.
 *
 * Memory: the messages under way, whatever their number in all. */
#include "sim_priv.h"

#include <math.h>

enum { MOST_KEPT = 4096 };

/* Room in a message for so many links and uses; false: no memory. */
static bool make_room(pdl_arena *a, struct net_message *msg, int links,
                      int uses)
{
    if (links > msg->room) {
        msg->links = PDL_NEW(a, int, links);
        msg->room = msg->links ? links : 0;
    }
    if (uses > msg->most) {
        msg->uses = PDL_NEW(a, struct pdl_maxmin_use, uses);
        msg->times = PDL_NEW(a, int, uses);
        msg->most = msg->uses && msg->times ? uses : 0;
    }
    return links <= msg->room && uses <= msg->most;
}

enum pdl_status net_wire_init(struct net_wire *w, pdl_arena *a,
                              const struct pdl_net *net,
                              const struct pdl_sim_config *config,
                              struct net_fold *fold, struct pdl_err *err)
{
    int nlinks = fold ? fold->nlinks : net->nlinks;
    size_t n = (size_t)nlinks + 1;
    enum pdl_status st;

    *w = (struct net_wire){.arena = a, .free = -1, .clock.arena = a};
    st = net_model_init(&w->model, a, net, config, fold, err);
    if (st == PDL_OK)
        st = net_share_init(&w->share, a, w->model.capacity, nlinks, err);
    if (st == PDL_OK)
        st = net_timeline_init(&w->timeline, a, config->timeline, err);
    if (st != PDL_OK)
        return st;
    if (!w->model.least && !net->path) {
        w->nkept = 1 << net_log2_up(4 * net->nhosts);
        w->nkept = w->nkept < MOST_KEPT ? w->nkept : MOST_KEPT;
        w->kept = PDL_NEW(a, struct net_kept, w->nkept);
    }
    w->use = PDL_NEW(a, struct pdl_link_use, n);
    w->busy_since = PDL_NEW(a, double, n);
    w->sampled = PDL_NEW(a, double, n);
    if (!w->use || !w->busy_since || !w->sampled || (w->nkept && !w->kept) ||
        !make_room(a, &w->msg, PDL_MAX_ROUTE, 2 * PDL_MAX_ROUTE))
        return pdl_fail(err, PDL_ENOMEM, "no memory for %d links", nlinks);
    for (int l = 0; l < nlinks; l++)
        w->use[l].first_s = -1;
    return PDL_OK;
}

/* Copies a message into one with room for it. */
static void keep(struct net_message *to, const struct net_message *msg)
{
    struct net_message had = *to;

    *to = *msg;
    to->links = had.links;
    to->uses = had.uses;
    to->times = had.times;
    to->room = had.room;
    to->most = had.most;
    for (int i = 0; i < msg->nlinks; i++)
        to->links[i] = msg->links[i];
    for (int i = 0; i < msg->nuses; i++) {
        to->uses[i] = msg->uses[i];
        to->times[i] = msg->times[i];
    }
}

/* What a message is: kept from the last time where its way cannot change. */
static const struct net_message *message(struct net_wire *w,
                                         const struct net_send *send)
{
    uint64_t h = ((uint64_t)send->src * 0x9E3779B97F4A7C15u) ^
                 ((uint64_t)send->dst * 0xC2B2AE3D27D4EB4Fu) ^
                 ((uint64_t)send->bytes * 0x165667B19E3779F9u);
    uint64_t at = h >> 32 & (uint64_t)(w->nkept - 1);
    struct net_kept *k = w->nkept ? &w->kept[at] : NULL;
    struct net_message *msg = &w->msg;

    if (k && k->msg && k->src == send->src && k->dst == send->dst &&
        k->bytes == send->bytes)
        return k->msg;
    net_model_message(&w->model, send, msg);
    if (k && !k->msg)
        k->msg = PDL_NEW(w->arena, struct net_message, 1);
    if (!k || !k->msg || !make_room(w->arena, k->msg, msg->nlinks, msg->nuses))
        return msg;
    k->src = send->src;
    k->dst = send->dst;
    k->bytes = send->bytes;
    keep(k->msg, msg);
    return k->msg;
}

static int take_slot(struct net_wire *w)
{
    int slot = w->free, cap;

    if (slot >= 0) {
        w->free = w->flows[slot].next_free;
        return slot;
    }
    if (w->used == w->nslots) {
        cap = w->nslots ? 2 * w->nslots : 64;
        w->flows = pdl_arena_grow(w->arena, w->flows, (size_t)w->nslots,
                                  (size_t)cap, sizeof *w->flows);
        w->done = pdl_arena_grow(w->arena, w->done, (size_t)w->ndone,
                                 (size_t)cap, sizeof *w->done);
        net_share_reserve(&w->share, cap);
        if (!w->flows || !w->done || w->share.failed ||
            !net_clock_reserve(&w->clock, cap)) {
            w->failed = true;
            return NET_WIRE_INSTANT;
        }
        w->nslots = cap;
    }
    return w->used++;
}

static void count_bytes(struct net_wire *w, const struct net_message *msg,
                        int64_t bytes, double start_s)
{
    const struct net_fold *fold = w->model.fold;

    for (int i = 0; i < msg->nlinks; i++)
        w->use[msg->links[i]].bytes +=
            bytes * (fold ? fold->times[msg->links[i]] : 1);
    for (int i = 0; i < msg->nuses; i++) {
        struct pdl_link_use *u = &w->use[msg->uses[i].link];

        u->load += msg->uses[i].amount * (double)bytes;
        if (u->first_s < 0 || start_s < u->first_s) {
            u->first_s = start_s;
            w->sampled[msg->uses[i].link] = start_s;
        }
    }
    w->bytes_on_wire += bytes * msg->nlinks;
}

/* The latency is paid: bytes flow from now on. */
static void put_on(struct net_wire *w, int slot)
{
    struct net_wire_flow *f = &w->flows[slot];

    f->on = true;
    f->since = w->now;
    f->rate = f->alone_rate;
    if (w->model.config->share != PDL_SHARE_NONE) {
        const struct net_use *uses = net_share_uses(&w->share, slot);

        for (int i = 0; i < w->share.flows[slot].nuses; i++)
            if (w->share.links[uses[i].link].n == 0)
                w->busy_since[uses[i].link] = w->now;
        net_share_join(&w->share, slot);
        f->rate = w->share.flows[slot].rate; /* 0: not yet shared */
    }
}

static void set_end(struct net_wire *w, int slot)
{
    const struct net_wire_flow *f = &w->flows[slot];

    net_clock_set(&w->clock, slot,
                  f->rate > 0 ? w->now + f->left / f->rate : INFINITY);
}

static void set_up(struct net_wire *w, int slot, const struct net_message *msg,
                   int64_t bytes)
{
    struct net_wire_flow *f = &w->flows[slot];

    *f = (struct net_wire_flow){.left = (double)bytes,
                                .start = w->now,
                                .latency = msg->latency_s,
                                .alone_rate = msg->rate,
                                .alone_s = (double)bytes / msg->rate};
    for (int i = 0; i < msg->nuses; i++)
        f->amount += msg->uses[i].amount;
    if (w->model.config->energy == PDL_ENERGY_PLUGIN)
        for (int i = 0; i < msg->nuses; i++)
            net_energy_sample(w, msg->uses[i].link);
    if (w->model.config->share != PDL_SHARE_NONE)
        net_share_hold(&w->share, slot, msg->uses, msg->nuses, msg->weight,
                       msg->bound);
    w->failed = w->failed || w->share.failed;
    if (w->model.least && w->model.config->share != PDL_SHARE_NONE)
        for (int i = 0; i < msg->nlinks; i++)
            w->model.least->flying[msg->links[i]]++;
}

int net_wire_start(struct net_wire *w, const struct net_send *send)
{
    const struct net_message *msg = message(w, send);
    int64_t bytes = send->bytes;
    int slot;

    w->messages++;
    if (msg->nlinks == 0)
        return NET_WIRE_INSTANT;
    count_bytes(w, msg, bytes, w->now);
    if (w->model.config->zero_bytes)
        bytes = 0;
    if (bytes == 0 && !(msg->latency_s > 0))
        return NET_WIRE_INSTANT;
    slot = take_slot(w);
    if (!w->failed)
        set_up(w, slot, msg, bytes);
    if (w->failed)
        return NET_WIRE_INSTANT;
    w->nflying++;
    if (msg->latency_s > 0) {
        net_clock_set(&w->clock, slot, w->now + msg->latency_s);
        return slot;
    }
    put_on(w, slot);
    set_end(w, slot);
    return slot;
}

int net_wire_pause(struct net_wire *w, double seconds)
{
    int slot = take_slot(w);

    if (w->failed)
        return NET_WIRE_INSTANT;
    w->flows[slot] = (struct net_wire_flow){.start = w->now};
    if (w->model.config->share != PDL_SHARE_NONE)
        net_share_hold(&w->share, slot, NULL, 0, 1, 0);
    w->failed = w->failed || w->share.failed;
    if (w->failed)
        return NET_WIRE_INSTANT;
    w->nflying++;
    net_clock_set(&w->clock, slot, w->now + seconds);
    return slot;
}

/* Brings a flow's bytes up to now. */
static void catch_up(struct net_wire *w, struct net_wire_flow *f)
{
    double moved = f->rate * (w->now - f->since);

    if (w->timeline.n)
        net_timeline_add(&w->timeline, f->since, w->now,
                         f->amount * net_min(moved, f->left));
    f->left = net_max(0, f->left - moved);
    f->since = w->now;
}

void net_wire_share(struct net_wire *w)
{
    net_share_solve(&w->share);
    w->failed = w->failed || w->share.failed;
    for (int i = 0; i < w->share.nchanged; i++) {
        int slot = w->share.changed[i];
        struct net_wire_flow *f = &w->flows[slot];
        double rate = w->share.flows[slot].rate;

        if (rate == f->rate)
            continue;
        catch_up(w, f);
        f->rate = rate;
        net_clock_set(&w->clock, slot, w->now + f->left / rate);
    }
}

double net_wire_next(const struct net_wire *w)
{
    return net_clock_time(&w->clock);
}

/* A link that nobody uses after this flow stops being busy. */
static void leave_links(struct net_wire *w, int slot)
{
    const struct net_use *uses = net_share_uses(&w->share, slot);

    for (int i = 0; i < w->share.flows[slot].nuses; i++) {
        int l = uses[i].link;

        if (w->model.config->energy == PDL_ENERGY_PLUGIN)
            net_energy_sample(w, l);
        if (w->flows[slot].on && w->share.links[l].n == 1)
            w->use[l].busy_s += w->now - w->busy_since[l];
        if (w->model.least && uses[i].amount >= 1) /* not only cross traffic */
            w->model.least->flying[l]--;
    }
    net_share_remove(&w->share, slot);
}

static void arrive(struct net_wire *w, int slot)
{
    if (w->flows[slot].on)
        catch_up(w, &w->flows[slot]);
    if (w->model.config->share != PDL_SHARE_NONE)
        leave_links(w, slot);
    w->done[w->ndone++] = slot;
    w->nflying--;
}

/* The first event of this instant; false: there is none. */
static bool due(const struct net_wire *w, int *slot)
{
    double at = net_clock_time(&w->clock);

    if (at > w->now + w->now * NET_SAME_INSTANT &&
        !(at < w->now + w->model.instant_s))
        return false;
    *slot = net_clock_slot(&w->clock, at);
    return true;
}

void net_wire_go(struct net_wire *w, double t)
{
    int slot, begun = -1; /* the messages that are put on, whose ends are not
                             of this instant */

    for (int i = 0; i < w->ndone; i++) {
        w->flows[w->done[i]].next_free = w->free;
        w->free = w->done[i];
    }
    w->ndone = 0;
    w->now = t;
    while (due(w, &slot) && !w->failed) {
        struct net_wire_flow *f = &w->flows[slot];

        net_clock_set(&w->clock, slot, INFINITY);
        if (f->on || !(f->left > 0)) {
            arrive(w, slot);
            continue;
        }
        put_on(w, slot);
        f->next_free = begun;
        begun = slot;
    }
    for (; begun >= 0; begun = w->flows[begun].next_free)
        set_end(w, begun);
    w->failed = w->failed || w->share.failed;
}
