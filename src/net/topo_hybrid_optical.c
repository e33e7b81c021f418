/* SPDX-License-Identifier: Apache-2.0
 *
 * Packet network plus optical circuits (PHOTONICS@SC 2019; IEICE Trans.
 * E104-D(8), 2021; reconstruction: no figure of the papers was found). Every
 * host has a port on the packet network and a duplex port on a circuit
 * switch. At the start of a job circuits host r -> host r + stride are set up
 * once (one out, one in on each port), because the traffic of a ring
 * allreduce never changes its pattern. A message of at least `threshold`
 * bytes between the two ends of a circuit takes it; all others stay in the
 * packet network. Setting up takes `reconfigure`, once. */
#include "topo_priv.h"

#include <stdio.h>

enum { EPS, OCS, FIBRE, THRESHOLD, RECONFIGURE, STRIDE };

struct hybrid {
    const struct pdl_net *eps;
    int64_t threshold;
    int stride;
};

// clang-format off
static const struct pdl_param params[] = {
    {"eps", PDL_PARAM_TEXT, NULL, 0, 0, NULL,
     "the packet network, a TOPOLOGY in parentheses"},
    {"ocs", PDL_PARAM_RATE, "50GB/s", 0, 0, NULL, "rate of a circuit"},
    {"fibre", PDL_PARAM_TIME, "52ns", 0, 0, NULL, "latency of a circuit"},
    {"threshold", PDL_PARAM_BYTES, "64KiB", 0, 0, NULL,
     "messages this large take the circuit"},
    {"reconfigure", PDL_PARAM_TIME, "10ms", 0, 0, NULL,
     "time to set the circuits up"},
    {"stride", PDL_PARAM_INT, "1", 1, NET_MAX_HOSTS, NULL,
     "circuits lead from host r to host r + stride"},
};
// clang-format on

/* The packet network's callbacks see the packet network. */
static int eps_route(const struct pdl_net *net, int src, int dst, int *links)
{
    const struct hybrid *h = net->shape;

    return h->eps->route(h->eps, src, dst, links);
}

static int route_sized(const struct pdl_net *net, int src, int dst,
                       int64_t bytes, int *links)
{
    const struct hybrid *h = net->shape;

    if (bytes >= h->threshold && src != dst &&
        (src + h->stride) % net->nhosts == dst) {
        links[0] = h->eps->nlinks + src;
        return 1;
    }
    return pdl_net_route(h->eps, src, dst, bytes, links);
}

static void link_name(const struct pdl_net *net, int link, char *buf,
                      size_t size)
{
    const struct hybrid *h = net->shape;

    if (link < h->eps->nlinks)
        pdl_net_link_name(h->eps, link, buf, size);
    else
        snprintf(buf, size, "circuit_%d_%d", net->links[link].from,
                 net->links[link].to);
}

static void copy_links(struct net_cables *c, const struct pdl_net *eps,
                       const struct pdl_topo_values *v, int stride)
{
    for (int i = 0; i < eps->nlinks; i++)
        c->links[i] = eps->links[i];
    c->nlinks = eps->nlinks;
    for (int r = 0; r < eps->nhosts; r++) {
        int k = net_arc(c, r, (r + stride) % eps->nhosts);

        c->links[k].bytes_per_s = v->v[OCS].x;
        c->links[k].latency_s = v->v[FIBRE].x;
        c->links[k].optical = true;
    }
}

static enum pdl_status build(pdl_arena *a, const struct pdl_topo_values *v,
                             struct pdl_net *net, struct pdl_err *err)
{
    struct hybrid *h = PDL_NEW(a, struct hybrid, 1);
    struct net_cables c;
    enum pdl_status st;

    if (!h)
        return pdl_fail(err, PDL_ENOMEM, "hybrid-optical: out of memory");
    if (v->depth > 2)
        return pdl_fail(err, PDL_EPARSE, "hybrid-optical: nested too deep");
    if (v->bw_given || v->lat_given || v->duplex_given)
        return pdl_fail(err, PDL_EPARSE,
                        "hybrid-optical: bw, lat and duplex belong inside "
                        "eps=(...)");
    st = net_make_at(a, v->v[EPS].text, v->depth + 1, &h->eps, err);
    if (st != PDL_OK)
        return st;
    h->threshold = v->v[THRESHOLD].i;
    h->stride = (int)(v->v[STRIDE].i % h->eps->nhosts);
    if (h->stride == 0)
        return pdl_fail(err, PDL_EINVAL,
                        "hybrid-optical: stride %lld leads a host to itself",
                        (long long)v->v[STRIDE].i);
    net_cables_init(&c, a, v, net, err);
    net_cables_counts(&c, h->eps->nhosts, h->eps->nswitches,
                      (int64_t)h->eps->nlinks + h->eps->nhosts);
    if (c.status == PDL_OK)
        copy_links(&c, h->eps, v, h->stride);
    net->route = eps_route;
    net->route_sized = route_sized;
    net->link_name = link_name;
    net->setup_s = v->v[RECONFIGURE].x + h->eps->setup_s;
    net->jumps = h->eps->jumps;
    net->shape = h;
    return net_cables_done(&c);
}

const struct pdl_topo net_hybrid_optical = {
    .name = "hybrid-optical",
    .group = PDL_TOPO_OPTICAL,
    .summary = "packet network plus circuits for large messages",
    .source = "PHOTONICS@SC 2019; IEICE 2021 (reconstruction)",
    .example = "hybrid-optical:eps=(fat-tree:down=8x8,up=1x8),ocs=50GB/s",
    .params = params,
    .nparams = sizeof params / sizeof params[0],
    .build = build,
};
