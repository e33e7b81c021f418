/* paradl/karma.h - which activations stay, are made again, or wait in the
 * host's memory (KARMA, Wahib et al., SC 2020): the decision problem by itself.
 * Knows nothing of networks or plans: blocks are seconds and bytes.
 *
 * The step. Blocks 0 .. n-1 compute forward, then n-1 .. 0 backward, on one
 * stream. A block that moves is copied out when its forward is done; its memory
 * is given back at the end of the block `ahead` after it (after the last one at
 * the latest), and computing waits there until the copy is done. When
 * backward of a block begins, what the block `ahead` before it left is asked
 * for; before the first, all of the last ones. Copies each way run one after
 * another beside computing, which they slow: a copy of c seconds takes c * slow
 * of it where it is asked for. Memory is what the order of this program needs,
 * whatever the clock says: a plan's memory is known before it runs.
 *
 * Gradients of a group whose states are on the host leave when its block's
 * backward is done, are used there, and its weights come back after all
 * activations have; other groups are updated when backward is done.
 *
 * A step may be several such passes (micro-batches), all of the same decisions;
 * groups are updated in the last. */
#ifndef PARADL_KARMA_H
#define PARADL_KARMA_H

#include "paradl/base.h"

#define PDL_KARMA_CHOICES(X)                                             \
    X(KEEP, "keep", "stays")                                             \
    X(RECOMPUTE, "recompute", "made again; what enters the block stays") \
    X(SWAP, "swap", "waits on the host")                                 \
    X(BOTH, "both", "made again from an input that waits on the host")   \
    X(PART, "part", "made again in part; what is dear stays")            \
    X(REST, "rest", "made again in part; what is dear waits on the host")
enum pdl_karma_choice {
#define X(name, text, what) PDL_KARMA_##name,
    PDL_KARMA_CHOICES(X)
#undef X
        PDL_KARMA_NCHOICES
};
const char *pdl_karma_word(enum pdl_karma_choice c);

enum { PDL_KARMA_AHEAD = 4 }; /* the largest distance */

/* How much of a block is made again: nothing, all but its input, or a part. */
enum pdl_karma_again {
    PDL_KARMA_NOTHING,
    PDL_KARMA_ALL,
    PDL_KARMA_SOME,
    PDL_KARMA_AGAINS
};
enum pdl_karma_again pdl_karma_again(enum pdl_karma_choice c);

struct pdl_karma_left {
    double again_s; /* for what is made again */
    int64_t bytes;  /* the rest of what its backward reads, with its input */
    /* The most that its own tensors need while it computes, those above with
     * them. */
    int64_t forward_bytes, backward_bytes;
};

struct pdl_karma_block {
    double forward_s, backward_s;
    struct pdl_karma_left left[PDL_KARMA_AGAINS];
    unsigned may; /* bits of choices; KEEP is always among them */
    bool heavy;   /* has convolutions or products: dear to make again */
};

/* A tensor that passes by the blocks between two. */
struct pdl_karma_skip {
    int from, to; /* blocks; it lives while those between compute */
    int64_t forward_bytes, backward_bytes;
};

struct pdl_karma_group {
    int block;           /* whose backward makes the last of its gradients */
    int64_t state_bytes; /* leave the device where it is on the host */
    int64_t out_bytes, in_bytes; /* gradients, weights */
    double device_s, host_s;     /* the update */
    bool as_before;              /* goes where the group before it does */
};

struct pdl_karma {
    int nblocks, nskips, ngroups;
    const struct pdl_karma_block *block;
    const struct pdl_karma_skip *skip;
    const struct pdl_karma_group *group;
    double out_bytes_per_s, in_bytes_per_s, slow;
    int64_t capacity, fixed_bytes; /* fixed: weights and whatever else stays */
    int64_t host_bytes;            /* 0: as much as it takes */
    int least_ahead, most_ahead;   /* distances to try; 0: 1 to 4 */
    int64_t passes;                /* 0: one */
};

/* What a step of these decisions is. */
struct pdl_karma_step {
    double step_s, forward_s;
    double pass_s;                /* one that no update follows */
    double wait_s;                /* computing waits for copies */
    double out_busy_s, in_busy_s; /* copies */
    double recompute_s;
    int64_t peak_bytes, host_bytes, moved_bytes;
    bool fits; /* the device, and the host */
};

struct pdl_karma_plan {
    enum pdl_karma_choice *choice; /* of each block */
    bool *host;                    /* of each group */
    int ahead;
    struct pdl_karma_step step;
    double bound_s; /* proved: no decisions are faster */
    bool exact;     /* equal to it but for rounding */
    int64_t looked; /* partial decisions looked at */
};

/* When everything ran, for charts; arrays of blocks. */
struct pdl_karma_times {
    double *forward, *backward; /* starts */
    double *again;              /* start of what is made again; -1: nothing */
    double *out, *in;           /* starts of copies; -1: none */
};

/* Runs decisions; times may be NULL. */
enum pdl_status pdl_karma_run(const struct pdl_karma *k,
                              const struct pdl_karma_plan *p,
                              struct pdl_karma_times *times,
                              struct pdl_karma_step *out, struct pdl_err *err);

/* The best decisions: exact up to 12 blocks, and further where the number of
 * partial decisions stays below a limit; else the best found, and bound_s says
 * how far it can be off. Not worse than any policy below. Where nothing fits,
 * step.fits is false and the decisions are those that need least memory found.
 * Up to 6 groups (and those that go with them) choose freely; of more, those go
 * together whose gradients come first, and exact is false where any does. */
enum pdl_status pdl_karma_solve(pdl_arena *a, const struct pdl_karma *k,
                                struct pdl_karma_plan *out,
                                struct pdl_err *err);

/* What a long chain's decisions lack: changes of one block and of two, as long
 * as one is faster, a fraction of a second; and a better bound_s (prove.c),
 * which takes as long for each distance. Nothing where the decisions are exact;
 * groups stay as they are, and with them no bound is looked for. */
void pdl_karma_polish(const struct pdl_karma *k, struct pdl_karma_plan *p);
enum pdl_status pdl_karma_prove(pdl_arena *a, const struct pdl_karma *k,
                                struct pdl_karma_plan *p, struct pdl_err *err);

/* The same decision for all blocks, and earlier methods as decisions. */
struct pdl_karma_policy {
    const char *name, *source;
    bool uniform;
    void (*decide)(const struct pdl_karma *k, struct pdl_karma_plan *p);
};
const struct pdl_karma_policy *pdl_karma_policy_at(int i); /* NULL: the end */
/* Its decisions, run; groups stay on the device unless that cannot fit. */
enum pdl_status pdl_karma_follow(pdl_arena *a, const struct pdl_karma *k,
                                 const struct pdl_karma_policy *policy,
                                 struct pdl_karma_plan *out,
                                 struct pdl_err *err);

#endif
