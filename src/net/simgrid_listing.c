/* SPDX-License-Identifier: Apache-2.0
 *
 * SimGrid platforms that list hosts, routers, links and routes in zones: takes
 * the elements one by one. Links are simgrid_links.c, clusters and cabinets
 * simgrid_cluster.c.
 * Speeds, cores, properties and loopbacks are skipped. */
#include "simgrid_listing.h"

#include <string.h>

enum {
    MAX_ROUTES = 1 << 21,
    MAX_ENTRIES = 1 << 26,
    MAX_ZONES = 1024,
};

enum pdl_status net_listing_create(pdl_arena *a, struct net_listing **out)
{
    struct net_listing *s = PDL_NEW(a, struct net_listing, 1);

    if (!s)
        return PDL_ENOMEM;
    s->l.arena = a;
    s->zone = -1;
    *out = s;
    return net_names_create(a, &s->l.names);
}

enum pdl_status net_listing_status(const struct net_listing *s)
{
    return s->status;
}

bool net_listing_single(const struct net_listing *s)
{
    return s->nclusters == 1 && !s->others;
}

const struct net_listed *net_listing_done(const struct net_listing *s,
                                          const char *file, struct pdl_err *err)
{
    if (s->odd)
        pdl_fail(err, PDL_EPARSE, "%s: %.200s", file, s->odd);
    else if (s->l.nhosts == 0)
        pdl_fail(err, PDL_EPARSE, "%s: neither a <cluster> nor hosts in it",
                 file);
    return s->odd || s->l.nhosts == 0 ? NULL : &s->l;
}

void net_listing_no_memory(struct net_listing *s)
{
    if (s->status == PDL_OK)
        s->status = pdl_fail(s->err, PDL_ENOMEM, "out of memory");
}

const char *net_attribute(const char **atts, const char *name)
{
    for (; *atts; atts += 2)
        if (strcmp(atts[0], name) == 0)
            return atts[1];
    return NULL;
}

bool net_listing_room(struct net_listing *s, void **at, int n, int *cap,
                      size_t size, int most)
{
    void *grown;
    int more = *cap ? 2 * *cap : 64;

    if (s->status != PDL_OK)
        return false;
    if (n < *cap)
        return true;
    if (n >= most) {
        NET_REFUSE(s, "more than %d in one platform", most);
        return false;
    }
    grown = pdl_arena_grow(s->l.arena, *at, (size_t)n, (size_t)more, size);
    if (!grown) {
        net_listing_no_memory(s);
        return false;
    }
    *at = grown;
    *cap = more;
    return true;
}

void net_listing_name(struct net_listing *s, enum net_name_kind kind,
                      const char *name, int number)
{
    int added = net_names_add(s->l.names, kind, name, number);

    if (added < 0)
        net_listing_no_memory(s);
    else if (added == 0)
        NET_REFUSE(s, "'%.40s' is there twice", name);
}

/* ---- zones and points -------------------------------------------------- */

int net_listing_point(struct net_listing *s, const char *id, bool host)
{
    int n = s->l.npoints;

    if (s->zone < 0)
        net_listing_open(s, NULL, "Full");
    if (s->status != PDL_OK ||
        !NET_ROOM(s, s->l.points, n, s->l.point_cap, NET_MAX_LISTED))
        return -1;
    s->l.points[n] =
        (struct net_listed_point){.zone = s->zone,
                                  .at = s->l.zones[s->zone].npoints++,
                                  .host = host ? s->l.nhosts++ : -1,
                                  .inside = -1,
                                  .up = -1,
                                  .down = -1};
    s->l.npoints++;
    if (id)
        net_listing_name(s, NET_NAME_VERTEX, id, n);
    return n;
}

static enum net_listed_routing routing_of(struct net_listing *s,
                                          const char *name)
{
    static const struct {
        const char *name;
        enum net_listed_routing routing;
    } known[] = {{"Full", NET_ROUTING_FULL},
                 {"None", NET_ROUTING_FULL},
                 {"Floyd", NET_ROUTING_SHORTEST},
                 {"Dijkstra", NET_ROUTING_SHORTEST},
                 {"DijkstraCache", NET_ROUTING_SHORTEST},
                 {"Cluster", NET_ROUTING_CLUSTER}};

    for (size_t i = 0; name && i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i].name, name) == 0)
            return known[i].routing;
    if (name)
        NET_REFUSE(s, "a zone with routing '%.40s' is not read", name);
    return NET_ROUTING_FULL;
}

void net_listing_open(struct net_listing *s, const char *id,
                      const char *routing)
{
    int point = s->zone < 0 ? -1 : net_listing_point(s, id, false);
    int depth = s->zone < 0 ? 0 : s->l.zones[s->zone].depth + 1;

    if (!NET_ROOM(s, s->l.zones, s->l.nzones, s->l.zone_cap, MAX_ZONES))
        return;
    s->l.zones[s->l.nzones] =
        (struct net_listed_zone){.routing = routing_of(s, routing),
                                 .depth = depth,
                                 .parent = s->zone,
                                 .point = point,
                                 .backbone = -1};
    if (point >= 0)
        s->l.points[point].inside = s->l.nzones;
    else if (s->l.nzones > 0)
        NET_REFUSE(s, "a second zone that holds all others");
    s->zone = s->l.nzones++;
}

void net_listing_close(struct net_listing *s)
{
    if (s->zone >= 0)
        s->zone = s->l.zones[s->zone].parent;
}

static void on_zone(struct net_listing *s, const char **atts)
{
    net_listing_open(s, net_attribute(atts, "id"),
                     net_attribute(atts, "routing"));
}

static void on_vertex(struct net_listing *s, const char **atts, bool host)
{
    const char *id = net_attribute(atts, "id");

    if (!id) {
        NET_REFUSE(s, "a host without an id");
        return;
    }
    s->others = s->others || host;
    net_listing_point(s, id, host);
}

static void on_host(struct net_listing *s, const char **atts)
{
    on_vertex(s, atts, true);
}

static void on_router(struct net_listing *s, const char **atts)
{
    on_vertex(s, atts, false);
}

/* ---- routes ------------------------------------------------------------ */

/* A point of the zone that is open. */
static int end_of(struct net_listing *s, const char *name)
{
    int p = name ? net_names_find(s->l.names, NET_NAME_VERTEX, name) : -1;

    return p >= 0 && s->l.points[p].zone == s->zone ? p : -1;
}

static void begin_route(struct net_listing *s, const char **atts)
{
    const char *src = net_attribute(atts, "src");
    const char *dst = net_attribute(atts, "dst");
    const char *symmetrical = net_attribute(atts, "symmetrical");
    int a = end_of(s, src), b = end_of(s, dst);

    if (a < 0 || b < 0)
        NET_REFUSE(s,
                   "a route from '%.40s' to '%.40s', which are not both there",
                   src ? src : "", dst ? dst : "");
    s->symmetrical = !symmetrical || (strcmp(symmetrical, "NO") != 0 &&
                                      strcmp(symmetrical, "no") != 0);
    s->route =
        (struct net_listed_route){s->zone, a, b, a, b, s->l.nentries, 0, false};
    s->in_route = true;
}

static void on_route(struct net_listing *s, const char **atts)
{
    begin_route(s, atts);
    if (s->status == PDL_OK && (s->l.points[s->route.src].inside >= 0 ||
                                s->l.points[s->route.dst].inside >= 0))
        NET_REFUSE(s, "a route between zones is a <zoneRoute>");
}

/* Is point p, or a zone that holds it, the point `holder`? */
static bool lies_in(const struct net_listed *l, int p, int holder)
{
    while (p >= 0 && p != holder)
        p = l->zones[l->points[p].zone].point;
    return p == holder;
}

static int gateway(struct net_listing *s, const char **atts, const char *name,
                   int holder)
{
    const char *id = net_attribute(atts, name);
    int p = id ? net_names_find(s->l.names, NET_NAME_VERTEX, id) : -1;

    if (s->status == PDL_OK &&
        (p < 0 || !lies_in(&s->l, p, holder) || s->l.points[p].inside >= 0))
        NET_REFUSE(s, "%s: '%.40s' is no gateway of its zone", name,
                   id ? id : "");
    return p;
}

static void on_zone_route(struct net_listing *s, const char **atts)
{
    begin_route(s, atts);
    s->route.from = gateway(s, atts, "gw_src", s->route.src);
    s->route.to = gateway(s, atts, "gw_dst", s->route.dst);
}

/* A bypass goes one way only, as SimGrid has it. */
static void on_bypass(struct net_listing *s, const char **atts)
{
    on_route(s, atts);
    s->route.bypass = true;
    s->symmetrical = false;
}

static void on_zone_bypass(struct net_listing *s, const char **atts)
{
    on_zone_route(s, atts);
    s->route.bypass = true;
    s->symmetrical = false;
}

static void put_entry(struct net_listing *s, int link)
{
    if (NET_ROOM(s, s->l.entries, s->l.nentries, s->l.entry_cap, MAX_ENTRIES))
        s->l.entries[s->l.nentries++] = link;
}

static void on_entry(struct net_listing *s, const char **atts)
{
    const char *id = net_attribute(atts, "id");
    const char *way = net_attribute(atts, "direction");
    int link = net_listing_find_link(s, id);

    if (!s->in_route || link < 0) {
        NET_REFUSE(s, "link_ctn: no link '%.40s'", id ? id : "");
        return;
    }
    if (s->l.links[link].twin > link && way && strcmp(way, "DOWN") == 0)
        link++;
    put_entry(s, link);
}

static void put_route(struct net_listing *s, struct net_listed_route r)
{
    if (r.src != r.dst &&
        NET_ROOM(s, s->l.routes, s->l.nroutes, s->l.route_cap, MAX_ROUTES))
        s->l.routes[s->l.nroutes++] = r;
}

/* The way back is the same links in the other order, and of a link with two
 * ways the other one. */
static void end_route(struct net_listing *s)
{
    struct net_listed_route r = s->route;

    s->in_route = false;
    r.n = s->l.nentries - r.first;
    if (r.n == 0 && r.src != r.dst)
        NET_REFUSE(s, "a route without links");
    put_route(s, r);
    if (!s->symmetrical)
        return;
    for (int i = 0; i < r.n; i++) {
        int link = s->l.entries[r.first + r.n - 1 - i];
        int twin = s->l.links[link].twin;

        put_entry(s, twin >= 0 ? twin : link);
    }
    put_route(s, (struct net_listed_route){r.zone, r.dst, r.src, r.to, r.from,
                                           r.first + r.n, r.n, false});
}

/* ---- elements ---------------------------------------------------------- */

static const struct element {
    const char *name;
    void (*start)(struct net_listing *s, const char **atts);
    void (*end)(struct net_listing *s);
} elements[] = {
    {"zone", on_zone, net_listing_close},
    {"AS", on_zone, net_listing_close},
    {"host", on_host, NULL},
    {"router", on_router, NULL},
    {"link", net_listing_on_link, NULL},
    {"backbone", net_listing_on_backbone, NULL},
    {"host_link", net_listing_on_host_link, NULL},
    {"cabinet", net_listing_cabinet, NULL},
    {"cluster", net_listing_cluster, NULL},
    {"route", on_route, end_route},
    {"zoneRoute", on_zone_route, end_route},
    {"ASroute", on_zone_route, end_route},
    {"bypassRoute", on_bypass, end_route},
    {"bypassZoneRoute", on_zone_bypass, end_route},
    {"bypassASroute", on_zone_bypass, end_route},
    {"link_ctn", on_entry, NULL},
};

static const struct element *element_of(const char *name)
{
    for (size_t i = 0; i < sizeof elements / sizeof elements[0]; i++)
        if (strcmp(elements[i].name, name) == 0)
            return &elements[i];
    return NULL;
}

bool net_listing_start(struct net_listing *s, const char *name,
                       const char **atts, struct pdl_err *err)
{
    const struct element *e = element_of(name);

    s->err = err;
    if (e && s->status == PDL_OK)
        e->start(s, atts);
    return e;
}

void net_listing_end(struct net_listing *s, const char *name,
                     struct pdl_err *err)
{
    const struct element *e = element_of(name);

    s->err = err;
    if (e && e->end && s->status == PDL_OK)
        e->end(s);
}
