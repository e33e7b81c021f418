/* SPDX-License-Identifier: Apache-2.0
 *
 * Tsubame 3 as the simulations of CCPE 2021 had it: nodes of four P100 with
 * NVLinks 50 GB/s (02 and 13 double), two adapters; nine nodes share two
 * leaves, the first adapter on the even one and the second on the odd one;
 * every leaf has a trunk of 18 cables to one root. */
#include "cluster_priv.h"

enum { NODES };

// clang-format off
static const struct pdl_param params[] = {
    {"nodes", PDL_PARAM_INT, NULL, 1, 2048, NULL, "nodes of 4 GPUs"},
};
static const struct net_nvlink nvlinks[] = {
    {0, 1, 1}, {0, 2, 2}, {0, 3, 1}, {1, 2, 1}, {1, 3, 2}, {2, 3, 1},
};
// clang-format on

static const struct net_node_kind kind = {
    .gpus = 4,
    .nvlinks = nvlinks,
    .nnvlinks = sizeof nvlinks / sizeof nvlinks[0],
    .nvlink_bytes_per_s = 50e9,
    .nvlink_idle_w = 19.04,
    .nvlink_peak_w = 22.4,
    .pcie_latency_s = 100e-9,
    .hca_idle_w = 124.0 / 15, /* 8.267: edge switch 356 W over 49 */
    .hca_peak_w = 9.5,
};

static enum pdl_status build(pdl_arena *a, const struct pdl_topo_values *v,
                             struct pdl_net *net, struct pdl_err *err)
{
    int nodes = (int)v->v[NODES].i, leaves = 2 * ((nodes + 8) / 9);
    int trunk = 18;
    struct net_cluster k;

    net_cluster_init(&k, a, v, &kind, nodes, 1 + leaves, net, err);
    net_cluster_crossing(&k, 0, leaves * trunk * k.rate, 100e-9);
    for (int i = 0; i < leaves; i++)
        net_cluster_crossing(&k, 1 + i, trunk * k.rate, 100e-9);
    for (int i = 0; i < leaves; i++)
        net_cluster_up(&k, net_cluster_switch(&k, 1 + i), 0, trunk, 233.0 / 12,
                       23.5);
    for (int n = 0; n < nodes; n++)
        for (int p = 0; p < 2; p++)
            net_cluster_hca(&k, n, p, 1 + n / 9 * 2 + p);
    return net_cluster_done(&k, a, net, err);
}

const struct pdl_topo net_tsubame3 = {
    .name = "tsubame3",
    .group = PDL_TOPO_CLUSTER,
    .summary = "Tsubame 3 of the CCPE paper: 4 GPUs a node, 2 leaves per 9",
    .source = "CCPE 2021, the author's platform files",
    .example = "tsubame3:nodes=16",
    .params = params,
    .nparams = sizeof params / sizeof params[0],
    .build = build,
};
