/* SPDX-License-Identifier: Apache-2.0
 *
 * What a network is like: distances, bisection, cables, cost, power.
 *
 * The floor plan and the prices are those that come with the platforms of the
 * allreduce papers: racks of 0.60 m x 2.10 m (with the aisle) in rows that
 * make the floor about square; a cable is 2 m inside a rack and 4 m plus the
 * distance along the floor's axes else; 40 x (0.4079 L + 0.5771) $ for an
 * electric cable, 40 x (0.0919 L + 7.2745) $ for an optical one, the cheaper
 * of them (electric up to 2 m); a switch of p ports 350.4 p - 892.3 $ and
 * 2.8 W a port. Which vertex stands in which rack is ours: hosts fill racks
 * of HOSTS_PER_RACK in their order, a switch stands with the first host or
 * switch it is joined to that has a place, what is left in racks of its own. */
#include "topo_priv.h"

#include <math.h>

enum { ALL_HOSTS = 4096, SAMPLE = 1024, HOSTS_PER_RACK = 32 };

static bool is_cable(const struct pdl_link *k)
{
    return k->from != k->to && k->length_m >= 0;
}

/* Each cable once: its first link; arcs of a pair are one cable. */
static bool is_first(const struct pdl_link *k, int i)
{
    return is_cable(k) && (k->reverse < 0 || k->reverse >= i);
}

/* ---- distances --------------------------------------------------------- */

struct sums {
    int64_t pairs, hops, routes, links;
    int far, longest;
};

static void add_routes(const struct pdl_net *net, int src, struct sums *s)
{
    int links[PDL_MAX_ROUTE];

    for (int dst = 0; dst < net->nhosts; dst++) {
        int n = net->route(net, src, dst, links);

        s->routes += dst != src;
        s->links += n;
        s->longest = n > s->longest ? n : s->longest;
    }
}

/* dist: from a vertex `more` cables away from src. */
static void add_hops(const struct pdl_net *net, const int *dist, int src,
                     int more, struct sums *s)
{
    for (int dst = 0; dst < net->nhosts; dst++) {
        if (dst == src || dist[dst] < 0)
            continue;
        s->pairs++;
        s->hops += dist[dst] + more;
        s->far = dist[dst] + more > s->far ? dist[dst] + more : s->far;
    }
}

/* How many sources: all, or as many as the time allows. */
static int sources(const struct pdl_net *net, const struct net_graph *g,
                   int all, int64_t budget)
{
    int64_t n = budget / (g->nverts + g->first[g->nverts] + 1);

    if (net->nhosts <= all)
        return net->nhosts;
    return n < 16 ? 16 : n > SAMPLE ? SAMPLE : (int)n;
}

static int pick(const struct pdl_net *net, int i, int n, struct pdl_rng *rng)
{
    return n == net->nhosts ? i
                            : (int)pdl_rng_below(rng, (uint64_t)net->nhosts);
}

static enum pdl_status distances(pdl_arena *a, const struct pdl_net *net,
                                 const struct net_graph *g,
                                 struct pdl_metrics *m, struct pdl_err *err)
{
    int *dist = PDL_NEW(a, int, g->nverts), *queue = PDL_NEW(a, int, g->nverts);
    struct pdl_rng rng = {.key = 5};
    int n = sources(net, g, ALL_HOSTS, 200000000), last = -1;
    struct sums s = {0};

    if (!dist || !queue)
        return pdl_fail(err, PDL_ENOMEM, "metrics: out of memory");
    for (int i = 0; i < n; i++) {
        int src = pick(net, i, n, &rng);
        bool leaf = g->first[src + 1] - g->first[src] == 1;
        int from = leaf ? g->ways[g->first[src]].to : src;

        if (from != last) /* hosts of one switch share a search */
            net_graph_bfs(g, from, dist, queue);
        last = from;
        add_hops(net, dist, src, leaf, &s);
    }
    m->sources = n;
    n = sources(net, g, ALL_HOSTS / 4, 2000000);
    for (int i = 0; i < n; i++)
        add_routes(net, pick(net, i, n, &rng), &s);
    m->diameter = s.far;
    m->longest_route = s.longest;
    m->average_hops = s.pairs ? (double)s.hops / (double)s.pairs : 0;
    m->route_links = s.routes ? (double)s.links / (double)s.routes : 0;
    return PDL_OK;
}

/* ---- floor plan -------------------------------------------------------- */

/* rack[v] of every vertex; returns the number of racks. */
static int place(const struct pdl_net *net, const struct net_graph *g,
                 int *rack)
{
    int racks = (net->nhosts + HOSTS_PER_RACK - 1) / HOSTS_PER_RACK, alone = 0;

    for (int v = 0; v < g->nverts; v++)
        rack[v] = v < net->nhosts ? v / HOSTS_PER_RACK : -1;
    for (int v = net->nhosts; v < g->nverts; v++) {
        for (int k = g->first[v]; rack[v] < 0 && k < g->first[v + 1]; k++)
            if (g->ways[k].to < net->nhosts)
                rack[v] = rack[g->ways[k].to];
        if (rack[v] < 0)
            rack[v] = racks + alone++ / HOSTS_PER_RACK;
    }
    return racks + (alone + HOSTS_PER_RACK - 1) / HOSTS_PER_RACK;
}

static double length(int u, int v, int racks)
{
    const double wide = 0.60, deep = 2.10;
    int columns = (int)ceil(sqrt(racks * deep / wide));

    if (u == v)
        return 2;
    return 4 + wide * abs(u % columns - v % columns) +
           deep * abs(u / columns - v / columns);
}

static double price(double metres, bool optical)
{
    double electric = 40 * (0.4079 * metres + 0.5771);
    double light = 40 * (0.0919 * metres + 7.2745);

    if (optical)
        return light;
    return metres <= 2 || electric < light ? electric : light;
}

/* ---- switches ---------------------------------------------------------- */

double pdl_net_switch_cost(int64_t ports)
{
    double dollars = 350.4 * (double)ports - 892.3;

    return dollars > 0 ? dollars : 0;
}

/* A switch with a wire inside a node is part of that node. */
static void switches(const struct pdl_net *net, int64_t *ports, bool *inside,
                     struct pdl_metrics *m)
{
    for (int i = 0; i < net->nlinks; i++) {
        const struct pdl_link *k = &net->links[i];

        if (k->from != k->to && k->length_m < 0)
            inside[k->from] = inside[k->to] = true;
        if (is_first(k, i)) {
            ports[k->from] += net_width(k);
            ports[k->to] += net_width(k);
        }
    }
    for (int v = net->nhosts; v < net->nhosts + net->nswitches; v++) {
        if (inside[v])
            continue;
        m->switches++;
        m->power_w += 2.8 * (double)ports[v];
        m->cost += pdl_net_switch_cost(ports[v]);
    }
}

static void cables(const struct pdl_net *net, const int *rack, int racks,
                   struct pdl_metrics *m)
{
    for (int i = 0; i < net->nlinks; i++) {
        const struct pdl_link *k = &net->links[i];
        double metres = k->length_m;

        if (!is_first(k, i))
            continue;
        if (metres == 0)
            metres = length(rack[k->from], rack[k->to], racks);
        m->cables += net_width(k);
        m->cable_m += metres * net_width(k);
        m->cost += price(metres, k->optical) * net_width(k);
    }
}

enum { NEAR_M = 3 }; /* copper reaches so far at the rates of today */

static void count_cable(const struct pdl_link *k, double metres,
                        struct pdl_net_bill *b)
{
    int64_t n = net_width(k);
    bool far = k->optical || metres > NEAR_M;

    *(far ? &b->far_cables : &b->near_cables) += n;
    *(far ? &b->far_m : &b->near_m) += metres * (double)n;
    b->longest_m = fmax(b->longest_m, metres);
}

enum pdl_status pdl_net_bill(pdl_arena *a, const struct pdl_net *net,
                             struct pdl_net_bill *out, struct pdl_err *err)
{
    size_t n = (size_t)net->nhosts + (size_t)net->nswitches;
    int64_t *ports = PDL_NEW(a, int64_t, n);
    bool *inside = PDL_NEW(a, bool, n);
    int *rack = PDL_NEW(a, int, n), racks;
    struct net_graph g = {.nverts = 0};
    struct pdl_metrics m = {.hosts = net->nhosts};
    struct pdl_net_bill b = {.hosts = net->nhosts};
    enum pdl_status st = net_graph_make(a, net, NULL, &g, err);

    if (st != PDL_OK)
        return st;
    if (!ports || !inside || !rack)
        return pdl_fail(err, PDL_ENOMEM, "bill: out of memory");
    switches(net, ports, inside, &m);
    b.switches = m.switches;
    for (int v = net->nhosts; v < net->nhosts + net->nswitches; v++) {
        b.ports += inside[v] ? 0 : ports[v];
        b.most_ports =
            !inside[v] && ports[v] > b.most_ports ? ports[v] : b.most_ports;
    }
    for (int v = 0; v < net->nhosts; v++)
        b.host_ports += ports[v];
    racks = place(net, &g, rack);
    for (int i = 0; i < net->nlinks; i++) {
        const struct pdl_link *k = &net->links[i];

        if (is_first(k, i))
            count_cable(k,
                        k->length_m > 0
                            ? k->length_m
                            : length(rack[k->from], rack[k->to], racks),
                        &b);
    }
    *out = b;
    return PDL_OK;
}

enum pdl_status pdl_net_metrics(pdl_arena *a, const struct pdl_net *net,
                                struct pdl_metrics *out, struct pdl_err *err)
{
    size_t n = (size_t)net->nhosts + (size_t)net->nswitches;
    struct pdl_metrics m = {.hosts = net->nhosts};
    int64_t *ports = PDL_NEW(a, int64_t, n);
    bool *inside = PDL_NEW(a, bool, n);
    int *rack = PDL_NEW(a, int, n);
    struct net_graph g = {.nverts = 0};
    enum pdl_status st = net_graph_make(a, net, NULL, &g, err);

    if (st != PDL_OK)
        return st;
    if (!ports || !inside || !rack)
        return pdl_fail(err, PDL_ENOMEM, "metrics: out of memory");
    st = distances(a, net, &g, &m, err);
    if (st == PDL_OK)
        st = net_bisection(a, net, &g, &m, err);
    if (st != PDL_OK)
        return st;
    switches(net, ports, inside, &m);
    cables(net, rack, place(net, &g, rack), &m);
    m.cable_m = round(m.cable_m * 1e3) / 1e3; /* sums of many cables: */
    m.cost = round(m.cost * 1e2) / 1e2;       /* to the mm and the cent */
    *out = m;
    return PDL_OK;
}
