/* Shared inside the oracle room. */
#ifndef ORACLE_PRIV_H
#define ORACLE_PRIV_H

#include "oracle/habit/framework.h"
#include "oracle/step/pipeline.h"

/* The rates of a PE at a precision, guesses filled in; conv by pass. */
struct oracle_pe {
    double rate, vector_rate, peak, bytes_per_s, item_bytes, units, launch_s;
    double conv[3];
    double batch_norm_forward, batch_norm_backward, layer_norm_forward;
    double l2_bytes, clock_hz;
    bool vector;   /* no matrix units at this precision */
    bool core;     /* processor cores: register tiles, which no shape wastes */
    bool flat;     /* no tiles, no waves: the rate whatever the shape */
    bool any_head; /* attention has its rate with heads of any size */
    struct pdl_kernels k;
};
void oracle_pe_settle(const struct pdl_pe *pe, enum pdl_precision precision,
                      struct oracle_pe *out);

/* compute.c: of the node that an operation belongs to; OTHER: of none */
struct oracle;
enum pdl_op_id oracle_op_id(const struct oracle *o, int op);

/* compute_gemm.c, compute_conv.c, compute_attention.c */
struct oracle_gemm {
    double m, n, k, batch, rate, units, bytes_per_s, in_bytes, out_bytes;
    double fill, tile_s, epilogue;
    double least_m, least_n; /* smallest tile there is; 0: any */
    bool core;
    bool flat;
};
double oracle_gemm_seconds(const struct oracle_gemm *g);
double oracle_matmul(const struct oracle_pe *pe, const struct pdl_shape *s);
double oracle_conv(const struct oracle_pe *pe, const struct pdl_shape *s);
/* compute_grouped.c: groups of few channels */
bool oracle_is_grouped(const struct oracle_pe *pe, const struct pdl_shape *s);
double oracle_grouped(const struct oracle_pe *pe, const struct pdl_shape *s);
/* one channel a group; PyTorch's own kernels, for 32 bits channels first */
bool oracle_is_depthwise(const struct pdl_shape *s);
double oracle_depthwise_first(const struct oracle_pe *pe,
                              const struct pdl_shape *s);
double oracle_attention(const struct oracle_pe *pe, const struct pdl_shape *s);
double oracle_shape(const struct oracle_pe *pe, const struct pdl_shape *s);
struct oracle;
/* from the forward operation of a node; false: it is no plain attention */
bool oracle_attention_shape(const struct oracle *o, int node, int64_t rank,
                            struct pdl_shape *s);
/* compute_eager.c: what eager PyTorch adds to an operation, the least its
 * kernel takes, how many times the bytes of the plan it streams, and the bytes
 * its optimizer moves for one weight (0: the plan's) */
double oracle_eager_more(const struct oracle *o, int op, int64_t rank);
double oracle_eager_floor(const struct oracle *o, int op, int64_t rank);
double oracle_eager_streams(const struct oracle *o, int op);
/* of a batch normalisation that reads its input once or, if `both`, also
 * applies what it found; 0: no kernel of its own */
double oracle_eager_norm(const struct oracle *o, int op, int64_t rank,
                         bool both);
/* do scores pass through kernels one by one, in 32 bits? */
bool oracle_eager_unfused(const struct oracle *o);
/* do images lie channels first? */
bool oracle_eager_first(const struct oracle *o);
/* is it a view there, which costs nothing? */
bool oracle_eager_view(const struct oracle *o, int op);
double oracle_eager_update(const struct oracle *o);
/* calls of the host, in ORACLE_CALL ths */
enum { ORACLE_CALL = 20 };
int oracle_issued(const struct oracle *o, int op);
/* and what it holds: indices of largest elements, copies of what it overwrites, bytes of a gradient (0: the
 * plan's) */
int64_t oracle_eager_indices(const struct oracle *o,
                             const struct pdl_plan_op *x, int64_t rank);
int oracle_eager_gradient(const struct oracle *o);
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
 * as elsewhere), its calls of the host (0: the same), and whether attention that
 * has no bias keeps no scores whatever the job says */
void oracle_steps_settle(struct oracle *o);
double oracle_steps(const struct oracle *o, int op, int64_t rank);
int oracle_steps_issued(const struct oracle *o, int op);
/* bytes that backward needs beside the plan's */
int64_t oracle_steps_keeps(const struct oracle *o, int op, int64_t rank);
bool oracle_steps_flash(const struct oracle *o);
/* compute_profile.c: by what was measured on this machine; < 0: nothing was */
double oracle_profiled(const struct oracle *o, int op, int64_t rank);
bool oracle_has_profile(const struct oracle *o);
/* how far from one busy PE of the node (0) to all of them (1), where so many
 * lanes of the pipeline work at a time */
double oracle_busy(const struct oracle *o, double lanes);
/* bytes that an operation works in besides its operands */
int64_t oracle_workspace(const struct oracle *o, int op, int64_t rank);
/* compute_norm.c; oracle_stream: without the launch */
double oracle_norm(const struct oracle_pe *pe, const struct pdl_shape *s);
double oracle_stream(const struct oracle_pe *pe, double bytes);
/* 0: the working set is in the last level of cache, 1: it is not */
double oracle_out_of_cache(const struct oracle_pe *pe, double bytes);
/* compute_batch_norm.c: PyTorch's kernels for 16 bits; 0: the clock is not
 * known */
enum oracle_norm_kernel {
    ORACLE_NORM_STATISTICS,
    ORACLE_NORM_APPLY,
    ORACLE_NORM_SUMS,
    ORACLE_NORM_GRADIENT,
};
double oracle_batch_norm(const struct oracle_pe *pe, enum oracle_norm_kernel i,
                         double rows, double channels);
double oracle_volume_norm(const struct oracle_pe *pe, enum oracle_norm_kernel i,
                          double samples, double voxels, double channels);

/* When things happened, for the timeline: start and seconds of each operation
 * by the clock of its stage's first micro-batch, and the end of each task of
 * the pipeline, [forward, backward][stage][micro-batch]. */
struct oracle_record {
    double *start, *seconds, *done;
    bool alone; /* the exchange of gradients slows nothing */
};

/* Who an operation sends to: the next of its group, all of it, or neighbours
 * along its factors. */
enum oracle_pattern { ORACLE_RING, ORACLE_PAIRS, ORACLE_NEIGHBOURS };

/* What one flow of a group gets: level, latency, bandwidth, and the flows that
 * share the uplinks of the block of PEs (by level; 0: a node) that limits it. */
enum { ORACLE_WIRES = 512 };
struct oracle_wire {
    double alpha_s, bytes_per_s, flows;
    int level, at;
    bool known, gradient;
    enum oracle_pattern pattern;
    uint32_t group;
    int64_t rank, local; /* local: ranks of the group in its node */
};

/* An allreduce and what the quickest algorithm takes for it. */
enum { ORACLE_QUICKEST = 256 }; /* a table that forgets */
struct oracle_quickest {
    double n, bytes, local, alpha_s, bytes_per_s, seconds;
};

/* Ranks that show every local shape, and for each the first of them that does
 * the same work (like) and sends the same messages (twin). */
enum { ORACLE_MAX_RANKS = 81 };
struct oracle_ranks {
    int n, stage;
    int64_t rank[ORACLE_MAX_RANKS];
    int like[ORACLE_MAX_RANKS], twin[ORACLE_MAX_RANKS];
};

struct oracle {
    const struct pdl_plan *p;
    const struct pdl_plan_rounds *rounds; /* of a rolled plan; else NULL */
    const struct pdl_system *sys;
    const struct pdl_oracle_options *opt;
    struct pdl_err *err;
    struct oracle_pe pe;
    struct oracle_pe pe16; /* what 8-bit arithmetic leaves to 16 bits; pe */
    struct oracle_pe pe32; /* what transformers leaves in 32 bits */
    bool in_steps, relative, waits; /* compute_steps.c */
    double busy; /* of the node's PEs: 0 one, 1 all (oracle_busy) */
    struct oracle_record *record; /* NULL: nobody asks */
    pdl_arena *arena;             /* for the duration of one projection */
    struct oracle_wire *wires;    /* of (rank, group) seen last; NULL: none */
    struct oracle_quickest *quickest; /* allreduces asked for; NULL: none */
    struct oracle_ranks *alike;       /* of the first stage */
    struct oracle_memo *memo;         /* NULL: nothing is remembered */
    struct oracle_order *order;       /* of the pipeline's tasks */
    bool on_lane;      /* sends between stages stay on their lane (zb-v) */
    const bool *again; /* of each layer: computed again; NULL: as the strategy
                          says for all */
};

/* fit.c: -2 log of the posterior density, but for a constant. */
double oracle_misfit(struct pdl_system *sys, const struct pdl_fit_param *param,
                     int n, pdl_fit_cost cost, void *ctx, int rows);

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
/* lowering.c: how stages of pipelines are cut. */
enum pdl_split oracle_split(const struct pdl_oracle_options *oracle);
/* Points o to changed copies, kept in c, where an effect is left out. */
struct oracle_changed {
    struct pdl_oracle_options opt;
    struct pdl_framework framework;
    struct pdl_system sys;
};
void oracle_leave_out(struct oracle *o, struct oracle_changed *c);

/* project.c: the PE at the job's precision, effects left out */
void oracle_settle(struct oracle *o, struct oracle_changed *c);
/* project.c: pdl_project, and what happened when (record may be NULL) */
enum pdl_status oracle_project(const struct pdl_plan *plan,
                               const struct pdl_system *sys,
                               const struct pdl_oracle_options *opt,
                               struct oracle_record *record,
                               struct pdl_projection *out, struct pdl_err *err);

/* seconds of all forward operations of a plan with one stage, one after the
 * other; < 0: no memory */
double oracle_forward_s(const struct pdl_plan *plan,
                        const struct pdl_system *sys,
                        const struct pdl_oracle_options *opt);

/* ranks.c: ranks of a stage that between them have every local shape the
 * splits produce: both ends and the middle of each factor. */
int oracle_ranks(const struct pdl_plan *p, int stage, int64_t *ranks);
/* ranks of one group beside the representatives, for messages of an uneven
 * split; larger groups: none */
enum { ORACLE_MORE = 64 };
int oracle_more_ranks(const struct oracle *o, int op, const int64_t *ranks,
                      int n, int64_t *more);
void oracle_find_ranks(const struct oracle *o, int stage,
                       struct oracle_ranks *out);
/* ranks of the first stage; those of others differ in the stage alone */
bool oracle_find_alike(struct oracle *o);
/* comm.c: do two ranks that do the same work also cross the same wires? */
bool oracle_same_wire(const struct oracle *o, int op, int64_t a, int64_t b,
                      bool gradient);

/* host time to issue one kernel that the device waits for; 0: hidden */
double oracle_host_call(const struct oracle *o);
/* width of products that read what this one does over its own; 1: alone */
double oracle_shared(const struct oracle *o, int node);
/* does an ADD join gradients of products that are one? */
bool oracle_joins_fused(const struct oracle *o, const struct pdl_plan_op *add);
/* compute.c, comm.c: seconds of one operation on one rank */
double oracle_compute(const struct oracle *o, int op, int64_t rank);
struct oracle_price {
    double seconds, flows;
    int level; /* the highest that a rank crosses; -1: none */
    int at;    /* level of the block whose uplinks are shared; 0: a node */
};
/* slowest.c: does it use the network; the slowest rank's seconds, the most
 * flows and the highest level (for compute: -1) */
bool oracle_is_comm(enum pdl_plan_op_kind kind);
const struct oracle_price *oracle_slowest(const struct oracle *o, int op,
                                          const struct oracle_ranks *r,
                                          bool gradient);
/* gradient: it is part of the exchange after backward; all but the seconds
 * into how */
bool oracle_stays_on_lane(const struct oracle *o, const struct pdl_plan_op *x);
double oracle_comm(const struct oracle *o, int op, int64_t rank, bool gradient,
                   struct oracle_price *how);
/* sharing.c: ends of the group of a rank; flows that leave the block of `size`
 * PEs that the rank is in; what borders above the node leave of w's rate */
enum oracle_pattern oracle_pattern_of(enum pdl_plan_op_kind kind);
void oracle_group_ends(const struct oracle *o, int64_t rank, uint32_t group,
                       int64_t *first, int64_t *last);
double oracle_flows(const struct oracle *o, enum oracle_pattern pattern,
                    int64_t rank, uint32_t group, int64_t size);
void oracle_share_tiers(const struct oracle *o, enum oracle_pattern pattern,
                        struct oracle_wire *w);
bool oracle_is_weight_traffic(const struct oracle *o, int op);
/* compute_experts.c: beside the products of a mixture of experts, and times
 * the bytes of the plan that tokens have on their way to so many ranks */
double oracle_experts_more(const struct oracle *o, int op, int64_t rank);
double oracle_token_copies(const struct oracle *o, double ranks);
double oracle_shard_copies(const struct oracle *o, int op, int64_t rank);
/* comm.c: times the bytes of the plan that gradients have on the wires */
double oracle_travels(const struct oracle *o, const struct pdl_plan_op *x);
int64_t oracle_tensor_ranks(const struct oracle *o);
/* comm_habits.c: a layer's collective inside a node, and the traffic of ZeRO 3,
 * by measurement or habit; < 0: there is none. The part of its bytes that a
 * collective of a sequence's shards shows. A message to another stage. */
double oracle_inside_measured(const struct oracle *o,
                              enum pdl_plan_op_kind kind, int level, double n,
                              double in, double out);
double oracle_zero_alone(const struct oracle *o, int op, int level, double n,
                         double bytes);
double oracle_sequence_part(const struct oracle *o,
                            const struct pdl_plan_op *x);
double oracle_send(const struct oracle *o, const struct oracle_wire *w,
                   double bytes);
/* comm.c: the rate inside a node */
double oracle_inside_node(const struct oracle *o);
/* allreduce.c: of `bytes` on each of n ranks; w is the group's worst hop */
double oracle_allreduce(const struct oracle *o, const struct oracle_wire *w,
                        const char *name, double n, double bytes);
enum pdl_status oracle_allreduce_known(const struct oracle *o,
                                       struct pdl_err *err);
/* comm.c: copies of a layer collective's result, by habit of the framework */
double oracle_copy(const struct oracle *o, int op, int64_t rank);
/* what a processor that runs a move copies by itself */
double oracle_packing(const struct oracle *o, int op, int64_t rank);
bool oracle_has_axis(const struct oracle *o, enum pdl_axis axis);
/* price.c: pdl_price_ops, of collectives alone where that is enough */
enum pdl_status oracle_price_ops(const struct pdl_plan *plan,
                                 const struct pdl_system *sys,
                                 const struct pdl_oracle_options *opt,
                                 bool comm_only, struct pdl_op_price *out,
                                 struct pdl_err *err);
/* memo.c: bytes of a tensor, and the slowest rank's price of an operation:
 * true where an equal one was asked for before, else *out waits for it */
bool oracle_memo_make(struct oracle *o);
/* that, what is known of wires and allreduces, and the ranks; in its arena */
bool oracle_prepare(struct oracle *o);
/* of the same plan with other sizes, or (ranks) on another mesh */
void oracle_memo_forget(struct oracle *o, bool ranks);
/* numbers for operations from `first` on, `count` are known (op: the first of
 * each number); returns how many there are */
int oracle_number_ops(const struct oracle *o, int first, int n, int *number,
                      int *op, int count, int *table, int nslots);
bool oracle_same_attr(const struct pdl_attr *a, const struct pdl_attr *b);
int64_t oracle_bytes(const struct oracle *o, int tensor, int64_t rank);
int oracle_tensor_form(const struct oracle *o, int tensor);
/* of each of the ranks the first whose parts of all operands have the same
 * extents; false: not known */
bool oracle_same_parts(const struct oracle *o, int op,
                       const struct oracle_ranks *r, uint8_t *as);
bool oracle_recall(const struct oracle *o, int op, int stage, bool gradient,
                   struct oracle_price **out);
/* project.c: the order of its tasks; of a stage whose activations its PEs hold
 * at a time */
bool oracle_find_order(struct oracle *o);
static inline int64_t oracle_in_flight(const struct oracle *o, int stage)
{
    return o->order->in_flight[stage];
}
/* project.c: how many rounds one that is written stands for (rolled plans) */
int64_t oracle_times(const struct oracle *o, int round);
/* io.c: seconds of opening files, and of reading and staging a step's samples
 * (proportional to its micro-batches); what they add to the rest of the step */
struct oracle_loading {
    double open_s, load_s;
};
struct oracle_loading oracle_loading(const struct oracle *o);
double oracle_io(const struct oracle_loading *x, double rest_s);
/* host.c: seconds of a copy between a PE and its host; is this update the
 * host's; bytes a second that a PE's share of its host streams; are the rates
 * known; has a host memory enough */
bool oracle_is_copy(enum pdl_plan_op_kind kind);
double oracle_copy_seconds(const struct oracle *o, int op, int64_t rank);
bool oracle_on_host(const struct oracle *o, const struct pdl_plan_op *x);
double oracle_host_rate(const struct oracle *o);
enum pdl_status oracle_host_known(const struct oracle *o, struct pdl_err *err);
bool oracle_host_fits(const struct oracle *o, const struct pdl_projection *x);
/* groups.c: the oracle as a stage's PEs make it (o itself where all are of one
 * kind); mean peak rate; memory of the smallest PE */
struct oracle_lane {
    struct oracle o;
    struct pdl_system sys;
    struct oracle_changed changed;
};
const struct oracle *oracle_on_stage(const struct oracle *o, int stage,
                                     struct oracle_lane *room);
double oracle_peak(const struct oracle *o);
int64_t oracle_capacity(const struct oracle *o);
/* memory.c: layers that are computed again, where blocks choose; false: no
 * memory */
bool oracle_find_again(struct oracle *o);
/* memory.c; memory_paper.c: the papers' closed form for one rank */
void oracle_memory_paper(const struct oracle *o, int stage, int64_t rank,
                         int64_t *size, struct pdl_projection *out);
bool oracle_memory(const struct oracle *o, struct pdl_projection *out);
/* of the fullest PE of one lane of the pipeline; -1: of all */
bool oracle_memory_lane(const struct oracle *o, int lane,
                        struct pdl_projection *out);

#endif
