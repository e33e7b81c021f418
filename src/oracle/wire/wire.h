/* wire: what one collective takes: the wires that its group crosses, who shares
 * them, the algorithm, and how frameworks run it. */
#ifndef ORACLE_WIRE_H
#define ORACLE_WIRE_H

#include "oracle/habit/habit.h"

/* Who an operation sends to: the next of its group, all of it, or neighbours
 * along its factors. */
enum oracle_pattern { ORACLE_RING, ORACLE_PAIRS, ORACLE_NEIGHBOURS };

/* On a torus: links that the longest message of a step crosses, and messages
 * that its busiest link carries. */
struct oracle_hop {
    double hops, load;
};

/* A group on a torus (torus.c). */
struct oracle_torus {
    bool is, box;
    double link_s, link_bytes_per_s, links; /* one; and those of a PE */
    struct oracle_hop ring;                 /* of a step along the group */
    struct oracle_hop pairs; /* of an all-to-all, by coordinates; in the mean */
    /* of a box, rings along one dimension after the other, one lap: links
     * crossed one after the other, bytes on the busiest of a vector's, and
     * links of a PE that libraries use */
    double steps, share, ways;
};

/* What one flow of a group gets: level, latency, bandwidth, and the flows that
 * share the uplinks of the block of PEs (by level; 0: a node) that limits
 * it. */
enum { ORACLE_WIRES = 512 };
struct oracle_wire {
    double alpha_s, bytes_per_s, flows;
    int level, at;
    bool known, gradient;
    enum oracle_pattern pattern;
    uint32_t group;
    int64_t rank, local; /* local: ranks of the group in its node */
    /* a hop inside a node, where the group has some and leaves it */
    double near_alpha_s, near_bytes_per_s;
    double pe_bytes_per_s; /* most that one rank sends out of it; 0: no limit */
    struct oracle_torus torus;
};

/* An allreduce and what the quickest algorithm takes for it. */
enum { ORACLE_QUICKEST = 256 }; /* a table that forgets */
struct oracle_quickest {
    double n, bytes, local, alpha_s, bytes_per_s, near_bytes_per_s, seconds;
};

/* wires.c: do two ranks that do the same work also cross the same wires? */
bool oracle_same_wire(const struct oracle *o, int op, int64_t a, int64_t b,
                      bool gradient);
struct oracle_price {
    double seconds, flows;
    double coding; /* of the seconds: the PE itself is busy, or waits */
    int level;     /* the highest that a rank crosses; -1: none */
    int at;        /* level of the block whose uplinks are shared; 0: a node */
};
/* gradient: it is part of the exchange after backward; all but the seconds
 * into how */
bool oracle_stays_on_lane(const struct oracle *o, const struct pdl_plan_op *x);
double oracle_comm(const struct oracle *o, int op, int64_t rank, bool gradient,
                   struct oracle_price *how);
/* gradients of so many bytes, exchanged by another algorithm or compressed */
double oracle_exchange(const struct oracle *o, int op, int64_t rank,
                       const char *algorithm, const char *compress,
                       double bytes, double *coding);
/* wires.c: the wire of a rank's group; flows that leave the block of `size` PEs
 * that the rank is in; the rate inside a node; a step of a ring, so many bytes
 * from each rank to the next */
struct oracle_wire oracle_wire_of(const struct oracle *o, int64_t rank,
                                  const struct pdl_plan_op *x, bool gradient);
double oracle_inside_node(const struct oracle *o, bool gradient);
double oracle_inside_latency(const struct oracle *o);
double oracle_ring_step(const struct oracle_wire *w, double bytes);
/* torus.c: a group's; a reduce-scatter or an allgather of a box by rings along
 * its dimensions, over all links of a PE or one; messages of so many bytes to n
 * others; an allreduce by an algorithm's name, infinite where it has no form */
struct oracle_torus oracle_torus_of(const struct oracle *o, uint32_t group,
                                    enum oracle_pattern pattern);
double oracle_torus_rings(const struct oracle_wire *w, double bytes, bool all);
double oracle_torus_pairs(const struct oracle_wire *w, double n, double bytes);
double oracle_torus_named(const struct oracle *o, const struct oracle_wire *w,
                          const char *name, double bytes);
double oracle_flows(const struct oracle *o, enum oracle_pattern pattern,
                    int64_t rank, uint32_t group, int64_t size);
bool oracle_is_weight_traffic(const struct oracle *o, int op);
double oracle_shard_copies(const struct oracle *o, int op, int64_t rank);
/* comm.c: times the bytes of the plan that gradients have on the wires */
double oracle_travels(const struct oracle *o, const struct pdl_plan_op *x);
/* comm_habits.c: a layer's collective inside a node, and the traffic of ZeRO 3,
 * by measurement or habit; < 0: there is none. The part of its bytes that a
 * collective of a sequence's shards shows. A message to another stage. */
double oracle_inside_measured(const struct oracle *o,
                              enum pdl_plan_op_kind kind, int level, double n,
                              double in, double out);
double oracle_zero_alone(const struct oracle *o, int op, int level, double n,
                         double bytes);
/* Is it sent in as many pieces as ranks, each but the first behind the product
 * of the piece before (async_tensor; Wang et al., ASPLOS 2023)? */
bool oracle_in_pieces(const struct oracle *o, int op);
double oracle_sequence_part(const struct oracle *o,
                            const struct pdl_plan_op *x);
double oracle_send(const struct oracle *o, const struct oracle_wire *w,
                   double bytes);
/* allreduce.c: of `bytes` on each of n ranks; w is the group's worst hop */
double oracle_allreduce(const struct oracle *o, const struct oracle_wire *w,
                        const char *name, double n, double bytes);
/* compress.c: the same, as they travel (plan.h); searching and coding with it,
 * into *coding, too */
struct oracle_gradients {  /* those of operations [first, last) on a PE */
    int first, last, like; /* tensors of the kind that `like` sums */
    int64_t pe;
};
double oracle_compressed(const struct oracle *o, const struct oracle_wire *w,
                         const char *as, const struct oracle_gradients *g,
                         double n, double bytes, double *coding);
enum pdl_status oracle_allreduce_known(const struct oracle *o,
                                       struct pdl_err *err);
/* comm.c: copies of a layer collective's result, by habit of the framework */
double oracle_copy(const struct oracle *o, int op, int64_t rank);

#endif
