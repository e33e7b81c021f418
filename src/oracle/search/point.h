/* Shared by composing plans from pieces: block_plans.c (small plans),
 * block_program.c (what they consist of), block_prices.c (what that costs on a
 * mesh), point.c (a point of the space from them). */
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
    /* axes from the outermost inwards, a digit of 16 each, plus 1; 0: pipe,
     * data, expert, context, tensor */
    uint32_t order;
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

/* zb-v: two stages a lane, down the lanes and up again. */
enum { ORACLE_BUBBLE_V = 3 };

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
/* Do two meshes differ in pipe and data alone? They share their small plans. */
bool oracle_point_alike(const struct oracle_point *a,
                        const struct oracle_point *b);
void oracle_point_strategy(const struct oracle_family *f,
                           const struct oracle_point *x,
                           struct pdl_strategy *out);

/* ---- forms ------------------------------------------------------------ */

struct block_form;
/* The small plans of one tensor, seq, expert and context, which all meshes
 * with these share: what is computed and exchanged does not depend on how many
 * ranks the pipeline and the data axis have, only what it costs. */
struct oracle_block_plans;
struct oracle_block_plans *
oracle_block_plans_make(pdl_arena *a, pdl_arena *scratch,
                        const struct oracle_family *f,
                        const struct oracle_point *x);

/* Memory for small plans (kept), which those of other meshes leave, and for
 * those that are not small, which is emptied when it is full, so that deep
 * networks need no more than shallow ones. Without them all are kept. */
void oracle_block_plans_lend(struct oracle_block_plans *g, pdl_arena *kept,
                             pdl_arena *large);

/* How blocks are dealt to stages, which no mesh changes; made once by a search
 * for all its threads. */
struct oracle_cuts {
    pthread_mutex_t lock;
    pdl_arena *arena;
    const int64_t **blocks; /* of each number of stages; NULL: not yet */
};

/* Where a stage lies: what comes before and after the blocks goes with the
 * first and the last. A stage alone is a first one. */
enum stage_place {
    PLACE_FIRST,
    PLACE_MIDDLE,
    PLACE_LAST,
    PLACES_WITH_WORK,
    /* zb-v: stages in the middle whose successor, or predecessor, is on the
     * same lane, so that nothing is sent */
    PLACE_DOWN = PLACES_WITH_WORK,
    PLACE_UP,
    PLACES
};

/* Few blocks are lowered as they are; stages of more consist of the parts of a
 * form of three (with activations offloaded: four). */

/* ---- pieces ----------------------------------------------------------- */

/* Ranks of a mesh that show every shape; those that hold the same share a
 * slot. */
struct rank_slots {
    int n, slots;
    uint8_t slot[ORACLE_MAX_RANKS];
};

/* Forward and backward of a stage, wherever it lies. */
struct stage_works {
    struct stage_work at[PLACES]; /* the last two: if split */
    const struct rank_slots *ranks;
    struct oracle_loading load; /* of one micro-batch */
    struct block_form *form;    /* that it is read off */
    int64_t micro;
    int lane;
    bool priced; /* else live alone is known of its stages */
};

struct stage_exchanges {
    struct stage_exchange at[PLACES_WITH_WORK];
    const struct rank_slots *ranks;
};

/* The pieces of one mesh. */
struct oracle_mesh;
struct oracle_mesh *oracle_mesh_make(pdl_arena *a, struct oracle_block_plans *g,
                                     const struct oracle_point *x);
/* Lanes of the pipeline whose groups cross the same wires are of one kind,
 * for work, for updates, and for work in which weights travel (ZeRO 2, 3). */
enum lane_kind { LANE_WORK, LANE_UPDATE, LANE_TRAFFIC, LANE_KINDS };
enum pdl_status oracle_mesh_lanes(struct oracle_mesh *p, struct pdl_err *err);
enum pdl_status oracle_mesh_work(struct oracle_mesh *p,
                                 const struct oracle_point *x,
                                 int64_t micro_batches, int64_t blocks,
                                 int lane, const struct stage_works **out,
                                 struct pdl_err *err);
/* Prices it, where that was put off: weights travel, and bytes are often all
 * that is asked for. */
enum pdl_status oracle_mesh_price(struct oracle_mesh *p,
                                  const struct stage_works *w,
                                  struct pdl_err *err);
enum pdl_status oracle_mesh_update(struct oracle_mesh *p,
                                   const struct oracle_point *x, int64_t blocks,
                                   int lane, const struct stage_exchanges **out,
                                   struct pdl_err *err);

/* ---- composing -------------------------------------------------------- */

/* Pieces of one mesh, and what the last point needed of them. */
struct oracle_pricer;
struct oracle_pricer *oracle_pricer_make(pdl_arena *a,
                                         struct oracle_block_plans *g,
                                         const struct oracle_family *f,
                                         const struct oracle_point *mesh);
/* The projection of a point, equal to that of its lowered plan. */
enum pdl_status oracle_point_price(struct oracle_pricer *c,
                                   const struct oracle_point *x,
                                   struct pdl_projection *out,
                                   struct pdl_err *err);
/* What no step of the point can be shorter than, alone. */
enum pdl_status oracle_point_floor(struct oracle_pricer *c,
                                   const struct oracle_point *x,
                                   double *least_s, struct pdl_err *err);
/* In two steps: memory (and whether it fits), with a time that no step of the
 * point can be shorter than; then all of it. */
enum pdl_status oracle_point_memory(struct oracle_pricer *c,
                                    const struct oracle_point *x,
                                    struct pdl_projection *out, double *least_s,
                                    struct pdl_err *err);
/* Bytes (allocated, and of the host) that no point with these passes is below,
 * however states are sharded and wherever the optimizer is. */
enum pdl_status oracle_point_least_bytes(struct oracle_pricer *c,
                                         const struct oracle_point *x,
                                         struct pdl_projection *out,
                                         struct pdl_err *err);
/* Does no point with these passes fit, however states are sharded and wherever
 * the optimizer is? False: it is not known. */
bool oracle_point_hopeless(struct oracle_pricer *c,
                           const struct oracle_point *x);
enum pdl_status oracle_point_time(struct oracle_pricer *c,
                                  const struct oracle_point *x,
                                  struct pdl_projection *out,
                                  struct pdl_err *err);

#endif
