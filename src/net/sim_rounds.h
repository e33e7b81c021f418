/* Rounds: what lanes.c and rounds.c share. */
#ifndef SIM_ROUNDS_H
#define SIM_ROUNDS_H

#include "sim_priv.h"

struct net_lane_use {
    double amount;
    int link, times;
};

/* What a rank sends in the rounds of a stretch. */
struct net_lane {
    double latency_s, rate, seconds; /* seconds: of the bytes, alone */
    int nuses, nlinks;
    bool detached;
};

struct net_rounds {
    struct net_sim *sim;
    int nranks, nlinks, stride;
    int64_t last;                     /* rounds in all */
    double *now, *next, *end, *first; /* of each rank; of its message */
    int *to, *from;
    struct net_ends *ends;
    int64_t *send, *recv; /* bytes */
    struct net_lane *lane;
    struct net_lane_use *uses; /* stride to a rank */
    int64_t *bytes;            /* sent in this stretch, not yet counted */
    double *seconds;
    double *free_at; /* of each link */
    int *stamp;
    bool disjoint, counted;
    /* where all ranks were at one time */
    int64_t mark_round, mark_messages, mark_bytes, mark_cuts;
    double mark_time;
    struct pdl_link_use *mark_use;
    double *mark_timeline, mark_width;
    int *mark_tips, **mark_live; /* live: their addresses */
    int *node;                   /* of each rank's message */
    int64_t begun;               /* where this run of rounds began */
};

enum { NET_ODD, NET_NEW_PEERS, NET_NEW_BYTES, NET_SAME };

/* Reads operation i of all ranks; how it compares with what is there. */
int net_rounds_read(struct net_rounds *r, int64_t i);
/* Does every send of the round meet a receive of it? */
bool net_rounds_match(const struct net_rounds *r);
/* Finds the way of every message; false: no memory. */
bool net_rounds_lanes(struct net_rounds *r);
/* How long every message takes alone. */
void net_rounds_time(struct net_rounds *r);
/* Counts the messages of the stretch so far (rounds.c). */
void net_rounds_count(struct net_rounds *r);

#endif
