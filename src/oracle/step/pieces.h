/* Shared by composing plans from pieces: small.c (small plans), forms.c (what
 * they consist of), pieces.c (what that costs on a mesh), compose.c (a point
 * of the space from them). */
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

/* Few blocks are lowered as they are; stages of more consist of the parts of a
 * form of three (with activations offloaded: four). */

/* ---- pieces ------------------------------------------------------------------ */

/* Ranks of a mesh that show every shape; those that hold the same share a
 * slot. */
struct piece_ranks {
    int n, slots;
    uint8_t slot[ORACLE_MAX_RANKS];
};

/* Bytes of forward and backward on one of them; parts that are not there:
 * nothing. */
struct piece_live {
    struct oracle_span forward[STAGE_PARTS];
    struct oracle_span backward[STAGE_PARTS];
    struct oracle_span late[STAGE_PARTS];
    int64_t input, label, written;
    int64_t ahead; /* copied in while the task before runs */
};

/* Forward and backward of a stage. */
struct piece_work {
    const struct stage_passes *shape;    /* without prices */
    const struct piece_live *live;       /* by slot */
    const struct stream_price *price[2]; /* by pass */
    struct stage_time forward[STAGE_PARTS], backward[STAGE_PARTS];
    struct stage_passes run; /* what takes time, makes gradients or waits */
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
    struct stage_update run;
    const struct oracle_lived *lived; /* by slot: base and update */
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
