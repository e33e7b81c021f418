/* Shared by pricing a plan (project.c, memory.c) and the points of a search
 * (search/point.c): what is known of a stage, and what follows from it. */
#ifndef ORACLE_STAGE_H
#define ORACLE_STAGE_H

#include "oracle/step/streams.h"

/* ---- time -------------------------------------------------------------------- */

/* stage.c: all stages, and the most contention; false: out of memory */
bool oracle_price_stages(const struct oracle *o, struct stage_time *t,
                         double *contention);
/* Of a pass' items those of its first task; backward may have two. */
int oracle_pass_items(const struct pdl_plan *p, int first, int n);
bool oracle_overlaps(const struct oracle *o);
/* Part of a PE that collectives hold which run beside computation. */
double oracle_held(const struct oracle *o);
/* What a device that works so long waits for a host that issues the calls. */
double oracle_host_wait(const struct oracle *o, double device, int64_t calls);
/* Seconds as the streams and the host's calls (of forward and backward) let
 * them be, from those one after another. */
void oracle_time_stage(const struct oracle *o, const struct stage_ran *ran,
                       const int64_t calls[2], struct stage_time *t);
/* All stages of a lane, one after another on the same PEs. */
void oracle_add_stage(struct stage_time *sum, const struct stage_time *t);
double oracle_stage_busy(const struct stage_time *t);
/* What follows the lane's last task: its exchange and update. */
double oracle_stage_tail(const struct stage_time *t);
/* The step from its critical lane and the span of its tasks. */
void oracle_fill_times(double micro_batches, const struct stage_time *t,
                       double span, const struct oracle_loading *load,
                       struct pdl_projection *out);
/* What follows from step_s, pes and batch. */
void oracle_fill_rates(const struct oracle *o, const struct pdl_model *model,
                       int64_t forward_flops, struct pdl_projection *out);

/* ---- memory ------------------------------------------------------------------ */

/* A stretch of operations: how much more is live at its fullest moment than
 * at its start (the first such moment), and at its end. */
struct oracle_span {
    int64_t top_all, top_gradients, top_weights, top_work, top_buffers;
    int64_t all, gradients, weights;
    int64_t saved, input;   /* of all: for backward; inputs of the model */
    int64_t host, top_host; /* in the host's memory, at the end and at most */
};
struct oracle_span oracle_span_join(const struct oracle_span *a,
                                    const struct oracle_span *b);
/* n of them, one after another. */
struct oracle_span oracle_span_repeat(const struct oracle_span *a, int64_t n);

/* One stage on one rank: what is there all the time, and its passes. */
struct oracle_lived {
    int64_t weights, input, label, buffers, state;
    int64_t written; /* gradients of a block before they join the buffers */
    struct oracle_span forward, backward, update;
    struct oracle_span late; /* backward of weights, where it is a task */
    int64_t host;            /* optimizer state in the host's memory */
    int64_t ahead; /* copied in for backward while the task before runs */
};
/* Tensors that are made again inside a kernel, by model tensor. */
bool *oracle_find_inside(const struct oracle *o);
/* Bytes of the tensors of a stage's lane. */
void oracle_sizes(const struct oracle *o, int stage, int64_t rank,
                  const bool *inside, int64_t *size);
/* What stays there of every stage of a lane. */
void oracle_lived_base(const struct oracle *o, int lane, const int64_t *size,
                       struct oracle_lived *stages);
/* Walks some items; the tally of live bytes goes on from pass to pass. */
struct oracle_tally;
struct oracle_tally *oracle_tally_make(const struct oracle *o, int64_t rank,
                                       const int64_t *size,
                                       const struct oracle_lived *base);
struct oracle_span oracle_walk(const struct oracle *o, int stage,
                               int first_item, int nitems, bool back,
                               struct oracle_tally *t);
int64_t oracle_written(const struct oracle *o, int stage, const int64_t *size);
int64_t oracle_fetched(const struct oracle *o, int stage, const int64_t *size);
/* The worst moment of a lane of n stages, of which so many tasks are in
 * flight at a time, where it is worse than what `out` has. */
void oracle_lane_memory(const struct oracle_lived *const *stages,
                        const int64_t *in_flight, int n,
                        struct pdl_projection *out);
/* The same with backward in two tasks: every task of the lane where it stands
 * in the order. */
void oracle_tasks_memory(const struct order_runs *runs,
                         const struct oracle_lived *const *stages,
                         const int64_t *in_flight, int n,
                         struct pdl_projection *out);
/* The same of a lane of the plan, on one rank. */
void oracle_by_lifetimes(const struct oracle *o, int lane, int64_t rank,
                         const int64_t *size, struct pdl_projection *out);
/* What the device holds besides, and what it has. */
void oracle_fill_device(const struct oracle *o, struct pdl_projection *out);

#endif
