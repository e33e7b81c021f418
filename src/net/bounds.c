/* SPDX-License-Identifier: Apache-2.0
 *
 * What no schedule of the same messages on the same routes can beat.
 *  - latency: the same traffic with empty messages.
 *  - alone: the same traffic where no message sees another. Messages match in
 *    a fixed order, so times are sums and maxima of durations, and a message
 *    is never faster for sharing: the run can only be later.
 *  - link: all bytes of a link at its full rate. host: all bytes into or out
 *    of a host over the links there. bisection: all bytes from one half of
 *    the hosts to the other over the links there, for the best cut found.
 *    With fixed routes the last two are never above the first; next to it
 *    they say whether hosts, the network's waist or the routes are short. */
#include "sim_priv.h"
#include "topo_priv.h"

#include <math.h>

static enum pdl_status alone(const struct net_sim *s, bool zero_bytes,
                             double *time_s, struct pdl_err *err)
{
    struct pdl_sim_config config = {
        .share = PDL_SHARE_NONE,
        .wire = s->config->wire,
        .zero_bytes = zero_bytes,
        .time_only = true,
        .memory_limit = s->config->memory_limit,
        .interrupt = s->config->interrupt,
    };
    pdl_arena *a =
        pdl_arena_create((size_t)s->traffic->nranks * 16 + (1 << 20));
    struct pdl_traffic traffic = *s->traffic;
    struct pdl_sim_result out;
    enum pdl_status st;

    if (!a)
        return pdl_fail(err, PDL_ENOMEM, "no memory for the bounds");
    if (traffic.calm_op) {
        traffic.op = traffic.calm_op;
        traffic.alike = traffic.calm_alike;
    }
    st = pdl_sim_run(a, s->wire.model.net, &traffic, &config, &out, err);
    if (st == PDL_OK)
        *time_s = out.time_s;
    pdl_arena_destroy(a);
    return st;
}

static void link_bound(const struct net_sim *s, struct pdl_bounds *b)
{
    const struct net_wire *w = &s->wire;

    b->link = -1;
    for (int l = 0; l < w->model.net->nlinks; l++) {
        double t = w->use[l].load / w->model.capacity[l];

        if (t > b->link_s) {
            b->link_s = t;
            b->link = l;
        }
    }
}

/* Bytes and rates at a host's links, out and in. */
struct port {
    double bytes[2], rate[2];
};

static enum pdl_status host_bound(const struct net_sim *s, struct pdl_bounds *b,
                                  struct pdl_err *err)
{
    const struct net_wire *w = &s->wire;
    const struct pdl_net *net = w->model.net;
    struct port *ports = PDL_NEW(w->arena, struct port, net->nhosts + 1);

    if (!ports)
        return pdl_fail(err, PDL_ENOMEM, "no memory for %d hosts", net->nhosts);
    b->host = -1;
    for (int l = 0; l < net->nlinks; l++) {
        int ends[2] = {net->links[l].from, net->links[l].to};

        for (int k = 0; k < 2; k++) /* a shared link is both at both ends */
            for (int way = 0; way < 2; way++)
                if ((way == k || net->links[l].shared) &&
                    ends[k] < net->nhosts) {
                    ports[ends[k]].bytes[way] += w->use[l].load;
                    ports[ends[k]].rate[way] += w->model.capacity[l];
                }
    }
    for (int h = 0; h < net->nhosts; h++)
        for (int way = 0; way < 2; way++)
            if (ports[h].bytes[way] > b->host_s * ports[h].rate[way]) {
                b->host_s = ports[h].bytes[way] / ports[h].rate[way];
                b->host = h;
            }
    return PDL_OK;
}

static enum pdl_status bisection_bound(const struct net_sim *s,
                                       struct pdl_bounds *b,
                                       struct pdl_err *err)
{
    const struct net_wire *w = &s->wire;
    const struct pdl_net *net = w->model.net;
    struct port cut = {{0, 0}, {0, 0}};
    const char *side;
    enum pdl_status st = net_halves(w->arena, net, &side, err);

    for (int l = 0; st == PDL_OK && l < net->nlinks; l++) {
        const struct pdl_link *k = &net->links[l];

        for (int way = 0; way < 2; way++)
            if (side[k->from] != side[k->to] &&
                (k->shared || side[k->from] == way)) {
                cut.bytes[way] += w->use[l].load;
                cut.rate[way] += w->model.capacity[l];
            }
    }
    for (int way = 0; way < 2; way++)
        if (cut.rate[way] > 0)
            b->bisection_s =
                fmax(b->bisection_s, cut.bytes[way] / cut.rate[way]);
    return st;
}

enum pdl_status net_bounds(struct net_sim *s, struct pdl_sim_result *out,
                           struct pdl_err *err)
{
    struct pdl_bounds *b = &out->bounds;
    const struct net_fold *fold = s->wire.model.fold;
    enum pdl_status st = alone(s, true, &b->latency_s, err);

    if (out->messages == out->short_cuts && !(fold && fold->meet))
        b->alone_s = out->time_s; /* no message has met another */
    else if (st == PDL_OK)
        st = alone(s, s->config->zero_bytes, &b->alone_s, err);
    if (st == PDL_OK && !s->config->zero_bytes) {
        link_bound(s, b);
        st = host_bound(s, b, err);
        if (st == PDL_OK)
            st = bisection_bound(s, b, err);
    }
    b->lower_s =
        fmax(fmax(fmax(b->latency_s, b->alone_s), fmax(b->link_s, b->host_s)),
             b->bisection_s);
    if (s->wire.model.instant_s > 0 && b->lower_s > out->time_s &&
        b->lower_s < 1.001 * out->time_s)
        b->lower_s = out->time_s; /* early by its precision of times */
    return st;
}
