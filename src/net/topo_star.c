/* SPDX-License-Identifier: Apache-2.0
 *
 * Hosts on one switch, optionally through a backbone that all share: SimGrid's
 * flat <cluster>. The backbone is one link at the switch, crossed once by
 * every route; without it the switch never blocks. */
#include "topo_priv.h"

#include <stdio.h>

enum { HOSTS, BACKBONE, BACKBONE_LAT };

struct star {
    int per, nhosts;
    bool backbone;
};

// clang-format off
static const struct pdl_param params[] = {
    {"hosts", PDL_PARAM_INT, NULL, 1, NET_MAX_HOSTS, NULL, "hosts"},
    {"backbone", PDL_PARAM_RATE, "1B/s", 0, 0, NULL,
     "rate of the link all routes share; not given: none"},
    {"backbone-lat", PDL_PARAM_TIME, "0s", 0, 0, NULL, "its latency"},
};
// clang-format on

static int route(const struct pdl_net *net, int src, int dst, int *links)
{
    const struct star *s = net->shape;
    int n = 0;

    if (src == dst)
        return 0;
    links[n++] = src * s->per;
    if (s->backbone)
        links[n++] = s->nhosts * s->per;
    links[n++] = dst * s->per + s->per - 1;
    return n;
}

static void link_name(const struct pdl_net *net, int link, char *buf,
                      size_t size)
{
    const struct star *s = net->shape;

    if (link == s->nhosts * s->per)
        snprintf(buf, size, "backbone");
    else
        snprintf(buf, size, "link_%d%s", link / s->per,
                 s->per == 1 ? ""
                 : link % 2  ? "_down"
                             : "_up");
}

static enum pdl_status build(pdl_arena *a, const struct pdl_topo_values *v,
                             struct pdl_net *net, struct pdl_err *err)
{
    struct star *s = PDL_NEW(a, struct star, 1);
    int64_t hosts = v->v[HOSTS].i;
    struct net_cables c;

    if (!s)
        return pdl_fail(err, PDL_ENOMEM, "star: out of memory");
    s->per = net_per_cable(v);
    s->backbone = v->v[BACKBONE].given;
    net_cables_init(&c, a, v, net, err);
    net_cables_counts(&c, hosts, 1, hosts + 1);
    for (int64_t i = 0; i < hosts; i++)
        net_cable(&c, i, hosts, 1);
    if (s->backbone)
        net_crossing(&c, hosts, v->v[BACKBONE].x, v->v[BACKBONE_LAT].x);
    s->nhosts = net->nhosts;
    net->route = route;
    net->link_name = link_name;
    net->shape = s;
    return net_cables_done(&c);
}

const struct pdl_topo net_star = {
    .name = "star",
    .group = PDL_TOPO_TREE,
    .summary = "hosts on one switch, as SimGrid's flat cluster",
    .source = "SimGrid StarZone",
    .example = "star:hosts=16",
    .params = params,
    .nparams = sizeof params / sizeof params[0],
    .build = build,
};
