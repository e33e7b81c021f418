/* Shared by pieces.c and small.c: the small plans that pieces are read off. */
#ifndef ORACLE_PIECES_PRIV_H
#define ORACLE_PIECES_PRIV_H

#include "pieces.h"

enum { STAGES = 3, TABLE = 256, MAX_KINDS = 8 };

/* Lanes whose groups cross the same wires are of one kind. */
struct kinds {
    int n;
    int *of;                  /* of each lane */
    int64_t first[MAX_KINDS]; /* lane of each kind */
};

/* Which pieces: a small plan, priced on the ranks of a kind of lane. */
struct key {
    int64_t micro, blocks;
    enum pdl_recompute recompute;
    int zero, lane;
    bool many; /* micro-batches */
};

struct entry {
    struct key key;
    bool used;
    void *piece;
    const char *refused; /* why there is none */
};

/* A small plan of one sample, and the dimensions of its tensors that grow with
 * the samples (bits). */
struct grows {
    struct key key;
    const struct pdl_plan *plan;
    const uint8_t *dims; /* NULL: others must be lowered */
};
enum { MAX_GROWS = 32 };

struct oracle_pieces {
    const struct oracle_family *f;
    struct oracle_point mesh;
    pdl_arena *arena, *scratch;
    struct entry work[TABLE], update[TABLE];
    struct grows grows[MAX_GROWS];
    int ngrows;
    int64_t count; /* small plans priced */
    double seconds;
    struct kinds kinds[2]; /* of lanes, for work and for updates */
    const char *refused;   /* why lanes could not be told */
};

/* A small plan, on the mesh of the large one. */
struct small {
    struct pdl_model model;
    struct pdl_segment segments[8];
    struct pdl_strategy strategy;
    struct pdl_mesh mesh;
    struct pdl_plan plan;
    struct pdl_plan_stage stages[STAGES];
    struct pdl_plan_item items[STAGES * (2 * PIECE_BLOCKS + 1)];
    struct oracle_changed changed;
    struct oracle o;
    const bool *inside;
    int64_t *size;
    int *round, *tensor; /* of each tensor of the written-out model: the round
                            of its block (-1: outside) and the model's tensor */
};

bool oracle_same_key(const struct key *a, const struct key *b);
/* small.c: lowers the plan of a key and prepares to price it; grow: from that
 * of one sample, where that is possible */
struct small *oracle_small(struct oracle_pieces *p, const struct key *k,
                           bool grow, struct pdl_err *err);
/* Representative ranks of a lane of the large plan. */
int oracle_small_ranks(const struct small *s, int64_t lane, int64_t *ranks);
/* The same operations of stages of three blocks, in one item for each. */
bool oracle_small_cut(const struct oracle_pieces *p, struct small *s);

#endif
