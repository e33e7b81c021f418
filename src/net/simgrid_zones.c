/* SPDX-License-Identifier: Apache-2.0
 *
 * Routes through the zones of a SimGrid platform. Two points have an innermost
 * zone in common; there, the points that hold them (themselves, or zones) have
 * a route between two gateways, and what is left is the route from the source
 * to the first gateway and from the last one to the destination, found alike
 * further inside. Gateways lie inside their zones (the reader checks it), so
 * this ends.
 *
 * Inside a zone: Full, as listed; Floyd (and Dijkstra: its ties may fall
 * otherwise), the fewest links over the hops that are listed, ties as Floyd's
 * algorithm breaks them in the order of the file, like SimGrid; a cluster, up,
 * over the backbone, and down. A bypass between two points of a zone comes
 * before all of these, but only from end to end, never as a hop. */
#include "simgrid_priv.h"

enum { FAR = 1 << 28 };

/* Of one zone, [from * n + to]. hop: the listed route, bypass: that instead of
 * it; -1 none. cost and pred (the point before the last) only where routes are
 * the shortest, bypass only where there is any. */
struct table {
    int n;
    int *hop, *cost, *pred, *bypass;
};

struct net_zones {
    const struct net_listed *l;
    const char *file;
    struct table *tables; /* of each zone */
    struct pdl_err *err;
    int *links, n; /* of the route being made */
};

static size_t cell(const struct table *t, int a, int b)
{
    return (size_t)a * (size_t)t->n + (size_t)b;
}

static void floyd(struct table *t)
{
    size_t n = (size_t)t->n;

    for (size_t c = 0; c < n; c++)
        for (size_t a = 0; a < n; a++) {
            int near = t->cost[a * n + c];

            if (near >= FAR)
                continue;
            for (size_t b = 0; b < n; b++)
                if (near + t->cost[c * n + b] < t->cost[a * n + b]) {
                    t->cost[a * n + b] = near + t->cost[c * n + b];
                    t->pred[a * n + b] = t->pred[c * n + b];
                }
        }
}

static bool table_make(const struct net_listed *l, int zone, struct table *t)
{
    bool shortest = l->zones[zone].routing == NET_ROUTING_SHORTEST;
    size_t all = (size_t)l->zones[zone].npoints;

    t->n = l->zones[zone].npoints;
    all *= all;
    t->hop = PDL_NEW(l->arena, int, all + 1);
    t->cost = shortest ? PDL_NEW(l->arena, int, all + 1) : NULL;
    t->pred = shortest ? PDL_NEW(l->arena, int, all + 1) : NULL;
    if (!t->hop || (shortest && (!t->cost || !t->pred)))
        return false;
    for (size_t i = 0; i < all; i++) {
        t->hop[i] = -1;
        if (shortest)
            t->cost[i] = FAR;
    }
    return true;
}

static enum pdl_status put_bypass(struct net_zones *z, struct table *t,
                                  size_t at, int route)
{
    size_t all = (size_t)t->n * (size_t)t->n;

    if (!t->bypass) {
        t->bypass = PDL_NEW(z->l->arena, int, all + 1);
        for (size_t i = 0; t->bypass && i < all; i++)
            t->bypass[i] = -1;
    }
    if (!t->bypass)
        return pdl_fail(z->err, PDL_ENOMEM, "%s: out of memory", z->file);
    if (t->bypass[at] >= 0)
        return pdl_fail(z->err, PDL_EPARSE,
                        "%s: two bypasses between the same two points",
                        z->file);
    t->bypass[at] = route;
    return PDL_OK;
}

static enum pdl_status put_hop(struct net_zones *z, int route)
{
    const struct net_listed_route *r = &z->l->routes[route];
    struct table *t = &z->tables[r->zone];
    int src = z->l->points[r->src].at, dst = z->l->points[r->dst].at;
    size_t at = cell(t, src, dst);

    if (r->bypass)
        return put_bypass(z, t, at, route);
    if (t->hop[at] >= 0 && !t->cost)
        return pdl_fail(z->err, PDL_EPARSE,
                        "%s: two routes between the same two points", z->file);
    t->hop[at] = route;
    if (t->cost) {
        t->cost[at] = r->n;
        t->pred[at] = src;
    }
    return PDL_OK;
}

enum pdl_status net_zones_create(const struct net_listed *l, const char *file,
                                 struct net_zones **out, struct pdl_err *err)
{
    struct net_zones *z = PDL_NEW(l->arena, struct net_zones, 1);
    enum pdl_status st = PDL_OK;
    bool ok = z;

    if (z) {
        *z = (struct net_zones){.l = l, .file = file, .err = err};
        z->tables = PDL_NEW(l->arena, struct table, l->nzones + 1);
        ok = z->tables;
    }
    for (int i = 0; ok && i < l->nzones; i++)
        ok = table_make(l, i, &z->tables[i]);
    if (!ok)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", file);
    for (int i = 0; st == PDL_OK && i < l->nroutes; i++)
        st = put_hop(z, i);
    for (int i = 0; st == PDL_OK && i < l->nzones; i++)
        if (z->tables[i].cost)
            floyd(&z->tables[i]);
    *out = z;
    return st;
}

/* ---- one route --------------------------------------------------------- */

static bool none(struct net_zones *z, const char *what)
{
    pdl_fail(z->err, PDL_EPARSE, "%s: %s", z->file, what);
    return false;
}

static bool append(struct net_zones *z, const int *links, int n)
{
    if (z->n + n > PDL_MAX_ROUTE) {
        pdl_fail(z->err, PDL_EINVAL,
                 "%s: a route of more than %d links is too long", z->file,
                 PDL_MAX_ROUTE);
        return false;
    }
    for (int i = 0; i < n; i++)
        z->links[z->n++] = links[i];
    return true;
}

static bool append_one(struct net_zones *z, int link)
{
    return link < 0 || append(z, &link, 1);
}

static bool through_cluster(struct net_zones *z,
                            const struct net_listed_zone *zone, int a, int b)
{
    int before = z->n;

    return append_one(z, z->l->points[a].up) && append_one(z, zone->backbone) &&
           append_one(z, z->l->points[b].down) &&
           (z->n > before || none(z, "a cluster without links"));
}

/* The listed routes from point a to point b of one zone in order; their
 * number, -1: there are none. */
static int hops_of(struct net_zones *z, const struct table *t, int a, int b,
                   int *hops)
{
    int n = 0;

    a = z->l->points[a].at;
    b = z->l->points[b].at;
    hops[0] = t->bypass ? t->bypass[cell(t, a, b)] : -1;
    if (hops[0] >= 0)
        return 1;
    hops[0] = t->hop[cell(t, a, b)];
    if (!t->cost)
        return hops[0] < 0 ? -1 : 1;
    if (t->cost[cell(t, a, b)] > PDL_MAX_ROUTE)
        return -1; /* none, or too long: a hop has a link at least */
    while (b != a && n < PDL_MAX_ROUTE) {
        int before = t->pred[cell(t, a, b)];

        hops[n++] = t->hop[cell(t, before, b)];
        b = before;
    }
    for (int i = 0; i < n / 2; i++) { /* found from the end */
        int hop = hops[i];

        hops[i] = hops[n - 1 - i];
        hops[n - 1 - i] = hop;
    }
    return n;
}

/* Point p, or the zone in `zone` that holds it. */
static int holder(const struct net_listed *l, int p, int zone)
{
    while (l->points[p].zone != zone)
        p = l->zones[l->points[p].zone].point;
    return p;
}

static int common_zone(const struct net_listed *l, int a, int b)
{
    int x = l->points[a].zone, y = l->points[b].zone;

    while (x != y) {
        if (l->zones[x].depth >= l->zones[y].depth)
            x = l->zones[x].parent;
        else
            y = l->zones[y].parent;
    }
    return x;
}

/* Appends the route from point src to point dst. The zone they have in common
 * is further inside at each call within a call. */
static bool global(struct net_zones *z, int src, int dst)
{
    const struct net_listed *l = z->l;
    int zone, a, b, n, at = src, hops[PDL_MAX_ROUTE + 1];

    if (src == dst)
        return true;
    zone = common_zone(l, src, dst);
    a = holder(l, src, zone);
    b = holder(l, dst, zone);
    if (l->zones[zone].routing == NET_ROUTING_CLUSTER)
        return a == src && b == dst ? through_cluster(z, &l->zones[zone], a, b)
                                    : none(z, "a zone in a cluster");
    n = hops_of(z, &z->tables[zone], a, b, hops);
    if (n < 0)
        return none(z, "two hosts without a route between them");
    for (int i = 0; i < n; i++) {
        const struct net_listed_route *r = &l->routes[hops[i]];

        if (!global(z, at, r->from) || !append(z, l->entries + r->first, r->n))
            return false;
        at = r->to;
    }
    return global(z, at, dst);
}

int net_zones_route(struct net_zones *z, int src, int dst, int *links,
                    struct pdl_err *err)
{
    z->links = links;
    z->n = 0;
    z->err = err;
    return global(z, src, dst) ? z->n : -1;
}
