/* SPDX-License-Identifier: Apache-2.0
 *
 * The explicit graph of a network, for the topologies whose routes are not
 * arithmetic, and for the metrics of all of them.
 *
 * The table of shortest ways covers the core: all vertices but the hosts that
 * hang on one cable, since the way of such a host is plain. One search from
 * each goal, by number of link entries (a cable into a switch whose crossing
 * is a link counts two), fills one row; rows are 2 bytes a vertex, so 4096
 * switches take 32 MB and more than MAX_CORE are refused. */
#include "topo_priv.h"

#include <string.h>

/* MAX_LISTED: link entries of a way, which fit in a byte. */
enum { MAX_CORE = 8192, MAX_LISTED = 128 };

static int way_order(const struct net_way *a, const struct net_way *b)
{
    if (a->to != b->to)
        return a->to < b->to ? -1 : 1;
    return (a->link > b->link) - (a->link < b->link);
}

static int compare_ways(const void *a, const void *b)
{
    return way_order(a, b);
}

static void put(struct net_graph *g, int *fill, struct net_way *ways, int from,
                struct net_way w)
{
    ways[g->first[from] + fill[from]++] = w;
}

static int count_ways(const struct pdl_net *net, int *first)
{
    int n = net->nhosts + net->nswitches;

    for (int i = 0; i < net->nlinks; i++) {
        const struct pdl_link *k = &net->links[i];

        if (k->from == k->to)
            continue;
        first[k->from + 1]++;
        if (k->shared)
            first[k->to + 1]++;
    }
    for (int v = 0; v < n; v++)
        first[v + 1] += first[v];
    return first[n];
}

/* The crossing of a cable's return link is that of its way there. */
static int crossing_of(const struct pdl_net *net, const int *crossing, int i,
                       bool *forward)
{
    const struct pdl_link *k = &net->links[i];

    *forward = true;
    if (!crossing)
        return -1;
    if (crossing[i] >= 0 || k->reverse < 0)
        return crossing[i];
    *forward = false;
    return crossing[k->reverse];
}

static void fill_ways(const struct pdl_net *net, const int *crossing,
                      struct net_graph *g, int *fill, struct net_way *ways)
{
    for (int i = 0; i < net->nlinks; i++) {
        const struct pdl_link *k = &net->links[i];
        bool forward;
        int x = crossing_of(net, crossing, i, &forward);

        if (k->from == k->to)
            continue;
        put(g, fill, ways, k->from,
            (struct net_way){k->to, i, x, x >= 0 && !forward});
        if (k->shared)
            put(g, fill, ways, k->to,
                (struct net_way){k->from, i, x, x >= 0 && forward});
    }
}

enum pdl_status net_graph_make(pdl_arena *a, const struct pdl_net *net,
                               const int *crossing, struct net_graph *g,
                               struct pdl_err *err)
{
    int n = net->nhosts + net->nswitches;
    int *first = PDL_NEW(a, int, (size_t)n + 1);
    int *fill = PDL_NEW(a, int, n);
    struct net_way *ways;
    int nways;

    if (!first || !fill)
        return pdl_fail(err, PDL_ENOMEM, "network: out of memory");
    nways = count_ways(net, first);
    ways = PDL_NEW(a, struct net_way, nways ? nways : 1);
    if (!ways)
        return pdl_fail(err, PDL_ENOMEM, "network: out of memory");
    g->nverts = n;
    g->first = first;
    g->ways = ways;
    fill_ways(net, crossing, g, fill, ways);
    for (int v = 0; v < n; v++)
        if (fill[v] > 1)
            qsort(ways + first[v], (size_t)fill[v], sizeof *ways, compare_ways);
    return PDL_OK;
}

const struct net_way *net_graph_way(const struct net_graph *g, int u, int v)
{
    int lo = g->first[u], hi = g->first[u + 1];

    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;

        if (g->ways[mid].to < v)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < g->first[u + 1] && g->ways[lo].to == v ? &g->ways[lo] : NULL;
}

int net_way_links(const struct net_way *w, int *links)
{
    if (w->crossing < 0) {
        links[0] = w->link;
        return 1;
    }
    links[0] = w->crossing_first ? w->crossing : w->link;
    links[1] = w->crossing_first ? w->link : w->crossing;
    return 2;
}

void net_graph_bfs(const struct net_graph *g, int from, int *dist, int *queue)
{
    int head = 0, tail = 0;

    for (int v = 0; v < g->nverts; v++)
        dist[v] = -1;
    dist[from] = 0;
    queue[tail++] = from;
    while (head < tail) {
        int u = queue[head++];

        for (int i = g->first[u]; i < g->first[u + 1]; i++) {
            int v = g->ways[i].to;

            if (dist[v] < 0) {
                dist[v] = dist[u] + 1;
                queue[tail++] = v;
            }
        }
    }
}

/* ---- the table --------------------------------------------------------- */

/* Link entries from every vertex to the goal. Weights are 1 and 2: a vertex
 * found early at +2 is put off by one round. Two lists a round suffice. */
static int search(const struct net_graph *g, int goal, int *dist, int *list[3])
{
    int n[3] = {1, 0, 0}, far = 0, waiting = 1;

    for (int v = 0; v < g->nverts; v++)
        dist[v] = -1;
    dist[goal] = 0;
    list[0][0] = goal;
    for (int d = 0; waiting > 0; d++) {
        int now = d % 3;

        for (int i = 0; i < n[now]; i++) {
            int u = list[now][i];

            waiting--;
            if (dist[u] != d)
                continue; /* was reached sooner */
            far = d;
            for (int k = g->first[u]; k < g->first[u + 1]; k++) {
                int v = g->ways[k].to, t = d + net_way_weight(&g->ways[k]);

                if (dist[v] < 0 || t < dist[v]) {
                    dist[v] = t;
                    list[t % 3][n[t % 3]++] = v;
                    waiting++;
                }
            }
        }
        n[now] = 0;
    }
    return far;
}

static int choose_core(const struct pdl_net *net, const struct net_graph *g,
                       int *core)
{
    int n = 0;

    for (int v = 0; v < g->nverts; v++)
        core[v] =
            v < net->nhosts && g->first[v + 1] - g->first[v] <= 1 ? -1 : n++;
    /* two hosts joined by one cable and nothing else */
    for (int v = 0; v < net->nhosts; v++)
        if (core[v] < 0 && (g->first[v + 1] == g->first[v] ||
                            core[g->ways[g->first[v]].to] < 0))
            core[v] = n++;
    return n;
}

static void fill_row(const struct net_graph *g, const int *dist, uint16_t *next)
{
    for (int v = 0; v < g->nverts; v++) {
        if (g->core[v] < 0)
            continue;
        for (int k = g->first[v]; k < g->first[v + 1]; k++)
            if (dist[g->ways[k].to] + net_way_weight(&g->ways[k]) == dist[v]) {
                next[g->core[v]] = (uint16_t)(k - g->first[v]);
                break;
            }
    }
}

struct table {
    int *dist, *list[3];
    uint16_t *next;
    uint8_t *far;
};

static bool table_alloc(pdl_arena *a, const struct net_graph *g, bool ecmp,
                        struct table *t)
{
    size_t n = (size_t)g->ncore * (size_t)g->ncore;
    size_t ways = (size_t)g->first[g->nverts] + 1;

    t->dist = PDL_NEW(a, int, g->nverts);
    for (int i = 0; i < 3; i++)
        t->list[i] = PDL_NEW(a, int, ways);
    t->next = ecmp ? NULL : PDL_NEW(a, uint16_t, n);
    t->far = ecmp ? PDL_NEW(a, uint8_t, n) : NULL;
    return t->dist && t->list[0] && t->list[1] && t->list[2] &&
           (t->next || t->far);
}

static enum pdl_status fill_table(const struct pdl_net *net,
                                  const struct net_graph *g, struct table *t,
                                  struct pdl_err *err)
{
    size_t n = (size_t)g->ncore;

    for (int goal = 0; goal < g->nverts; goal++) {
        int far;

        if (g->core[goal] < 0)
            continue;
        far = search(g, goal, t->dist, t->list);
        for (int v = 0; v < g->nverts; v++)
            if (t->dist[v] < 0)
                return pdl_fail(err, PDL_EINVAL,
                                "%s: the network is not connected",
                                net->topo->name);
        if (far > MAX_LISTED - 4)
            return pdl_fail(err, PDL_EINVAL,
                            "%s: routes of %d links are longer than %d",
                            net->topo->name, far + 4, MAX_LISTED);
        if (t->next)
            fill_row(g, t->dist, t->next + n * (size_t)g->core[goal]);
        for (int v = 0; t->far && v < g->nverts; v++)
            if (g->core[v] >= 0)
                t->far[n * (size_t)g->core[goal] + (size_t)g->core[v]] =
                    (uint8_t)t->dist[v];
    }
    return PDL_OK;
}

enum pdl_status net_graph_table(pdl_arena *a, const struct pdl_net *net,
                                bool ecmp, struct net_graph *g,
                                struct pdl_err *err)
{
    int *core = PDL_NEW(a, int, g->nverts);
    struct table t;
    enum pdl_status st;

    if (!core)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", net->topo->name);
    g->core = core;
    g->ncore = choose_core(net, g, core);
    if (g->ncore > MAX_CORE)
        return pdl_fail(err, PDL_EINVAL,
                        "%s: a table of routes for %d vertices is too large, "
                        "at most %d",
                        net->topo->name, g->ncore, MAX_CORE);
    for (int v = 0; v < g->nverts; v++)
        if (g->first[v + 1] - g->first[v] > UINT16_MAX)
            return pdl_fail(err, PDL_EINVAL, "%s: %d cables at one vertex",
                            net->topo->name, g->first[v + 1] - g->first[v]);
    if (!table_alloc(a, g, ecmp, &t))
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", net->topo->name);
    st = fill_table(net, g, &t, err);
    g->next = t.next;
    g->dist = t.far;
    return st;
}

/* ---- routes ------------------------------------------------------------ */

int net_graph_walk(const struct pdl_net *net, const struct net_graph *g,
                   int (*next)(const struct pdl_net *net, int at, int dst),
                   int src, int dst, int *links)
{
    int n = 0;

    for (int at = src; at != dst && n < PDL_MAX_ROUTE - 1;) {
        int to = next(net, at, dst);
        const struct net_way *w = net_graph_way(g, at, to);

        if (!w)
            return -1;
        n += net_way_links(w, links + n);
        at = to;
    }
    return n;
}

int net_graph_path(const struct net_graph *g, const int *verts, int n,
                   int *links)
{
    int count = 0;

    for (int i = 0; i + 1 < n; i++) {
        const struct net_way *w = net_graph_way(g, verts[i], verts[i + 1]);

        if (!w)
            return -1;
        count += net_way_links(w, links + count);
    }
    return count;
}

enum pdl_status net_finish_graph(pdl_arena *a, struct net_cables *c,
                                 struct net_graph *g)
{
    enum pdl_status st = net_cables_done(c);

    return st == PDL_OK ? net_graph_make(a, c->net, NULL, g, c->err) : st;
}
