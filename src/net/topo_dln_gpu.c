/* SPDX-License-Identifier: Apache-2.0
 *
 * DLN(q,p) with nodes of four GPUs in ABCI's constants, the platform on which
 * the schedules for DLN were timed: a node's two adapters are ports 2i and
 * 2i+1 of the 2^(q+p) ports, ranks 4i..4i+3 its GPUs, so that two ranks share
 * a port. Cables s - s+2^k are single; crossing a switch takes 90 ns and is
 * listed as in the other clusters, of two joined switches the higher one's.
 * Reconstruction: the topology from slides (see topo_dln.c), the constants
 * from the author's ABCI platform. */
#include "cluster_priv.h"

enum { Q, P };

// clang-format off
static const struct pdl_param params[] = {
    {"q", PDL_PARAM_INT, NULL, 1, 12, NULL, "2^q switches"},
    {"p", PDL_PARAM_INT, NULL, 0, 12, NULL, "2^p ports of a switch"},
};
static const struct net_nvlink nvlinks[] = {
    {0, 1, 2}, {0, 2, 2}, {0, 3, 2}, {1, 2, 2}, {1, 3, 2}, {2, 3, 2},
};
// clang-format on

static const struct net_node_kind kind = {
    .gpus = 4,
    .nvlinks = nvlinks,
    .nnvlinks = sizeof nvlinks / sizeof nvlinks[0],
    .nvlink_bytes_per_s = 50e9,
    .nvlink_s = 9e-6,
    .nvlink_idle_w = 19.04,
    .nvlink_peak_w = 44.8,
    .pcie_latency_s = 7.5e-6,
    .hca_idle_w = 763.0 / 180,
    .hca_peak_w = 79.0 / 18,
};

static enum pdl_status build(pdl_arena *a, const struct pdl_topo_values *v,
                             struct pdl_net *net, struct pdl_err *err)
{
    int q = (int)v->v[Q].i, p = (int)v->v[P].i, n = 1 << q;
    int nodes = 1 << (q + p - 1);
    struct net_cluster k;

    net_cluster_init(&k, a, v, &kind, nodes, n, net, err);
    for (int s = 0; s < n; s++)
        net_cluster_crossing(&k, s, 900e9, 90e-9);
    for (int s = 0; s < n; s++)
        for (int b = 0; b < q; b++) {
            int t = (s + (1 << b)) & (n - 1);
            int low = s < t ? s : t, high = s < t ? t : s;

            if (b < q - 1 || t > s) /* the longest is its own inverse */
                net_cluster_up(&k, net_cluster_switch(&k, low), high, 1, 0, 0);
        }
    for (int i = 0; i < nodes; i++)
        for (int h = 0; h < 2; h++)
            net_cluster_hca(&k, i, h, (2 * i + h) >> p);
    return net_cluster_done(&k, a, net, err);
}

const struct pdl_topo net_dln_gpu = {
    .name = "dln-gpu",
    .group = PDL_TOPO_CLUSTER,
    .summary = "DLN(q,p) of nodes of 4 GPUs with ABCI's constants",
    .source = "DLN(q,p), CCGrid 2021 (reconstruction)",
    .example = "dln-gpu:q=3,p=2",
    .params = params,
    .nparams = sizeof params / sizeof params[0],
    .build = build,
};
