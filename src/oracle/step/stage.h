/* Stages of a step: what forward and backward of one take and hold, and its
 * exchange and update. They are read off a plan (stage.c, memory.c): the one
 * that is priced, or a small one of few blocks whose parts come as often as the
 * stage has blocks (search). What a step takes that consists of them:
 * step.h. */
#ifndef ORACLE_STAGE_H
#define ORACLE_STAGE_H

#include "oracle/step/streams.h"

/* ---- bytes ------------------------------------------------------------ */

/* A stretch of operations: how much more is live at its fullest moment than
 * at its start (the first such moment), and at its end. */
struct oracle_moment {
    int64_t all, gradients, weights, work, buffers;
};
struct oracle_span {
    struct oracle_moment top, rest; /* the fullest; but for gradients of
                                       weights, which may be there before */
    int64_t all, gradients, weights;
    int64_t saved, input;   /* of all: for backward; inputs of the model */
    int64_t host, top_host; /* in the host's memory, at the end and at most */
    int64_t small; /* the largest of the workspaces that share a place */
};
struct oracle_span oracle_span_join(const struct oracle_span *a,
                                    const struct oracle_span *b);
/* n of them, one after another. */
struct oracle_span oracle_span_repeat(const struct oracle_span *a, int64_t n);

/* Forward and backward of a stage on one rank, part by part. */
struct stage_live {
    struct oracle_span part[PASSES][STAGE_PARTS];
    int64_t input, label;
    int64_t written; /* gradients of a block before they join the buffers */
    int64_t ahead;   /* copied in for backward while the task before runs */
    int64_t sent[2]; /* by sends of forward, of backward, which do not wait */
};

/* A stage on one rank: what is there all the time, and its passes. */
struct oracle_lived {
    int64_t weights, input, label, buffers, state;
    int64_t written;
    struct oracle_span pass[PASSES], update;
    int64_t host; /* optimizer state in the host's memory */
    int64_t ahead;
};

/* keeps.c: what an operation keeps for backward beside tensors of the plan, if
 * it is forward's; what the loss of 16-bit logits is computed in more */
int64_t oracle_keeps(const struct oracle *o, int op, int64_t rank);
int64_t oracle_logits(const struct oracle *o, const struct pdl_plan_op *op,
                      const int64_t *size);
/* memory.c: tensors that are made again inside a kernel, by model tensor */
bool *oracle_find_inside(const struct oracle *o);
/* Bytes of all tensors on a rank, whatever their stage; those of one stage. */
void oracle_all_sizes(const struct oracle *o, int64_t rank, const bool *inside,
                      int64_t *all);
void oracle_sizes_of(const struct oracle *o, int stage, const int64_t *all,
                     int64_t *size);
/* The passes of a stage on a rank, whose tensors have these sizes,
 * and its update with all that stays */
void oracle_live_passes(const struct oracle *o, int stage,
                        const struct stage_passes *x, int64_t rank,
                        const int64_t *size, struct stage_live *l);
void oracle_live_update(const struct oracle *o, int stage, int64_t rank,
                        const int64_t *size, struct oracle_lived *l);

/* ---- pieces ----------------------------------------------------------- */

/* Forward and backward of a stage. */
struct stage_work {
    const struct stage_passes *shape;    /* without prices */
    const struct stage_live *live;       /* by slot of a rank */
    const struct stream_price *price[2]; /* by pass */
    struct stage_time part[PASSES][STAGE_PARTS];
    struct stage_passes run; /* what takes time, makes gradients or waits */
    double contention;
};

/* Gradient exchange and update of a stage. */
struct stage_exchange {
    struct stage_update run;
    const struct oracle_lived *lived; /* by slot: all but passes */
    bool early;               /* it begins while backward runs, if it may */
    double apart, apart_copy; /* exposed where nothing overlaps */
};

/* stage.c: the parts of a stage's passes, of so many blocks that are items of
 * their own (1: as the plan has them); false: there are too many */
bool oracle_list_passes(const struct pdl_plan *p, int stage, int blocks,
                        struct stage_passes *x);
/* Their programs. */
bool oracle_write_passes(struct program *p, int blocks, struct stage_passes *x);
/* What the parts take: w has its shape and its prices. all: every operation is
 * listed; forward: its operations too */
bool oracle_price_work(pdl_arena *a, bool all, bool forward,
                       struct stage_work *w);
/* A stage of a plan but for its bytes, in an arena; price: of each operation of
 * the plan. */
bool oracle_plan_stage(const struct oracle *o, pdl_arena *a, int stage,
                       struct stream_price *price, struct stage_work *w,
                       struct stage_exchange *u);

#endif
