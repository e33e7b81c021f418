/* SPDX-License-Identifier: Apache-2.0
 *
 * Contention step by step: how many messages of operation number i the
 * busiest link carries. A count of routes, without times. */
#include "sim_priv.h"

#include <string.h>

struct count {
    const struct pdl_net *net;
    const struct pdl_traffic *traffic;
    int *on; /* messages on each link */
};

static int host_of(const struct pdl_traffic *t, int rank)
{
    return t->host_of_rank ? t->host_of_rank[rank] : rank;
}

static int busiest(const struct count *c, int64_t step)
{
    const struct pdl_traffic *t = c->traffic;
    int links[PDL_MAX_ROUTE], most = 0;

    memset(c->on, 0, (size_t)c->net->nlinks * sizeof *c->on);
    for (int r = 0; r < t->nranks; r++) {
        struct pdl_traffic_op op = {.send_to = -1};
        int n;

        if (step >= t->nops(t->ctx, r))
            continue;
        t->op(t->ctx, r, step, &op);
        if (op.send_to < 0 || op.send_to >= t->nranks)
            continue;
        n = pdl_net_route(c->net, host_of(t, r), host_of(t, op.send_to),
                          op.send_bytes, links);
        for (int i = 0; i < n; i++)
            if (++c->on[links[i]] > most)
                most = c->on[links[i]];
    }
    return most;
}

enum pdl_status pdl_traffic_contention(pdl_arena *a, const struct pdl_net *net,
                                       const struct pdl_traffic *traffic,
                                       int max_steps, int *out, int *nsteps,
                                       struct pdl_err *err)
{
    struct count c = {net, traffic, PDL_NEW(a, int, net->nlinks + 1)};
    int64_t steps = 0, i = 0;

    if (!c.on)
        return pdl_fail(err, PDL_ENOMEM, "no memory for %d links", net->nlinks);
    for (int r = 0; r < traffic->nranks; r++) {
        int64_t n = traffic->nops(traffic->ctx, r);

        steps = n > steps ? n : steps;
    }
    if (steps > max_steps)
        steps = max_steps;
    while (i < steps) {
        int64_t alike = traffic->alike ? traffic->alike(traffic->ctx, i) : 1;

        out[i] = busiest(&c, i);
        for (int64_t k = i + 1; k < i + alike && k < steps; k++)
            out[k] = out[i];
        i += alike > 0 ? alike : 1;
    }
    *nsteps = (int)steps;
    return PDL_OK;
}
