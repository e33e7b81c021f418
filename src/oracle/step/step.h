/* A step of stages (step.c, step_memory.c): the one evaluation that plans and
 * the points of a search share. The stages of a plan are all different; those
 * of a point are of few kinds, and what was found of a kind is kept from point
 * to point. */
#ifndef ORACLE_STEP_H
#define ORACLE_STEP_H

#include "oracle/step/stage.h"

/* Updates that the same passes are followed by. */
enum { STEP_UPDATES = 8 };

/* The passes of a kind on the streams. */
struct stage_timed {
    struct stage_time time;
    struct stage_ran ran;     /* without the host's calls */
    bool shown[STEP_UPDATES]; /* what follows is known */
    double exposed[STEP_UPDATES], copy[STEP_UPDATES];
};
struct stage_found {
    struct stage_timed timed[2]; /* alone; one of several, where copies are
                                    made */
    /* where it was run: how backward ended, and when it made gradients */
    struct streams ended[2];
    double *made[2];
    int64_t nmade[2];                   /* that there is room for */
    struct stage_time sums;             /* one operation after another */
    double calls[2];                    /* of forward and backward */
    struct oracle_span (*live)[PASSES]; /* by slot */
    int slots;                          /* that there is room for */
};
struct step_stage {
    const struct stage_work *work;
    const struct stage_exchange *update;
    int64_t blocks, slots; /* slots: of gradients */
    double held;           /* part of a PE that a hidden collective holds */
    struct stage_found *found;
};

struct step {
    const struct oracle *o; /* options, system, strategy and pipeline */
    pdl_arena *arena;
    int n;                    /* kinds of stages */
    struct step_stage *stage; /* [n] */
    const int *of;            /* kind of each lane's stages: [chunk][lane] */
    int lanes, chunks;
    int64_t *in_flight; /* [lane][chunk] */
    int *full, nfull;   /* lanes of which none is fuller than an earlier one */
    int nranks;         /* by what they hold: slots of passes, of updates */
    const uint8_t *held_work, *held_update;
    struct oracle_lived *lived;         /* [2 * n + chunks], for a moment */
    struct oracle_order *order, *brief; /* of all tasks; of as many as it takes
                                           to hold all that is ever held */
    struct pdl_projection *tight; /* memory of the kind of PE with least left,
                                     where shares are uneven; else NULL */
    bool splits;                  /* backward is two tasks */
    struct oracle_loading load;
    int which;    /* update */
    bool runs;    /* stages are run with it: weights travel, or it is a plan */
    bool overlap; /* what runs beside passes is hidden; so is exchange */
    bool hides;
    int ran;       /* with this update; -1: not yet */
    bool early;    /* what is exchanged beside backward may have changed it */
    double span;   /* < 0: not known */
    double *spans; /* of each lane */
    double *made, *back, *end;
    int64_t nback, nend; /* that there is room for */
};

/* ---- time (step.c) ---------------------------------------------------- */

/* Of a plan with so much sharded (ZeRO): some hide that alone. */
bool oracle_overlaps(const struct oracle *o, int64_t zero);
/* Part of a PE that collectives hold which run beside computation. */
double oracle_held(const struct oracle *o, int64_t zero);
/* Seconds of a kind's passes; or, run with its update (again: where both
 * passes end as with the one before). */
void oracle_time_kind(struct step *c, struct step_stage *k);
bool oracle_run_kind(struct step *c, struct step_stage *k, bool again);
/* What no step of these stages is shorter than; staggered: lanes begin and end
 * one after the other. */
double oracle_step_least(const struct step *c, bool staggered);
/* Seconds of the step; false: out of memory. */
bool oracle_step_time(struct step *c, struct pdl_projection *out);
/* project.c: what follows from step_s, pes and batch */
void oracle_fill_rates(const struct oracle *o, const struct pdl_model *model,
                       int64_t forward_flops, struct pdl_projection *out);

/* ---- bytes (step_memory.c) -------------------------------------------- */

/* A kind's passes on so many slots; false: out of memory. */
bool oracle_live_kind(struct step *c, struct step_stage *k, int slots);
/* What is in flight on each lane, by the brief order. */
void oracle_step_lanes(struct step *c);
/* Bytes of the fullest PE of a lane (-1: of all); of passes alone, without
 * weights and their gradients. */
void oracle_step_memory(const struct step *c, int lane,
                        struct pdl_projection *out);
void oracle_step_passes(const struct step *c, int slots,
                        struct pdl_projection *out);
/* What the device holds besides, and what it has; whether that is enough. */
void oracle_fill_device(const struct oracle *o, struct pdl_projection *out);
void oracle_find_fit(const struct oracle *o, struct pdl_projection *out);
/* project.c: bytes of a plan's stages, and of the plan */
bool oracle_plan_lives(struct step *c, struct stage_work *work,
                       struct stage_exchange *update);
bool oracle_plan_memory(const struct step *c, int lane,
                        struct pdl_projection *out);
/* pe_kinds.c: fills tight (lives are then those of one kind); memory where
 * least is left */
bool oracle_kinds_memory(struct step *c, struct stage_work *w,
                         struct stage_exchange *u);
bool oracle_step_room(const struct step *c, struct pdl_projection *out);

#endif
