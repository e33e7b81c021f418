/* SPDX-License-Identifier: Apache-2.0
 *
 * ABCI as the simulations of IPCCC 2019 had it: nodes of four V100, NVLink
 * 100 GB/s between every two, two adapters; a rack of 34 nodes has 4 leaves
 * and 3 FBB switches (trunks of 6 cables), every FBB a trunk of 4 to each of
 * 2 spines. The adapters of two nodes go to the four leaves in turn. */
#include "cluster_priv.h"

enum { NODES };
enum { RACK = 34, LEAVES = 4, FBB = 3, SPINES = 2 };

// clang-format off
static const struct pdl_param params[] = {
    {"nodes", PDL_PARAM_INT, NULL, 1, 2048, NULL, "nodes of 4 GPUs"},
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
    .hca_idle_w = 763.0 / 180, /* 4.2389 */
    .hca_peak_w = 79.0 / 18,   /* 4.3889 */
};

/* Spines come first, then the FBBs of all racks, then the leaves. */
static int fbb(int rack, int i)
{
    return SPINES + rack * FBB + i;
}

static int leaf(int racks, int rack, int i)
{
    return SPINES + racks * FBB + rack * LEAVES + i;
}

static void rack(struct net_cluster *k, int racks, int r)
{
    for (int f = 0; f < FBB; f++) {
        for (int s = 0; s < SPINES; s++)
            net_cluster_up(k, net_cluster_switch(k, fbb(r, f)), s, 4,
                           52.8586419753, 842.0 / 9);
        for (int l = 0; l < LEAVES; l++)
            net_cluster_up(k, net_cluster_switch(k, leaf(racks, r, l)),
                           fbb(r, f), 6, 122.0 / 3, 122.0 / 3);
    }
}

static enum pdl_status build(pdl_arena *a, const struct pdl_topo_values *v,
                             struct pdl_net *net, struct pdl_err *err)
{
    int nodes = (int)v->v[NODES].i, racks = (nodes + RACK - 1) / RACK;
    int extra = SPINES + racks * (FBB + LEAVES);
    struct net_cluster k;

    net_cluster_init(&k, a, v, &kind, nodes, extra, net, err);
    for (int i = 0; i < extra; i++)
        net_cluster_crossing(&k, i, i < SPINES ? 1.625e13 : 900e9,
                             i < SPINES ? 400e-9 : 90e-9);
    for (int r = 0; r < racks; r++)
        rack(&k, racks, r);
    for (int n = 0; n < nodes; n++)
        for (int p = 0; p < 2; p++)
            net_cluster_hca(&k, n, p,
                            leaf(racks, n / RACK, (n % RACK * 2 + p) % LEAVES));
    return net_cluster_done(&k, a, net, err);
}

const struct pdl_topo net_abci = {
    .name = "abci",
    .group = PDL_TOPO_CLUSTER,
    .summary = "ABCI of the IPCCC paper: 4 V100 a node, racks of 34 nodes",
    .source = "IPCCC 2019, the author's platform files",
    .example = "abci:nodes=68",
    .params = params,
    .nparams = sizeof params / sizeof params[0],
    .calls = true,
    .build = build,
};
