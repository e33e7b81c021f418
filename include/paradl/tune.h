/* paradl/tune.h - how gradients are exchanged: which algorithm, compression,
 * size of buckets and overlap is best for this model on this machine.
 *
 * Every combination is looked at with a model of the exchange alone: when
 * backward has each gradient ready (the oracle's own timeline), what a bucket
 * takes (the oracle's price, which is the simulator's time), buckets one after
 * the other. The best few are then lowered and projected in full. And which
 * network and algorithms a step's traffic is best served by. */
#ifndef PARADL_TUNE_H
#define PARADL_TUNE_H

#include "paradl/oracle.h"

PDL_BEGIN

/* One way to exchange gradients, as a strategy says it. */
struct pdl_tuned {
    const char *strategy; /* the whole text */
    const char *algorithm, *compress;
    int layers; /* so many are compressed; 0: all, or none */
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

/* ---- which network ------------------------------------------------------- */

/* Operations that all groups of ranks do at the same time. */
struct pdl_demand {
    const char *collective; /* of coll.h, or "send" */
    const char *name;
    int members, groups;
    const int *host; /* of member j of group g: [g * members + j]; NULL: in
                        order */
    int64_t bytes;   /* of a rank's buffer; the most where they differ */
    double times;    /* so many one after the other */
    /* Bytes of group g; of "send", of its member j, as `host`, to the member
     * `ahead` places on, the first again after the last. NULL: all as many,
     * and each sends to the next but the last. */
    const int64_t *each;
    int ahead;
};
/* What one step of a plan sends between nodes of so many ranks, a host a rank;
 * what stays in a node is left out, and what is not known is named in *left.
 * Stages of a pipeline send at the same time, each group what its stages do. */
enum pdl_status pdl_plan_demands(pdl_arena *a, const struct pdl_plan *plan,
                                 int64_t node, struct pdl_demand **out, int *n,
                                 const char **left, struct pdl_err *err);

/* One network, and the fastest algorithm of each demand on it. */
struct pdl_network_point {
    const char *spec;
    bool direct; /* hosts pass messages on */
    int radix;   /* ports of its largest switch */
    int64_t switches, cables;
    double cost;     /* of switches and cables */
    double seconds;  /* of all demands; INFINITY: not on the front */
    double *each;    /* of a demand once */
    const char **by; /* its algorithm */
    bool front;      /* none that costs no more is as fast; one of a cost */
};
/* A network that is looked at in any case, with its algorithm. */
struct pdl_network_rival {
    const char *spec, *algorithm; /* "" or NULL: the fastest */
    struct pdl_network_point is;
    int winner; /* the fastest that costs no more; -1: none is faster, or the
                   search was stopped before: then is.seconds is INFINITY */
};
/* What a GB/s costs of a switch port, of a cable of up to 3 m and of a longer
 * one with what is at its ends; and a metre of the latter. */
struct pdl_network_prices {
    double port, near, far, metre;
};
struct pdl_network_ask {
    int hosts, radix;              /* ports of a switch at most */
    bool shared;                   /* a cable's rate is of both ways together */
    double bytes_per_s, latency_s; /* of a cable */
    const struct pdl_demand *demand;
    int ndemands;
    const char *const *more; /* further networks */
    int nmore;
    const struct pdl_network_prices *prices; /* NULL: as `topology show` */
    int threads;                             /* 0: all cores */
    bool exhaustive;                         /* leave nothing out: for tests */
    bool (*progress)(void *ctx, int64_t done, int64_t total);
    void *ctx;
    const volatile int *interrupt; /* not 0: stop; NULL: nobody does */
};
struct pdl_networks {
    struct pdl_network_point *list; /* by cost */
    int n;
    int64_t simulated; /* on several threads not always as many */
    bool stopped;      /* rivals and networks may not have been looked at */
};
/* Makes the networks of so many hosts that switches of that radix allow, and
 * finds those that are faster for the demands than all that cost less, the
 * fastest of each cost. The answer is the same on any number of threads. */
enum pdl_status pdl_network_search(pdl_arena *a,
                                   const struct pdl_network_ask *ask,
                                   struct pdl_network_rival *rivals, int n,
                                   struct pdl_networks *out,
                                   struct pdl_err *err);

PDL_END
#endif
