/* SPDX-License-Identifier: Apache-2.0
 *
 * Tapered tree of racks, ABCI's shape by default: a rack has 4 leaves and 3
 * full-bisection switches (FBB), every leaf has a trunk of 6 cables to every
 * FBB, every FBB one of 4 to each of 2 spines, so that 17 hosts on a leaf
 * share 18 cables inside the rack and a rack's 68 share 24 to outside (about
 * 1:3). A host is one adapter; host h of a rack is on leaf h mod leaves (two
 * nodes of two adapters fill four leaves). A trunk is one link of n times the
 * rate.
 *
 * routing=dmodk picks FBB and spine by the destination, first takes the first
 * of each (a tree with a single path), ecmp is paths=ecmp. */
#include "topo_priv.h"

enum { RACKS, HOSTS, LEAVES, FBB, SPINES, UP, TOP, ROUTING };
enum { DMODK }; /* first of the choices; ecmp is paths.c's */

struct rack_tree {
    struct net_graph graph;
    int racks, hosts, leaves, fbb, spines, nhosts, routing;
};

// clang-format off
static const struct pdl_param params[] = {
    {"racks", PDL_PARAM_INT, NULL, 1, 65536, NULL, "racks"},
    {"hosts", PDL_PARAM_INT, "68", 1, 65536, NULL, "hosts (adapters) of a rack"},
    {"leaves", PDL_PARAM_INT, "4", 1, 4096, NULL, "leaf switches of a rack"},
    {"fbb", PDL_PARAM_INT, "3", 1, 4096, NULL, "second-level switches of a rack"},
    {"spines", PDL_PARAM_INT, "2", 1, 4096, NULL, "spine switches"},
    {"up", PDL_PARAM_INT, "6", 1, 4096, NULL, "cables from a leaf to each fbb"},
    {"top", PDL_PARAM_INT, "4", 1, 4096, NULL, "cables from an fbb to each spine"},
    {"routing", PDL_PARAM_CHOICE, "dmodk", 0, 0, "dmodk|first|ecmp",
     "how the switches above are chosen"},
};
// clang-format on

static int leaf(const struct rack_tree *t, int host)
{
    int rack = host / t->hosts;

    return t->nhosts + rack * (t->leaves + t->fbb) +
           host % t->hosts % t->leaves;
}

static int fbb(const struct rack_tree *t, int rack, int i)
{
    return t->nhosts + rack * (t->leaves + t->fbb) + t->leaves + i;
}

static int spine(const struct rack_tree *t, int i)
{
    return t->nhosts + t->racks * (t->leaves + t->fbb) + i;
}

static void choose(const struct rack_tree *t, int dst, int *mid, int *top)
{
    *mid = *top = 0;
    if (t->routing == DMODK) {
        *mid = dst / t->leaves % t->fbb;
        *top = dst / t->leaves / t->fbb % t->spines;
    }
}

static int route(const struct pdl_net *net, int src, int dst, int *links)
{
    const struct rack_tree *t = net->shape;
    int from = src / t->hosts, to = dst / t->hosts, mid, top;
    int path[7] = {src, leaf(t, src)}, n = 2;

    if (src == dst)
        return 0;
    choose(t, dst, &mid, &top);
    if (leaf(t, src) != leaf(t, dst)) {
        path[n++] = fbb(t, from, mid);
        if (from != to) {
            path[n++] = spine(t, top);
            path[n++] = fbb(t, to, mid);
        }
        path[n++] = leaf(t, dst);
    }
    path[n++] = dst;
    return net_graph_path(&t->graph, path, n, links);
}

static void lay_cables(const struct rack_tree *t, int64_t up, int64_t top,
                       struct net_cables *c)
{
    for (int h = 0; h < t->nhosts; h++)
        net_cable(c, h, leaf(t, h), 1);
    for (int r = 0; r < t->racks; r++)
        for (int f = 0; f < t->fbb; f++) {
            for (int l = 0; l < t->leaves; l++)
                net_cable(c, fbb(t, r, 0) - t->leaves + l, fbb(t, r, f), up);
            for (int s = 0; s < t->spines; s++)
                net_cable(c, fbb(t, r, f), spine(t, s), top);
        }
}

static enum pdl_status build(pdl_arena *a, const struct pdl_topo_values *v,
                             struct pdl_net *net, struct pdl_err *err)
{
    struct rack_tree *t = PDL_NEW(a, struct rack_tree, 1);
    struct net_cables c;
    int64_t hosts, inner;

    if (!t)
        return pdl_fail(err, PDL_ENOMEM, "rack-tree: out of memory");
    t->racks = (int)v->v[RACKS].i;
    t->hosts = (int)v->v[HOSTS].i;
    t->leaves = (int)v->v[LEAVES].i;
    t->fbb = (int)v->v[FBB].i;
    t->spines = (int)v->v[SPINES].i;
    t->routing = (int)v->v[ROUTING].i;
    hosts = (int64_t)t->racks * t->hosts;
    inner = (int64_t)t->racks * (t->leaves + t->fbb);
    net_cables_init(&c, a, v, net, err);
    net_cables_counts(
        &c, hosts, inner + t->spines,
        hosts + (int64_t)t->racks * t->fbb * (t->leaves + t->spines));
    t->nhosts = net->nhosts;
    if (c.status == PDL_OK)
        lay_cables(t, v->v[UP].i, v->v[TOP].i, &c);
    net->route = route;
    net->shape = t;
    return net_finish_graph(a, &c, &t->graph);
}

const struct pdl_topo net_rack_tree = {
    .name = "rack-tree",
    .group = PDL_TOPO_TREE,
    .summary = "tapered three-level tree of racks, ABCI's shape",
    .source = "ABCI's network as its platform file has it",
    .example = "rack-tree:racks=2",
    .params = params,
    .nparams = sizeof params / sizeof params[0],
    .build = build,
};
