/* SPDX-License-Identifier: Apache-2.0
 *
 * The levels of a machine as a network: PEs of a node reach each other over
 * its own links; the node's adapters are one trunk that any of its PEs may
 * have to itself (libraries open several channels) and all of them share; the
 * nodes of a unit meet at a switch, units of a larger one at the next, and so
 * on to the top, whose uplinks may be thinned. A host is a PE, numbered node
 * by node. This is the machine that the oracle prices collectives on, so that
 * both can be held against each other (tests/oracle/test_wires.c).
 *
 * Where two PEs have less between them than one of them has in all (pair=), a
 * link of its own joins them; what limits the sum is then left out. */
#include "topo_priv.h"

enum { NODES, PES, UNITS, INSIDE, INSIDE_LAT, PAIR, UP, UP_LAT };

struct nodes {
    struct net_graph graph;
    int nodes, pes, nhosts, ntiers;
    int64_t unit[NET_MAX_DIMS + 2]; /* nodes of a block of each tier */
    int first[NET_MAX_DIMS + 2];    /* the first switch of each tier */
    bool pairs;
};

// clang-format off
static const struct pdl_param params[] = {
    {"nodes", PDL_PARAM_INT, NULL, 1, 1 << 20, NULL, "nodes"},
    {"pes", PDL_PARAM_INT, "8", 1, 1024, NULL, "PEs of a node"},
    {"units", PDL_PARAM_DIMS, "1048576", 1, 1 << 20, NULL,
     "nodes of a unit, units of a larger one, ..."},
    {"inside", PDL_PARAM_RATE, "450GB/s", 0, 0, NULL,
     "rate of a PE to the others of its node, and to its adapters"},
    {"inside-lat", PDL_PARAM_TIME, "1us", 0, 0, NULL, "of a message there"},
    {"pair", PDL_PARAM_RATE, "1PB/s", 0, 0, NULL,
     "rate between two PEs of a node, where that is less"},
    {"up", PDL_PARAM_RATE, "1PB/s", 0, 0, NULL,
     "rate of the uplinks of a block below the top, where that is less than "
     "its nodes have"},
    {"up-lat", PDL_PARAM_TIME, "100ns", 0, 0, NULL,
     "latency of a cable between switches"},
};
// clang-format on

/* The switch of a tier that a node is below; tier 0 is the node's own. */
static int at_tier(const struct nodes *t, int tier, int node)
{
    return t->first[tier] + (int)(node / t->unit[tier]);
}

static int route(const struct pdl_net *net, int src, int dst, int *links)
{
    const struct nodes *t = net->shape;
    int from = src / t->pes, to = dst / t->pes, top = 0, n = 1;
    int path[2 * NET_MAX_DIMS + 8] = {src};

    if (src == dst)
        return 0;
    if (from == to && !t->pairs)
        path[n++] = t->first[0] + t->nodes + from;
    while (from != to && at_tier(t, top, from) != at_tier(t, top, to))
        path[n++] = at_tier(t, top++, from);
    if (from != to)
        path[n++] = at_tier(t, top, from);
    while (top-- > 0)
        path[n++] = at_tier(t, top, to);
    path[n++] = dst;
    return net_graph_path(&t->graph, path, n, links);
}

static void inside_node(const struct nodes *t, int node,
                        const struct pdl_topo_values *v, struct net_cables *c)
{
    int base = node * t->pes;
    double rate = v->v[INSIDE].x, lat = v->v[INSIDE_LAT].x;

    for (int i = base; i < base + t->pes; i++) {
        net_inside(c, net_cable_of(c, i, t->first[0] + node, rate, 0));
        if (!t->pairs && t->pes > 1)
            net_inside(c, net_cable_of(c, i, t->first[0] + t->nodes + node,
                                       rate, lat / 2));
        for (int k = i + 1; t->pairs && k < base + t->pes; k++)
            net_inside(c, net_cable_of(c, i, k, v->v[PAIR].x, lat));
    }
}

static void lay_cables(const struct nodes *t, const struct pdl_topo_values *v,
                       struct net_cables *c)
{
    for (int n = 0; n < t->nodes && c->status == PDL_OK; n++) {
        inside_node(t, n, v, c);
        net_cable(c, t->first[0] + n, at_tier(t, 1, n), 1);
    }
    for (int k = 1; k < t->ntiers; k++)
        for (int64_t n = 0; n < t->nodes && c->status == PDL_OK;
             n += t->unit[k]) {
            double rate = (double)t->unit[k] * c->bytes_per_s;

            if (k == t->ntiers - 1 && v->v[UP].x < rate)
                rate = v->v[UP].x;
            net_cable_of(c, at_tier(t, k, (int)n), at_tier(t, k + 1, (int)n),
                         rate, v->v[UP_LAT].x);
        }
}

/* Tiers from a node's adapters to the switch that holds all; the number of
 * switches, with those that join the PEs of a node. */
static int64_t tiers(struct nodes *t, const struct net_dims *units)
{
    int64_t at = t->nhosts, size = 1;

    t->unit[0] = 1;
    t->first[0] = (int)at;
    at += (int64_t)t->nodes * (t->pairs || t->pes == 1 ? 1 : 2);
    while (size < t->nodes || t->ntiers == 0) {
        int64_t of = t->ntiers < units->n ? units->d[t->ntiers] : t->nodes;

        if (!pdl_mul64(size, of, &size) || size > t->nodes)
            size = t->nodes;
        t->ntiers++;
        t->unit[t->ntiers] = size;
        t->first[t->ntiers] = (int)at;
        at += (t->nodes + size - 1) / size;
    }
    return at - t->nhosts;
}

static enum pdl_status build(pdl_arena *a, const struct pdl_topo_values *v,
                             struct pdl_net *net, struct pdl_err *err)
{
    struct nodes *t = PDL_NEW(a, struct nodes, 1);
    int64_t hosts = v->v[NODES].i * v->v[PES].i, switches, inside;
    struct net_cables c;

    if (!t)
        return pdl_fail(err, PDL_ENOMEM, "nodes: out of memory");
    if (hosts > NET_MAX_HOSTS)
        return pdl_fail(err, PDL_EINVAL, "nodes: more than %d hosts",
                        NET_MAX_HOSTS);
    t->nodes = (int)v->v[NODES].i;
    t->pes = (int)v->v[PES].i;
    t->nhosts = (int)hosts;
    t->pairs = t->pes > 1 && v->v[PAIR].x < v->v[INSIDE].x;
    switches = tiers(t, &v->v[UNITS].dims);
    inside = t->pairs ? (int64_t)t->pes * (t->pes - 1) / 2 : t->pes;
    net_cables_init(&c, a, v, net, err);
    net_cables_counts(&c, hosts, switches,
                      t->nodes * (t->pes + inside) + switches);
    if (c.status == PDL_OK)
        lay_cables(t, v, &c);
    net->route = route;
    net->shape = t;
    net->node = t->pes;
    return net_finish_graph(a, &c, &t->graph);
}

const struct pdl_topo net_nodes = {
    .name = "nodes",
    .group = PDL_TOPO_TREE,
    .summary = "levels of a machine: nodes that pool their adapters, units",
    .source = "the machine that the oracle prices collectives on",
    .example = "nodes:nodes=32,pes=8,bw=400GB/s",
    .params = params,
    .nparams = sizeof params / sizeof params[0],
    .build = build,
};
