/* Shared by composing plans from pieces: pieces.c (lowers and prices the
 * pieces), compose.c (a point of the space from them), makespan.c. */
#ifndef ORACLE_PIECES_H
#define ORACLE_PIECES_H

#include "stage.h"

/* A whole-model configuration of a transformer. */
struct oracle_point {
    int64_t tensor, pipe, data;
    int64_t micro;  /* samples of a micro-batch of one data rank */
    int64_t chunks; /* stages of a lane; 1: not interleaved */
    bool seq, no_overlap;
    int zero; /* 0, 1 */
    enum pdl_recompute recompute;
};

/* What all pieces of a search share. */
struct oracle_family {
    const struct pdl_model *model;
    const struct pdl_system *sys;
    const struct pdl_oracle_options *opt;
    struct pdl_plan_options plan; /* batch: of the step */
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

/* ---- pieces ------------------------------------------------------------------ */

/* Where a stage lies: what comes before and after the blocks goes with the
 * first and the last. A stage alone is a first one. */
enum piece_where { PIECE_FIRST, PIECE_MIDDLE, PIECE_LAST, PIECE_WHERE };

/* A stage of one block is lowered as it is; others consist of a first block
 * (and what lies before), middle ones, and a last. */
enum { PIECE_BLOCKS = 3, PIECE_RANKS = 9 };

struct piece_pass {
    struct stage_time time[PIECE_BLOCKS];
    struct oracle_span span[PIECE_BLOCKS][PIECE_RANKS];
};

/* An operation of backward, and the weights' gradients that it makes: tensors
 * of the model, of a block counted from that of the part (stages of one part:
 * from the first), or outside blocks. */
struct piece_made {
    int tensor, back;
    bool outside;
};
struct piece_op {
    double seconds;
    int level, nmade;
    bool comm;
    const struct piece_made *made;
};

/* Forward and backward of a stage of one block, or of two and more. */
struct piece_work {
    int blocks; /* 1, PIECE_BLOCKS */
    int parts;  /* of a pass: 1, or PIECE_BLOCKS */
    int nranks;
    bool alike[PIECE_RANKS]; /* as an earlier one */
    struct piece_pass forward, backward;
    int64_t input[PIECE_RANKS], label[PIECE_RANKS], written[PIECE_RANKS];
    double contention;
    /* operations of each part of backward, one after another */
    struct piece_op *ops[PIECE_BLOCKS];
    int nops[PIECE_BLOCKS];
};
struct piece_works {
    struct piece_work at[PIECE_WHERE];
    struct oracle_loading load; /* of one micro-batch */
};

/* Gradient exchange and update of a stage: its operations on the streams. */
struct piece_step {
    struct stream_op run;
    int wait, after; /* latest step of the other and of its own stream that it
                        needs; -1: none */
    int block;       /* that makes what is exchanged; -1: outside; -2: none */
    int tensor;      /* of the model */
};
struct piece_update {
    int64_t blocks;
    int n, nranks;
    struct piece_step *steps;
    bool alike[PIECE_RANKS];
    struct oracle_lived lived[PIECE_RANKS]; /* base and update */
    double update, gradient_comm, contention;
    double apart; /* exposed where nothing overlaps */
};
struct piece_updates {
    struct piece_update at[PIECE_WHERE];
};

/* The pieces of one mesh: tensor, pipe, data, seq. scratch is emptied again
 * and again. */
struct oracle_pieces;
struct oracle_pieces *oracle_pieces_make(pdl_arena *a, pdl_arena *scratch,
                                         const struct oracle_family *f,
                                         const struct oracle_point *x);
/* Lanes of the pipeline whose groups cross the same wires are of one kind,
 * for work and for updates. */
enum pdl_status oracle_piece_lanes(struct oracle_pieces *p,
                                   struct pdl_err *err);
int oracle_piece_lane(const struct oracle_pieces *p, int64_t lane, bool update);
enum pdl_status oracle_piece_work(struct oracle_pieces *p,
                                  const struct oracle_point *x,
                                  int64_t micro_batches, int64_t blocks,
                                  int lane, const struct piece_works **out,
                                  struct pdl_err *err);
enum pdl_status oracle_piece_update(struct oracle_pieces *p,
                                    const struct oracle_point *x,
                                    int64_t blocks, int lane,
                                    const struct piece_updates **out,
                                    struct pdl_err *err);

/* Small plans that were lowered, and how long that took. */
int64_t oracle_piece_count(const struct oracle_pieces *p, double *seconds);

/* ---- composing ---------------------------------------------------------------- */

/* Pieces of one mesh, and what the last point needed of them. */
struct oracle_compose;
struct oracle_compose *oracle_compose_make(pdl_arena *a, pdl_arena *scratch,
                                           const struct oracle_family *f,
                                           const struct oracle_point *mesh);
int64_t oracle_compose_pieces(const struct oracle_compose *c, double *seconds);
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
enum pdl_status oracle_compose_time(struct oracle_compose *c,
                                    const struct oracle_point *x,
                                    struct pdl_projection *out,
                                    struct pdl_err *err);

/* makespan.c: the same as oracle_makespan for 1F1B and interleaved stages;
 * scratch has room for 2 * lanes * chunks * micro_batches + 8 * lanes. */
double oracle_quick_makespan(int64_t lanes, int64_t chunks,
                             int64_t micro_batches, const double *forward,
                             const double *backward, double *scratch);

/* Micro-batches in flight of each stage of a lane, as oracle_find_order counts
 * them. */
void oracle_quick_flight(int64_t lanes, int64_t chunks, int64_t micro_batches,
                         int64_t lane, int64_t *n);

#endif
