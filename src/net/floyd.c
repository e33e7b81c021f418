/* SPDX-License-Identifier: Apache-2.0
 *
 * Shortest paths by Floyd and Warshall, for the clusters whose published
 * times were made with SimGrid's Floyd zones: among paths of equal length
 * that algorithm's order of updates decides, and only running it in the same
 * order of vertices gives the same routes. Cubic, so only for small graphs
 * (0.07 s for 1600 vertices, 0.7 s for 3700); larger ones use the table of
 * graph.c, which has equally short routes but may choose others of them. */
#include "topo_priv.h"

enum { FAR = 0x7fff };

static void edges(const struct net_graph *g, const int *rank, uint16_t *cost,
                  uint16_t *pred)
{
    size_t n = (size_t)g->nverts;

    for (size_t i = 0; i < n * n; i++)
        cost[i] = FAR;
    for (int v = 0; v < g->nverts; v++) {
        cost[(size_t)rank[v] * n + (size_t)rank[v]] = 1; /* its loopback */
        pred[(size_t)rank[v] * n + (size_t)rank[v]] = (uint16_t)rank[v];
        for (int k = g->first[v]; k < g->first[v + 1]; k++) {
            size_t at = (size_t)rank[v] * n + (size_t)rank[g->ways[k].to];

            cost[at] = g->ways[k].crossing >= 0 ? 2 : 1;
            pred[at] = (uint16_t)rank[v];
        }
    }
}

static void through(size_t n, size_t c, uint16_t *cost, uint16_t *pred)
{
    const uint16_t *row = cost + c * n, *from = pred + c * n;

    for (size_t a = 0; a < n; a++) {
        uint16_t *to = cost + a * n, *p = pred + a * n;
        uint16_t first = to[c];

        if (first == FAR)
            continue;
        for (size_t b = 0; b < n; b++)
            if (first + row[b] < to[b]) {
                to[b] = (uint16_t)(first + row[b]);
                p[b] = from[b];
            }
    }
}

enum pdl_status net_graph_floyd(pdl_arena *a, const struct pdl_net *net,
                                const int *rank, struct net_graph *g,
                                struct pdl_err *err)
{
    size_t n = (size_t)g->nverts;
    uint16_t *cost = PDL_NEW(a, uint16_t, n * n);
    uint16_t *pred = PDL_NEW(a, uint16_t, n * n);
    int *vertex = PDL_NEW(a, int, n);

    if (!cost || !pred || !vertex)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", net->topo->name);
    edges(g, rank, cost, pred);
    for (size_t c = 0; c < n; c++)
        through(n, c, cost, pred);
    for (size_t i = 0; i < n * n; i++)
        if (cost[i] > PDL_MAX_ROUTE)
            return pdl_fail(err, PDL_EINVAL,
                            "%s: not connected, or routes of more than %d "
                            "links",
                            net->topo->name, PDL_MAX_ROUTE);
    for (int v = 0; v < g->nverts; v++)
        vertex[rank[v]] = v;
    g->rank = rank;
    g->vertex = vertex;
    g->pred = pred;
    return PDL_OK;
}

int net_route_floyd(const struct pdl_net *net, int src, int dst, int *links)
{
    const struct net_graph *g = net->shape;
    const uint16_t *pred = g->pred + (size_t)g->rank[src] * (size_t)g->nverts;
    int path[PDL_MAX_ROUTE + 1], at = PDL_MAX_ROUTE;

    if (src == dst)
        return 0;
    path[at] = dst;
    for (int r = g->rank[dst]; r != g->rank[src] && at > 0;) {
        r = pred[r];
        path[--at] = g->vertex[r];
    }
    return net_graph_path(g, path + at, PDL_MAX_ROUTE + 1 - at, links);
}
