/* SPDX-License-Identifier: Apache-2.0
 *
 * Asking a network for routes and names, and proving that what it answers
 * holds together: pdl_net_check() is what every generator must pass. */
#include "topo_priv.h"

#include <math.h>
#include <stdio.h>

int pdl_net_route(const struct pdl_net *net, int src, int dst, int64_t bytes,
                  int *links)
{
    return net->route_sized ? net->route_sized(net, src, dst, bytes, links)
                            : net->route(net, src, dst, links);
}

int pdl_net_seat(const struct pdl_net *net, int i)
{
    return net->order ? i - i % net->node + net->order[i % net->node] : i;
}

static const char *vertex(const struct pdl_net *net, int v, char *buf,
                          size_t size)
{
    if (v < net->nhosts)
        snprintf(buf, size, "h%d", v);
    else
        snprintf(buf, size, "s%d", v - net->nhosts);
    return buf;
}

const char *pdl_net_link_name(const struct pdl_net *net, int link, char *buf,
                              size_t size)
{
    char u[16], v[16];

    if (net->link_name) {
        net->link_name(net, link, buf, size);
        return buf;
    }
    vertex(net, net->links[link].from, u, sizeof u);
    vertex(net, net->links[link].to, v, sizeof v);
    snprintf(buf, size, "%s%s%s#%d", u, net->links[link].shared ? "--" : "->",
             v, link);
    return buf;
}

static enum pdl_status check_link(const struct pdl_net *net, int i,
                                  struct pdl_err *err)
{
    const struct pdl_link *k = &net->links[i];
    int vertices = net->nhosts + net->nswitches;

    if (k->from < 0 || k->from >= vertices || k->to < 0 || k->to >= vertices)
        return pdl_fail(err, PDL_EWRONG, "link %d joins %d and %d of %d", i,
                        k->from, k->to, vertices);
    if (!(k->bytes_per_s > 0) || !isfinite(k->bytes_per_s) ||
        !(k->latency_s >= 0) || !isfinite(k->latency_s))
        return pdl_fail(err, PDL_EWRONG, "link %d: %g bytes/s, %g s", i,
                        k->bytes_per_s, k->latency_s);
    if (k->shared ? k->reverse != i : k->reverse == i)
        return pdl_fail(err, PDL_EWRONG, "link %d: reverse %d", i, k->reverse);
    if (k->reverse < -1 || k->reverse >= net->nlinks)
        return pdl_fail(err, PDL_EWRONG, "link %d: reverse %d", i, k->reverse);
    if (k->reverse >= 0 && !k->shared) {
        const struct pdl_link *r = &net->links[k->reverse];

        if (r->reverse != i || r->from != k->to || r->to != k->from)
            return pdl_fail(err, PDL_EWRONG,
                            "links %d and %d are not each other's reverse", i,
                            k->reverse);
    }
    return PDL_OK;
}

/* Where a link leads from a vertex; -1 when it does not touch it. */
static int across(const struct pdl_link *k, int at)
{
    if (k->from == at)
        return k->to;
    return k->shared && k->to == at ? k->from : -1;
}

/* Does it join nothing, because no graph has its routes? */
static bool loose(const struct pdl_link *k)
{
    return k->from == k->to;
}

static enum pdl_status check_walk(const struct pdl_net *net, int src, int dst,
                                  const int *links, int n, struct pdl_err *err)
{
    int at = src;

    for (int i = 0; i < n; i++) {
        int next;

        if (links[i] < 0 || links[i] >= net->nlinks)
            return pdl_fail(err, PDL_EWRONG, "route %d-%d: link %d of %d", src,
                            dst, links[i], net->nlinks);
        next = across(&net->links[links[i]], at);
        if (next < 0 && net->jumps && (i > 0 || loose(&net->links[links[i]])))
            next = net->links[links[i]].to;
        if (next < 0)
            return pdl_fail(err, PDL_EWRONG,
                            "route %d-%d: link %d does not start at vertex %d",
                            src, dst, links[i], at);
        at = next;
    }
    if (at != dst && !(net->jumps && n > 0 &&
                       (loose(&net->links[links[n - 1]]) ||
                        net->links[links[n - 1]].from == dst ||
                        net->links[links[n - 1]].to == dst)))
        return pdl_fail(err, PDL_EWRONG, "route %d-%d ends at vertex %d", src,
                        dst, at);
    return PDL_OK;
}

static enum pdl_status check_route(const struct pdl_net *net, int src, int dst,
                                   struct pdl_err *err)
{
    static const int64_t sizes[] = {0, 4096, 1 << 30};
    int links[PDL_MAX_ROUTE];
    enum pdl_status st = PDL_OK;
    int n = net->route(net, src, dst, links);

    if (n < 0 || n > PDL_MAX_ROUTE || (n == 0) != (src == dst))
        return pdl_fail(err, PDL_EWRONG, "route %d-%d has %d links", src, dst,
                        n);
    st = check_walk(net, src, dst, links, n, err);
    for (size_t i = 0;
         net->route_sized && st == PDL_OK && i < sizeof sizes / sizeof sizes[0];
         i++) {
        n = net->route_sized(net, src, dst, sizes[i], links);
        if (n < 0 || n > PDL_MAX_ROUTE || (n == 0) != (src == dst))
            return pdl_fail(err, PDL_EWRONG, "route %d-%d has %d links", src,
                            dst, n);
        st = check_walk(net, src, dst, links, n, err);
    }
    for (uint64_t flow = 0; net->path && st == PDL_OK && flow < 4; flow++) {
        n = net->path(net, src, dst, flow, links);
        if (n < 0 || n > PDL_MAX_ROUTE || (n == 0) != (src == dst))
            return pdl_fail(err, PDL_EWRONG, "flow %d of %d-%d has %d links",
                            (int)flow, src, dst, n);
        st = check_walk(net, src, dst, links, n, err);
    }
    return st;
}

enum pdl_status pdl_net_check(const struct pdl_net *net, int64_t max_pairs,
                              struct pdl_err *err)
{
    int64_t pairs = (int64_t)net->nhosts * net->nhosts;
    struct pdl_rng rng = {.key = 1};
    enum pdl_status st = PDL_OK;

    if (net->nhosts < 1 || net->nswitches < 0 || net->nlinks < 0)
        return pdl_fail(err, PDL_EWRONG, "%d hosts, %d switches, %d links",
                        net->nhosts, net->nswitches, net->nlinks);
    for (int i = 0; i < net->nlinks && st == PDL_OK; i++)
        st = check_link(net, i, err);
    for (int64_t p = 0; p < pairs && p < max_pairs && st == PDL_OK; p++) {
        uint64_t n = (uint64_t)net->nhosts;
        bool all = pairs <= max_pairs;
        int src =
            (int)(all ? p / net->nhosts : (int64_t)pdl_rng_below(&rng, n));
        int dst =
            (int)(all ? p % net->nhosts : (int64_t)pdl_rng_below(&rng, n));

        st = check_route(net, src, dst, err);
    }
    return st;
}
