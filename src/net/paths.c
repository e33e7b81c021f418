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
 * paths=valiant: every message goes by the shortest ways to a vertex with
 * hosts that is drawn for it, and on from there (Valiant, SIAM J. Comput.
 * 1982): no traffic is bad, good traffic takes twice the bytes.
 * paths=ugal: of the adaptive way and of one so drawn the one whose cables
 * times crowd are less (Singh, Stanford 2005; here every queue is known).
 *
 * All work on any network whose links are cables: not where crossing a switch
 * is a link of its own, nor on one-way arcs or circuits. */
#include "sim_priv.h"
#include "topo_priv.h"

#include <math.h>
#include <string.h>

enum { ECMP_KEY = 0x65636d70, DETOUR = 0x64657472 };

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

/* A network with several ways. */
struct spread_net {
    struct net_graph graph; /* first: the table's callbacks want it there */
    const struct pdl_net *inner;
    int *seat, nseats; /* vertices of the table that hosts are or hang on */
};

/* Which of many flows: what hashes are made of. */
struct flow_key {
    uint64_t key, pair;
};

static struct flow_key flow_key(int src, int dst, uint64_t flow)
{
    return (struct flow_key){ECMP_KEY ^ flow * 0x9e3779b97f4a7c15u,
                             (uint64_t)src << 32 | (uint32_t)dst};
}

/* From `at` to `goal` by the table. */
static int go(const struct net_graph *g, int at, int goal, struct flow_key k,
              int *links)
{
    int n = 0;

    while (at != goal) {
        const struct net_way *w = g->next ? next_way(g, at, goal)
                                          : hashed(g, at, goal, k.key, k.pair);

        n += net_way_links(w, links + n);
        at = w->to;
    }
    return n;
}

static int leave(struct ends e, int n, int *links)
{
    return e.last ? n + net_way_links(e.last, links + n) : n;
}

static int walk(const struct net_graph *g, int src, int dst, uint64_t flow,
                int *links)
{
    int n = 0;
    struct ends e;

    if (src == dst)
        return 0;
    e = enter(g, src, dst, links, &n);
    n += go(g, e.at, e.goal, flow_key(src, dst, flow), links + n);
    return leave(e, n, links);
}

/* The same over a vertex that the flow's hash draws. */
static int detour(const struct spread_net *s, int src, int dst, uint64_t flow,
                  int *links)
{
    struct flow_key k = flow_key(src, dst, flow);
    uint64_t x = pdl_philox(k.key, k.pair, DETOUR).v[0];
    int n = 0, over = s->seat[x * (uint64_t)s->nseats >> 32];
    struct ends e;

    if (src == dst)
        return 0;
    e = enter(&s->graph, src, dst, links, &n);
    if (e.at != e.goal) {
        n += go(&s->graph, e.at, over, k, links + n);
        n += go(&s->graph, over, e.goal, k, links + n);
    }
    return leave(e, n, links);
}

int net_route_table(const struct pdl_net *net, int src, int dst, int *links)
{
    return walk(net->shape, src, dst, 0, links);
}

static int path(const struct pdl_net *net, int src, int dst, uint64_t flow,
                int *links)
{
    return net->spread == PDL_SPREAD_VALIANT
               ? detour(net->shape, src, dst, flow, links)
               : walk(net->shape, src, dst, flow, links);
}

static int route_detour(const struct pdl_net *net, int src, int dst, int *links)
{
    return detour(net->shape, src, dst, 0, links);
}

/* ---- the least crowded ------------------------------------------------- */

enum pdl_status net_least_init(struct net_least *s, pdl_arena *a,
                               const struct pdl_net *net, uint64_t seed,
                               struct pdl_err *err)
{
    int n = net->nhosts + net->nswitches;

    *s = (struct net_least){.net = net, .graph = net->shape, .seed = seed};
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

static int least_minimal(struct net_least *s, int src, int dst, int *links)
{
    int n = 0, end;
    struct ends e;

    e = enter(s->graph, src, dst, links, &n);
    spread(s, e.at, e.goal);
    end = n +
          s->graph
              ->dist[(size_t)s->graph->ncore * (size_t)s->graph->core[e.goal] +
                     (size_t)s->graph->core[e.at]];
    n = end;
    for (int v = e.goal; v != e.at; v = s->seen[v].from)
        links[--n] = s->seen[v].link;
    return leave(e, end, links);
}

/* How much waits on a way: cables times the most crowded one. */
static double wait_on(const struct net_least *s, const int *links, int n)
{
    double crowd = 0;

    for (int i = 0; i < n; i++)
        crowd = fmax(crowd, (s->flying[links[i]] + 1) /
                                s->net->links[links[i]].bytes_per_s);
    return crowd * n;
}

int net_least_route(struct net_least *s, int src, int dst, int *links)
{
    enum pdl_path_spread how = s->net->spread;
    int other[PDL_MAX_ROUTE] = {0}, n, m;

    if (src == dst)
        return 0;
    if (how == PDL_SPREAD_ADAPTIVE)
        return least_minimal(s, src, dst, links);
    n = detour(s->net->shape, src, dst, s->seed ^ ++s->drawn, links);
    if (how == PDL_SPREAD_VALIANT)
        return n;
    m = least_minimal(s, src, dst, other);
    if (wait_on(s, other, m) > wait_on(s, links, n))
        return n;
    memcpy(links, other, (size_t)m * sizeof *links);
    return m;
}

/* ---- a network with several ways --------------------------------------- */

static void link_name(const struct pdl_net *net, int link, char *buf,
                      size_t size)
{
    const struct spread_net *s = net->shape;

    pdl_net_link_name(s->inner, link, buf, size);
}

enum pdl_status net_plain_cables(const struct pdl_net *net, const char *what,
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
    return pdl_fail(err, PDL_EINVAL, "%s: %s, since %s", net->topo->name, what,
                    why);
}

/* Every vertex of the table once that a host is or hangs on. */
static enum pdl_status find_seats(pdl_arena *a, const struct pdl_net *net,
                                  struct spread_net *s, struct pdl_err *err)
{
    const struct net_graph *g = &s->graph;
    bool *taken = PDL_NEW(a, bool, g->nverts + 1);

    s->seat = PDL_NEW(a, int, net->nhosts + 1);
    if (!taken || !s->seat)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", net->topo->name);
    for (int h = 0; h < net->nhosts; h++) {
        int v = g->core[h] < 0 ? g->ways[g->first[h]].to : h;

        if (!taken[v])
            s->seat[s->nseats++] = v;
        taken[v] = true;
    }
    return PDL_OK;
}

enum pdl_status net_spread(pdl_arena *a, const struct pdl_net *inner,
                           enum pdl_path_spread how, const struct pdl_net **out,
                           struct pdl_err *err)
{
    struct spread_net *s = PDL_NEW(a, struct spread_net, 1);
    struct pdl_net *net = PDL_NEW(a, struct pdl_net, 1);
    enum pdl_status st =
        net_plain_cables(inner, "paths: only paths=single", err);

    if (st != PDL_OK)
        return st;
    if (!s || !net)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory",
                        inner->topo->name);
    s->inner = inner;
    *net = *inner;
    net->shape = s;
    net->route = how == PDL_SPREAD_VALIANT ? route_detour : net_route_table;
    net->path = path;
    net->spread = how;
    net->jumps = false;
    net->link_name = link_name;
    st = net_graph_make(a, net, NULL, &s->graph, err);
    if (st == PDL_OK)
        st = net_graph_table(a, net, true, &s->graph, err);
    if (st == PDL_OK)
        st = find_seats(a, net, s, err);
    *out = net;
    return st;
}
