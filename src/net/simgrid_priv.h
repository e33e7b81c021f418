/* Shared by the readers of SimGrid platforms: what a file lists, and the
 * network made of it. */
#ifndef SIMGRID_PRIV_H
#define SIMGRID_PRIV_H

#include "topo_priv.h"

/* A link, with the two ways of a SPLITDUPLEX one apart: the second follows
 * the first. */
struct net_listed_link {
    const char *name;
    double bytes_per_s, latency_s;
    int twin;     /* the other way of a SPLITDUPLEX link; -1: none */
    bool fatpipe; /* FATPIPE: every flow has it to itself */
};

/* What routes lead to: hosts, routers and the zones inside a zone. */
struct net_listed_point {
    int zone;     /* it lies in */
    int at;       /* its number there, in the order of the file */
    int host;     /* its number among hosts; -1: none */
    int inside;   /* the zone it is; -1: none */
    int up, down; /* links of a member of a cluster; -1: none */
};

enum net_listed_routing {
    NET_ROUTING_FULL,
    NET_ROUTING_SHORTEST, /* Floyd, Dijkstra: routes are hops */
    NET_ROUTING_CLUSTER,  /* up, backbone, down */
};

struct net_listed_zone {
    enum net_listed_routing routing;
    int depth, parent, point; /* point: that it is in its parent; -1: none */
    int npoints;
    int backbone; /* -1: none */
};

struct net_listed_route {
    int zone, src, dst; /* points of that zone */
    int from, to;       /* where its links begin and end: gateways */
    int first, n;       /* entries */
    bool bypass;        /* instead of whatever the zone would take */
};

/* Growing arrays of an arena. */
struct net_listed {
    pdl_arena *arena;
    struct net_names *names;
    struct net_listed_zone *zones;
    int nzones, zone_cap;
    struct net_listed_point *points;
    int npoints, point_cap, nhosts;
    struct net_listed_link *links;
    int nlinks, link_cap;
    struct net_listed_route *routes;
    int nroutes, route_cap;
    int *entries; /* links of all routes, one after the other */
    int nentries, entry_cap;
};

/* Names to numbers; adding a name twice is refused. */
enum net_name_kind { NET_NAME_VERTEX, NET_NAME_LINK };
enum pdl_status net_names_create(pdl_arena *a, struct net_names **out);
/* 1: new; 0: it was there; -1: no memory. */
int net_names_add(struct net_names *n, enum net_name_kind kind,
                  const char *name, int number);
int net_names_find(const struct net_names *n, enum net_name_kind kind,
                   const char *name); /* -1: none */

/* The route between two hosts through all zones: their links, at most
 * PDL_MAX_ROUTE, and their number; -1: there is none, see err. */
struct net_zones;
enum pdl_status net_zones_create(const struct net_listed *l, const char *file,
                                 struct net_zones **out, struct pdl_err *err);
int net_zones_route(struct net_zones *z, int src, int dst, int *links,
                    struct pdl_err *err);

/* All pairs' routes and where links begin and end, from what is listed. */
enum pdl_status net_listed_make(const struct net_listed *l, const char *file,
                                const struct pdl_net **out,
                                struct pdl_err *err);

/* How many hosts "0-15,20" names; -1: it is not like that. */
int64_t net_radical_count(const char *text);

/* An element of a listed platform; false: not one of those. */
struct net_listing;
enum pdl_status net_listing_create(pdl_arena *a, struct net_listing **out);
bool net_listing_start(struct net_listing *s, const char *name,
                       const char **atts, struct pdl_err *err);
void net_listing_end(struct net_listing *s, const char *name,
                     struct pdl_err *err);
enum pdl_status net_listing_status(const struct net_listing *s);
/* Is it nothing but one cluster? */
bool net_listing_single(const struct net_listing *s);
/* All that is listed; NULL: no hosts, or clusters that cannot be listed, see
 * err. */
const struct net_listed *net_listing_done(const struct net_listing *s,
                                          const char *file,
                                          struct pdl_err *err);

#endif
