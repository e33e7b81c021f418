/* SPDX-License-Identifier: Apache-2.0
 *
 * DLN-x (Koibuchi et al., ISCA 2012, where the DLN family begins): a ring of
 * n switches and from each of them shortcuts of length floor(n/2^k),
 * k = 1..x-2. Shortcuts that fall on a cable already there are left out.
 * Shortest-path table. */
#include "topo_priv.h"

enum { SWITCHES, HOSTS, DEGREE, ROUTING };

// clang-format off
static const struct pdl_param params[] = {
    {"switches", PDL_PARAM_INT, NULL, 2, 8192, NULL, "switches on the ring"},
    {"hosts", PDL_PARAM_INT, "1", 1, 65535, NULL, "hosts of a switch"},
    {"x", PDL_PARAM_INT, "4", 2, 16, NULL, "x - 2 lengths of shortcuts"},
    {"routing", PDL_PARAM_CHOICE, "shortest", 0, 0, "shortest|ecmp",
     "one shortest path, or one of them by hash"},
};
// clang-format on

/* Is length d, taken both ways round n, among the first `count`? */
static bool seen(const int64_t *lengths, int count, int64_t d, int64_t n)
{
    for (int i = 0; i < count; i++)
        if (lengths[i] == d || lengths[i] == n - d)
            return true;
    return false;
}

static enum pdl_status build(pdl_arena *a, const struct pdl_topo_values *v,
                             struct pdl_net *net, struct pdl_err *err)
{
    struct net_graph *g = PDL_NEW(a, struct net_graph, 1);
    int64_t n = v->v[SWITCHES].i, hosts = n * v->v[HOSTS].i;
    int64_t lengths[16] = {1};
    int count = 1;
    struct net_cables c;
    enum pdl_status st;

    if (!g)
        return pdl_fail(err, PDL_ENOMEM, "dln-x: out of memory");
    for (int k = 1; k <= v->v[DEGREE].i - 2; k++)
        if (n >> k >= 1 && !seen(lengths, count, n >> k, n))
            lengths[count++] = n >> k;
    net_cables_init(&c, a, v, net, err);
    net_cables_counts(&c, hosts, n, hosts + n * count);
    for (int64_t h = 0; h < hosts && c.status == PDL_OK; h++)
        net_cable(&c, h, hosts + h / v->v[HOSTS].i, 1);
    for (int i = 0; i < count && c.status == PDL_OK; i++)
        for (int64_t s = 0; s < n; s++)
            if (2 * lengths[i] != n || s < n / 2) /* its own inverse */
                net_cable(&c, hosts + s, hosts + (s + lengths[i]) % n, 1);
    st = net_finish_graph(a, &c, g);
    net->route = net_route_table;
    net->shape = g;
    return st == PDL_OK ? net_graph_table(a, net, false, g, err) : st;
}

const struct pdl_topo net_dln_x = {
    .name = "dln-x",
    .group = PDL_TOPO_SHORT,
    .summary = "ring of switches with x-2 lengths of shortcuts",
    .source = "Koibuchi et al., ISCA 2012",
    .example = "dln-x:switches=64,hosts=4,x=5",
    .params = params,
    .nparams = sizeof params / sizeof params[0],
    .build = build,
};
