/* SPDX-License-Identifier: Apache-2.0
 *
 * SimGrid platforms that list hosts, routers, links and routes in one zone
 * (others may stand around it): takes the elements one by one. Speeds, cores,
 * properties and loopbacks are skipped. */
#include "simgrid_priv.h"

#include <stdio.h>
#include <string.h>

enum {
    MAX_LISTED_VERTS = 1024,
    MAX_LISTED_LINKS = 1 << 20,
    MAX_ROUTES = 1 << 21,
    MAX_ENTRIES = 1 << 26,
};

struct net_listing {
    struct net_listed l;
    enum pdl_status status;
    struct pdl_err *err; /* of the element being read */
    int depth, zone;     /* depth of the zone with hosts; 0: none so far */
    int next_zone;       /* a zone closed: hosts must not come again */
    bool shortest[40];   /* routing of the zones around */
    int route_src, route_dst, route_first;
    bool in_route, symmetrical;
};

enum pdl_status net_listing_create(pdl_arena *a, struct net_listing **out)
{
    struct net_listing *s = PDL_NEW(a, struct net_listing, 1);

    if (!s)
        return PDL_ENOMEM;
    s->l.arena = a;
    *out = s;
    return net_names_create(a, &s->l.names);
}

enum pdl_status net_listing_status(const struct net_listing *s)
{
    return s->status;
}

const struct net_listed *net_listing_done(const struct net_listing *s)
{
    return s->l.nhosts > 0 ? &s->l : NULL;
}

#define REFUSE(s, ...)                                                       \
    ((s)->status == PDL_OK                                                   \
         ? (void)((s)->status = pdl_fail((s)->err, PDL_EPARSE, __VA_ARGS__)) \
         : (void)0)

static void no_memory(struct net_listing *s)
{
    if (s->status == PDL_OK)
        s->status = pdl_fail(s->err, PDL_ENOMEM, "out of memory");
}

static const char *value(const char **atts, const char *name)
{
    for (; *atts; atts += 2)
        if (strcmp(atts[0], name) == 0)
            return atts[1];
    return NULL;
}

/* Room for one more in an array of the arena; false: none. */
static bool room(struct net_listing *s, void **at, int n, int *cap, size_t size,
                 int most)
{
    void *grown;
    int more = *cap ? 2 * *cap : 64;

    if (n < *cap)
        return true;
    if (n >= most) {
        REFUSE(s, "more than %d in one platform", most);
        return false;
    }
    grown = pdl_arena_grow(s->l.arena, *at, (size_t)n, (size_t)more, size);
    if (!grown) {
        no_memory(s);
        return false;
    }
    *at = grown;
    *cap = more;
    return true;
}

#define ROOM(s, array, n, cap, most) \
    room(s, (void **)&(array), n, &(cap), sizeof *(array), most)

static void take_name(struct net_listing *s, enum net_name_kind kind,
                      const char *name, int number)
{
    int added = net_names_add(s->l.names, kind, name, number);

    if (added < 0)
        no_memory(s);
    else if (added == 0)
        REFUSE(s, "'%.40s' is there twice", name);
}

/* ---- elements ----------------------------------------------------------------- */

static void on_zone(struct net_listing *s, const char **atts)
{
    const char *routing = value(atts, "routing");

    if (s->depth < 40)
        s->shortest[s->depth] =
            routing && (strcmp(routing, "Floyd") == 0 ||
                        strcmp(routing, "Dijkstra") == 0 ||
                        strcmp(routing, "DijkstraCache") == 0);
}

static void on_vertex(struct net_listing *s, const char **atts, bool host)
{
    const char *id = value(atts, "id");

    if (!id) {
        REFUSE(s, "a host without an id");
        return;
    }
    if (s->zone == 0) {
        s->zone = s->depth - 1;
        s->l.shortest = s->shortest[s->zone];
    }
    if (s->next_zone || s->zone != s->depth - 1) {
        REFUSE(s, "hosts in more than one zone are not read");
        return;
    }
    if (!ROOM(s, s->l.host_of, s->l.nverts, s->l.vert_cap, MAX_LISTED_VERTS))
        return;
    s->l.host_of[s->l.nverts] = host ? s->l.nhosts++ : -1;
    take_name(s, NET_NAME_VERTEX, id, s->l.nverts++);
}

/* Old files leave the base unit out. */
static double quantity(struct net_listing *s, const char **atts,
                       const char *name, enum pdl_unit unit)
{
    const char *text = value(atts, name);
    size_t len = text ? strlen(text) : 0;
    struct pdl_err inner = {"", ""};
    double x = 0;
    char full[64];

    if (len == 0 && unit == PDL_UNIT_SECONDS)
        return 0;
    if (len == 0 || len > 40) {
        REFUSE(s, "%s is %s", name, len ? "too long" : "missing");
        return 1;
    }
    snprintf(full, sizeof full, "%s%s", text,
             text[len - 1] < '0' || text[len - 1] > '9' ? ""
             : unit == PDL_UNIT_SECONDS                 ? "s"
                                                        : "B/s");
    if (pdl_unit_parse(full, unit, &x, &inner) != PDL_OK)
        REFUSE(s, "%s: %.200s", name, inner.msg);
    else if (!(x >= 0) || (unit != PDL_UNIT_SECONDS && !(x > 0)))
        REFUSE(s, "%s: '%s' is not positive", name, text);
    return x;
}

static void put_link(struct net_listing *s, struct net_listed_link link)
{
    if (!link.name)
        no_memory(s);
    else if (ROOM(s, s->l.links, s->l.nlinks, s->l.link_cap, MAX_LISTED_LINKS))
        s->l.links[s->l.nlinks++] = link;
}

static void on_link(struct net_listing *s, const char **atts)
{
    const char *id = value(atts, "id"), *policy = value(atts, "sharing_policy");
    struct net_listed_link link = {
        id ? pdl_arena_strndup(s->l.arena, id, 64) : NULL,
        quantity(s, atts, "bandwidth", PDL_UNIT_BYTES_S),
        quantity(s, atts, "latency", PDL_UNIT_SECONDS), -1};
    bool split = policy && (strcmp(policy, "SPLITDUPLEX") == 0 ||
                            strcmp(policy, "FULLDUPLEX") == 0);
    int n = s->l.nlinks;

    if (!id)
        REFUSE(s, "a link without an id");
    else if (policy && !split && strcmp(policy, "SHARED") != 0)
        REFUSE(s, "sharing_policy: none of SPLITDUPLEX, SHARED");
    if (s->status != PDL_OK)
        return;
    take_name(s, NET_NAME_LINK, id, n);
    link.twin = split ? n + 1 : -1;
    put_link(s, link);
    link.twin = n;
    if (split)
        put_link(s, link);
}

static void on_route(struct net_listing *s, const char **atts)
{
    const char *src = value(atts, "src"), *dst = value(atts, "dst");
    const char *symmetrical = value(atts, "symmetrical");

    s->route_src = src ? net_names_find(s->l.names, NET_NAME_VERTEX, src) : -1;
    s->route_dst = dst ? net_names_find(s->l.names, NET_NAME_VERTEX, dst) : -1;
    if (s->route_src < 0 || s->route_dst < 0)
        REFUSE(s, "a route from '%.40s' to '%.40s', which are not both there",
               src ? src : "", dst ? dst : "");
    s->symmetrical = !symmetrical || (strcmp(symmetrical, "NO") != 0 &&
                                      strcmp(symmetrical, "no") != 0);
    s->route_first = s->l.nentries;
    s->in_route = true;
}

static void on_entry(struct net_listing *s, const char **atts)
{
    const char *id = value(atts, "id"), *way = value(atts, "direction");
    int link = id ? net_names_find(s->l.names, NET_NAME_LINK, id) : -1;

    if (!s->in_route || link < 0) {
        REFUSE(s, "link_ctn: no link '%.40s'", id ? id : "");
        return;
    }
    if (s->l.links[link].twin >= 0 && way && strcmp(way, "DOWN") == 0)
        link++;
    if (ROOM(s, s->l.entries, s->l.nentries, s->l.entry_cap, MAX_ENTRIES))
        s->l.entries[s->l.nentries++] = link;
}

static void put_route(struct net_listing *s, int src, int dst, int first, int n)
{
    if (src != dst &&
        ROOM(s, s->l.routes, s->l.nroutes, s->l.route_cap, MAX_ROUTES))
        s->l.routes[s->l.nroutes++] =
            (struct net_listed_route){src, dst, first, n};
}

/* The way back is the same links in the other order, and of a link with two
 * ways the other one. */
static void end_route(struct net_listing *s)
{
    int first = s->route_first, n = s->l.nentries - first;

    s->in_route = false;
    if (n == 0 && s->route_src != s->route_dst)
        REFUSE(s, "a route without links");
    put_route(s, s->route_src, s->route_dst, first, n);
    if (!s->symmetrical)
        return;
    for (int i = 0; i < n; i++) {
        int link = s->l.entries[first + n - 1 - i];

        if (!ROOM(s, s->l.entries, s->l.nentries, s->l.entry_cap, MAX_ENTRIES))
            return;
        s->l.entries[s->l.nentries++] =
            s->l.links[link].twin >= 0 ? s->l.links[link].twin : link;
    }
    put_route(s, s->route_dst, s->route_src, first + n, n);
}

bool net_listing_start(struct net_listing *s, const char *name,
                       const char **atts, struct pdl_err *err)
{
    s->depth++;
    s->err = err;
    if (strcmp(name, "zone") == 0 || strcmp(name, "AS") == 0)
        on_zone(s, atts);
    else if (strcmp(name, "host") == 0)
        on_vertex(s, atts, true);
    else if (strcmp(name, "router") == 0)
        on_vertex(s, atts, false);
    else if (strcmp(name, "link") == 0)
        on_link(s, atts);
    else if (strcmp(name, "route") == 0)
        on_route(s, atts);
    else if (strcmp(name, "link_ctn") == 0)
        on_entry(s, atts);
    else
        return false;
    return true;
}

void net_listing_end(struct net_listing *s, const char *name,
                     struct pdl_err *err)
{
    s->err = err;
    if (s->status == PDL_OK && strcmp(name, "route") == 0 && s->in_route)
        end_route(s);
    s->depth--;
    if (s->zone && s->depth < s->zone)
        s->next_zone = 1;
}
