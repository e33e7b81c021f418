/* SPDX-License-Identifier: Apache-2.0
 *
 * The Dragonfly of GPU nodes of CCPE 2021: groups of four fully joined
 * switches, one node (K4 of P100, two adapters) on each, and some global ports
 * a switch. Ports of a group are numbered around its switches and taken in
 * order, for the pairs of groups in order; when all pairs have a trunk, the
 * ports left over join them once more in the same order.
 *
 * For 64 switches this rule gives exactly the author's two lists of edges: with
 * 4 ports the one described (224 edges, degree 7, diameter 3, average distance
 * 2.361), with 6 ports the one (276 edges) that the published platform and its
 * logs were made from. For other numbers it is ours. Crossing a switch is a
 * link of 12.5 GB/s, as published: it throttles the switch. Trunks are 36/9 =
 * 4 cables. Of two joined switches the higher one's crossing is listed. */
#include "cluster_priv.h"

enum { SWITCHES, K, GLOBAL };
enum { GROUP = 4, MOST = 68 };

// clang-format off
static const struct pdl_param params[] = {
    {"switches", PDL_PARAM_INT, "64", 4, 68, NULL,
     "switches and nodes, a multiple of 4"},
    {"k", PDL_PARAM_INT, "4", 4, 4, NULL, "GPUs of a node"},
    {"global", PDL_PARAM_INT, "6", 4, 8, NULL,
     "global ports of a switch (6: the published platform)"},
};
static const struct net_nvlink nvlinks[] = {
    {0, 1, 1}, {0, 2, 1}, {0, 3, 1}, {1, 2, 1}, {1, 3, 1}, {2, 3, 1},
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
    .hca_idle_w = 124.0 / 15,
    .hca_peak_w = 9.5,
};

static void trunk(struct net_cluster *k, int u, int v)
{
    int low = u < v ? u : v, high = u < v ? v : u;

    net_cluster_up(k, net_cluster_switch(k, low), high, 4, 89.0 / 6, 17.0);
}

/* Joins all pairs of groups, then those that have ports left once more: but
 * no two switches twice. */
static void global_trunks(struct net_cluster *k, int groups, int ports)
{
    int used[MOST / GROUP] = {0}, base[MOST / GROUP][MOST / GROUP] = {{0}};

    for (int round = 0; round < 2; round++)
        for (int g = 0; g < groups; g++)
            for (int h = g + 1; h < groups; h++) {
                int u, v;

                if (used[g] == GROUP * ports || used[h] == GROUP * ports)
                    continue;
                u = g * GROUP + used[g] % GROUP;
                v = h * GROUP + used[h] % GROUP;
                if (round && base[g][h] == u * MOST + v)
                    continue;
                used[g]++;
                used[h]++;
                base[g][h] = u * MOST + v;
                trunk(k, u, v);
            }
}

static enum pdl_status build(pdl_arena *a, const struct pdl_topo_values *v,
                             struct pdl_net *net, struct pdl_err *err)
{
    int n = (int)v->v[SWITCHES].i;
    struct net_cluster k;

    if (n % GROUP)
        return pdl_fail(err, PDL_EINVAL,
                        "dragonfly-gpu: %d switches, not a multiple of 4", n);
    net_cluster_init(&k, a, v, &kind, n, n, net, err);
    for (int s = 0; s < n; s++)
        net_cluster_crossing(&k, s, k.rate, 100e-9);
    for (int s = 0; s < n; s++)
        for (int t = s + 1; t < n && t / GROUP == s / GROUP; t++)
            trunk(&k, s, t);
    global_trunks(&k, n / GROUP, (int)v->v[GLOBAL].i);
    for (int s = 0; s < n; s++)
        for (int p = 0; p < 2; p++)
            net_cluster_hca(&k, s, p, s);
    return net_cluster_done(&k, a, net, err);
}

const struct pdl_topo net_dragonfly_gpu = {
    .name = "dragonfly-gpu",
    .group = PDL_TOPO_CLUSTER,
    .summary = "Dragonfly of the CCPE paper: a GPU node on each switch",
    .source = "CCPE 2021, the author's edge list (as a rule)",
    .example = "dragonfly-gpu:switches=64",
    .params = params,
    .nparams = sizeof params / sizeof params[0],
    .build = build,
};
