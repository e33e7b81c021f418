/* paradl/train.h - plans, executed.
 *
 * A trainer is one rank of a plan: it holds its parts of the weights, runs
 * the operations of its stage in the order of the schedule, and exchanges
 * with the other ranks what the plan says. The ranks may be threads of one
 * process (virtual ranks) or MPI processes: the code and the bits are the
 * same. Nothing random depends on ranks: weights, dropout and the order of
 * samples are functions of the seed and of global indices. */
#ifndef PARADL_TRAIN_H
#define PARADL_TRAIN_H

#include "paradl/base.h"
#include "paradl/comm.h"
#include "paradl/model.h"
#include "paradl/plan.h"

PDL_BEGIN

/* ---- virtual ranks ----------------------------------------------------- */

/* Runs body(ctx, comm) on n threads, one memory communicator each; the first
 * failure (by rank, a lost peer last) is the result. */
enum pdl_status pdl_train_virtual(int n, double timeout_s,
                                  enum pdl_status (*body)(void *ctx,
                                                          pdl_comm *comm,
                                                          struct pdl_err *err),
                                  void *ctx, struct pdl_err *err);

/* ---- one rank ---------------------------------------------------------- */

/* A part of a tensor as it lies in memory: logical indices N,C,H,W; stored
 * channels last (N,H,W,C) or row-major. */
struct pdl_train_part {
    const char *name;
    enum pdl_dtype dtype;
    int ndims;
    int64_t dim[PDL_BOX_DIMS]; /* of the whole tensor */
    struct pdl_box box;        /* what is here */
    bool channels_last;
    void *data;
};
/* The element at global index i (inside the box), as a number. */
double pdl_train_get(const struct pdl_train_part *p, const int64_t *i);
void pdl_train_put(const struct pdl_train_part *p, const int64_t *i, double v);

/* What an operation has just written; for tests, diff-run and NaN hunts. */
struct pdl_train_seen {
    int64_t rank, step, micro; /* micro -1: once a step */
    int op, tensor, output;    /* of the plan; which output of the op */
    struct pdl_train_part part;
};

/* Where samples come from: fills this rank's part of an input (model_tensor
 * >= 0) or of the labels (-1; class numbers) for samples [first, first + N)
 * of the step's batch, N being the part's whole extent. */
struct pdl_train_feed {
    enum pdl_status (*fill)(void *ctx, int64_t first, int model_tensor,
                            const struct pdl_train_part *part,
                            struct pdl_err *err);
    void *ctx;
};

struct pdl_train_options {
    const char *backend;   /* NULL: the best there is; "ref", "cpu" */
    const char *optimizer; /* "adamw:beta2=0.95"; NULL: sgd, momentum 0.9 */
    double clip;           /* largest norm of the gradient; 0: any */
    double label_smoothing;
    bool mean_squares; /* the loss is the mean squared error */
    uint64_t seed;
    bool poison; /* freed memory becomes not-a-number */
    void (*watch)(void *ctx, const struct pdl_train_seen *seen);
    void *watch_ctx;
};

typedef struct pdl_trainer pdl_trainer;

/* Collective over comm, whose size is the plan's number of PEs. The plan
 * must outlive the trainer. */
enum pdl_status pdl_trainer_open(const struct pdl_plan *plan, pdl_comm *comm,
                                 const struct pdl_train_options *opt,
                                 pdl_trainer **out, struct pdl_err *err);
void pdl_trainer_close(pdl_trainer *t); /* NULL: nothing */

struct pdl_train_result {
    double loss;     /* mean over the batch */
    double loss_sum; /* over samples */
    int64_t correct; /* samples (positions) whose largest output is right */
    int64_t counted; /* of so many */
    bool finite;     /* the loss is a number */
};
/* One optimizer step at learning rate lr. step counts from 0. */
enum pdl_status pdl_trainer_step(pdl_trainer *t, int64_t step, double lr,
                                 const struct pdl_train_feed *feed,
                                 struct pdl_train_result *out,
                                 struct pdl_err *err);
/* Forward only, of the first `samples` of a batch. */
enum pdl_status pdl_trainer_evaluate(pdl_trainer *t, int64_t samples,
                                     const struct pdl_train_feed *feed,
                                     struct pdl_train_result *out,
                                     struct pdl_err *err);

/* The state of this rank: weights, buffers and what the optimizer keeps, in
 * an order that depends on the model alone. owner: the first rank that holds
 * this very box. NULL past the end. */
struct pdl_train_state {
    struct pdl_train_part part;
    int model_tensor;
    bool owner;
};
bool pdl_trainer_state(pdl_trainer *t, int i, struct pdl_train_state *out);

/* What the memory planner decided, in bytes of this rank. */
struct pdl_train_memory {
    int64_t arena, state, scratch, buffers;
    int64_t live; /* largest sum of live tensors: the bound for the arena */
};
void pdl_trainer_memory(const pdl_trainer *t, struct pdl_train_memory *out);
/* The implementation that runs operation op; NULL: none here. */
const char *pdl_trainer_kernel(const pdl_trainer *t, int op);

/* ---- made-up samples ----------------------------------------------------- */

/* Inputs and labels as functions of the seed, the sample and the element. */
struct pdl_train_noise {
    const struct pdl_plan *plan;
    uint64_t seed;
    int64_t first; /* sample of the run that is number 0 of the batch */
};
/* ctx of the feed is a struct pdl_train_noise. */
enum pdl_status pdl_train_noise(void *ctx, int64_t first, int model_tensor,
                                const struct pdl_train_part *part,
                                struct pdl_err *err);

/* ---- are two strategies equal? ------------------------------------------- */

/* The first tensor in which they differ. */
struct pdl_train_diff {
    bool differs;
    bool exact; /* it had to be equal bit for bit */
    int64_t step, micro, rank;
    int op;
    char what[256]; /* "forward conv2: conv2.y" */
    int ndims;
    int64_t index[PDL_BOX_DIMS];
    double want, got;
    int64_t compared, bitwise; /* tensors (parts) looked at */
};
/* Runs both plans of one model on virtual ranks from the same weights and the
 * same made-up samples, and compares every result of every operation: bit for
 * bit where no sum crossed ranks in b (and `exact` is set), else within
 * tolerance times the largest magnitude of the tensor. */
struct pdl_train_comparison {
    const struct pdl_plan *a, *b;
    struct pdl_train_options opt;
    int64_t steps;
    double lr, tolerance;
    bool exact;
    int fault, fault_op; /* tests: what to break in b */
};
enum pdl_status pdl_train_compare(const struct pdl_train_comparison *c,
                                  struct pdl_train_diff *out,
                                  struct pdl_err *err);

PDL_END
#endif
