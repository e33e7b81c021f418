/* Shared by the readers of listed SimGrid platforms: a platform being read;
 * simgrid_listing.c, simgrid_cluster.c. */
#ifndef SIMGRID_LISTING_H
#define SIMGRID_LISTING_H

#include "simgrid_priv.h"

enum { NET_MAX_LISTED = 1024 }; /* hosts, routers and zones */

struct net_listing {
    struct net_listed l;
    enum pdl_status status;        /* the first failure latches */
    struct pdl_err *err;           /* of the element being read */
    int zone;                      /* the innermost that is open; -1: none */
    struct net_listed_route route; /* being read */
    bool in_route, symmetrical;
    int nclusters;
    bool others;     /* hosts beside clusters */
    const char *odd; /* a cluster that cannot stand beside others: why */
};

#define NET_REFUSE(s, ...)                                                   \
    ((s)->status == PDL_OK                                                   \
         ? (void)((s)->status = pdl_fail((s)->err, PDL_EPARSE, __VA_ARGS__)) \
         : (void)0)

void net_listing_no_memory(struct net_listing *s);
/* NULL: absent */
const char *net_attribute(const char **atts, const char *name);
double net_listing_quantity(struct net_listing *s, const char **atts,
                            const char *name, enum pdl_unit unit);
/* A zone in the one that is open; a host or router in it; its number. */
void net_listing_open(struct net_listing *s, const char *id,
                      const char *routing);
void net_listing_close(struct net_listing *s);
int net_listing_point(struct net_listing *s, const char *id, bool host);
/* A link of that sharing policy (NULL: SHARED); its number, -1 on failure. */
int net_listing_link(struct net_listing *s, const char *id, const char *policy,
                     double bytes_per_s, double latency_s);

void net_listing_cluster(struct net_listing *s, const char **atts);
void net_listing_cabinet(struct net_listing *s, const char **atts);

#endif
