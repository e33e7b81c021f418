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
/* Room for one more in an array of the arena; false: none. */
bool net_listing_room(struct net_listing *s, void **at, int n, int *cap,
                      size_t size, int most);
#define NET_ROOM(s, array, n, cap, most) \
    net_listing_room(s, (void **)&(array), n, &(cap), sizeof *(array), most)
void net_listing_name(struct net_listing *s, enum net_name_kind kind,
                      const char *name, int number);
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

/* Also one way of a SPLITDUPLEX link: NAME_UP, NAME_DOWN; -1: none. */
int net_listing_find_link(struct net_listing *s, const char *id);

void net_listing_on_link(struct net_listing *s, const char **atts);
void net_listing_on_backbone(struct net_listing *s, const char **atts);
void net_listing_on_host_link(struct net_listing *s, const char **atts);
void net_listing_cluster(struct net_listing *s, const char **atts);
void net_listing_cabinet(struct net_listing *s, const char **atts);

#endif
