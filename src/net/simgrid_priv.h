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
    int twin; /* the other way of a SPLITDUPLEX link; -1: none */
};

struct net_listed_route {
    int src, dst;
    int first, n; /* entries */
};

/* Growing arrays of an arena. Vertices are numbered in the order of the file,
 * as SimGrid does; hosts have their own numbers beside. */
struct net_listed {
    pdl_arena *arena;
    struct net_names *names;
    int nverts, nhosts, vert_cap;
    int *host_of; /* of a vertex; -1: a router */
    struct net_listed_link *links;
    int nlinks, link_cap;
    struct net_listed_route *routes;
    int nroutes, route_cap;
    int *entries; /* links of all routes, one after the other */
    int nentries, entry_cap;
    bool shortest; /* routes are hops; the others follow (Floyd, Dijkstra) */
};

/* Names to numbers; adding a name twice is refused. */
enum net_name_kind { NET_NAME_VERTEX, NET_NAME_LINK };
enum pdl_status net_names_create(pdl_arena *a, struct net_names **out);
/* 1: new; 0: it was there; -1: no memory. */
int net_names_add(struct net_names *n, enum net_name_kind kind,
                  const char *name, int number);
int net_names_find(const struct net_names *n, enum net_name_kind kind,
                   const char *name); /* -1: none */

/* All pairs' routes and where links begin and end, from what is listed. */
enum pdl_status net_listed_make(const struct net_listed *l, const char *file,
                                const struct pdl_net **out,
                                struct pdl_err *err);

/* An element of a listed platform; false: not one of those. */
struct net_listing;
enum pdl_status net_listing_create(pdl_arena *a, struct net_listing **out);
bool net_listing_start(struct net_listing *s, const char *name,
                       const char **atts, struct pdl_err *err);
void net_listing_end(struct net_listing *s, const char *name,
                     struct pdl_err *err);
enum pdl_status net_listing_status(const struct net_listing *s);
const struct net_listed *net_listing_done(const struct net_listing *s);

#endif
