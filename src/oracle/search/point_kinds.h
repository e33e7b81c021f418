/* The stages of a point are of few kinds (point_kinds.c): those that have as
 * many blocks, lie alike in the network and on lanes whose groups cross the
 * same wires. */
#ifndef ORACLE_POINT_KINDS_H
#define ORACLE_POINT_KINDS_H

#include "oracle/search/point.h"
#include "oracle/step/step.h"

enum { MAX_KINDS = 24, ZERO_KINDS = 4 };

/* Stages that are alike. */
struct kind {
    enum stage_place where;
    int64_t blocks;
    int lane[LANE_KINDS]; /* its kinds */
    const struct stage_works *works;
    const struct stage_exchange *update[STEP_UPDATES];
    const struct rank_slots *update_ranks[ZERO_KINDS];
};

/* The stages of one number of chunks. */
struct split {
    struct split *next;
    int64_t chunks;
    bool bubble; /* backward in two tasks */
    int n;
    struct kind kind[MAX_KINDS];
    struct step_stage stage[MAX_KINDS];
    int *of;
    int64_t enough; /* micro-batches from which in_flight stays */
    int64_t micro;  /* that in_flight and full are of; 0: none */
    enum pdl_schedule schedule;
    int64_t *in_flight;
    int *full, nfull;
};

/* Cuts the network into the stages of a pipeline; s: its chunks. */
enum pdl_status oracle_split_stages(pdl_arena *a, struct oracle_block_plans *g,
                                    const struct oracle_family *f,
                                    const struct oracle_mesh *mesh,
                                    const struct pdl_tasks *pipeline,
                                    struct split *s, struct pdl_err *err);

#endif
