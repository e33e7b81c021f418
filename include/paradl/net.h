/* paradl/net.h - networks of hosts and switches, and how long flows take.
 *
 * A network is a list of links and a route between any two hosts. A link is
 * one capacity: a full-duplex cable is two links, one a direction; a shared
 * cable is one link that both directions use. A route is a list of link
 * numbers, computed on demand; a link listed twice counts twice.
 *
 * The simulator knows flows, not collectives: it asks a pdl_traffic for what
 * each rank sends and receives next. */
#ifndef PARADL_NET_H
#define PARADL_NET_H

#include "paradl/base.h"

PDL_BEGIN

/* ---- topology --------------------------------------------------------- */

struct pdl_link {
    int from, to; /* vertices: hosts 0..nhosts-1, then switches */
    double bytes_per_s, latency_s;
    bool shared; /* both directions use it */
    bool optical;
    double length_m;
    double idle_w, peak_w; /* 0: not modelled */
    int reverse; /* the other direction's link; itself when shared; -1 none */
};

enum { PDL_MAX_ROUTE = 128 };

struct pdl_net {
    const char *spec; /* "fat-tree:down=8x8,up=1x8,links=1x1" */
    int nhosts, nswitches, nlinks;
    const struct pdl_link *links;
    /* Writes the links from host src to host dst in order and returns their
     * number (0 when src == dst), at most PDL_MAX_ROUTE. */
    int (*route)(const struct pdl_net *net, int src, int dst, int *links);
    const void *shape; /* the generator's own data */
};

/* ---- what ranks do, as the network sees it ----------------------------- */

/* Operation i of a rank: send to a peer and receive from a peer (either may
 * be -1), once the listed earlier operations of the same rank are complete.
 * It is complete when its own send and its own receive are. Messages between
 * two ranks match in order. A message to oneself takes no time. */
struct pdl_traffic_op {
    int send_to, recv_from;
    int64_t send_bytes, recv_bytes;
    int nafter;
    int64_t after[4];
};

/* Operations are pure functions of (rank, i), made when they are needed: a
 * ring on 4096 ranks has 33 million messages and nobody lists them. */
struct pdl_traffic {
    int nranks;
    void *ctx;
    int64_t (*nops)(void *ctx, int rank);
    void (*op)(void *ctx, int rank, int64_t i, struct pdl_traffic_op *out);
    /* How many operations from i on, i itself included, are on every rank the
     * same as operation i in peers and bytes, each waiting exactly for the
     * one before. NULL: unknown (1). */
    int64_t (*alike)(void *ctx, int64_t i);
    const int *host_of_rank; /* NULL: rank r on host r */
};

PDL_END
#endif
