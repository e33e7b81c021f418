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
#include "paradl/io.h"
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
    /* Goes on to the samples of the step after this one, if they are known:
     * fill gives those from then on. NULL: they never are. */
    bool (*advance)(void *ctx);
    /* Where the part lies as fill would give it, if a device may copy it from
     * there until the next advance; NULL: it does not, or it never does. */
    const void *(*at)(void *ctx, int64_t first, int model_tensor,
                      const struct pdl_train_part *part);
};

enum { PDL_TRAIN_BEHIND = -2 };

struct pdl_train_options {
    const char *backend;   /* NULL: the best there is; "ref", "cpu" */
    const char *device;    /* NULL, "cpu": the host; "cuda:0",
                            * "auto", "twin:SEED" */
    const char *optimizer; /* "adamw:beta2=0.95"; NULL: sgd, momentum 0.9 */
    double clip;           /* largest norm of the gradient; 0: any */
    bool grad_norm;        /* measure it */
    bool spare_biases, spare_norms; /* from weight decay */
    bool no_dropout;
    double label_smoothing;
    bool mean_squares;  /* the loss is the mean squared error */
    const char *freeze; /* patterns of weights that stay, by commas; NULL */
    int64_t labels;     /* of a sample's positions; 0: all have one */
    uint64_t seed;
    bool poison; /* freed memory becomes not-a-number */
    void (*watch)(void *ctx, const struct pdl_train_seen *seen);
    void *watch_ctx;
    /* May change a gradient (of this rank's part, its sum over ranks and
     * micro-batches) before anything is made of it; weight: the plan's tensor
     * that it is to change */
    void (*adjust)(void *ctx, int weight, const struct pdl_train_part *grad);
    void *adjust_ctx;
    /* threads of their own move gradients while backward goes on; without
     * them they move between operations */
    bool comm_threads;
    double loss_scale;        /* of gradients on their way back; 0: none */
    int64_t loss_scale_steps; /* good ones until it doubles; 0: it is fixed */
    /* how long an operation took; NULL: nobody looks at the clock. micro is
     * PDL_TRAIN_BEHIND for what went on behind others: from its begin until
     * it was seen to have ended, no time that the rank lost */
    void (*timed)(void *ctx, int op, int64_t micro, double start_s,
                  double end_s);
    void *timed_ctx;
    bool cpu_times; /* timed: local operations by CPU time of the thread */
    int64_t memory; /* tensors, workspaces and states may have; 0: no limit */
    /* no memory is taken: pdl_trainer_memory says what would be, and the
     * trainer can only be closed */
    bool only_size;
    /* a folder for a file of what the plan lets wait elsewhere
     * (offload=activations); NULL: the host's memory */
    const char *far;
    /* of a stage of a pipeline: bytes that its computing memory leaves to
     * another trainer, before the stage's first message comes and from its
     * last one on */
    int64_t guest;
    /* tensors lie in what this one leaves, which outlives it: the caller lets
     * only one guest run at a time, and puts its weights in before; NULL:
     * memory of its own. On the host only. */
    const struct pdl_trainer *room;
    bool apart; /* no memory is shared with other ranks: theirs may be a room */
};

typedef struct pdl_trainer pdl_trainer;

/* Collective over comm, whose size is the plan's number of PEs. The plan
 * must outlive the trainer. */
enum pdl_status pdl_trainer_open(const struct pdl_plan *plan, pdl_comm *comm,
                                 const struct pdl_train_options *opt,
                                 pdl_trainer **out, struct pdl_err *err);
void pdl_trainer_close(pdl_trainer *t); /* NULL: nothing */

struct pdl_train_result {
    double loss;        /* mean over the batch */
    double loss_sum;    /* over samples */
    int64_t correct;    /* samples (positions) whose largest output is right */
    int64_t counted;    /* of so many */
    int64_t stop, save; /* how many ranks voted for it */
    int64_t failed;     /* how many could not write a checkpoint */
    double grad_norm;   /* before clipping; not a number: not measured */
};
/* Are operations timed, from the next step on? On a device that takes some of
 * its time. (On the host they are wherever `timed` is set.) */
void pdl_trainer_time(pdl_trainer *t, bool on);
/* What the ranks decide together at the end of the next step. */
void pdl_trainer_vote(pdl_trainer *t, bool stop, bool save, bool failed);
/* A larger loss is an error, too; infinite: any will do. */
void pdl_trainer_limit(pdl_trainer *t, double loss);
/* One optimizer step at learning rate lr. step counts from 0. A loss that is
 * not a number, or above the limit, or a gradient whose norm was measured and
 * is none changes no weight: PDL_EWRONG says so on every rank, and of a loss
 * names the first operation that made one. */
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
    int64_t replica, replicas; /* of ranks with this very box; 1: alone */
    bool optional;             /* a run may go on without it */
    bool weight;  /* of the model: a weight, or a running statistic */
    bool learned; /* the weight itself, and no running statistic */
    bool cut;     /* its parts are updated elsewhere (ZeRO) */
};
const struct pdl_train_state *pdl_trainer_state(const pdl_trainer *t, int i);
/* Where tensors are not on the host, the parts above are copies, and this
 * brings them up to date; otherwise it does nothing. */
enum pdl_status pdl_trainer_fetch(pdl_trainer *t, struct pdl_err *err);
/* Running statistics become the mean over the ranks that kept their own, as
 * if one rank had seen all samples. Collective; before evaluation and
 * checkpoints. */
enum pdl_status pdl_trainer_settle(pdl_trainer *t, struct pdl_err *err);
/* Weights and optimizer state from a checkpoint of any plan of the model. */
enum pdl_status pdl_trainer_restore(pdl_trainer *t, const pdl_ckpt *ckpt,
                                    struct pdl_err *err);
/* The same without what the optimizer keeps; mean: ema.NAME where it has
 * them, and *mean then says so. */
enum pdl_status pdl_trainer_restore_weights(pdl_trainer *t,
                                            const pdl_ckpt *ckpt, bool *mean,
                                            struct pdl_err *err);
/* Weights from safetensors, by the model's names or those of a family that
 * pdl_naming_at lists; numbers of any floating type. */
struct pdl_train_load {
    bool partial; /* what is missing or has another shape stays as it is */
    void (*note)(void *ctx, const char *text); /* what is; NULL: nobody asks */
    void *ctx;
};
enum pdl_status pdl_trainer_load(pdl_trainer *t, const pdl_weights *w,
                                 const struct pdl_train_load *how, /* NULL */
                                 struct pdl_err *err);

/* ---- one trainer, many owners of samples --------------------------------- */

/* The data of the states' parts may be changed between steps (weights of
 * another model, momentum of nobody); this hands them over where tensors are
 * not on the host. */
enum pdl_status pdl_trainer_send(pdl_trainer *t, struct pdl_err *err);
/* What the optimizer and compress= keep from step to step is gone, as if no
 * step had been; to be handed over likewise. All ranks call it. */
void pdl_trainer_forget(pdl_trainer *t);
/* What the gradient of each sample of the batch is multiplied with in the
 * steps to come, which the caller keeps; NULL: 1. On the host only. */
void pdl_trainer_weigh(pdl_trainer *t, const double *weights);
/* What the last step or evaluation saw of sample i of the batch: its loss, and
 * how many of its positions were right. */
void pdl_trainer_saw(const pdl_trainer *t, int64_t i, double *loss,
                     double *right);

/* Positions of a sample at which tokens are masked, for `labels` of the
 * options: what an encoder learns on plain text. 0: nothing is masked. */
enum pdl_status pdl_train_masked(const struct pdl_dataset *d,
                                 const struct pdl_model *m, int64_t *out,
                                 struct pdl_err *err);
/* Samples of a split by their ids, as a feed: for whoever chooses them, step
 * by step. normalise: NULL is as they are; it must outlive the list. */
typedef struct pdl_train_list pdl_train_list;
enum pdl_status pdl_train_list_open(const struct pdl_plan *plan,
                                    const pdl_io *io, int split,
                                    const struct pdl_augment *normalise,
                                    pdl_train_list **out, struct pdl_err *err);
void pdl_train_list_close(pdl_train_list *l); /* NULL: nothing */
/* Which tokens are masked from now on follows from these and the sample. */
void pdl_train_list_mask(pdl_train_list *l, uint64_t seed, int64_t epoch);
/* A batch: n > 0 ids, the first again where the batch is larger. Valid until
 * the next one, like the ids. */
struct pdl_train_feed pdl_train_list_feed(pdl_train_list *l, const int64_t *ids,
                                          int64_t n);

/* What the memory planner decided, in bytes of this rank. */
struct pdl_train_memory {
    int64_t arena; /* of tensors, weights among them, and large workspaces */
    int64_t state, optimizer;
    int64_t scratch; /* where all small workspaces are */
    int64_t live;    /* largest sum of what is live: the bound for the arena */
    int64_t far;     /* of what waits elsewhere */
    int64_t taken;   /* of the computing memory, all in all */
};
void pdl_trainer_memory(const pdl_trainer *t, struct pdl_train_memory *out);
/* What a trainer computes on, and how it goes at this moment. */
struct pdl_train_device {
    char name[64], library[96]; /* of the versions that run */
    int64_t memory_bytes, free_bytes, units, l2_bytes;
    double clock_hz;       /* the highest */
    double bytes_per_s[3]; /* from the host, to it, inside; 0: not known */
    double now_hz, power_w, power_limit_w; /* 0: nobody says */
    bool power_capped, hot;                /* the clock is lower for that */
    const char *on_host; /* operators that the host runs for it; NULL */
};
/* False: the host computes. rates: measure bytes_per_s, too, which takes memory
 * and time. */
bool pdl_trainer_device(pdl_trainer *t, bool rates,
                        struct pdl_train_device *out);
/* Bytes a second that copies between the host and the device have, each way
 * while the other is busy, too: measured now. 0: there is no device, or no room
 * to try. Works for one that was asked for its size only. */
double pdl_trainer_copy_rate(pdl_trainer *t);
/* Bytes a second at which the host updates weights for the device: four of a
 * gradient, eight of a weight and of each of the optimizer's states, on this
 * thread's threads; measured now. 0: as above. */
double pdl_trainer_update_rate(pdl_trainer *t);
/* Bytes of the host's memory that this process may still have. */
int64_t pdl_trainer_host_left(void);
/* Bytes that operation op works in besides its operands. */
int64_t pdl_trainer_workspace(const pdl_trainer *t, int op);

/* ---- a whole run ------------------------------------------------------- */

struct pdl_train_rates {
    const char
        *schedule; /* constant, step, cosine, polynomial; NULL: constant */
    double lr, last;
    int64_t warmup, every; /* steps; every: of "step" */
    double gamma;
};

/* An operator without a fast kernel, and its share of a step. */
struct pdl_train_slow {
    const char *op;
    double share;
};

/* Something to tell: a step, the end of an epoch, a note. */
struct pdl_train_line {
    int64_t step, epoch, total; /* steps done; steps of the whole run */
    double loss, lr, samples_per_s, grad_norm;
    double test_loss, perplexity, accuracy; /* of the test split, where the
                                               epoch ended */
    /* not a number: not measured */
    int64_t hidden;   /* samples that this epoch leaves out */
    bool epoch_ended; /* loss is then the mean of the epoch */
    const char *note; /* e.g. "resumed from ckpt/step-100"; NULL: none */
    bool warns;       /* the note says what should not be so */
    const struct pdl_train_slow *slow; /* what the note is about */
    int nslow;
};

/* One operation of one rank in the last step. */
struct pdl_train_event {
    int op;
    int64_t micro; /* -1: once a step; PDL_TRAIN_BEHIND */
    double start_s, seconds;
};

/* What follows a loss that is no number, or above `spike`. */
enum pdl_train_policy {
    PDL_TRAIN_STOP,
    PDL_TRAIN_SKIP,     /* leave the batch out */
    PDL_TRAIN_ROLLBACK, /* to the last checkpoint, without those batches */
};

struct pdl_train_job {
    const struct pdl_plan *plan;
    struct pdl_train_options opt;
    const pdl_io *io; /* shared by virtual ranks */
    struct pdl_train_rates rates;
    int64_t epochs, steps; /* steps 0: all of the epochs */
    int64_t test_samples;  /* looked at after an epoch; 0: all, < 0: none */
    const char *shuffle;   /* of a sampler, paradl/data.h; NULL: global */
    const char *hide;      /* NULL: none */
    const char *store;     /* folder of ranks' own samples; NULL: none */
    bool augment;          /* crop after padding, flip */
    bool raw;              /* inputs are not normalised */
    int threads;           /* of a rank; 0: as the library has it */
    bool virtual_ranks;    /* threads of one process */
    /* So many sites, each the plan's ranks and its batch, meet every
     * local_steps steps: the mean of what their weights moved is an outer step
     * with Nesterov's momentum (DiLoCo). 0 or 1: none. */
    int64_t sites, local_steps;
    double outer_lr, outer_momentum;
    enum pdl_train_policy on_nan;
    double spike; /* times the mean of the last losses; 0: none */
    double ema;   /* what a moving mean of the weights keeps a step; 0: none */
    const char *checkpoint; /* folder; NULL: none */
    int64_t every;          /* steps between checkpoints; 0: by their cost */
    int keep;
    bool resume;
    bool resume_anyway; /* also where the samples will be others */
    bool beside;        /* in DIR-2 ... where DIR is another run's */
    bool again;         /* started again by `job` after a loss */
    uint64_t job;       /* whoever starts the ranks; 0: nobody */
    double timeout_s;   /* for another rank's part of a checkpoint; 0: 600 */
    uint64_t run; /* tells this start of the job from others, all ranks alike */
    const char *model, *strategy, *data;  /* as written, for the checkpoint */
    const char *weights_in, *weights_out; /* safetensors; NULL: none */
    bool evaluate;    /* no steps: only what the test split says */
    const char *from; /* ... of this checkpoint, or the newest in this folder */
    bool raw_weights; /* ... not of the mean that it may hold */
    const char *split;        /* to test with; NULL: "test" */
    bool partial;             /* weights_in may lack some */
    const char *names_out;    /* style of weights_out; NULL: as loaded */
    int64_t mask_token;       /* of masked tokens; 0: the model's last */
    const char *outputs;      /* safetensors: of the last step; NULL: none */
    bool timings;             /* measure operations; see traced */
    const volatile int *stop; /* becomes not 0: save and stop */
    void (*tell)(void *ctx, const struct pdl_train_line *line); /* rank 0 */
    /* rank 0, at the end: the last step of each rank, and the seconds of each
     * operation in the fastest step (all micro-batches, the slowest rank) */
    void (*traced)(void *ctx, int rank, const struct pdl_train_event *events,
                   int64_t n);
    void (*measured)(void *ctx, const double *seconds);
    void (*at)(void *ctx, enum pdl_ckpt_phase phase); /* tests */
    void *ctx;
};

enum { PDL_TRAIN_CLASSES = 128 }; /* at most, of accuracies by class */
struct pdl_train_summary {
    int64_t steps, epochs, resumed_at;
    double final_loss;
    double test_loss, perplexity, accuracy; /* not a number: no test split */
    int64_t test_samples;
    double samples_per_s, step_s, cpu_s_per_step;
    double fastest_s; /* the step that nothing else on the machine disturbed */
    double io_s;      /* of a step */
    struct pdl_train_memory memory;
    int64_t most_bytes; /* all of it, on the rank that has most */
    double stall_s;     /* that rank 0's steps waited for checkpoints, in all */
    double exchange_s;  /* of a step: waiting for samples of other ranks */
    int64_t exchanged;  /* samples that this rank got from others */
    int64_t store_bytes; /* of this rank's store, at most; 0: none */
    double test_s;       /* seconds of testing, in all */
    int nclasses;        /* of the test split; 0: it has none, or too many */
    double by_class[PDL_TRAIN_CLASSES]; /* accuracy of each; not a number: no
                                           sample */
    bool stopped;
};
/* Trains one rank to the end; collective. */
enum pdl_status pdl_train_run(const struct pdl_train_job *job, pdl_comm *comm,
                              struct pdl_train_summary *out,
                              struct pdl_err *err);

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
    bool forward; /* of the first step: nothing can have fallen either way */
    double share; /* of the part's elements that differ */
    /* a difference in float32, looked at again in float64 */
    bool rechecked, recheck_differs, rounding;
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
};
enum pdl_status pdl_train_compare(const struct pdl_train_comparison *c,
                                  struct pdl_train_diff *out,
                                  struct pdl_err *err);

/* Where oneDNN is built in: before anyone else uses it. The backend cpu does so
 * itself. */
void pdl_train_prepare_dnnl(void);

PDL_END
#endif
