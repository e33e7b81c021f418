/* paradl/tune.h - how gradients are exchanged: which algorithm, compression,
 * size of buckets and overlap is best for this model on this machine.
 *
 * Every combination is looked at with a model of the exchange alone: when
 * backward has each gradient ready (the oracle's own timeline), what a bucket
 * takes (the oracle's price, which is the simulator's time), buckets one after
 * the other. The best few are then lowered and projected in full. */
#ifndef PARADL_TUNE_H
#define PARADL_TUNE_H

#include "paradl/oracle.h"

PDL_BEGIN

/* One way to exchange gradients, as a strategy says it. */
struct pdl_tuned {
    const char *strategy; /* the whole text */
    const char *algorithm, *compress;
    int64_t bucket_bytes;
    bool no_overlap;
    double estimate_s; /* of the step, by the model of the exchange */
    struct pdl_projection x;
};

struct pdl_tuned_bucket {
    int64_t bytes;
    int weights;
    double ready_s, start_s, seconds; /* from the start of the step */
};

/* What is known of the accuracy of a compression. */
enum pdl_tune_loss {
    PDL_TUNE_EXACT, /* the same bits, or the same sums */
    PDL_TUNE_TRIED, /* trained on small data within 0.3 points (doc/tune.md) */
    PDL_TUNE_UNKNOWN,
};
enum pdl_tune_loss pdl_tune_loss(const char *compress);

struct pdl_tune_options {
    bool lossless;   /* nothing that changes the sums */
    bool exhaustive; /* projects every combination: slow, for tests */
    double least;    /* part of the step that compression must save; 0: 3 % */
};

struct pdl_tune_result {
    struct pdl_tuned base;        /* as given */
    struct pdl_tuned dense;       /* the best without compression */
    struct pdl_tuned any;         /* the best of all */
    const struct pdl_tuned *best; /* the one to take */
    int64_t combinations, projected;
    int nbuckets; /* of the best */
    struct pdl_tuned_bucket *bucket;
    double backward_s; /* when backward ends */
    double seconds;    /* that the search took */
};

/* A strategy without gradients to exchange, or with ZeRO, is PDL_EINVAL. */
enum pdl_status pdl_tune_gradients(pdl_arena *a, const struct pdl_model *model,
                                   const struct pdl_system *sys,
                                   const struct pdl_oracle_options *oracle,
                                   const struct pdl_plan_options *plan,
                                   const char *strategy,
                                   const struct pdl_tune_options *opt,
                                   struct pdl_tune_result *out,
                                   struct pdl_err *err);

PDL_END
#endif
