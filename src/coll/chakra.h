/* Chakra's execution traces inside the room: the nodes of every rank, the
 * events they make together, and the traffic of them. */
#ifndef COLL_CHAKRA_H
#define COLL_CHAKRA_H

#include "coll_priv.h"

/* Types of nodes, as Chakra numbers them. */
enum chakra_type {
    CHAKRA_METADATA = 1,
    CHAKRA_LOAD,
    CHAKRA_STORE,
    CHAKRA_COMPUTE,
    CHAKRA_SEND,
    CHAKRA_RECV,
    CHAKRA_COLLECTIVE,
};

/* An attribute of our own: duration_micros counts whole microseconds. */
#define CHAKRA_SECONDS "paradl_seconds"

/* Streams of nodes that say none. */
#define CHAKRA_NO_STREAM INT64_MIN
#define CHAKRA_HOST_BIT  ((int64_t)1 << 40)

struct chakra_node {
    int64_t id, bytes, tag;
    int64_t stream; /* nodes of one are done one after the other */
    int64_t first_after, nafter;
    double seconds;
    const char *group; /* of a collective; NULL: all ranks */
    enum chakra_type type;
    int peer;
    int coll;      /* of a collective: Chakra's number of it */
    int64_t event; /* chakra_events.c */
};

struct chakra_rank {
    const char *name;
    struct chakra_node *nodes;
    int64_t n, cap;
    int64_t *after; /* ids, then places in nodes */
    int64_t nafter, after_cap;
    int64_t *order; /* places in nodes, in an order that all ranks share */
};

/* Ranks of a group in its order, and where each is in it, by rank. */
struct chakra_member {
    int rank, at;
};

struct chakra_group {
    const char *name;
    int n;
    int64_t order; /* of groups of one name the first counts */
    const int *ranks;
    const struct chakra_member *members; /* NULL: of all ranks */
};

struct chakra_trace {
    pdl_arena *arena;
    struct pdl_err *err;
    int nranks;
    struct chakra_rank *ranks;
    int64_t ngroups, groups_cap; /* the first: all ranks */
    struct chakra_group *groups; /* the others by name */
    int64_t nevents;
};

/* The collective that Chakra has under the number; NULL: none of ours. */
const char *coll_chakra_collective(int number);
/* The number; -1: Chakra has no such collective. */
int coll_chakra_number(const char *collective);

/* Room for one more of a list in the arena. */
bool coll_chakra_reserve(pdl_arena *a, void *list, int64_t n, int64_t *cap,
                         size_t size);
enum pdl_status coll_chakra_no_room(const struct chakra_trace *t);

enum pdl_status coll_chakra_read(struct chakra_trace *t, int rank,
                                 struct pdl_bytes in, const char *name,
                                 struct pdl_chakra_count *count);
/* Those of a map of names to ranks; those that PyTorch says in a node, as far
 * as they make sense; and all of them in order. */
enum pdl_status coll_chakra_groups(struct chakra_trace *t, struct pdl_bytes in,
                                   const char *name);
enum pdl_status coll_chakra_init_groups(struct chakra_trace *t,
                                        const char *values, const char *name);
void coll_chakra_sort_groups(struct chakra_trace *t);
/* The group of a node; NULL: there is none of its name. */
const struct chakra_group *coll_chakra_group(const struct chakra_trace *t,
                                             const struct chakra_node *node);
/* The place of a rank in a group; -1: it is not in it. */
int coll_chakra_member(const struct chakra_group *g, int rank);
/* Who meets whom, and an order of everything that all ranks share. */
enum pdl_status coll_chakra_order(struct chakra_trace *t);

#endif
