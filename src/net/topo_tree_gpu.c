/* SPDX-License-Identifier: Apache-2.0
 *
 * A tree with one way between any two nodes, of nodes of four GPUs in ABCI's
 * constants: the fat tree against which halving-doubling on DLN comes out as
 * the slides of CCGrid 2021 say. Their tree is not described; this one is a
 * reconstruction. down=4x4x2: 4 adapters on a leaf, 4 leaves on a switch of
 * the second level, 2 of those on the root; cables=1x1: one cable from each
 * leaf up, one from each switch of the second level. Ports are numbered as in
 * dln-gpu: a node's two adapters are ports 2i and 2i+1. Crossing a switch
 * takes 90 ns, the root 400 ns. */
#include "cluster_priv.h"

enum { DOWN, CABLES };

// clang-format off
static const struct pdl_param params[] = {
    {"down", PDL_PARAM_DIMS, "4x4x2", 1, 4096, NULL,
     "adapters on a leaf, leaves on a switch above, those on the root"},
    {"cables", PDL_PARAM_DIMS, "1x1", 1, 4096, NULL,
     "cables from a leaf up, and from a switch of the second level"},
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
    const struct net_dims *down = &v->v[DOWN].dims;
    const struct net_dims *cables = &v->v[CABLES].dims;
    int64_t mids, leaves, ports;
    struct net_cluster k;

    if (down->n != 3 || cables->n != 2)
        return pdl_fail(err, PDL_EINVAL,
                        "tree-gpu: down has three numbers, cables two");
    mids = down->d[2];
    leaves = mids * down->d[1];
    ports = leaves * down->d[0];
    if (ports % 2 != 0 || ports > NET_MAX_HOSTS)
        return pdl_fail(err, PDL_EINVAL,
                        "tree-gpu: %lld adapters; nodes have two, and there "
                        "can be %d",
                        (long long)ports, NET_MAX_HOSTS);
    net_cluster_init(&k, a, v, &kind, ports / 2, 1 + mids + leaves, net, err);
    for (int s = 0; s < 1 + mids + leaves; s++)
        net_cluster_crossing(&k, s, s == 0 ? 1.625e13 : 900e9,
                             s == 0 ? 400e-9 : 90e-9);
    for (int m = 0; m < mids; m++)
        net_cluster_up(&k, net_cluster_switch(&k, 1 + m), 0, (int)cables->d[1],
                       0, 0);
    for (int l = 0; l < leaves; l++)
        net_cluster_up(&k, net_cluster_switch(&k, (int)(1 + mids + l)),
                       1 + l / (int)down->d[1], (int)cables->d[0], 0, 0);
    for (int p = 0; p < ports; p++)
        net_cluster_hca(&k, p / 2, p % 2, (int)(1 + mids + p / down->d[0]));
    return net_cluster_done(&k, a, net, err);
}

const struct pdl_topo net_tree_gpu = {
    .name = "tree-gpu",
    .group = PDL_TOPO_CLUSTER,
    .summary = "tree with single paths of nodes of 4 GPUs, ABCI's constants",
    .source = "baseline of DLN(q,p), CCGrid 2021 (reconstruction)",
    .example = "tree-gpu:down=4x4x2",
    .params = params,
    .nparams = sizeof params / sizeof params[0],
    .build = build,
};
