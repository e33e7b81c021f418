/* SPDX-License-Identifier: Apache-2.0
 *
 * Clusters of DGX-1 (8 V100, hybrid cube mesh of NVLinks) and DGX-2 (16 V100
 * on an NVSwitch) as the simulations of IPCCC 2019 had them: an adapter for
 * two GPUs, leaves of 24 adapters, a trunk of 12 cables to one root.
 *
 * The DGX-2 platform file of that paper declares the routes over the NVSwitch
 * only between the last GPU of a node and each other one: nvswitch=published,
 * which its figures were made with, does the same; nvswitch=star joins all. */
#include "cluster_priv.h"

enum { NODES, NVSWITCH };

// clang-format off
static const struct pdl_param params[] = {
    {"nodes", PDL_PARAM_INT, NULL, 1, 1024, NULL, "nodes"},
};
static const struct pdl_param params2[] = {
    {"nodes", PDL_PARAM_INT, NULL, 1, 1024, NULL, "nodes"},
    {"nvswitch", PDL_PARAM_CHOICE, "published", 0, 0, "published|star",
     "joins the last GPU with each other as the paper's file, or all"},
};
static const struct net_nvlink cube_mesh[] = {
    {0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {1, 2, 2}, {1, 3, 1}, {2, 3, 2},
    {0, 4, 2}, {1, 5, 2}, {2, 6, 1}, {3, 7, 1},
    {4, 5, 1}, {4, 6, 1}, {4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 2},
};
/* a ring of the ranks stays on NVLinks */
static const int cube_order[] = {0, 3, 2, 1, 5, 6, 7, 4};
// clang-format on

static const struct net_node_kind dgx1 = {
    .gpus = 8,
    .nvlinks = cube_mesh,
    .order = cube_order,
    .nnvlinks = sizeof cube_mesh / sizeof cube_mesh[0],
    .nvlink_bytes_per_s = 50e9,
    .nvlink_s = 9e-6,
    .nvlink_idle_w = 19.04,
    .nvlink_peak_w = 22.4,
    .watts_by_width = true,
    .pcie_latency_s = 7.5e-6,
    .hca_idle_w = 763.0 / 180,
    .hca_peak_w = 79.0 / 18,
};

static const struct net_node_kind dgx2 = {
    .gpus = 16,
    .nvlink_bytes_per_s = 50e9,
    .nvlink_s = 5e-6,
    .nvlink_idle_w = 19.04,
    .nvlink_peak_w = 22.4,
    .pcie_latency_s = 7.5e-6,
    .hca_idle_w = 763.0 / 180,
    .hca_peak_w = 79.0 / 18,
};

static enum pdl_status build(pdl_arena *a, const struct pdl_topo_values *v,
                             const struct net_node_kind *kind,
                             struct pdl_net *net, struct pdl_err *err)
{
    int nodes = (int)v->v[NODES].i, hcas = kind->gpus / 2;
    int leaves = (nodes * hcas + 23) / 24;
    struct net_cluster k;

    net_cluster_init(&k, a, v, kind, nodes, 1 + leaves, net, err);
    net_cluster_crossing(&k, 0, 1.625e13, 400e-9);
    for (int i = 0; i < leaves; i++)
        net_cluster_crossing(&k, 1 + i, 900e9, 90e-9);
    for (int i = 0; i < leaves; i++)
        net_cluster_up(&k, net_cluster_switch(&k, 1 + i), 0, 12, 158.575925926,
                       842.0 / 3);
    for (int n = 0; n < nodes; n++)
        for (int p = 0; p < hcas; p++)
            net_cluster_hca(&k, n, p, 1 + (n * hcas + p) / 24);
    return net_cluster_done(&k, a, net, err);
}

static enum pdl_status build1(pdl_arena *a, const struct pdl_topo_values *v,
                              struct pdl_net *net, struct pdl_err *err)
{
    return build(a, v, &dgx1, net, err);
}

static enum pdl_status build2(pdl_arena *a, const struct pdl_topo_values *v,
                              struct pdl_net *net, struct pdl_err *err)
{
    struct net_node_kind kind = dgx2;

    kind.hub = v->v[NVSWITCH].i == 0;
    return build(a, v, &kind, net, err);
}

const struct pdl_topo net_dgx1_cluster = {
    .name = "dgx1-cluster",
    .group = PDL_TOPO_CLUSTER,
    .summary = "DGX-1 cluster of the IPCCC paper: 8 V100 a node",
    .source = "IPCCC 2019, the author's platform files",
    .example = "dgx1-cluster:nodes=36",
    .params = params,
    .nparams = sizeof params / sizeof params[0],
    .calls = true,
    .build = build1,
};

const struct pdl_topo net_dgx2_cluster = {
    .name = "dgx2-cluster",
    .group = PDL_TOPO_CLUSTER,
    .summary = "DGX-2 cluster of the IPCCC paper: 16 V100 on an NVSwitch",
    .source = "IPCCC 2019, the author's platform files",
    .example = "dgx2-cluster:nodes=18",
    .params = params2,
    .nparams = sizeof params2 / sizeof params2[0],
    .calls = true,
    .build = build2,
};
