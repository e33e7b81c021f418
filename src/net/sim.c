/* SPDX-License-Identifier: Apache-2.0
 *
 * A run of traffic on a network: short cuts by rounds where messages share no
 * link, event by event where they do, handing over where every rank is at
 * one time. Both give the same times; a test compares them. */
#include "sim_priv.h"

#include <math.h>

enum { MOST_STAY = 1 << 20 };

enum pdl_status net_sim_pulse(const struct net_sim *s, struct pdl_err *err)
{
    if (s->config->progress)
        s->config->progress(s->config->progress_ctx, s->wire.messages);
    if (s->config->interrupt && *s->config->interrupt)
        return pdl_fail(err, PDL_EINTR, "interrupted after %lld messages",
                        (long long)s->wire.messages);
    if (s->config->until_s > 0 && s->wire.now > s->config->until_s)
        return pdl_fail(err, PDL_EINTR, "longer than %g s", s->config->until_s);
    return PDL_OK;
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
    enum pdl_status st;

    *s = (struct net_sim){
        .traffic = traffic,
        .config = config,
        .nranks = traffic->nranks,
        .window = traffic->window ? traffic->window : PDL_TRAFFIC_WINDOW,
        .time_s = net->setup_s};
    st = net_wire_init(&s->wire, a, net, config, err);
    if (st == PDL_OK)
        st = net_path_init(&s->path, a, s->nranks, config->critical_path, err);
    if (st != PDL_OK)
        return st;
    s->nops = PDL_NEW(a, int64_t, s->nranks + 1);
    s->finish_s = PDL_NEW(a, double, s->nranks + 1);
    if (!s->nops || !s->finish_s || !number_ports(s, a, net->nhosts))
        return pdl_fail(err, PDL_ENOMEM, "no memory for %d ranks", s->nranks);
    for (int r = 0; r < s->nranks; r++) {
        s->nops[r] = traffic->nops(traffic->ctx, r);
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
                   s->wire.model.net->spread != PDL_SPREAD_ADAPTIVE;
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

static enum pdl_status finish(struct net_sim *s, pdl_arena *a,
                              struct pdl_sim_result *out, struct pdl_err *err)
{
    double end = 0, *finish_s = PDL_NEW(a, double, s->nranks + 1);
    int last = 0;
    enum pdl_status st;

    if (!finish_s)
        return pdl_fail(err, PDL_ENOMEM, "no memory for %d ranks", s->nranks);
    for (int r = 0; r < s->nranks; r++) {
        finish_s[r] = s->finish_s[r];
        if (finish_s[r] > end) {
            end = finish_s[r];
            last = r;
        }
    }
    st = net_result(a, &s->wire, end, out, err);
    out->finish_s = finish_s;
    out->short_cuts = s->short_cuts;
    return st == PDL_OK ? net_path_result(&s->path, a, last, &out->path, err)
                        : st;
}

enum pdl_status pdl_sim_run(pdl_arena *a, const struct pdl_net *net,
                            const struct pdl_traffic *traffic,
                            const struct pdl_sim_config *config,
                            struct pdl_sim_result *out, struct pdl_err *err)
{
    struct pdl_sim_config zero = {.share = PDL_SHARE_FAIR};
    const struct pdl_sim_config *c = config ? config : &zero;
    struct pdl_sim_result result = {.max_link = -1};
    double wall = pdl_clock_s();
    struct net_sim sim;
    pdl_arena *scratch = NULL;
    enum pdl_status st = check_traffic(net, traffic, err);

    if (st != PDL_OK)
        return st;
    scratch =
        pdl_arena_create(c->memory_limit ? c->memory_limit : (size_t)8 << 30);
    if (!scratch)
        return pdl_fail(err, PDL_ENOMEM, "no memory for %d ranks",
                        traffic->nranks);
    st = sim_init(&sim, scratch, net, traffic, c, err);
    if (st == PDL_OK)
        st = go(&sim, scratch, err);
    if (st == PDL_OK)
        st = finish(&sim, a, &result, err);
    if (st == PDL_OK && c->bounds)
        st = net_bounds(&sim, &result, err);
    pdl_arena_destroy(scratch);
    if (st != PDL_OK)
        return st;
    result.wall_s = pdl_clock_s() - wall;
    *out = result;
    return PDL_OK;
}
