/* Shared by composing plans from pieces: small.c (small plans), forms.c (what
 * they consist of), pieces.c (what that costs on a mesh), compose.c (a point
 * of the space from them), exposed.c. */
#ifndef ORACLE_PIECES_H
#define ORACLE_PIECES_H

#include "oracle/step/stage.h"

#include <pthread.h>

/* A whole-model configuration of a transformer. */
struct oracle_point {
    int64_t tensor, pipe, data, expert, context; /* ranks of each axis */
    int64_t group;  /* data ranks that share states (zero=3:8); 0: all */
    int64_t micro;  /* samples of a micro-batch of one data and expert rank */
    int64_t chunks; /* stages of a lane; 1: not interleaved */
    bool seq, no_overlap;
    bool a2a;                    /* context: heads for positions; else a ring */
    bool activations, optimizer; /* offloaded */
    int zero;                    /* 0 .. 3 */
    int bubble; /* 1, 2, 3: zb-h1, zb-h2, zb-v; 0: a schedule with one */
    enum pdl_recompute recompute;
};

/* Ranks that have samples of their own; that have the same weights. */
static inline int64_t oracle_point_replicas(const struct oracle_point *x)
{
    return x->data * x->expert;
}
static inline int64_t oracle_point_copies(const struct oracle_point *x)
{
    return x->data * x->expert * x->context;
}
static inline int64_t oracle_point_pes(const struct oracle_point *x)
{
    return x->pipe * oracle_point_copies(x) * x->tensor;
}

/* zb-v: two stages a lane, down the lanes and up again. */
enum { ORACLE_BUBBLE_V = 3 };
static inline int64_t oracle_point_chunks(const struct oracle_point *x)
{
    return x->bubble == ORACLE_BUBBLE_V ? 2 : x->chunks;
}

/* The schedule of its pipeline. */
enum pdl_schedule oracle_point_schedule(const struct oracle_point *x);

/* Sharding that shows in forward and backward: weights travel there. */
static inline int oracle_work_zero(const struct oracle_point *x)
{
    return x->zero > 1 && oracle_point_copies(x) > 1 ? x->zero : 0;
}

/* What all pieces of a search share. */
struct oracle_family {
    const struct pdl_model *model;
    const struct pdl_system *sys;
    const struct pdl_oracle_options *opt;
    struct pdl_plan_options plan; /* batch: of the step */
    struct oracle_cuts *cuts;     /* shared by threads; NULL: none */
    int block;                    /* segment that is repeated */
    int first_node;               /* of it, once written out */
    int64_t layers, forward_flops;
};

/* Can plans of the model be composed? Only of repeated equal blocks, on PEs of
 * one kind. */
bool oracle_family_make(const struct pdl_model *model,
                        const struct pdl_system *sys,
                        const struct pdl_oracle_options *opt,
                        const struct pdl_plan_options *plan,
                        struct oracle_family *out);
void oracle_point_strategy(const struct oracle_family *f,
                           const struct oracle_point *x,
                           struct pdl_strategy *out);

/* ---- forms ------------------------------------------------------------------ */

struct form;
/* The small plans of one tensor, seq, expert and context, which all meshes
 * with these share: what is computed and exchanged does not depend on how many
 * ranks the pipeline and the data axis have, only what it costs. */
struct oracle_forms;
struct oracle_forms *oracle_forms_make(pdl_arena *a, pdl_arena *scratch,
                                       const struct oracle_family *f,
                                       const struct oracle_point *x);

/* Memory for small plans that are not small: emptied when it is full, so that
 * deep networks need no more than shallow ones. Without it all are kept. */
void oracle_forms_lend(struct oracle_forms *g, pdl_arena *large);

/* How blocks are dealt to stages, which no mesh changes; made once by a search
 * for all its threads. */
struct oracle_cuts {
    pthread_mutex_t lock;
    pdl_arena *arena;
    const int64_t **blocks; /* of each number of stages; NULL: not yet */
};

/* Blocks of each of so many stages (at most as many as blocks). */
enum pdl_status oracle_form_blocks(struct oracle_forms *g, int64_t stages,
                                   const int64_t **out, struct pdl_err *err);

/* Where a stage lies: what comes before and after the blocks goes with the
 * first and the last. A stage alone is a first one. */
enum piece_where {
    PIECE_FIRST,
    PIECE_MIDDLE,
    PIECE_LAST,
    PIECE_WHERE,
    /* zb-v: stages in the middle whose successor, or predecessor, is on the
     * same lane, so that nothing is sent */
    PIECE_DOWN = PIECE_WHERE,
    PIECE_UP,
    PIECE_PLACES
};

/* Few blocks are lowered as they are; stages of more consist of those of a
 * form of three (with activations offloaded: four), of which the last but one
 * in forward and the second in backward come as often as they have to. */
enum { PIECE_BLOCKS = 4 };

/* The weights' gradients that an operation of backward makes: tensors of the
 * model, of a block counted from that of the part (stages of one part: from
 * the first), or outside blocks. */
struct piece_made {
    int tensor, back;
    bool outside;
};

enum piece_copy { PIECE_NO_COPY, PIECE_OUT, PIECE_IN };
enum piece_net { PIECE_NO_NET, PIECE_GATHER, PIECE_SCATTER };
enum { PIECE_BACK = 32 }; /* how far operations look back at the network */

/* An operation of a pass: what it costs, what it waits for. */
struct piece_op {
    int kind, nmade;
    enum piece_copy copy;
    int in; /* waits for the last copy in (1), the one before (2), ...; 0: none */
    bool out; /* waits for the last copy out of forward; in forward: for the
                 one before */
    /* where weights travel (ZeRO 2, 3): on the network's stream */
    enum piece_net net;
    bool marks;   /* makes a gradient that is scattered later */
    int8_t after; /* of a scatter: the last mark (1), the one before (2), ... */
    int8_t waits; /* for the last of the network (1), the one before, ...; 0 */
    const struct piece_made *made;
    /* on the streams, once priced (piece_work) */
    double seconds;
    double packing; /* of the network's: computed before */
    int level;
    bool comm;
};
struct piece_list {
    int n;
    const struct piece_op *op;
};
struct piece_shape {
    int blocks, parts; /* that were lowered; of a pass */
    struct piece_list forward[PIECE_BLOCKS], backward[PIECE_BLOCKS];
    struct piece_list late[PIECE_BLOCKS]; /* gradients of weights, if apart */
    bool copies, split;
    bool traffic; /* weights travel */
};

/* How often part i of a pass comes in a stage of so many blocks. */
int64_t oracle_part_times(const struct piece_shape *s, bool back, int i,
                          int64_t blocks);

/* Gradient exchange and update of a stage: its operations on the streams. */
enum piece_stream { ON_COMPUTE, ON_NETWORK, ON_OUT, ON_IN, ON_STREAMS };
struct piece_step {
    int kind;
    enum piece_stream on;
    int after[ON_STREAMS]; /* latest steps of each stream that it needs; -1 */
    int block;  /* that makes what is exchanged; -1: outside; -2: none */
    int tensor; /* of the model */
    int net_block, net_tensor; /* the same of what the network brings */
};

/* ---- pieces ------------------------------------------------------------------ */

/* What one operation costs, in its pass, on the slowest rank. */
struct piece_price {
    double seconds; /* on its stream */
    double compute, comm, recompute, layer_comm, layer_between, halo, p2p;
    double contention;
    int level, calls;
    bool is_comm;
};

/* Ranks of a mesh that show every shape; those that hold the same share a
 * slot. */
struct piece_ranks {
    int n, slots;
    uint8_t slot[ORACLE_MAX_RANKS];
};

/* Bytes of forward and backward on one of them; parts that are not there:
 * nothing. */
struct piece_live {
    struct oracle_span forward[PIECE_BLOCKS];
    struct oracle_span backward[PIECE_BLOCKS];
    struct oracle_span late[PIECE_BLOCKS];
    int64_t input, label, written;
    int64_t ahead; /* copied in while the task before runs */
};

/* Forward and backward of a stage. */
struct piece_work {
    const struct piece_shape *shape;
    const struct piece_live *live;      /* by slot */
    const struct piece_price *price[2]; /* by pass and kind */
    struct stage_time forward[PIECE_BLOCKS], backward[PIECE_BLOCKS];
    /* of the shape's, those that take time, make gradients or wait */
    struct piece_list fore[PIECE_BLOCKS], back[PIECE_BLOCKS];
    struct piece_list late[PIECE_BLOCKS];
    double contention;
};
struct piece_works {
    struct piece_work at[PIECE_PLACES]; /* the last two: if split */
    const struct piece_ranks *ranks;
    struct oracle_loading load; /* of one micro-batch */
    struct form *form;          /* that it is read off */
    int64_t micro;
    int lane;
    bool priced; /* else live alone is known of its stages */
};

struct piece_update {
    int64_t blocks;
    int n;
    const struct piece_step *steps;
    const struct piece_price *price;  /* by kind */
    const struct oracle_lived *lived; /* by slot: base and update */
    double update, gradient_comm, contention;
    double all;               /* seconds of all steps, one after another */
    bool optimizer;           /* on the host */
    bool early;               /* it begins while backward runs, if it may */
    double apart, apart_copy; /* exposed where nothing overlaps */
};
struct piece_updates {
    struct piece_update at[PIECE_WHERE];
    const struct piece_ranks *ranks;
};

/* The pieces of one mesh. */
struct oracle_pieces;
struct oracle_pieces *oracle_pieces_make(pdl_arena *a, struct oracle_forms *g,
                                         const struct oracle_point *x);
/* Lanes of the pipeline whose groups cross the same wires are of one kind,
 * for work, for updates, and for work in which weights travel (ZeRO 2, 3). */
enum lane_kind { LANE_WORK, LANE_UPDATE, LANE_TRAFFIC, LANE_KINDS };
enum pdl_status oracle_piece_lanes(struct oracle_pieces *p,
                                   struct pdl_err *err);
int oracle_piece_lane(const struct oracle_pieces *p, int64_t lane,
                      enum lane_kind kind);
enum pdl_status oracle_piece_work(struct oracle_pieces *p,
                                  const struct oracle_point *x,
                                  int64_t micro_batches, int64_t blocks,
                                  int lane, const struct piece_works **out,
                                  struct pdl_err *err);
/* Prices it, where that was put off: weights travel, and bytes are often all
 * that is asked for. */
enum pdl_status oracle_piece_price(struct oracle_pieces *p,
                                   const struct piece_works *w,
                                   struct pdl_err *err);
enum pdl_status oracle_piece_update(struct oracle_pieces *p,
                                    const struct oracle_point *x,
                                    int64_t blocks, int lane,
                                    const struct piece_updates **out,
                                    struct pdl_err *err);

/* Small plans that were lowered, pieces that were priced, and how long both
 * took. */
struct oracle_effort {
    int64_t lowered, priced;
    double seconds;
};
const struct oracle_effort *oracle_forms_effort(const struct oracle_forms *g);
/* What was put there is gone when the next small plan is made. */
pdl_arena *oracle_forms_scratch(const struct oracle_forms *g);

/* ---- streams ------------------------------------------------------------------ */

/* exposed.c: a stage of so many blocks on the streams of one PE. */
struct piece_run {
    const struct piece_work *work;
    int64_t blocks;
    bool overlap, shares;
    bool flying; /* several micro-batches are in flight */
    double held;
    int tensors;  /* of the model */
    double *end;  /* of each step of an update */
    double *made; /* [block][tensor]; the last row is outside blocks */
};
/* With copies to and from the host: forward ends, what it waits for them;
 * backward alone, and the gradients of weights of it. Returned: seconds of
 * both. */
struct piece_ran {
    double forward, forward_copy, backward, backward_copy, weights;
};
void oracle_piece_run(const struct piece_run *x, struct piece_ran *out);
/* What gradient exchange and the optimizer's copies show of a stage whose
 * forward and backward take so long. */
double oracle_piece_exposed(const struct piece_run *x,
                            const struct piece_update *u,
                            const struct piece_ran *alone, double *copy);
/* Both at once, where weights travel in forward and backward; `end`: how
 * backward ended, its gradients in x->made. */
double oracle_piece_traffic(const struct piece_run *x,
                            const struct piece_update *u, struct piece_ran *out,
                            struct streams *end, double *copy);
/* The same with another update, where no update is exchanged beside backward:
 * both end as they did. */
double oracle_piece_traffic_again(const struct piece_run *x,
                                  const struct piece_update *u,
                                  const struct piece_ran *ran,
                                  const struct streams *end, double *copy);
/* The same where nothing overlaps. */
void oracle_piece_apart(struct piece_update *u, double *end);

/* ---- composing ---------------------------------------------------------------- */

/* Pieces of one mesh, and what the last point needed of them. */
struct oracle_compose;
struct oracle_compose *oracle_compose_make(pdl_arena *a, struct oracle_forms *g,
                                           const struct oracle_family *f,
                                           const struct oracle_point *mesh);
/* The projection of a point, equal to that of its lowered plan. */
enum pdl_status oracle_compose(struct oracle_compose *c,
                               const struct oracle_point *x,
                               struct pdl_projection *out, struct pdl_err *err);
/* What no step of the point can be shorter than, alone. */
enum pdl_status oracle_compose_least(struct oracle_compose *c,
                                     const struct oracle_point *x,
                                     double *least_s, struct pdl_err *err);
/* In two steps: memory (and whether it fits), with a time that no step of the
 * point can be shorter than; then all of it. */
enum pdl_status oracle_compose_memory(struct oracle_compose *c,
                                      const struct oracle_point *x,
                                      struct pdl_projection *out,
                                      double *least_s, struct pdl_err *err);
/* Bytes (allocated, and of the host) that no point with these passes is below,
 * however states are sharded and wherever the optimizer is. */
enum pdl_status oracle_compose_alone(struct oracle_compose *c,
                                     const struct oracle_point *x,
                                     struct pdl_projection *out,
                                     struct pdl_err *err);
/* Does no point with these passes fit, however states are sharded and wherever
 * the optimizer is? False: it is not known. */
bool oracle_compose_hopeless(struct oracle_compose *c,
                             const struct oracle_point *x);
enum pdl_status oracle_compose_time(struct oracle_compose *c,
                                    const struct oracle_point *x,
                                    struct pdl_projection *out,
                                    struct pdl_err *err);

#endif
