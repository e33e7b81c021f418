/* SPDX-License-Identifier: Apache-2.0
 *
 * A run of traffic on a network: short cuts by rounds where messages share no
 * link, event by event where they do, handing over where every rank is at
 * one time. Both give the same times; a test compares them. */
#include "sim_priv.h"

#include <math.h>
#include <string.h>

enum { MOST_STAY = 1 << 20 };

enum pdl_status net_sim_pulse(const struct net_sim *s, struct pdl_err *err)
{
    const struct net_fold *fold = s->wire.model.fold;

    if (fold && fold->broken)
        return pdl_fail(err, PDL_EINTR, "a way that does not turn");
    if (s->config->progress)
        s->config->progress(s->config->progress_ctx, s->wire.messages);
    if (s->config->interrupt && *s->config->interrupt)
        return pdl_fail(err, PDL_EINTR, "interrupted after %lld messages",
                        (long long)s->wire.messages);
    if (s->config->until_s > 0 && s->wire.now > s->config->until_s)
        return pdl_fail(err, PDL_EINTR, "longer than %g s", s->config->until_s);
    return PDL_OK;
}

void net_sim_op(const struct net_sim *s, int rank, int64_t i,
                struct pdl_traffic_op *op, struct net_ends *ends)
{
    const struct pdl_traffic *traffic = s->traffic;
    const struct net_fold *f = s->wire.model.fold;
    int me = f ? f->host[rank] : rank;

    traffic->op(traffic->ctx, me, i, op);
    *ends = (struct net_ends){op->send_to, rank};
    if (f && op->recv_from >= 0 && op->recv_from < traffic->nranks) {
        ends->as = net_fold_seen(f, op->recv_from, me);
        op->recv_from = f->place[op->recv_from] / f->size;
    }
    if (f && op->send_to >= 0 && op->send_to < traffic->nranks)
        op->send_to = f->place[op->send_to] / f->size;
}

struct net_send net_sim_send(const struct net_sim *s, int from, int to,
                             int seen, int64_t bytes)
{
    const struct net_fold *f = s->wire.model.fold;
    uint64_t flow;

    if (f)
        return (struct net_send){f->host[from], seen, bytes, s->config->seed};
    flow = (uint64_t)s->port[from] << 32 | (uint32_t)s->port[to];
    return (struct net_send){net_sim_host(s, from), net_sim_host(s, to), bytes,
                             flow ^ s->config->seed};
}

static enum pdl_status check_traffic(const struct pdl_net *net,
                                     const struct pdl_traffic *traffic,
                                     struct pdl_err *err)
{
    if (traffic->nranks < 1 || traffic->window < 0)
        return pdl_fail(err, PDL_EINVAL, "traffic of %d ranks, window %d",
                        traffic->nranks, traffic->window);
    if (!traffic->host_of_rank && traffic->nranks > net->nhosts)
        return pdl_fail(err, PDL_EINVAL, "%d ranks on %d hosts",
                        traffic->nranks, net->nhosts);
    for (int r = 0; traffic->host_of_rank && r < traffic->nranks; r++)
        if (traffic->host_of_rank[r] < 0 ||
            traffic->host_of_rank[r] >= net->nhosts)
            return pdl_fail(err, PDL_EINVAL, "rank %d is on host %d of %d", r,
                            traffic->host_of_rank[r], net->nhosts);
    return PDL_OK;
}

static bool number_ports(struct net_sim *s, pdl_arena *a, int nhosts)
{
    int *used = PDL_NEW(a, int, nhosts + 1);

    s->port = PDL_NEW(a, int, s->nranks + 1);
    for (int r = 0; used && s->port && r < s->nranks; r++)
        s->port[r] = used[net_sim_host(s, r)]++;
    return used && s->port;
}

static enum pdl_status sim_init(struct net_sim *s, pdl_arena *a,
                                const struct pdl_net *net,
                                const struct pdl_traffic *traffic,
                                const struct pdl_sim_config *config,
                                struct pdl_err *err)
{
    struct net_fold *fold;
    enum pdl_status st = net_fold_make(&fold, a, net, traffic, config, err);

    if (st != PDL_OK)
        return st;
    *s = (struct net_sim){
        .traffic = traffic,
        .config = config,
        .nranks = fold ? fold->nranks : traffic->nranks,
        .window = traffic->window ? traffic->window : PDL_TRAFFIC_WINDOW,
        .time_s = net->setup_s};
    st = net_wire_init(&s->wire, a, net, config, fold, err);
    if (st == PDL_OK)
        st = net_path_init(&s->path, a, s->nranks, config->critical_path, err);
    if (st != PDL_OK)
        return st;
    s->nops = PDL_NEW(a, int64_t, s->nranks + 1);
    s->finish_s = PDL_NEW(a, double, s->nranks + 1);
    if (!s->nops || !s->finish_s || (!fold && !number_ports(s, a, net->nhosts)))
        return pdl_fail(err, PDL_ENOMEM, "no memory for %d ranks", s->nranks);
    for (int r = 0; r < s->nranks; r++) {
        s->nops[r] = traffic->nops(traffic->ctx, fold ? fold->host[r] : r);
        if (s->nops[r] < 0)
            return pdl_fail(err, PDL_EINVAL, "rank %d has %lld operations", r,
                            (long long)s->nops[r]);
    }
    return PDL_OK;
}

static enum pdl_status go(struct net_sim *s, pdl_arena *scratch,
                          struct pdl_err *err)
{
    struct net_rounds *rounds = NULL;
    struct net_events *events = NULL;
    int64_t fruitless = 0, before;
    enum pdl_status st = PDL_OK;

    s->by_rounds = !s->config->events_only &&
                   s->config->energy != PDL_ENERGY_PLUGIN &&
                   !net_by_message(s->wire.model.net);
    if (s->by_rounds)
        st = net_rounds_create(&rounds, s, scratch, err);
    while (st == PDL_OK && !s->done) {
        before = s->round;
        if (s->by_rounds)
            st = net_rounds_run(rounds, err);
        if (st != PDL_OK || s->done)
            break;
        /* handing over costs as much as looking at a window of every rank:
         * after tries that got no further than that, ever more rarely */
        fruitless = s->round - before > s->window ? 0 : 2 * fruitless + 1;
        if (fruitless > MOST_STAY)
            fruitless = MOST_STAY;
        s->stay = s->window > 1 ? fruitless : 0;
        if (!events)
            st = net_events_create(&events, s, scratch, err);
        if (st == PDL_OK)
            st = net_events_run(events, err);
    }
    return st;
}

/* Gives every link what its folded one has counted. */
static enum pdl_status unfold(struct net_sim *s, struct pdl_err *err)
{
    struct net_wire *w = &s->wire;
    const struct net_fold *f = w->model.fold;
    int n = w->model.net->nlinks;
    struct pdl_link_use *use = PDL_NEW(w->arena, struct pdl_link_use, n + 1);
    double *capacity = PDL_NEW(w->arena, double, n + 1);

    if (!use || !capacity)
        return pdl_fail(err, PDL_ENOMEM, "no memory for %d links", n);
    for (int l = 0; l < n; l++) {
        use[l] = w->use[f->link[l]];
        capacity[l] = w->model.capacity[f->link[l]];
    }
    w->use = use;
    w->model.capacity = capacity;
    w->messages *= f->size;
    w->bytes_on_wire *= f->size;
    s->short_cuts *= f->size;
    return PDL_OK;
}

static enum pdl_status finish(struct net_sim *s, pdl_arena *a,
                              struct pdl_sim_result *out, struct pdl_err *err)
{
    const struct net_fold *f = s->wire.model.fold;
    int n = s->traffic->nranks, last = 0;
    double end = 0, *finish_s = PDL_NEW(a, double, n + 1);
    bool all = !s->config->time_only;
    enum pdl_status st = f && all ? unfold(s, err) : PDL_OK;

    if (st != PDL_OK)
        return st;
    if (!finish_s)
        return pdl_fail(err, PDL_ENOMEM, "no memory for %d ranks", n);
    for (int r = 0; r < n; r++) {
        finish_s[r] = s->finish_s[f ? f->place[r] / f->size : r];
        if (finish_s[r] > end) {
            end = finish_s[r];
            last = r;
        }
    }
    out->time_s = end;
    if (!all)
        return PDL_OK;
    st = net_result(a, &s->wire, end, out, err);
    out->finish_s = finish_s;
    out->short_cuts = s->short_cuts;
    out->folded = f ? f->size : 1;
    return st == PDL_OK ? net_path_result(&s->path, a, last, &out->path, err)
                        : st;
}

/* *broken: the ranks cannot be folded after all. */
static enum pdl_status run(pdl_arena *a, const struct pdl_net *net,
                           const struct pdl_traffic *traffic,
                           const struct pdl_sim_config *c,
                           struct pdl_sim_result *out, bool *broken,
                           struct pdl_err *err)
{
    size_t limit = c->memory_limit ? c->memory_limit : (size_t)8 << 30;
    pdl_arena *scratch = pdl_arena_create(limit);
    struct net_sim sim;
    enum pdl_status st;

    if (!scratch)
        return pdl_fail(err, PDL_ENOMEM, "no memory for %d ranks",
                        traffic->nranks);
    memset(&sim, 0, sizeof sim);
    st = sim_init(&sim, scratch, net, traffic, c, err);
    if (st == PDL_OK)
        st = go(&sim, scratch, err);
    *broken = sim.wire.model.fold && sim.wire.model.fold->broken;
    if (st == PDL_OK && !*broken)
        st = finish(&sim, a, out, err);
    if (st == PDL_OK && !*broken && c->bounds)
        st = net_bounds(&sim, out, err);
    pdl_arena_destroy(scratch);
    return st;
}

enum pdl_status pdl_sim_run(pdl_arena *a, const struct pdl_net *net,
                            const struct pdl_traffic *traffic,
                            const struct pdl_sim_config *config,
                            struct pdl_sim_result *out, struct pdl_err *err)
{
    struct pdl_sim_config c = {.share = PDL_SHARE_FAIR};
    struct pdl_sim_result result = {.max_link = -1};
    double wall = pdl_clock_s();
    bool broken = false;
    enum pdl_status st = check_traffic(net, traffic, err);

    if (config)
        c = *config;
    if (st == PDL_OK)
        st = run(a, net, traffic, &c, &result, &broken, err);
    if (broken) {
        c.unfolded = true;
        st = run(a, net, traffic, &c, &result, &broken, err);
    }
    if (st != PDL_OK)
        return st;
    result.wall_s = pdl_clock_s() - wall;
    *out = result;
    return PDL_OK;
}
