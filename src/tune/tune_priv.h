/* tune: the gradients of a step and the model of their exchange; networks, and
 * demands as they see them. */
#ifndef TUNE_PRIV_H
#define TUNE_PRIV_H

#include "paradl/coll.h"
#include "paradl/tune.h"

#include <stdarg.h>

/* One weight's gradient, in the order in which backward makes them. */
struct tune_gradient {
    uint32_t group;
    int stage;
    int64_t bytes;
    double ready_s;
    int node;   /* of the model: whose weight it is */
    bool plain; /* goes by the other way than the one that is looked at */
    bool kept;  /* was plain in what is remembered */
};

/* Seconds of buckets of these sizes, by the way that is looked at. */
enum { TUNE_SIZES = 24 };

struct tune {
    pdl_arena *arena;
    const struct pdl_model *model;
    const struct pdl_system *sys;
    const struct pdl_oracle_options *oracle;
    const struct pdl_plan_options *plan;
    struct pdl_strategy strategy, each; /* as given; a bucket each */
    const struct pdl_plan *alone;       /* every gradient a bucket */
    struct tune_gradient *gradient;
    int n, op;                 /* gradients; the operation of the largest */
    double backward_s, rest_s; /* when backward ends; update and the like */
    double size[TUNE_SIZES], seconds[TUNE_SIZES];
    double other[TUNE_SIZES]; /* by the way of those that are plain */
    double coding[TUNE_SIZES], none[TUNE_SIZES]; /* of these, the PE's own */
    int64_t projected;
};

/* Lowers with every gradient alone, and finds when each is ready. */
enum pdl_status tune_gradients(struct tune *t, struct pdl_err *err);
/* From now on buckets travel so; false: they cannot. */
bool tune_ways(struct tune *t, const char *algorithm, const char *compress);
/* And those that are plain so; NULL: by the simulator's choice. */
bool tune_plain_way(struct tune *t, const char *algorithm);
/* Seconds of the step with these buckets; writes them too unless NULL. */
double tune_estimate(const struct tune *t, const struct pdl_tuned *w,
                     struct pdl_tuned_bucket *out, int *n);

/* The sizes of buckets there are to choose from. */
enum { TUNE_BUCKETS = 6 };
extern const int64_t tune_buckets[TUNE_BUCKETS];
/* Which layers should be compressed by way w, if not all: marks the others'
 * gradients as plain, sets w's buckets and estimate. */
void tune_choose_layers(struct tune *t, struct pdl_tuned *w);
/* Adds a clause for every run of layers that are; false: too many of them, or
 * names that a strategy cannot say. */
bool tune_write_layers(struct tune *t, const char *compress,
                       struct pdl_strategy *s, int *layers);
/* Remembers what is marked; marks it again, and prices what is plain. */
void tune_keep_layers(struct tune *t);
void tune_kept_layers(struct tune *t, const char *algorithm);
/* All gradients go one way again. */
void tune_all_layers(struct tune *t);

/* Networks to try, as text. */
enum { TUNE_NETWORKS = 1024, TUNE_SPEC = 96 };
struct tune_specs {
    char spec[TUNE_NETWORKS][TUNE_SPEC];
    int n;
};
void tune_candidates(int hosts, int radix, struct tune_specs *out);

/* A demand under an algorithm, as the simulator sees it. */
struct tune_traffic {
    struct pdl_traffic all;
    const struct pdl_coll_job *job; /* one of each size; of "send" none */
    int njobs;
    bool whole; /* one group, a rank a host: the job's own traffic */
};
bool tune_is_send(const struct pdl_demand *d);
/* algorithm: NULL of "send". false: it refuses, or there is no memory. */
bool tune_traffic_make(pdl_arena *a, const struct pdl_demand *d,
                       const struct pdl_net *net, const char *algorithm,
                       struct tune_traffic *out);

#endif
