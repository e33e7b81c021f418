/* SPDX-License-Identifier: Apache-2.0
 *
 * Clusters of GPU nodes as the simulations of CANDAR 2018, CCPE 2021 and
 * IPCCC 2019 had them. A node has k GPUs (the hosts), NVLinks between them or
 * an NVSwitch, and one PCIe switch with an InfiniBand adapter for two GPUs.
 *
 * Crossing a switch is a link of its own, listed by the cable that leads up
 * into it: a route that goes up into a switch and down again lists it twice,
 * one that goes on up lists it once. Routes are shortest by number of links
 * listed, single path, through GPUs too: so GPU 3 of a node reaches the next
 * node over its NVLink to GPU 0 and that one's adapter. Ties are broken as
 * SimGrid's Floyd zone does up to MAX_FLOYD vertices. */
#include "cluster_priv.h"

enum { MAX_FLOYD = 4096 };

static const double pcie_bytes_per_s = 16e9, pcie_idle_w = 10.37,
                    pcie_peak_w = 12.2;

static int plx_of_node(const struct net_node_kind *kind)
{
    return (kind->gpus + 1) / 2;
}

static bool has_nvswitch(const struct net_node_kind *kind)
{
    return !kind->nvlinks && !kind->hub;
}

/* Vertices of a node after the GPUs: NVSwitch (if any), PCIe switches. */
static int inner_of_node(const struct net_node_kind *kind)
{
    return plx_of_node(kind) + has_nvswitch(kind);
}

static int nvswitch(const struct net_cluster *k, int node)
{
    return k->c.net->nhosts + node * inner_of_node(k->kind);
}

/* PCIe switch i of a node, with two GPUs and an adapter. */
static int pcie_switch(const struct net_cluster *k, int node, int i)
{
    return nvswitch(k, node) + has_nvswitch(k->kind) + i;
}

int net_cluster_switch(const struct net_cluster *k, int i)
{
    return nvswitch(k, k->nodes) + i;
}

static void watts(struct net_cluster *k, int first, double idle_w,
                  double peak_w)
{
    for (int64_t i = first; k->c.status == PDL_OK && i < k->c.nlinks; i++) {
        k->c.links[i].idle_w = idle_w;
        k->c.links[i].peak_w = peak_w;
    }
}

/* The NVSwitch with routes to the last GPU only: its cable is crossed by all
 * the others. */
static void hub(struct net_cluster *k, int node)
{
    const struct net_node_kind *kind = k->kind;
    int gpu = node * kind->gpus, last = gpu + kind->gpus - 1;
    int first =
        net_crossing(&k->c, last, kind->nvlink_bytes_per_s, kind->nvlink_s);

    k->crossing_of[last] = first;
    for (int i = gpu; i < last; i++)
        net_inside(&k->c, net_cable_of(&k->c, i, last, kind->nvlink_bytes_per_s,
                                       kind->nvlink_s));
    watts(k, first, kind->nvlink_idle_w, kind->nvlink_peak_w);
}

static void nvlinks(struct net_cluster *k, int node)
{
    const struct net_node_kind *kind = k->kind;
    int gpu = node * kind->gpus;

    for (int i = 0; i < kind->nnvlinks; i++) {
        const struct net_nvlink *n = &kind->nvlinks[i];
        double w = kind->watts_by_width ? n->width : 1;
        int first =
            net_cable_of(&k->c, gpu + n->a, gpu + n->b,
                         kind->nvlink_bytes_per_s * n->width, kind->nvlink_s);

        watts(k, first, kind->nvlink_idle_w * w, kind->nvlink_peak_w * w);
        net_inside(&k->c, first);
    }
    if (kind->hub)
        hub(k, node);
    for (int i = 0; has_nvswitch(kind) && i < kind->gpus; i++) {
        int first = net_cable_of(&k->c, gpu + i, nvswitch(k, node),
                                 kind->nvlink_bytes_per_s, kind->nvlink_s);

        watts(k, first, kind->nvlink_idle_w, kind->nvlink_peak_w);
        net_inside(&k->c, first);
    }
}

static void node(struct net_cluster *k, int n)
{
    const struct net_node_kind *kind = k->kind;

    nvlinks(k, n);
    for (int i = 0; i < kind->gpus; i++) {
        int first =
            net_cable_of(&k->c, n * kind->gpus + i, pcie_switch(k, n, i / 2),
                         pcie_bytes_per_s, kind->pcie_latency_s);

        watts(k, first, pcie_idle_w, pcie_peak_w);
        net_inside(&k->c, first);
    }
}

void net_cluster_init(struct net_cluster *k, pdl_arena *a,
                      const struct pdl_topo_values *v,
                      const struct net_node_kind *kind, int64_t nodes,
                      int64_t extra, struct pdl_net *net, struct pdl_err *err)
{
    int64_t inner = inner_of_node(kind);
    int vertices;

    *k = (struct net_cluster){.kind = kind, .nodes = (int)nodes};
    k->rate = v->bytes_per_s;
    k->latency = v->lat_given ? v->latency_s : 26e-9;
    net_cables_init(&k->c, a, v, net, err);
    k->c.shared = v->shared || !v->duplex_given;
    net->order = kind->order;
    net->node = kind->gpus;
    net_cables_counts(
        &k->c, nodes * kind->gpus, nodes * inner + extra,
        nodes * (kind->gpus * 2 + kind->nnvlinks + inner) + 8 * extra);
    if (k->c.status != PDL_OK)
        return;
    vertices = net->nhosts + net->nswitches;
    k->crossing_of = PDL_NEW(a, int, vertices);
    if (!k->crossing_of) {
        k->c.status =
            pdl_fail(err, PDL_ENOMEM, "%s: out of memory", v->topo->name);
        return;
    }
    for (int i = 0; i < vertices; i++)
        k->crossing_of[i] = -1;
    for (int n = 0; n < k->nodes; n++)
        node(k, n);
}

void net_cluster_crossing(struct net_cluster *k, int i, double bytes_per_s,
                          double latency_s)
{
    int v;

    if (k->c.status != PDL_OK)
        return;
    v = net_cluster_switch(k, i);
    k->crossing_of[v] = net_crossing(&k->c, v, bytes_per_s, latency_s);
}

void net_cluster_up(struct net_cluster *k, int vertex, int i, int width,
                    double idle_w, double peak_w)
{
    int first = net_cable_of(&k->c, vertex, net_cluster_switch(k, i),
                             k->rate * width, k->latency);

    watts(k, first, idle_w, peak_w);
    for (int64_t n = first; k->c.status == PDL_OK && n < k->c.nlinks; n++) {
        k->c.links[n].cables = width;
        k->c.links[n].length_m = 5;
    }
}

void net_cluster_hca(struct net_cluster *k, int n, int plx, int i)
{
    net_cluster_up(k, pcie_switch(k, n, plx), i, 1, k->kind->hca_idle_w,
                   k->kind->hca_peak_w);
}

/* The order of the platforms' vertices: node by node, GPUs before the
 * switches of the node, then the switches outside. */
static int *ranks(const struct net_cluster *k, pdl_arena *a,
                  const struct pdl_net *net)
{
    int n = net->nhosts + net->nswitches, gpus = k->kind->gpus;
    int inner = inner_of_node(k->kind), all = gpus + inner;
    int *rank = PDL_NEW(a, int, n);

    for (int v = 0; rank && v < n; v++) {
        int s = v - net->nhosts;

        if (s < 0)
            rank[v] = v / gpus * all + v % gpus;
        else if (s < k->nodes * inner)
            rank[v] = s / inner * all + gpus + s % inner;
        else
            rank[v] = v;
    }
    return rank;
}

enum pdl_status net_cluster_done(struct net_cluster *k, pdl_arena *a,
                                 struct pdl_net *net, struct pdl_err *err)
{
    struct net_graph *g = PDL_NEW(a, struct net_graph, 1);
    enum pdl_status st = net_cables_done(&k->c);
    int *crossing, *rank;

    if (st != PDL_OK)
        return st;
    crossing = PDL_NEW(a, int, net->nlinks ? net->nlinks : 1);
    if (!g || !crossing)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", net->topo->name);
    /* a cable's first link leads up; its return link has none of its own */
    for (int i = 0; i < net->nlinks; i++) {
        const struct pdl_link *l = &net->links[i];
        bool up = l->shared || l->reverse > i;

        crossing[i] = up && l->from != l->to ? k->crossing_of[l->to] : -1;
    }
    st = net_graph_make(a, net, crossing, g, err);
    net->shape = g;
    if (st != PDL_OK)
        return st;
    if (g->nverts > MAX_FLOYD) {
        net->route = net_route_table;
        return net_graph_table(a, net, false, g, err);
    }
    rank = ranks(k, a, net);
    net->route = net_route_floyd;
    return rank ? net_graph_floyd(a, net, rank, g, err)
                : pdl_fail(err, PDL_ENOMEM, "%s: out of memory",
                           net->topo->name);
}
