/* SPDX-License-Identifier: Apache-2.0
 *
 * Routes by table, and networks with more than one way for a pair of hosts.
 *
 * paths=ecmp: at every vertex a hash of source, destination and flow number
 * picks one of the ways on that are shortest (rendezvous hashing: the way with
 * the highest hash, so a way more or less moves only its own flows).
 * paths=adaptive: minimal adaptive routing. When a message starts, it takes of
 * all its shortest paths the one whose most crowded link has the fewest
 * messages under way for its rate, then the one of least latency, then the
 * lowest numbered: deterministic. It is found exactly, by going through the
 * vertices between source and destination by distance; cost: the ways among
 * these.
 *
 * Both work on any network whose links are cables: not where crossing a switch
 * is a link of its own, nor on one-way arcs or circuits. */
#include "sim_priv.h"
#include "topo_priv.h"

enum { ECMP_KEY = 0x65636d70 };

/* ---- by table ---------------------------------------------------------- */

/* Where the table takes over: hosts that hang on one cable are outside it. */
struct ends {
    int at, goal;
    const struct net_way *last; /* NULL: the goal is the host itself */
};

static struct ends enter(const struct net_graph *g, int src, int dst,
                         int *links, int *n)
{
    struct ends e = {src, dst, NULL};

    if (g->core[src] < 0) {
        const struct net_way *w = &g->ways[g->first[src]];

        *n += net_way_links(w, links);
        e.at = w->to;
    }
    if (g->core[dst] < 0) {
        e.goal = g->ways[g->first[dst]].to;
        e.last = net_graph_way(g, e.goal, dst);
    }
    return e;
}

static bool leads_on(const struct net_graph *g, const uint8_t *dist, int at,
                     const struct net_way *w)
{
    return g->core[w->to] >= 0 &&
           dist[g->core[w->to]] + net_way_weight(w) == dist[g->core[at]];
}

/* One of the shortest ways on from `at`, picked by the flow's hash. */
static const struct net_way *hashed(const struct net_graph *g, int at, int goal,
                                    uint64_t key, uint64_t pair)
{
    const uint8_t *dist = g->dist + (size_t)g->ncore * (size_t)g->core[goal];
    const struct net_way *fit = NULL;
    uint32_t best = 0;

    for (int k = g->first[at]; k < g->first[at + 1]; k++) {
        const struct net_way *w = &g->ways[k];
        uint32_t h;

        if (!leads_on(g, dist, at, w))
            continue;
        h = pdl_philox(key, pair, (uint64_t)w->link).v[0];
        if (!fit || h > best) {
            fit = w;
            best = h;
        }
    }
    return fit;
}

static const struct net_way *next_way(const struct net_graph *g, int at,
                                      int goal)
{
    size_t row = (size_t)g->ncore * (size_t)g->core[goal];

    return &g->ways[g->first[at] + g->next[row + (size_t)g->core[at]]];
}

static int walk(const struct net_graph *g, int src, int dst, uint64_t flow,
                int *links)
{
    uint64_t pair = (uint64_t)src << 32 | (uint32_t)dst;
    uint64_t key = ECMP_KEY ^ flow * 0x9e3779b97f4a7c15u;
    int n = 0;
    struct ends e;

    if (src == dst)
        return 0;
    e = enter(g, src, dst, links, &n);
    while (e.at != e.goal) {
        const struct net_way *w = g->next ? next_way(g, e.at, e.goal)
                                          : hashed(g, e.at, e.goal, key, pair);

        n += net_way_links(w, links + n);
        e.at = w->to;
    }
    return e.last ? n + net_way_links(e.last, links + n) : n;
}

int net_route_table(const struct pdl_net *net, int src, int dst, int *links)
{
    return walk(net->shape, src, dst, 0, links);
}

static int path(const struct pdl_net *net, int src, int dst, uint64_t flow,
                int *links)
{
    return walk(net->shape, src, dst, flow, links);
}

/* ---- the least crowded ------------------------------------------------- */

enum pdl_status net_least_init(struct net_least *s, pdl_arena *a,
                               const struct pdl_net *net, struct pdl_err *err)
{
    int n = net->nhosts + net->nswitches;

    *s = (struct net_least){.net = net, .graph = net->shape};
    s->flying = PDL_NEW(a, int, net->nlinks + 1);
    s->seen = PDL_NEW(a, struct net_least_vertex, n + 1);
    s->list[0] = PDL_NEW(a, int, n + 1);
    s->list[1] = PDL_NEW(a, int, n + 1);
    if (!s->flying || !s->seen || !s->list[0] || !s->list[1])
        return pdl_fail(err, PDL_ENOMEM, "no memory for adaptive routes");
    return PDL_OK;
}

static bool better(double crowd, double latency_s,
                   const struct net_least_vertex *than)
{
    if (crowd != than->crowd)
        return crowd < than->crowd;
    return latency_s < than->latency_s;
}

/* Takes way w from u where that is the best way to its end so far; true: the
 * first to come there. */
static bool relax(struct net_least *s, int u, const struct net_way *w)
{
    const struct pdl_link *k = &s->net->links[w->link];
    struct net_least_vertex *to = &s->seen[w->to], *from = &s->seen[u];
    double crowd = (s->flying[w->link] + 1) / k->bytes_per_s;
    double latency_s = from->latency_s + k->latency_s;
    bool first = to->search != s->search;

    crowd = crowd > from->crowd ? crowd : from->crowd;
    if (first || better(crowd, latency_s, to))
        *to =
            (struct net_least_vertex){s->search, u, w->link, crowd, latency_s};
    return first;
}

/* All vertices between, nearer by one cable each round. */
static void spread(struct net_least *s, int at, int goal)
{
    const struct net_graph *g = s->graph;
    const uint8_t *dist = g->dist + (size_t)g->ncore * (size_t)g->core[goal];
    int n = 1, now = 0;

    s->search++;
    s->seen[at] = (struct net_least_vertex){s->search, -1, -1, 0, 0};
    s->list[0][0] = at;
    for (int left = dist[g->core[at]]; left > 0; left--, now = !now) {
        int found = 0;

        for (int i = 0; i < n; i++) {
            int u = s->list[now][i];

            for (int k = g->first[u]; k < g->first[u + 1]; k++)
                if (leads_on(g, dist, u, &g->ways[k]) &&
                    relax(s, u, &g->ways[k]))
                    s->list[!now][found++] = g->ways[k].to;
        }
        n = found;
    }
}

int net_least_route(struct net_least *s, int src, int dst, int *links)
{
    int n = 0, end;
    struct ends e;

    if (src == dst)
        return 0;
    e = enter(s->graph, src, dst, links, &n);
    spread(s, e.at, e.goal);
    end = n +
          s->graph
              ->dist[(size_t)s->graph->ncore * (size_t)s->graph->core[e.goal] +
                     (size_t)s->graph->core[e.at]];
    n = end;
    for (int v = e.goal; v != e.at; v = s->seen[v].from)
        links[--n] = s->seen[v].link;
    return e.last ? end + net_way_links(e.last, links + end) : end;
}

/* ---- a network with several ways --------------------------------------- */

struct spread_net {
    struct net_graph graph; /* first: the table's callbacks want it there */
    const struct pdl_net *inner;
};

static void link_name(const struct pdl_net *net, int link, char *buf,
                      size_t size)
{
    const struct spread_net *s = net->shape;

    pdl_net_link_name(s->inner, link, buf, size);
}

static enum pdl_status can_spread(const struct pdl_net *net,
                                  struct pdl_err *err)
{
    const char *why = net->route_sized ? "it has circuits" : NULL;

    for (int l = 0; l < net->nlinks && !why; l++) {
        if (net->links[l].from == net->links[l].to)
            why = "crossing a switch is a link of its own";
        else if (net->links[l].reverse < 0)
            why = "its links go one way";
    }
    if (!why)
        return PDL_OK;
    return pdl_fail(err, PDL_EINVAL, "%s: paths: only paths=single, since %s",
                    net->topo->name, why);
}

enum pdl_status net_spread(pdl_arena *a, const struct pdl_net *inner,
                           enum pdl_path_spread how, const struct pdl_net **out,
                           struct pdl_err *err)
{
    struct spread_net *s = PDL_NEW(a, struct spread_net, 1);
    struct pdl_net *net = PDL_NEW(a, struct pdl_net, 1);
    enum pdl_status st = can_spread(inner, err);

    if (st != PDL_OK)
        return st;
    if (!s || !net)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory",
                        inner->topo->name);
    s->inner = inner;
    *net = *inner;
    net->shape = s;
    net->route = net_route_table;
    net->path = path;
    net->spread = how;
    net->jumps = false;
    net->link_name = link_name;
    st = net_graph_make(a, net, NULL, &s->graph, err);
    if (st == PDL_OK)
        st = net_graph_table(a, net, true, &s->graph, err);
    *out = net;
    return st;
}
