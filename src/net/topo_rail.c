/* SPDX-License-Identifier: Apache-2.0
 *
 * Rail-optimised network of GPU nodes (the DGX SuperPOD shape): the GPUs of a
 * node hang on an NVSwitch; GPU i of every node of a unit has its adapter on
 * rail switch i of that unit; rail switches are joined by spines. A host is a
 * GPU, numbered node by node.
 *
 * Between nodes on different rails routing=pxn first crosses the NVSwitch to
 * the GPU of the destination's rail (NCCL's PXN), so that the network is
 * entered on the right rail; routing=spine goes over a spine. */
#include "topo_priv.h"

enum { NODES, GPUS, UNIT, SPINES, UPLINKS, NVLINK, NVLINK_LAT, ROUTING };

struct rail {
    struct net_graph graph;
    int nodes, gpus, unit, spines, nhosts;
    bool pxn;
};

// clang-format off
static const struct pdl_param params[] = {
    {"nodes", PDL_PARAM_INT, NULL, 1, 65536, NULL, "nodes"},
    {"gpus", PDL_PARAM_INT, "8", 1, 1024, NULL, "GPUs and rails of a node"},
    {"unit", PDL_PARAM_INT, "32", 1, 65536, NULL,
     "nodes that share a set of rail switches"},
    {"spines", PDL_PARAM_INT, "8", 0, 65536, NULL, "spine switches"},
    {"uplinks", PDL_PARAM_INT, "4", 1, 4096, NULL,
     "cables from a rail switch to each spine, as one trunk"},
    {"nvlink", PDL_PARAM_RATE, "450GB/s", 0, 0, NULL,
     "rate of a GPU to its NVSwitch, each way"},
    {"nvlink-lat", PDL_PARAM_TIME, "500ns", 0, 0, NULL, "its latency"},
    {"routing", PDL_PARAM_CHOICE, "pxn", 0, 0, "pxn|spine",
     "how to change rails between nodes"},
};
// clang-format on

static int nvswitch(const struct rail *t, int node)
{
    return t->nhosts + node;
}

static int rail_switch(const struct rail *t, int node, int gpu)
{
    return t->nhosts + t->nodes + node / t->unit * t->gpus + gpu;
}

static int nunits(const struct rail *t)
{
    return (t->nodes + t->unit - 1) / t->unit;
}

/* Which spine: by destination. */
static int spine(const struct rail *t, int dst)
{
    return t->nhosts + t->nodes + nunits(t) * t->gpus + dst % t->spines;
}

static int route(const struct pdl_net *net, int src, int dst, int *links)
{
    const struct rail *t = net->shape;
    int from = src / t->gpus, to = dst / t->gpus;
    int gpu = src % t->gpus, goal = dst % t->gpus;
    int path[8] = {src}, n = 1;

    if (src == dst)
        return 0;
    if (from == to) {
        path[n++] = nvswitch(t, from);
    } else {
        if (gpu != goal && t->pxn) {
            path[n++] = nvswitch(t, from);
            path[n++] = from * t->gpus + goal;
            gpu = goal;
        }
        path[n++] = rail_switch(t, from, gpu);
        if (rail_switch(t, to, goal) != path[n - 1]) {
            path[n++] = spine(t, dst);
            path[n++] = rail_switch(t, to, goal);
        }
    }
    path[n++] = dst;
    return net_graph_path(&t->graph, path, n, links);
}

static enum pdl_status build(pdl_arena *a, const struct pdl_topo_values *v,
                             struct pdl_net *net, struct pdl_err *err)
{
    struct rail *t = PDL_NEW(a, struct rail, 1);
    int64_t hosts = v->v[NODES].i * v->v[GPUS].i, rails;
    struct net_cables c;

    if (!t)
        return pdl_fail(err, PDL_ENOMEM, "rail: out of memory");
    t->nodes = (int)v->v[NODES].i;
    t->gpus = (int)v->v[GPUS].i;
    t->unit = (int)v->v[UNIT].i;
    t->spines = (int)v->v[SPINES].i;
    t->pxn = v->v[ROUTING].i == 0;
    rails = (int64_t)nunits(t) * t->gpus;
    if (t->spines == 0 && (nunits(t) > 1 || !t->pxn))
        return pdl_fail(err, PDL_EINVAL,
                        "rail: without spines there is one unit and "
                        "routing=pxn");
    net_cables_init(&c, a, v, net, err);
    net_cables_counts(&c, hosts, t->nodes + rails + t->spines,
                      2 * hosts + rails * t->spines);
    t->nhosts = net->nhosts;
    for (int i = 0; i < hosts && c.status == PDL_OK; i++) {
        net_inside(&c, net_cable_of(&c, i, nvswitch(t, i / t->gpus),
                                    v->v[NVLINK].x, v->v[NVLINK_LAT].x));
        net_cable(&c, i, rail_switch(t, i / t->gpus, i % t->gpus), 1);
    }
    for (int64_t r = 0; r < rails && c.status == PDL_OK; r++)
        for (int s = 0; s < t->spines; s++)
            net_cable(&c, hosts + t->nodes + r, spine(t, s), v->v[UPLINKS].i);
    net->route = route;
    net->shape = t;
    net->node = t->gpus;
    return net_finish_graph(a, &c, &t->graph);
}

const struct pdl_topo net_rail = {
    .name = "rail",
    .group = PDL_TOPO_TREE,
    .summary = "rail-optimised GPU nodes: GPU i of every node on switch i",
    .source = "NVIDIA DGX SuperPOD reference architecture",
    .example = "rail:nodes=32,gpus=8,bw=50GB/s",
    .params = params,
    .nparams = sizeof params / sizeof params[0],
    .build = build,
};
