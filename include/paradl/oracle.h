/* paradl/oracle.h - what a plan costs on a system: time, communication,
 * memory, and what limits it.
 *
 * The oracle derives nothing of its own: it walks the plan's operations on
 * representative ranks and prices each. Two parametrisations of one model:
 *   ideal      peak rates, one flow's bandwidth, latencies of the routes; the
 *              closed forms of the ParaDL papers come out of it exactly;
 *   empirical  sustained rates, memory-bound operators by bytes, launches,
 *              measured latency and bandwidth, contention of flows that share
 *              a node's adapters. */
#ifndef PARADL_ORACLE_H
#define PARADL_ORACLE_H

#include "paradl/base.h"
#include "paradl/model.h"
#include "paradl/plan.h"
#include "paradl/system.h"

PDL_BEGIN

enum pdl_parameters { PDL_EMPIRICAL, PDL_IDEAL };

struct pdl_oracle_options {
    enum pdl_parameters parameters;
    enum pdl_precision precision;
    int optimizer_slots; /* state variables a weight has: SGD 0, momentum 1,
                            Adam 2 */
    int64_t dataset;     /* samples of an epoch; 0: not asked */
    double congestion;   /* factor on network time by other jobs; 0 reads 1 */
};

/* Times are of one step, on the critical stage, seconds. */
struct pdl_projection {
    int64_t pes, batch;
    bool feasible;
    const char *reason; /* "" when feasible */
    double step_s, epoch_s, samples_per_s, tokens_per_s, mfu;
    double forward_s, backward_s, update_s, recompute_s, bubble_s;
    double gradient_comm_s, layer_comm_s, halo_s, p2p_s, exposed_comm_s, io_s;
    double compute_s, comm_s;
    int64_t allocated_bytes, reserved_bytes, peak_bytes, comm_buffers_bytes;
    int64_t weights_bytes, gradients_bytes, optimizer_bytes;
    int64_t activations_bytes, workspace_bytes, capacity_bytes;
    double flops;      /* of the critical rank, all passes */
    double contention; /* most flows that shared an adapter, over its share */
};

enum pdl_status pdl_project(const struct pdl_plan *plan,
                            const struct pdl_system *sys,
                            const struct pdl_oracle_options *opt,
                            struct pdl_projection *out, struct pdl_err *err);

/* ---- one kernel by its shape (empirical) --------------------------------- */

enum pdl_shape_kind {
    PDL_SHAPE_STREAM,    /* bytes moved, nothing else */
    PDL_SHAPE_MATMUL,    /* y[n, f] = x[n, c] w[c, f], groups of them */
    PDL_SHAPE_CONV,      /* n samples, c channels, f filters */
    PDL_SHAPE_ATTENTION, /* n samples, groups = heads, c = size of a head,
                            in[0] queries, out[0] keys */
};

/* The local operation: what is left to one PE after the split. */
struct pdl_shape {
    enum pdl_shape_kind kind;
    enum pdl_pass pass;
    enum pdl_precision precision;
    int64_t n, c, f, groups;
    int nspatial;
    int64_t in[3], out[3], kernel[3], stride[3];
    bool causal;
    double bytes; /* STREAM */
};

/* Device seconds of one kernel of this shape; 0 for an empty shape. */
double pdl_shape_seconds(const struct pdl_pe *pe, const struct pdl_shape *s);

/* One operation's price, for --layers and --trace. */
struct pdl_price {
    double seconds;
    int level;    /* of the system that a collective crosses; -1: none */
    double flows; /* of concurrent groups at that level, per node */
};
void pdl_price_op(const struct pdl_plan *plan, const struct pdl_system *sys,
                  const struct pdl_oracle_options *opt, int op,
                  struct pdl_price *out);

PDL_END
#endif
