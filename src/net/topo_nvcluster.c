/* SPDX-License-Identifier: Apache-2.0
 *
 * NVCluster of CCPE 2021: nodes of 2, 4, 8 or 16 P100 with NVLinks in the
 * published meshes, an adapter for two GPUs, leaves of 24 adapters with a
 * trunk of 12 cables to one root. */
#include "cluster_priv.h"

enum { K, NODES };

// clang-format off
static const struct pdl_param params[] = {
    {"k", PDL_PARAM_CHOICE, "8", 0, 0, "2|4|8|16", "GPUs of a node"},
    {"nodes", PDL_PARAM_INT, NULL, 1, 2048, NULL, "nodes"},
};
#define K4(i) {(i), (i) + 1, 1}, {(i), (i) + 2, 1}, {(i), (i) + 3, 1}, \
    {(i) + 1, (i) + 2, 1}, {(i) + 1, (i) + 3, 1}, {(i) + 2, (i) + 3, 1}
static const struct net_nvlink nv2[] = {{0, 1, 4}};
static const struct net_nvlink nv4[] = {K4(0)};
static const struct net_nvlink nv8[] = {
    K4(0), {0, 5, 1}, {1, 4, 1}, {2, 7, 1}, {3, 6, 1}, K4(4),
};
static const struct net_nvlink nv16[] = {
    K4(0), K4(4), K4(8), K4(12), {0, 13, 1}, {1, 4, 1}, {2, 7, 1}, {3, 14, 1},
    {5, 8, 1}, {6, 11, 1}, {9, 12, 1}, {10, 15, 1},
};
static const int order8[] = {0, 1, 2, 7, 4, 5, 6, 3};
static const int order16[] = {0, 1, 2,  7,  4, 5,  6,  11,
                              8, 9, 10, 15, 12, 13, 14, 3};
#define KIND(n, list, seats)                                                \
    {.gpus = (n), .nvlinks = (list), .nnvlinks = sizeof(list) / sizeof(list)[0], \
     .order = (seats),                                                      \
     .nvlink_bytes_per_s = 50e9, .nvlink_idle_w = 19.04,                    \
     .nvlink_peak_w = 22.4, .watts_by_width = true,                         \
     .pcie_latency_s = 100e-9, .hca_idle_w = 124.0 / 15, .hca_peak_w = 9.5}
static const struct net_node_kind kinds[] = {
    KIND(2, nv2, NULL), KIND(4, nv4, NULL), KIND(8, nv8, order8),
    KIND(16, nv16, order16),
};
// clang-format on

static enum pdl_status build(pdl_arena *a, const struct pdl_topo_values *v,
                             struct pdl_net *net, struct pdl_err *err)
{
    const struct net_node_kind *kind = &kinds[v->v[K].i];
    int nodes = (int)v->v[NODES].i, hcas = kind->gpus / 2;
    int leaves = (nodes * hcas + 23) / 24;
    struct net_cluster k;

    net_cluster_init(&k, a, v, kind, nodes, 1 + leaves, net, err);
    net_cluster_crossing(&k, 0, leaves * 12 * k.rate, 100e-9);
    for (int i = 0; i < leaves; i++)
        net_cluster_crossing(&k, 1 + i, 24 * k.rate, 100e-9);
    for (int i = 0; i < leaves; i++)
        net_cluster_up(&k, net_cluster_switch(&k, 1 + i), 0, 12, 233.0 / 12,
                       23.5);
    for (int n = 0; n < nodes; n++)
        for (int p = 0; p < hcas; p++)
            net_cluster_hca(&k, n, p, 1 + (n * hcas + p) / 24);
    return net_cluster_done(&k, a, net, err);
}

const struct pdl_topo net_nvcluster = {
    .name = "nvcluster",
    .group = PDL_TOPO_CLUSTER,
    .summary = "NVLink cluster of the CCPE paper: 2 to 16 GPUs a node",
    .source = "CCPE 2021, the author's platform files",
    .example = "nvcluster:k=8,nodes=32",
    .params = params,
    .nparams = sizeof params / sizeof params[0],
    .build = build,
};
