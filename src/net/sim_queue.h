/* The queue of links by level; see queue.c. */
#ifndef SIM_QUEUE_H
#define SIM_QUEUE_H

#include "sim_priv.h"

/* A flow that its bound may hold, and at which level. */
struct net_bounded {
    double level;
    int flow;
};

enum { NET_QUEUE_BITS = 9, NET_QUEUE_BUCKETS = 16 << NET_QUEUE_BITS };

struct net_queue_item {
    double level;
    int link;
};

struct net_queue {
    uint64_t used[NET_QUEUE_BUCKETS / 64];
    int head[NET_QUEUE_BUCKETS];
    uint64_t first;
    int at;                      /* the bucket in the heap; -1: none yet */
    struct net_queue_item *heap; /* room for every link */
    int nheap;
};

static inline double net_level(const struct net_left *l)
{
    return l->left > 0 ? l->left / l->weight : 0;
}

void net_queue_start(struct net_queue *q, double least);
void net_queue_put(struct net_queue *q, struct net_left *links, int link,
                   double level);
/* The link of least level as it was put; false: empty. */
bool net_queue_least(struct net_queue *q, struct net_left *links,
                     struct net_queue_item *out);
void net_queue_drop(struct net_queue *q); /* that link */
/* That link's level has risen. */
void net_queue_raise(struct net_queue *q, struct net_left *links, double level);

#endif
