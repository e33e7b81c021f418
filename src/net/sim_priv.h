/* Shared by the files of the simulator.
 *
 *   share.c   rates of the flows that are on the wire (max-min, incremental)
 *   clock.c   which flow has the next event
 *   wire.c    flows in time: latency, bytes at the shared rate, link counters
 *   model.c   what a message takes alone, by the wire model
 *   rounds.c  short cut: rounds of messages that never share a link
 *   events.c  ranks and their operations, event by event
 *   match.c   which send meets which receive
 *   sim.c     puts them together; flows.c the same for bare flows
 *   energy.c, bounds.c, path.c, timeline.c: what is read off a run */
#ifndef SIM_PRIV_H
#define SIM_PRIV_H

#include "paradl/net.h"

/* Times closer than this, relatively, are one instant: rounding must not tear
 * apart what happens together. It moves an event by less than it rounds off
 * in a thousand additions. */
#define NET_SAME_INSTANT 1e-13

/* ---- blocks of 2^k elements with free lists ----------------------------- */

/* Grows by doubling in an arena; blocks are offsets, so they survive it. */
struct net_pool {
    pdl_arena *arena;
    char *base;
    size_t size; /* of an element, at least 8 */
    int64_t used, cap;
    int64_t free[32]; /* offset + 1 of the first free block of 2^k */
};
void net_pool_init(struct net_pool *p, pdl_arena *a, size_t size);
/* A block of 2^k elements; -1: no memory. */
int64_t net_pool_take(struct net_pool *p, int k);
void net_pool_give(struct net_pool *p, int64_t block, int k);
int net_log2_up(int n); /* least k with 2^k >= n */

/* ---- share: the max-min core ------------------------------------------- */

struct net_use {
    double amount;
    int link, pos; /* pos: where the link's list names this use */
};

struct net_ref {
    int flow, use;
};

/* A link and its flows. */
struct net_share_link {
    double capacity;
    int64_t refs; /* block in refs */
    int n, log;
    bool touched, added, in;
};

/* What is left of a link while solving. */
struct net_left {
    double left, weight, all; /* weight: of the open flows; all: at first */
    int open;                 /* flows not yet given their rate */
    int next;                 /* in a bucket of the queue */
};

/* level = rate / weight. */
struct net_share_flow {
    double weight, rate, level, bound_level;
    int64_t uses; /* block in uses */
    int nuses, log;
    bool in, open;
};

struct net_share {
    pdl_arena *arena;
    bool failed; /* latches: no memory */
    int nlinks;
    struct net_share_link *links;
    struct net_left *left;
    struct net_share_flow *flows;
    int nflows; /* room for this many */
    struct net_pool uses, refs;
    int *touched, ntouched;
    double restart; /* nothing below this level has changed */
    /* solver's scratch */
    int *list, nlist;       /* links being solved */
    int *changed, nchanged; /* flows that may have a new rate */
    struct net_queue *queue;
    struct net_bounded *bounded; /* of those, the ones with a bound */
    int nbounded;
    int64_t solves;
};

enum pdl_status net_share_init(struct net_share *s, pdl_arena *a,
                               const double *capacity, int nlinks,
                               struct pdl_err *err);
/* Makes room for flow numbers below n. */
void net_share_reserve(struct net_share *s, int n);
/* Adds a flow with its uses (no link twice). Its rate is set at once when it
 * is alone on its links, else by the next solve. */
void net_share_add(struct net_share *s, int flow,
                   const struct pdl_maxmin_use *uses, int nuses, double weight,
                   double bound);
void net_share_remove(struct net_share *s, int flow);
/* Shares anew after adds and removes. changed[0..nchanged) may have got
 * another rate; the rest kept theirs. */
void net_share_solve(struct net_share *s);

static inline const struct net_use *net_share_uses(const struct net_share *s,
                                                   int flow)
{
    return (const struct net_use *)(const void *)s->uses.base +
           s->flows[flow].uses;
}

#endif
