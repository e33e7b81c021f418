/* habit: what frameworks add to the kernels of an operation and what their
 * hosts take; a local operation as it runs is priced here (compute.c). */
#ifndef ORACLE_HABIT_H
#define ORACLE_HABIT_H

#include "oracle/context.h"
#include "oracle/habit/framework.h"

/* effects.c: those that pdl_oracle_options.without counts, in its order */
enum oracle_effect {
    ORACLE_SHARING,
    ORACLE_CHANNEL,
    ORACLE_LATENCY,
    ORACLE_SYNC,
    ORACLE_STAGING,
    ORACLE_VOLUMES,
    ORACLE_COPIES,
    ORACLE_PARTS,
    ORACLE_TENSORS,
    ORACLE_BIAS,
    ORACLE_HOST,
    ORACLE_FILES,
    ORACLE_LOCKS,
    ORACLE_ROUND_TRIP,
    ORACLE_TILES,
    ORACLE_REREAD,
    ORACLE_INTERFERENCE,
};
bool oracle_without(const struct oracle *o, enum oracle_effect e);
/* Points o to changed copies, kept in c, where an effect is left out. */
struct oracle_changed {
    struct pdl_oracle_options opt;
    struct pdl_framework framework;
    struct pdl_system sys;
};
void oracle_leave_out(struct oracle *o, struct oracle_changed *c);

/* host time to issue one kernel that the device waits for; 0: hidden */
double oracle_host_call(const struct oracle *o);
/* width of products that read what this one does over its own; 1: alone */
double oracle_shared(const struct oracle *o, int node);
/* does an ADD join gradients of products that are one? */
bool oracle_joins_fused(const struct oracle *o, const struct pdl_plan_op *add);
/* compute.c: seconds of a local operation on one rank */
double oracle_compute(const struct oracle *o, int op, int64_t rank);
/* compute_eager.c: is it eager PyTorch, where scores pass through kernels one
 * by one and gradients have 32 bits? What that adds to an operation, the least
 * its kernel takes, how many times the bytes of the plan it streams, and the
 * bytes its optimizer moves for one weight (0: the plan's) */
bool oracle_is_eager(const struct oracle *o);
double oracle_eager_more(const struct oracle *o, int op, int64_t rank);
double oracle_eager_floor(const struct oracle *o, int op, int64_t rank);
double oracle_eager_streams(const struct oracle *o, int op);
/* of a batch normalisation that reads its input once or, if `both`, also
 * applies what it found; 0: no kernel of its own */
double oracle_eager_norm(const struct oracle *o, int op, int64_t rank,
                         bool both);
/* do images lie channels first? */
bool oracle_eager_first(const struct oracle *o);
/* is it a view there, which costs nothing? */
bool oracle_eager_view(const struct oracle *o, int op);
double oracle_eager_update(const struct oracle *o);
/* calls of the host, in ORACLE_CALL ths */
enum { ORACLE_CALL = 20 };
int oracle_issued(const struct oracle *o, int op);
/* As they are: our own runtime, or what no framework adds to. */
bool oracle_runs_plans(const struct oracle *o);
/* The PE as this job uses it: what the runtime measured of itself on a device
 * is nothing that another framework has there. */
void oracle_settle_pe(struct oracle *o);
int oracle_issued_comm(const struct oracle *o, int op); /* of a collective */
/* and what it holds: indices of largest elements, copies of what it overwrites
 */
int64_t oracle_eager_indices(const struct oracle *o,
                             const struct pdl_plan_op *x, int64_t rank);
/* compute_tensorflow.c: seconds of an operation (< 0: it is as elsewhere); what
 * is added to a product or to attention; is it part of the kernel before it;
 * and what an exchange of so many bytes waits and copies */
double oracle_graph(const struct oracle *o, int op, int64_t rank);
double oracle_graph_more(const struct oracle *o, int op, int64_t rank);
bool oracle_graph_first(const struct oracle *o); /* channels are first */
bool oracle_graph_fuses(const struct oracle *o, int op);
double oracle_graph_cycle(const struct oracle *o, double bytes);
/* compute_unfused.c: batch products of m x k by k x n; attention that stores
 * its scores; bytes of those that backward needs of one */
double oracle_products(const struct oracle_pe *pe, double batch, double m,
                       double n, double k, double rate);
double oracle_unfused(const struct oracle *o, const struct pdl_shape *s);
double oracle_score_bytes(const struct oracle *o);
void oracle_older_attention(const struct oracle *o, struct oracle_pe *pe);
/* compute_steps.c: modules of transformers; seconds of an operation (< 0: it is
 * as elsewhere), its calls of the host (0: the same), and whether attention
 * that has no bias keeps no scores whatever the job says */
void oracle_steps_settle(struct oracle *o);
double oracle_steps(const struct oracle *o, int op, int64_t rank);
int oracle_steps_issued(const struct oracle *o, int op);
/* bytes that backward needs beside the plan's */
int64_t oracle_steps_keeps(const struct oracle *o, int op, int64_t rank);
bool oracle_steps_flash(const struct oracle *o);
/* compute_experts.c: beside the products of a mixture of experts, and times
 * the bytes of the plan that tokens have on their way to so many ranks */
double oracle_experts_more(const struct oracle *o, int op, int64_t rank);
/* its products; < 0: it is no mixture's */
double oracle_experts_products(const struct oracle *o, int op, int64_t rank);
struct oracle_load {
    double experts, tokens, hidden, wide; /* tokens of all experts */
    double weights;
};
/* what a mixture's operation has of them on a rank; false: nothing */
bool oracle_load_of(const struct oracle *o, int op, int64_t rank,
                    struct oracle_load *out);
/* compute.c: traffic to put one item in eight bits */
double oracle_cast_bytes(const struct oracle *o);
double oracle_visits(const struct oracle *o);
double oracle_token_copies(const struct oracle *o, double ranks);
/* compute_scan.c: a recurrence of states in chunks; < 0: it is none */
double oracle_scan(const struct oracle *o, int op, int64_t rank);
/* what a processor that runs a move copies by itself */
double oracle_packing(const struct oracle *o, int op, int64_t rank);
/* host.c: seconds of a copy between a PE and its host; is this update the
 * host's; bytes a second that a PE's share of its host streams; are the rates
 * known; has a host memory enough */
bool oracle_is_copy(enum pdl_plan_op_kind kind);
double oracle_copy_seconds(const struct oracle *o, int op, int64_t rank);
/* PEs that share the uplink of a switch. */
double oracle_on_switch(const struct oracle *o);
/* Of a copy's seconds those that computing beside it lacks. */
double oracle_copy_slows(const struct oracle *o);
bool oracle_on_host(const struct oracle *o, const struct pdl_plan_op *x);
/* Is the update there done while the PE computes? */
bool oracle_host_beside(const struct oracle *o, int op);
double oracle_host_rate(const struct oracle *o);
enum pdl_status oracle_host_known(const struct oracle *o, struct pdl_err *err);
bool oracle_host_fits(const struct oracle *o, const struct pdl_projection *x);
/* What it takes over what there is: of a PE's memory, or of its host's. */
double oracle_times_memory(const struct pdl_system *sys, int64_t pes,
                           const struct pdl_projection *x);

#endif
