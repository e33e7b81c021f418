/* SPDX-License-Identifier: Apache-2.0
 *
 * Short cut: rounds. Where operation i of every rank waits for its operation
 * i-1, and the messages of a round are matched within it, and no two messages
 * ever share a link, time is a recurrence over ranks: a message starts at the
 * later of its two ranks' times and takes its latency and its bytes alone; a
 * rank's next time is the last of its own two messages. No events, no solver;
 * a ring of 4096 ranks is 33 million of these steps.
 *
 * That no link is shared is checked, not assumed. Each link keeps the end of
 * the last message on it, and the next one must begin after. Rounds with the
 * same peers whose routes have no link in common need no such check: a
 * message follows its predecessor on the same way, whose end its receiver
 * has waited for. On the first conflict everything goes back to the last
 * moment when all ranks were at one time, and events take over from there.
 *
 * In a stretch of alike rounds the recurrence is linear in the max-plus
 * sense: once a round adds the same time to every rank, so does every later
 * round (Baccelli et al., Synchronization and Linearity, 3.7), and the rest
 * of the stretch is one multiplication. */
#include "sim_rounds.h"

#include <math.h>
#include <string.h>

static void *many(struct net_rounds *r, int n, size_t size, bool *ok)
{
    void *p = pdl_arena_alloc(r->sim->wire.arena, (size_t)n + 1, size);

    *ok = *ok && p;
    return p;
}

enum pdl_status net_rounds_create(struct net_rounds **out, struct net_sim *sim,
                                  pdl_arena *a, struct pdl_err *err)
{
    struct net_rounds *r = PDL_NEW(a, struct net_rounds, 1);
    int n = sim->nranks, links = sim->wire.model.nlinks;
    bool ok = r;

    if (!r)
        return pdl_fail(err, PDL_ENOMEM, "no memory for %d ranks", n);
    *r = (struct net_rounds){
        .sim = sim, .nranks = n, .nlinks = links, .stride = 8};
    r->now = many(r, n, sizeof *r->now, &ok);
    r->next = many(r, n, sizeof *r->next, &ok);
    r->end = many(r, n, sizeof *r->end, &ok);
    r->first = many(r, n, sizeof *r->first, &ok);
    r->to = many(r, n, sizeof *r->to, &ok);
    r->from = many(r, n, sizeof *r->from, &ok);
    r->ends = many(r, n, sizeof *r->ends, &ok);
    r->send = many(r, n, sizeof *r->send, &ok);
    r->recv = many(r, n, sizeof *r->recv, &ok);
    r->lane = many(r, n, sizeof *r->lane, &ok);
    r->uses = many(r, n, (size_t)r->stride * sizeof *r->uses, &ok);
    r->bytes = many(r, n, sizeof *r->bytes, &ok);
    r->seconds = many(r, n, sizeof *r->seconds, &ok);
    r->free_at = many(r, links, sizeof *r->free_at, &ok);
    r->stamp = many(r, links, sizeof *r->stamp, &ok);
    r->mark_use = many(r, links, sizeof *r->mark_use, &ok);
    if (sim->path.on) {
        r->mark_tips = many(r, n, sizeof *r->mark_tips, &ok);
        r->mark_live = many(r, n, sizeof *r->mark_live, &ok);
        r->node = many(r, n, sizeof *r->node, &ok);
        for (int i = 0; i < n && ok; i++)
            r->mark_live[i] = &r->mark_tips[i];
    }
    r->mark_timeline =
        many(r, sim->wire.timeline.n, sizeof *r->mark_timeline, &ok);
    if (!ok)
        return pdl_fail(err, PDL_ENOMEM, "no memory for %d ranks", n);
    for (int i = 0; i < n; i++)
        if (sim->nops[i] > r->last)
            r->last = sim->nops[i];
    *out = r;
    return PDL_OK;
}

/* ---- counting a stretch and going back --------------------------------- */

/* Brings the messages of a stretch to the links' counters. */
void net_rounds_count(struct net_rounds *r)
{
    struct net_wire *w = &r->sim->wire;

    for (int i = 0; i < r->nranks && r->counted; i++) {
        const struct net_lane_use *u = r->uses + (size_t)i * (size_t)r->stride;

        if (r->to[i] < 0)
            continue;
        for (int k = 0; k < r->lane[i].nuses; k++) {
            struct pdl_link_use *use = &w->use[u[k].link];

            use->bytes += r->bytes[i] * u[k].times;
            use->load += u[k].amount * (double)r->bytes[i];
            use->busy_s += r->seconds[i];
            if (use->first_s < 0 || r->first[i] < use->first_s)
                use->first_s = r->first[i];
            if (r->end[i] > r->free_at[u[k].link])
                r->free_at[u[k].link] = r->end[i];
        }
        w->bytes_on_wire += r->bytes[i] * r->lane[i].nlinks;
        r->bytes[i] = 0;
        r->seconds[i] = 0;
    }
    r->counted = false;
}

static void set_mark(struct net_rounds *r, int64_t round)
{
    const struct net_wire *w = &r->sim->wire;

    r->mark_round = round;
    r->mark_time = r->now[0];
    r->mark_messages = w->messages;
    r->mark_bytes = w->bytes_on_wire;
    r->mark_cuts = r->sim->short_cuts;
    r->mark_width = w->timeline.width;
    memcpy(r->mark_use, w->use, (size_t)r->nlinks * sizeof *w->use);
    if (w->timeline.n)
        memcpy(r->mark_timeline, w->timeline.bytes,
               (size_t)w->timeline.n * sizeof *w->timeline.bytes);
    if (r->sim->path.on)
        memcpy(r->mark_tips, r->sim->path.tips,
               (size_t)r->nranks * sizeof *r->mark_tips);
}

/* When the ranks that took part were last at work. */
static void set_finish(struct net_rounds *r, const double *times)
{
    for (int i = 0; i < r->nranks; i++)
        if (r->sim->nops[i] > r->begun)
            r->sim->finish_s[i] = times ? times[i] : r->mark_time;
}

/* Everything since the mark has not happened. */
static void go_back(struct net_rounds *r)
{
    struct net_sim *s = r->sim;
    struct net_wire *w = &s->wire;

    w->messages = r->mark_messages;
    w->bytes_on_wire = r->mark_bytes;
    s->short_cuts = r->mark_cuts;
    memcpy(w->use, r->mark_use, (size_t)r->nlinks * sizeof *w->use);
    w->timeline.width = r->mark_width;
    if (w->timeline.n)
        memcpy(w->timeline.bytes, r->mark_timeline,
               (size_t)w->timeline.n * sizeof *w->timeline.bytes);
    if (s->path.on)
        memcpy(s->path.tips, r->mark_tips,
               (size_t)r->nranks * sizeof *r->mark_tips);
    set_finish(r, NULL);
    s->round = r->mark_round;
    s->time_s = r->mark_time;
}

/* All ranks at one time? Then makes it exactly one. */
static bool together(struct net_rounds *r)
{
    double low = r->now[0], high = r->now[0];

    for (int i = 1; i < r->nranks; i++) {
        low = r->now[i] < low ? r->now[i] : low;
        high = r->now[i] > high ? r->now[i] : high;
    }
    if (high - low > high * NET_SAME_INSTANT)
        return false;
    for (int i = 0; i < r->nranks; i++)
        r->now[i] = high;
    return true;
}

/* ---- one round in time ------------------------------------------------- */

static double later(double a, double b)
{
    return a > b ? a : b;
}

/* The round's ends and the ranks' next times. */
static void step(struct net_rounds *r)
{
    for (int i = 0; i < r->nranks; i++)
        if (r->to[i] >= 0)
            r->end[i] = later(r->now[i], r->now[r->to[i]]) +
                        r->lane[i].latency_s + r->lane[i].seconds;
    for (int i = 0; i < r->nranks; i++) {
        double t = r->now[i];

        if (r->to[i] >= 0 && !r->lane[i].detached)
            t = later(t, r->end[i]);
        if (r->from[i] >= 0)
            t = later(t, r->end[r->from[i]]);
        r->next[i] = t;
    }
}

/* Does any message begin on a link before the last one there has ended? */
static bool conflict(struct net_rounds *r)
{
    if (r->sim->config->share == PDL_SHARE_NONE)
        return false;
    for (int i = 0; i < r->nranks; i++) {
        const struct net_lane_use *u = r->uses + (size_t)i * (size_t)r->stride;
        double begin;

        if (r->to[i] < 0)
            continue;
        begin = later(r->now[i], r->now[r->to[i]]) + r->lane[i].latency_s;
        for (int k = 0; k < r->lane[i].nuses; k++) {
            if (begin < r->free_at[u[k].link])
                return true;
            r->free_at[u[k].link] = r->end[i];
        }
    }
    return false;
}

static void follow_load(struct net_rounds *r)
{
    for (int i = 0; i < r->nranks; i++) {
        const struct net_lane_use *u = r->uses + (size_t)i * (size_t)r->stride;
        double amount = 0;

        if (r->to[i] < 0)
            continue;
        for (int k = 0; k < r->lane[i].nuses; k++)
            amount += u[k].amount;
        net_timeline_add(&r->sim->wire.timeline, r->end[i] - r->lane[i].seconds,
                         r->end[i], amount * (double)r->send[i]);
    }
}

static void follow_path(struct net_rounds *r, int64_t round)
{
    struct net_path *path = &r->sim->path;

    net_path_trim(path, r->nranks, r->mark_live, r->nranks);
    for (int i = 0; i < r->nranks && path->on; i++) {
        int to = r->to[i], parent;
        struct pdl_path_step s = {i, to, round, 0, r->end[i]};

        if (to < 0)
            continue;
        parent = path->tips[r->now[to] > r->now[i] ? to : i];
        s.start_s = later(r->now[i], r->now[to]);
        r->node[i] = r->lane[i].nlinks
                         ? net_path_add(path, parent, &s, r->lane[i].latency_s,
                                        r->lane[i].seconds)
                         : parent;
    }
    for (int i = 0; i < r->nranks && path->on; i++) {
        double t = r->now[i];

        if (r->to[i] >= 0 && !r->lane[i].detached && r->end[i] > t) {
            t = r->end[i];
            path->tips[i] = r->node[i];
        }
        if (r->from[i] >= 0 && r->end[r->from[i]] > t)
            path->tips[i] = r->node[r->from[i]];
    }
}

/* Timeline and critical path, where they are wanted. */
static void follow(struct net_rounds *r, int64_t round)
{
    if (r->sim->wire.timeline.n)
        follow_load(r);
    if (r->sim->path.on)
        follow_path(r, round);
}

/* Adds n rounds like this one to what the stretch has sent. */
static void count_rounds(struct net_rounds *r, int64_t n)
{
    int64_t messages = 0;

    for (int i = 0; i < r->nranks; i++)
        if (r->to[i] >= 0) {
            r->bytes[i] += n * r->send[i];
            r->seconds[i] += (double)n * r->lane[i].seconds;
            messages += n;
        }
    r->sim->wire.messages += messages;
    r->sim->short_cuts += messages;
}

static void note_first(struct net_rounds *r)
{
    for (int i = 0; i < r->nranks; i++)
        if (r->to[i] >= 0) {
            double start = later(r->now[i], r->now[r->to[i]]);

            r->first[i] = start < r->first[i] ? start : r->first[i];
        }
}

static void swap(struct net_rounds *r)
{
    double *t = r->now;

    r->now = r->next;
    r->next = t;
}

/* The same time for every rank? */
static bool uniform(const struct net_rounds *r, double *each)
{
    double d = r->next[0] - r->now[0];
    double noise = 4e-16 * r->next[0];

    for (int i = 1; i < r->nranks; i++)
        if (fabs(r->next[i] - r->now[i] - d) > noise)
            return false;
    *each = d;
    return true;
}

/* Runs n alike rounds that need no check of links. */
static enum pdl_status run_alike(struct net_rounds *r, int64_t n, int64_t round,
                                 struct pdl_err *err)
{
    bool jump = !r->sim->wire.timeline.n && !r->sim->path.on;
    enum pdl_status st = PDL_OK;

    for (int64_t k = 0; k < n && st == PDL_OK; k++) {
        double each;

        step(r);
        follow(r, round + k);
        count_rounds(r, 1);
        if (jump && n - k > 2 && uniform(r, &each)) {
            double rest = (double)(n - k - 1) * each;

            for (int i = 0; i < r->nranks; i++) {
                r->next[i] += rest;
                r->end[i] += rest;
            }
            count_rounds(r, n - k - 1);
            k = n;
        }
        swap(r);
        if (k % 16 == 0)
            st = net_sim_pulse(r->sim, err);
    }
    return st;
}

/* ---- the loop ---------------------------------------------------------- */

/* Gets the round's lanes ready; false: this is no work for rounds. */
static bool prepare(struct net_rounds *r, int64_t round, bool *check)
{
    int how = net_rounds_read(r, round);
    const struct net_sim *s = r->sim;
    bool sized =
        s->config->wire == PDL_WIRE_SMPI || s->wire.model.net->route_sized;

    if (how == NET_ODD || !net_rounds_match(r))
        return false;
    if (how == NET_NEW_BYTES && sized) {
        how = NET_NEW_PEERS;
    } else if (how == NET_NEW_BYTES) {
        net_rounds_time(r);
    }
    if (how == NET_NEW_PEERS) {
        net_rounds_count(r);
        if (r->mark_round != round && together(r))
            set_mark(r, round);
        if (!net_rounds_lanes(r))
            return false;
        note_first(r);
        *check = true;
        return true;
    }
    *check = !r->disjoint;
    return true;
}

static enum pdl_status one_round(struct net_rounds *r, int64_t *round,
                                 bool *stop, struct pdl_err *err)
{
    const struct pdl_traffic *traffic = r->sim->traffic;
    bool check;
    int64_t n;

    *stop = !prepare(r, *round, &check);
    if (*stop)
        return PDL_OK;
    step(r);
    if (check && conflict(r)) {
        *stop = true;
        return PDL_OK;
    }
    follow(r, *round);
    count_rounds(r, 1);
    swap(r);
    ++*round;
    n = traffic->alike ? traffic->alike(traffic->ctx, *round - 1) - 1 : 0;
    if (n > r->last - *round)
        n = r->last - *round;
    if (n <= 0 || !r->disjoint)
        return *round % 16 ? PDL_OK : net_sim_pulse(r->sim, err);
    *round += n;
    return run_alike(r, n, *round - n, err);
}

enum pdl_status net_rounds_run(struct net_rounds *r, struct pdl_err *err)
{
    struct net_sim *s = r->sim;
    int64_t round = s->round;
    enum pdl_status st = PDL_OK;
    bool stop = false;

    for (int i = 0; i < r->nranks; i++)
        r->now[i] = s->time_s;
    for (int l = 0; l < r->nlinks; l++)
        r->free_at[l] = 0;
    r->counted = false;
    r->begun = round;
    set_mark(r, round);
    while (round < r->last && !stop && st == PDL_OK)
        st = one_round(r, &round, &stop, err);
    if (st != PDL_OK)
        return st;
    if (stop) {
        go_back(r);
        return PDL_OK;
    }
    net_rounds_count(r);
    set_finish(r, r->now);
    s->done = true;
    return PDL_OK;
}
