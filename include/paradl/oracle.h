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

/* One operation's price, for --layers and --trace. */
struct pdl_price {
    double seconds;
    int level;    /* of the system that a collective crosses; -1: none */
    double flows; /* of concurrent groups at that level, per node */
};
void pdl_price_op(const struct pdl_plan *plan, const struct pdl_system *sys,
                  const struct pdl_oracle_options *opt, int op,
                  struct pdl_price *out);

/* ---- why ---------------------------------------------------------------- */

/* Limits are inherent in the strategy, bottlenecks are the system's or the
 * software's (the ParaDL report's table of findings). */
enum pdl_limit_kind { PDL_LIMIT, PDL_BOTTLENECK };

struct pdl_limit {
    const char *id; /* "gradient-exchange"; the table is in explain.c */
    enum pdl_limit_kind kind;
    const char *phase; /* of the step, or "memory", "scaling" */
    double share;      /* of the step, of the memory, or of the limit */
    const char *text;  /* one sentence: numbers, and what would help */
};

/* The step with `factor` times as much of a resource (latencies: divided):
 * flops, memory_bw, memory, link:<level>, latency:<level>. */
struct pdl_gain {
    const char *resource;
    double factor, step_s;
    bool feasible;
};

/* Largest share first; gains in the order of the resources. */
struct pdl_explanation {
    int nlimits, ngains;
    const struct pdl_limit *limits;
    const struct pdl_gain *gains;
};

/* What holds the projection `x` of this plan back, from its numbers, and what
 * 10 % more of each resource would give: the plan is priced again on a changed
 * copy of the system. */
enum pdl_status pdl_explain(pdl_arena *a, const struct pdl_plan *plan,
                            const struct pdl_system *sys,
                            const struct pdl_oracle_options *opt,
                            const struct pdl_projection *x,
                            struct pdl_explanation *out, struct pdl_err *err);

PDL_END
#endif
