/* Optimizers: the update of a flat run of parameters, the same code for a
 * whole tensor, a shard of it, or a shard of the optimizer's state (ZeRO).
 *
 * LARS and LAMB need norms of whole tensors that a rank may hold a part of:
 * phase one (norms) leaves partial sums of squares, which the caller adds over
 * the ranks that hold the other parts; phase two (apply) takes the totals.
 * The others have no first phase. */
#ifndef TRAIN_OPTIM_H
#define TRAIN_OPTIM_H

#include "train/backends/kernels.h"

enum { TRAIN_MAX_STATES = 2, TRAIN_NORMS = 2 };

/* What the user sets; train_optimizer.defaults has the papers' values. */
struct train_hyper {
    double momentum, dampening; /* sgd, lars */
    bool nesterov;
    double beta1, beta2, eps; /* adam, adamw, lamb */
    double weight_decay;
    double trust; /* lars: eta */
};

/* One step: t counts from 1; the gradient is multiplied by grad_scale (clip
 * factor over loss scale, 1: as it is). */
struct train_step {
    int64_t t;
    double lr, grad_scale;
};

/* n consecutive elements. Weights and states are float32 or float64, the
 * gradient also bfloat16; a bfloat16 copy of the weights is written where
 * copy is not NULL. Fresh states are zero. */
struct train_shard {
    int64_t n;
    enum pdl_dtype dtype, grad_dtype;
    void *w;
    const void *g;
    void *state[TRAIN_MAX_STATES];
    uint16_t *copy;
    bool no_decay; /* biases and norms, where the user wants that */
};

struct train_optimizer {
    const char *name, *summary;
    int nstates;
    struct train_hyper defaults;
    /* Adds partial sums of squares to sums[TRAIN_NORMS]; NULL: none needed. */
    void (*norms)(const struct train_hyper *h, const struct train_step *s,
                  const struct train_shard *x, double *sums);
    /* sums: totals over the tensor; ignored where norms is NULL. */
    void (*apply)(const struct train_hyper *h, const struct train_step *s,
                  const struct train_shard *x, const double *sums);
};

const struct train_optimizer *train_optimizer_at(int i); /* NULL past the end */
const struct train_optimizer *train_optimizer_find(const char *name);
/* "adamw:beta2=0.95,weight_decay=0.1": what is not named has its default. */
enum pdl_status train_optimizer_parse(pdl_arena *a, const char *text,
                                      const struct train_optimizer **how,
                                      struct train_hyper *hyper,
                                      struct pdl_err *err);

/* A step on one weight as work of a device ("update": spans w, g, then what
 * there is of states and copy; "norms" and "squares": a place for the sums
 * before them). Pointers of the shard are the spans. */
struct train_tuning {
    const struct train_optimizer *how;
    struct train_hyper hyper;
    struct train_step step;
    struct train_shard shard;
    double sums[TRAIN_NORMS];
    bool has[3]; /* first, second state, copy */
};

/* ---- gradient clipping, loss scaling ---------------------------------- */

/* Sum of squares of a gradient as it is stored: add over shards and ranks. */
double train_grad_squares(const struct train_shard *x);
/* The factor that brings a gradient of that sum of squares (already divided
 * by the loss scale) to at most `most`; 1 where most is 0. */
double train_clip_factor(double squares, double most);

/* Dynamic loss scale: halves after a step whose gradient was not finite (the
 * step is then left out), doubles after `interval` good ones. */
struct train_scaler {
    double scale;
    int64_t good, interval; /* interval 0: the scale is fixed */
};
void train_scaler_init(struct train_scaler *s, double scale, int64_t interval);
/* False: leave this step out. squares: of the whole gradient. */
bool train_scaler_next(struct train_scaler *s, double squares);

/* ---- schedules -------------------------------------------------------- */

enum train_schedule_kind {
    TRAIN_CONSTANT,
    TRAIN_STEPS,      /* times gamma every `every` steps */
    TRAIN_COSINE,     /* half a cosine from base to last */
    TRAIN_POLYNOMIAL, /* (1 - progress)^power from base to last */
};
/* Warm-up is linear from base / warmup and ends with base; the rest of the
 * schedule starts after it. */
struct train_schedule {
    enum train_schedule_kind kind;
    double base, last;     /* learning rates */
    int64_t warmup, total; /* steps */
    int64_t every;
    double gamma, power; /* 0 reads as 0.1 and 1 */
};
bool train_schedule_find(const char *name, enum train_schedule_kind *out);
double train_schedule_rate(const struct train_schedule *s, int64_t t);

/* ---- inside the optimizers -------------------------------------------- */

enum { TRAIN_CHUNK = 256 };

/* Loops over all weights are compiled for two instruction sets, of which the
 * processor's better one is taken when the program is loaded; without fused
 * products both give the same bits. Such a function is static (clang 14 gives
 * others a name of its own), and what it calls TRAIN_INLINE. ThreadSanitizer
 * cannot be called as early as the choice is made. */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define TRAIN_TARGETS __attribute__((target_clones("avx2", "default")))
#else
#define TRAIN_TARGETS
#endif
#define TRAIN_INLINE static inline __attribute__((always_inline))

/* A piece of a shard in float64. */
struct train_chunk {
    int64_t at, n;
    double w[TRAIN_CHUNK], g[TRAIN_CHUNK], s[TRAIN_MAX_STATES][TRAIN_CHUNK];
};
void train_chunk_load(const struct train_shard *x, const struct train_step *s,
                      int nstates, struct train_chunk *c);
void train_chunk_store_states(const struct train_shard *x, int nstates,
                              const struct train_chunk *c);
void train_chunk_store(const struct train_shard *x, int nstates,
                       const struct train_chunk *c);

extern const struct train_optimizer train_optim_sgd, train_optim_adam,
    train_optim_adamw, train_optim_lars, train_optim_lamb;

#endif
