/* Ranks and their operations in time: what window.c and events.c share. */
#ifndef SIM_EVENTS_H
#define SIM_EVENTS_H

#include "sim_priv.h"

enum { NET_SEND = 1, NET_RECV = 2 };

struct net_live_op {
    int send_to, recv_from, send_pair, recv_pair;
    int64_t send_bytes, recv_bytes, send_ordinal, recv_ordinal;
    int seen;        /* the end of what it sends, as net_ends has it */
    int first_dep;   /* first of those that wait for it: 4 * place + k, -1 */
    int next_dep[4]; /* the next one waiting for after[k] */
    double compute_s;
    int waits;
    int parts; /* NET_SEND and NET_RECV still open */
    bool done;
};

struct net_live_rank {
    int64_t base, seen; /* all before base are complete; seen are in window */
    int64_t ring;       /* block of operations, 2^log */
    int log;
};

struct net_under_way {
    int src, dst; /* ranks; dst -1: src computes before its src_op */
    int64_t src_op, dst_op;
    bool detached;
    int parent; /* of the critical path */
};

struct net_ready {
    int rank;
    int64_t op;
};

struct net_events {
    struct net_sim *sim;
    pdl_arena *arena;
    struct net_live_rank *ranks;
    struct net_pool ops;
    int mask; /* of places in a window */
    struct net_match match;
    struct net_ready *ready;
    int nready, ready_at, ready_cap;
    int computed; /* of the ready ones: have computed, must not again */
    struct net_under_way *under_way; /* by slot */
    int nunder_way;
    int unfinished; /* ranks */
    int ahead;      /* operations complete behind one that is not */
    enum pdl_status status;
    struct pdl_err *err;
};

static inline struct net_live_op *net_live_at(struct net_events *e, int rank,
                                              int64_t i)
{
    const struct net_live_rank *r = &e->ranks[rank];
    int64_t place = i & (((int64_t)1 << r->log) - 1);

    return (struct net_live_op *)(void *)e->ops.base + r->ring + place;
}

void net_events_no_memory(struct net_events *e);
/* The operation can be posted. */
void net_events_ready(struct net_events *e, int rank, int64_t op);
/* Remembers what flies in a slot; false: no memory. */
bool net_events_keep(struct net_events *e, int slot,
                     const struct net_under_way *u);
/* Nothing to wait for any more: computes, or is ready at once. */
void net_events_release(struct net_events *e, int rank, int64_t op,
                        double compute_s);
/* Looks at the operations of a rank that its window has room for. */
void net_events_look(struct net_events *e, int rank);

#endif
