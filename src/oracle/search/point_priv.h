/* Shared by point.c (stages of a point), point_stages.c (passes of a
 * stage), point_memory.c and point_time.c. */
#ifndef ORACLE_COMPOSE_PRIV_H
#define ORACLE_COMPOSE_PRIV_H

#include "oracle/search/point.h"

enum { MAX_CLASSES = 24, ZERO_KINDS = 4, KEPT_PASSES = 256, KEPT_ORDERS = 16 };

/* A stage's passes; with copies to the host it matters whether several
 * micro-batches are in flight. */
struct timed {
    struct stage_time time;
    struct stage_ran ran; /* without the host's calls */
    bool shown[ZERO_KINDS]
              [2]; /* by zero and optimizer: what follows is known */
    double exposed[ZERO_KINDS][2], copy[ZERO_KINDS][2];
};

/* Passes of a stage on a rank. */
struct class_live {
    struct oracle_span forward, backward, late;
};

/* Passes of stages that have the same work, blocks and kind of lane. */
struct passes {
    struct passes *next;
    const struct stage_work *work;
    int64_t blocks;
    int update;   /* kind of lane */
    bool overlap; /* where something runs beside them */
    bool folded;  /* zb-v: other messages between lanes */
    struct timed timed[2];
    /* where weights travel: how backward ended, and when it made gradients */
    struct streams ended[2];
    double *made[2];
    int64_t nmade[2];        /* that there is room for */
    struct stage_time sums;  /* one operation after another */
    int64_t calls[2];        /* of forward and backward */
    struct class_live *live; /* by slot */
    int slots;               /* that there is room for */
};

/* Stages that are alike. */
struct class
{
    enum stage_place where;
    int64_t blocks;
    int lane[LANE_KINDS]; /* its kinds */
    const struct stage_works *works;
    const struct stage_work *work;
    const struct stage_exchange *update[ZERO_KINDS][2]; /* by zero, optimizer */
    const struct rank_slots *update_ranks[ZERO_KINDS];
    struct passes *passes;
};

/* The stages of one number of chunks. */
struct split {
    struct split *next;
    int64_t chunks;
    bool bubble; /* backward in two tasks */
    int nclasses;
    struct class classes[MAX_CLASSES];
    int *of;      /* class of each lane's stages: [chunk][lane] */
    int64_t full; /* micro-batches from which in_flight stays */
    /* that in_flight and lanes are of; 0: none */
    int64_t micro;
    enum pdl_schedule schedule;
    int64_t *in_flight; /* [lane][chunk] */
    int *lanes, nlanes; /* of which none is fuller than an earlier one */
};

struct oracle_pricer {
    const struct oracle_family *f;
    struct oracle_point mesh, now;
    bool ready; /* `now` is prepared */
    pdl_arena *arena;
    struct oracle_block_plans *forms;
    struct oracle_mesh *pieces;
    struct oracle lite; /* options and system; no plan */
    struct oracle_changed changed;
    struct pdl_plan plan; /* its pipeline only */
    struct pdl_mesh pes;  /* how many */
    struct pdl_strategy strategy;
    struct split *splits, *split; /* all, and that of `now` */
    struct passes *passes[KEPT_PASSES], *spare;
    int64_t passes_of; /* micro-batch */
    struct oracle_loading load;
    struct pdl_projection memory[ZERO_KINDS][2]; /* by zero and optimizer */
    bool known[ZERO_KINDS][2];
    /* ranks of which none holds the same, by zero */
    struct {
        int n;
        uint8_t work[ORACLE_MAX_RANKS], update[ORACLE_MAX_RANKS]; /* slots */
    } held_by[ZERO_KINDS];
    double micro_batches, span, least;
    /* the same of points without sharded weights, by overlap where activations
     * leave; of those like `floor_of` */
    double floor[2];
    struct oracle_point floor_of;
    /* passes like those of this point hold more than there is (1: yes, -1:
     * no, 0: not asked), whatever becomes of weights */
    struct oracle_point hopeless_of;
    int hopeless;
    double *spans; /* of each lane */
    struct oracle_order order[KEPT_ORDERS];
    int bubble;
    bool overlap; /* of what is prepared, where activations leave */
    bool traffic; /* weights travel */
    bool ran;     /* and stages were run so, with this optimizer */
    bool optimizer;
    bool early; /* what is exchanged beside backward may have changed it */
    double held;
    double *forward, *backward, *weights, *end, *made, *back;
    int64_t steps;
};

/* Stage k of lane l, by its number. */
static inline int64_t oracle_stage_of(const struct oracle_pricer *c, int64_t l,
                                      int64_t k)
{
    return pdl_schedule_stage(c->strategy.schedule, c->plan.lanes, (int)l,
                              (int)k);
}

/* point.c: all stages of a lane, one micro-batch; are exchanges hidden */
struct stage_time oracle_lane_time(const struct oracle_pricer *c, int64_t l);
bool oracle_point_overlaps(const struct oracle_pricer *c,
                           const struct oracle_point *x);
/* point_stages.c: passes of stages like these, made or found; stage k of lane
 * l; on the streams; sums of a stage; as it ran on the streams, with what it
 * waits for */
bool oracle_find_passes(struct oracle_pricer *c, const struct oracle_point *x,
                        struct class *k);
struct timed *oracle_timed_of(const struct oracle_pricer *c, int64_t l,
                              int64_t k);
struct stage_run oracle_run_of(struct oracle_pricer *c, const struct class *k,
                               bool flying);
void oracle_time_class(struct oracle_pricer *c, struct class *k);
/* point.c: the order of the point's tasks, or (brief) of no more micro-batches
 * than it takes to hold all that is ever held; NULL: out of memory */
struct oracle_order *oracle_point_order(struct oracle_pricer *c, bool brief);
/* point.c: the stages of a point, and its updates */
/* Are two points of a mesh alike, but for sharding, overlap and optimizer? */
bool oracle_same_passes(const struct oracle_point *a,
                        const struct oracle_point *b);
enum pdl_status oracle_point_prepare(struct oracle_pricer *c,
                                     const struct oracle_point *x,
                                     struct pdl_err *err);
enum pdl_status oracle_point_updates(struct oracle_pricer *c,
                                     const struct oracle_point *x,
                                     struct pdl_err *err);

#endif
