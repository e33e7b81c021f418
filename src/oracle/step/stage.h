/* Shared by pricing a plan (project.c, memory.c) and composing one from pieces
 * (pieces.c, compose.c): what is known of a stage, and what follows from it. */
#ifndef ORACLE_STAGE_H
#define ORACLE_STAGE_H

#include "oracle/oracle_priv.h"

/* ---- time -------------------------------------------------------------------- */

/* Seconds of one stage for one micro-batch, and once a step. */
struct stage_time {
    double forward, backward, update;
    double recompute; /* of backward: forward operations once more */
    double layer_comm, halo, p2p, gradient_comm;
    double layer_between;               /* of layer_comm: leaves nodes */
    double forward_comm, backward_comm; /* inside forward and backward */
    double forward_send, backward_send; /* to other stages, inside those */
    double exposed_gradients; /* exchange that backward does not hide */
    double weights; /* of backward, with what it waits: its second task */
    /* waiting for copies to and from the host (offload) */
    double forward_copy, backward_copy, update_copy;
    int64_t calls; /* of the host for kernels, in ORACLE_CALL ths, not
                                 counting collectives, which are one call */
};

enum phase { FORWARD, BACKWARD, UPDATE };

/* Two streams: computation with the collectives it waits for, and gradient
 * exchange. An exchange starts when its gradients are made (or, without
 * overlap, when backward is over) and the exchange before it is done. */
enum { ORACLE_SCATTERS = 8 };

struct streams {
    double compute, network;
    double network_from; /* start of what the network did last */
    int network_level;   /* that it crossed */
    bool exchange;       /* it was gradients, once a step */
    double prefetch;     /* compute was here when weights were last gathered */
    /* what went on the network since: the caller's names of it, when the first
     * began, and when the network was free before */
    int nscatters, scatter[ORACLE_SCATTERS];
    double scatter_start, before_scatter;
    double *ready; /* of each tensor; infinite until it is made */
    bool overlap;
    bool shares;   /* collectives share the adapters of a node */
    double held;   /* part of a PE that a hidden collective holds */
    double slowed; /* backward by the exchange of gradients */
    bool alone;    /* which slows nothing */
    int item, op;  /* of the update: exchanges before it have started */
    int level;     /* that what was priced last crosses */
    /* Copies between the PE and its host: one stream each way. */
    double out, in, out_busy, in_busy;
    double late;  /* what compute waited for them so far */
    bool ahead;   /* copies in began while the task before ran */
    bool *copied; /* of each tensor: what ready waits for is a copy; NULL: no */
};

struct stream_op {
    double seconds;
    int level;
    bool exchange; /* on the network's stream */
    bool comm, update;
};
/* What an operation on the computing stream takes beside the network's: a
 * kernel has the rest of the PE, a collective that leaves the node half of the
 * adapters, as has the exchange. */
static inline double oracle_beside(double start, double seconds, bool comm,
                                   int level, bool shares, struct streams *c)
{
    double from = start > c->network_from ? start : c->network_from;
    double left = c->network - from, work = seconds - (from - start);
    double longer = 0;

    if (left <= 0 || work <= 0 || (c->exchange && c->alone))
        return seconds;
    if (!comm) {
        longer = work < left * (1 - c->held) ? work / (1 - c->held) - work
                                             : left * c->held;
    } else if (level > 0 && c->network_level > 0 && shares) {
        longer = work < left ? work : left;
        c->network += longer;
    }
    if (c->exchange)
        c->slowed += longer;
    return seconds + longer;
}

/* Runs it on its stream once `ready`; when it starts, and how long it took
 * beside what the other stream did. */
static inline double oracle_stream_step(struct streams *c,
                                        const struct stream_op *x, double ready,
                                        double *took)
{
    double *stream = x->exchange ? &c->network : &c->compute;
    double seconds = x->seconds;

    if (x->exchange && !c->overlap && c->compute > ready)
        ready = c->compute;
    if (*stream > ready)
        ready = *stream;
    if (x->exchange && seconds > 0) {
        c->network_from = ready > c->network ? ready : c->network_from;
        c->network_level = x->level;
        c->exchange = x->update;
    } else if (!x->exchange && !x->update && c->held > 0) {
        seconds =
            oracle_beside(ready, seconds, x->comm, x->level, c->shares, c);
    }
    *stream = ready + seconds;
    if (x->exchange && !c->overlap) /* computation waits for it, too */
        c->compute = *stream;
    *took = seconds;
    return ready;
}

/* prefetch.c: gradients went on the network, which was free before; do weights
 * that are gathered now go in front of them? Then it is said when, and how much
 * later those of c->scatter are. */
void oracle_scattered(struct streams *c, int id, double start, double before);
bool oracle_gathers_ahead(struct streams *c, double ready, double seconds,
                          double *start, double *later);
/* copies.c: when the last operand is there; writes down when an operation ran;
 * does it wait for a copy rather than for an exchange; what concerns copies
 * alone (true: operation k of the item is done with) */
double oracle_inputs_ready(const struct oracle *o, int op,
                           const struct streams *c);
void oracle_keep(const struct oracle *o, int op, double start, double seconds);
bool oracle_waits_for_copy(const struct oracle *o, int op,
                           const struct streams *c);
bool oracle_of_copies(const struct oracle *o, const struct pdl_plan_item *it,
                      int k, enum phase phase, double seconds,
                      struct streams *c);
/* Is it run on the network's stream? */
bool oracle_is_exchange(const struct oracle *o, int op, enum phase phase);
/* Prices items, runs them on the streams and adds them up. */
void oracle_add_items(const struct oracle *o, int first, int nitems,
                      enum phase phase, const struct oracle_ranks *r,
                      struct stage_time *t, struct streams *c,
                      struct pdl_projection *out);
bool oracle_overlaps(const struct oracle *o);
/* Part of a PE that collectives hold which run beside computation. */
double oracle_held(const struct oracle *o);
/* What a device that works so long waits for a host that issues the calls. */
double oracle_host_wait(const struct oracle *o, double device, int64_t calls);
/* What the exchange shows of a stage whose backward ends at backward_end. */
double oracle_exposed(const struct streams *c, double backward_end,
                      double update);
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
