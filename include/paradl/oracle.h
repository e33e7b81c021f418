/* paradl/oracle.h - what a plan costs on a system: time, communication,
 * memory, and what limits it.
 *
 * The oracle derives nothing of its own: it walks the plan's operations on
 * representative ranks and prices each. Two parametrisations of one model:
 *   ideal      peak rates, one flow's bandwidth, latencies of the routes; the
 *              closed forms of the ParaDL papers come out of it exactly;
 *   empirical  sustained rates, memory-bound operators by bytes, launches,
 *              measured latency and bandwidth, contention of flows that share
 *              a node's adapters. */
#ifndef PARADL_ORACLE_H
#define PARADL_ORACLE_H

#include "paradl/karma.h"
#include "paradl/base.h"
#include "paradl/data.h"
#include "paradl/model.h"
#include "paradl/plan.h"
#include "paradl/system.h"

PDL_BEGIN

enum pdl_parameters { PDL_EMPIRICAL, PDL_IDEAL };

/* ---- frameworks -------------------------------------------------------- */

/* What a framework does besides the plan and what it can run: facts of its
 * code, not of the machine, in a file (frameworks/NAME.yaml, or anybody's own;
 * doc/formats/framework.md). It lives in the arena it was opened in. */
struct pdl_framework;

/* The built-in ones, sorted by name; NULL past the end. text is the YAML. */
const struct pdl_builtin *pdl_framework_builtin(int i);
/* By the name of a built-in, or from a file (NAME.yaml, NAME.yml). */
enum pdl_status pdl_framework_open(pdl_arena *a, const char *name,
                                   const struct pdl_framework **out,
                                   struct pdl_err *err);
enum pdl_status pdl_framework_read(pdl_arena *a, struct pdl_bytes in,
                                   const char *name,
                                   const struct pdl_framework **out,
                                   struct pdl_err *err);
/* Of NULL: "none"; cut by work; 0. */
const char *pdl_framework_name(const struct pdl_framework *f);
const char *pdl_framework_title(const struct pdl_framework *f);
enum pdl_split pdl_framework_split(const struct pdl_framework *f);
double pdl_framework_dropout(const struct pdl_framework *f);

/* A number or a switch that it adds, as its file has it, and why. */
struct pdl_habit {
    const char *key, *value, *what;
    const char *kind; /* counted, profiled or fitted(to what) */
    const char *source;
};
const struct pdl_habit *pdl_framework_habit(const struct pdl_framework *f,
                                            int i); /* NULL past the end */
/* The same of what it can run: key and value alone. */
const struct pdl_habit *pdl_framework_ability(const struct pdl_framework *f,
                                              int i);

/* What it can run. Sets are of 1 << enum; axes have one bit more for a
 * sequence that tensor ranks share. */
enum { PDL_AXIS_SEQUENCE = PDL_NAXES, PDL_MAX_PRODUCTS = 16 };
/* How ranks may lie: as any strategy has its axes; pipe, data, expert, context,
 * tensor; or these and data before pipe. */
enum pdl_rank_orders {
    PDL_ORDERS_ANY,
    PDL_ORDERS_FIXED,
    PDL_ORDERS_DATA_FIRST
};
struct pdl_abilities {
    bool known; /* the file says so: else nothing is refused */
    uint32_t axes[PDL_MAX_PRODUCTS]; /* which go together; others do not */
    int naxes;
    uint32_t zero[4]; /* by stage: the axes beside it; 0: not at all */
    uint32_t schedules, contexts, recompute, precisions, optimizers;
    bool zero_group, by_layer, offload_optimizer, offload_activations;
    bool overlaps; /* always: overlap=off is not to be had */
    enum pdl_rank_orders orders;
    /* vendors or architectures of PEs on which it does not run */
    const char *never_on[PDL_MAX_PRODUCTS];
    int nnever;
    const char *exporter; /* that writes its launch file; NULL: for projection
                             only */
    const char *source;
};
const struct pdl_abilities *pdl_framework_runs(const struct pdl_framework *f);
/* Can it run this? If not, err says what it lacks. NULL runs everything. */
enum pdl_status pdl_framework_can(const struct pdl_framework *f,
                                  const struct pdl_strategy *s,
                                  struct pdl_err *err);
/* Does it compute in that precision, and has it the optimizer with so many
 * state variables a weight? If not, err says what it has. NULL and files that
 * do not say: all. */
enum pdl_status pdl_framework_trains(const struct pdl_framework *f,
                                     enum pdl_precision p, int slots,
                                     struct pdl_err *err);
/* Does it run on such PEs? NULL runs on all. */
bool pdl_framework_on(const struct pdl_framework *f, const struct pdl_pe *pe);
/* The same, and can its launch file say it? Searches find only such plans. */
enum pdl_status pdl_framework_plans(const struct pdl_framework *f,
                                    const struct pdl_strategy *s,
                                    struct pdl_err *err);

struct pdl_own_run;
struct pdl_oracle_options {
    enum pdl_parameters parameters;
    enum pdl_precision precision;
    int optimizer_slots; /* state variables a weight has: SGD 0, momentum 1,
                            Adam 2 */
    int64_t dataset;     /* samples of an epoch; 0: not asked */
    const struct pdl_framework *framework; /* NULL: adds nothing */
    /* of transformers, as the job runs them */
    bool unfused;       /* attention stores its scores (no FlashAttention) */
    bool compile;       /* element-wise operators are fused by a compiler */
    bool async_tensor;  /* tensor collectives hide behind their products */
    double dropout;     /* probability; 0: none */
    int gradient_bytes; /* of one, where they add up; 0: as the weights */
    double congestion;  /* factor on network time by other jobs; 0 reads 1 */
    double congestion_low, congestion_high; /* its range; 0: none is given */
    double headroom;      /* part of a PE's memory that plans leave free */
    uint32_t without;     /* effects left out; see pdl_effect_find */
    const char *left_out; /* a campaign that intervals know nothing of; NULL */
    const struct pdl_own_run *own; /* runs of whoever asks: pdl_anchor_to_own */
    int nown;
    const int64_t *nodes; /* where the job's nodes are in the system; NULL: from
                             the first on */
};

/* A number that an empirical projection rests on: the system's own, or what
 * stands in for it, or the framework's; counted, profiled, fitted(to what),
 * given (by the system, whose sources say more) or guessed. */
struct pdl_basis {
    const char *name;
    double value;
    enum pdl_unit unit;
    const char *kind, *source;
};
/* False past the end. */
bool pdl_basis_at(const struct pdl_system *sys,
                  const struct pdl_oracle_options *opt, int i,
                  struct pdl_basis *out);

/* A named effect of the empirical model; its bit is 1 << i. */
struct pdl_effect {
    const char *name, *summary;
};
const struct pdl_effect *pdl_effect_at(int i); /* NULL past the end */
enum pdl_status pdl_effect_find(const char *name, uint32_t *bit,
                                struct pdl_err *err);

/* Times are of one step, on the critical stage, seconds. */
struct pdl_projection {
    int64_t pes, batch;
    bool feasible;
    const char *reason;   /* "" when feasible */
    double low_s, high_s; /* 80 % interval of step_s; 0: not known */
    double step_s, epoch_s, samples_per_s, tokens_per_s, mfu;
    double forward_s, backward_s, update_s, recompute_s, bubble_s;
    double gradient_comm_s, layer_comm_s, halo_s, p2p_s, exposed_comm_s, io_s;
    double layer_between_s; /* of layer_comm_s: collectives that leave nodes */
    double compute_s, comm_s;
    int64_t allocated_bytes, reserved_bytes, peak_bytes, comm_buffers_bytes;
    int64_t weights_bytes, gradients_bytes, optimizer_bytes;
    int64_t activations_bytes, workspace_bytes, capacity_bytes;
    int64_t host_bytes; /* in the host's memory, for one PE (offload) */
    double flops;       /* of the critical rank, all passes */
    double contention;  /* most flows that shared an adapter, over its share */
    /* the papers' reuse factor: what tensors need at the worst moment over
     * what they would if every layer kept its own (memory=paper, which has no
     * optimizer state); NaN: not known */
    double gamma;
};

enum pdl_status pdl_project(const struct pdl_plan *plan,
                            const struct pdl_system *sys,
                            const struct pdl_oracle_options *opt,
                            struct pdl_projection *out, struct pdl_err *err);

/* 80 % of 83 published runs that say how much memory they had needed no more
 * than this part more or less than projected (doc/accuracy.md). */
#define PDL_MEMORY_ERROR .075
/* It fits as projected, but may not with so much more? */
bool pdl_memory_tight(const struct pdl_projection *x);

/* A part of the step that has an uncertainty of its own, by the name that the
 * system's list has it under ("time.halo"); NULL past the end. */
struct pdl_interval_part {
    const char *name;
    size_t offset; /* of a double, into struct pdl_projection */
};
const struct pdl_interval_part *pdl_interval_part_at(int i);
/* Fills the 80 % interval of a projection by this very plan, system and
 * options: several more projections. Ideal parameters have none. */
void pdl_interval(const struct pdl_plan *plan, const struct pdl_system *sys,
                  const struct pdl_oracle_options *opt,
                  struct pdl_projection *x);

/* Measured runs like a projection. Its key is its features:
 * "framework/architecture/kind/precision/axes/how". */
struct pdl_evidence {
    int runs;          /* share all of them */
    int near;          /* all but how the axes are run */
    int like, other;   /* framework and kind of network; one of the two */
    double error;      /* of the first, or else of the second, the mean of
                        |projected / measured - 1| */
    double half_width; /* of 80 % intervals, in the logarithm */
};
void pdl_evidence_key(const struct pdl_model *model,
                      const struct pdl_strategy *strategy,
                      const struct pdl_system *sys,
                      const struct pdl_oracle_options *opt, char *buf,
                      size_t size);
/* The largest part of the peak that a measured run has on PEs of this
 * architecture; 0: there is none. */
double pdl_evidence_mfu(const struct pdl_pe *pe, enum pdl_precision p);
/* but: a campaign that is left out; NULL: none */
void pdl_evidence_find(const char *key, const char *but,
                       struct pdl_evidence *out);

/* Ranks plans that fit, found by their time: by what 9 of 10 steps are shorter
 * than, which has more to spare where nothing like a plan was measured. Those
 * within PDL_TIE are ties, of which the simplest is first. */
struct pdl_found;
struct pdl_search_options;
enum pdl_status pdl_oracle_rank(const struct pdl_model *model,
                                const struct pdl_system *sys,
                                const struct pdl_oracle_options *oracle,
                                const struct pdl_search_options *opt,
                                struct pdl_found *list, int64_t n,
                                struct pdl_err *err);

/* Own runs that a projection is anchored to (anchor.c). */
struct pdl_own_run {
    const char *key; /* of its evidence */
    double projected_s, measured_s;
};
struct pdl_anchor {
    int runs;          /* that count; 0: none */
    bool alike;        /* they share all features */
    double factor;     /* the median of measured over projected */
    double half_width; /* of 80 % intervals around it, in the logarithm */
};
/* half_width: without them. */
enum pdl_status pdl_anchor_find(pdl_arena *a, const struct pdl_own_run *run,
                                int n, const char *key, double half_width,
                                struct pdl_anchor *out);
/* A projection, anchored to the options' own runs. */
enum pdl_status pdl_anchor_to_own(pdl_arena *a, const struct pdl_plan *plan,
                                  const struct pdl_system *sys,
                                  const struct pdl_oracle_options *opt,
                                  const struct pdl_projection *x,
                                  struct pdl_anchor *out);

/* Seconds of an operation that is a row "run.*" of a profile, as the profile of
 * this PE has it; < 0: it has nothing like it. */
double pdl_profile_estimate(const struct pdl_pe *pe,
                            const struct pdl_profile_row *row);
/* Of an operation that nobody looks at, where looking adds so much to it: never
 * less than a quarter of what was seen. */
double pdl_unwatched(double seconds, double watched_s);

/* What a step draws and costs; 0 where the system does not say. */
struct pdl_bill {
    double energy_j, cost; /* cost in the system's currency */
    bool upper_bound;      /* no idle power is known: peak throughout */
};
void pdl_project_bill(const struct pdl_projection *x,
                      const struct pdl_system *sys, struct pdl_bill *out);

/* ---- an epoch by where its samples come from (answer/epoch.c) ---------- */

enum pdl_epoch_deal {
    PDL_EPOCH_GLOBAL, /* the shared file system, in a new order each epoch */
    PDL_EPOCH_LOCAL,
    PDL_EPOCH_PARTIAL,
    PDL_EPOCH_PAIR
};
struct pdl_epoch_question {
    const struct pdl_data_about *about;
    enum pdl_epoch_deal deal;
    double q;      /* part of its samples that a worker exchanges */
    double hidden; /* part of the samples that is not trained */
};
struct pdl_epoch {
    int64_t workers;
    double epoch_s, compute_s, load_s, read_s;
    double exchange_s, network_s;     /* of a worker; of its messages */
    double stage_s;                   /* once, before the first epoch */
    double stored_bytes, moved_bytes; /* of a worker */
    bool simulated;                   /* network_s */
};
void pdl_epoch_price(const struct pdl_plan *plan, const struct pdl_system *sys,
                     const struct pdl_projection *p,
                     const struct pdl_epoch_question *q, struct pdl_epoch *out);

/* A whole training run on a machine that fails. */
struct pdl_long_run {
    double steps_s;      /* all steps, undisturbed */
    int64_t pes;         /* of the job */
    double mtbf_pe_s;    /* between failures of one PE; 0: none fails */
    double checkpoint_s; /* to save once, while nothing else is done */
    double restart_s;    /* from a failure to going on */
    double straggler;    /* steps are so many times slower; <= 1: no */
};
struct pdl_goodput {
    double train_s; /* expected, all in all */
    double goodput; /* part of it that undisturbed steps take */
    double work_s, straggler_s, saving_s, lost_s, restart_s;
    double mtbf_s, interval_s; /* of the job; between checkpoints */
    double failures;
};
void pdl_goodput(const struct pdl_long_run *q, struct pdl_goodput *out);

/* The same simulated, event by event, with what expected times leave out. Times
 * that follow a mean are exponential; 0: it does not happen. */
struct pdl_interruptions {
    struct pdl_long_run run; /* its straggler: one factor for all steps */
    int64_t spares;          /* nodes that wait */
    double repair_s;         /* mean, of a node; 0: others are always there */
    double manual, manual_s; /* part of failures that wait for a person; mean */
    double interval_s;       /* of work between checkpoints; 0: Daly's */
    double slow_mtbf_pe_s;   /* until a PE turns slow, mean; 0: never */
    double slow_by, found_s; /* factor on steps until it is found, mean */
    int runs;                /* 0: 200 */
    uint64_t seed;
};
/* Means over the runs; the parts and the steps add up to train_s. */
struct pdl_interrupted {
    double train_s, low_s, high_s; /* and what 1 of 10 is below, above */
    double goodput, interval_s;
    double saving_s, lost_s, restart_s, manual_s, waiting_s, slow_s;
    double failures, found; /* found: slow nodes taken out */
};
enum pdl_status pdl_interruptions_simulate(const struct pdl_interruptions *q,
                                           struct pdl_interrupted *out,
                                           struct pdl_err *err);

/* Lays a strategy on the groups of nodes that it names ("pipe=4@new+old"): what
 * it leaves open is filled in, how many ranks by the sizes of the groups and
 * shares of samples by the speeds of their PEs, and out has its nodes in the
 * order of the ranks. Without '@' nothing is done. */
enum pdl_status pdl_strategy_lay(pdl_arena *a, const struct pdl_system *sys,
                                 enum pdl_precision precision, int64_t batch,
                                 struct pdl_strategy *s, struct pdl_system *out,
                                 struct pdl_err *err);
/* Speeds of the PEs of a system that has several kinds, for lowering: stages
 * of a pipeline are then cut in proportion. */
enum pdl_status pdl_speeds(pdl_arena *a, const struct pdl_system *sys,
                           enum pdl_precision precision,
                           struct pdl_plan_options *out, struct pdl_err *err);

/* swap=auto of a strategy becomes clauses of layers that offload: as few as it
 * takes to fit, or all. Nothing to do for others. */
enum pdl_status pdl_swap_settle(pdl_arena *a, const struct pdl_model *model,
                                const struct pdl_system *sys,
                                const struct pdl_oracle_options *oracle,
                                const struct pdl_plan_options *po,
                                struct pdl_strategy *s, struct pdl_err *err);

/* swap=karma of a strategy becomes clauses: which layers keep what backward
 * reads, make it again, or let it wait on the host (paradl/karma.h). */
struct pdl_outofcore {
    int nunits;
    const char *const *names; /* of each unit: its first and its last layer */
    struct pdl_karma karma;   /* the chain, and what was decided */
    struct pdl_karma_plan plan;
    double rest_s;                 /* of a step: update, exchange */
    struct pdl_projection in_core; /* where everything stays */
    struct pdl_projection x;       /* of the whole plan */
};
enum pdl_status pdl_outofcore(pdl_arena *a, const struct pdl_model *model,
                              const struct pdl_system *sys,
                              const struct pdl_oracle_options *oracle,
                              const struct pdl_plan_options *po,
                              struct pdl_strategy *s, struct pdl_outofcore *out,
                              struct pdl_err *err);

/* The same of a strategy as the framework runs it, as pdl_oracle_lower. */
enum pdl_status pdl_oracle_outofcore(
    pdl_arena *a, const struct pdl_model *model, const struct pdl_system *sys,
    const struct pdl_oracle_options *oracle, const struct pdl_plan_options *opt,
    struct pdl_strategy *s, struct pdl_outofcore *out, struct pdl_err *err);

/* How values are kept at a precision. */
enum pdl_dtype pdl_precision_storage(enum pdl_precision p);
/* A strategy as the framework runs it on the system, which is written back to
 * `s`, and its plan: how stages are cut and the type of values follow from the
 * options of the oracle, whatever `opt` says. sys NULL: for no system. */
enum pdl_status pdl_oracle_lower(
    pdl_arena *a, const struct pdl_model *model, const struct pdl_system *sys,
    const struct pdl_oracle_options *oracle, const struct pdl_plan_options *opt,
    struct pdl_strategy *s, const struct pdl_plan **out, struct pdl_err *err);

/* Prices strategies of one network one after the other, and keeps what they
 * have in common: transformers of equal blocks a thousand a second and more.
 * The model, and what the options name, must stay. */
typedef struct pdl_pricer pdl_pricer;
pdl_pricer *pdl_pricer_create(const struct pdl_model *model,
                              const struct pdl_oracle_options *opt);
void pdl_pricer_destroy(pdl_pricer *p); /* NULL is allowed */
/* The projection of the plan that pdl_oracle_lower makes of it, to 1e-9 of the
 * step and to the byte, on as many nodes as it takes; gamma is NaN. False: it
 * has to be lowered, which says why if it is refused. */
bool pdl_pricer_project(pdl_pricer *p, const struct pdl_system *sys,
                        const struct pdl_plan_options *plan,
                        const struct pdl_strategy *s,
                        struct pdl_projection *out);

/* The most PEs that one axis alone can have, and what stops one more. */
struct pdl_axis_limit {
    const char *axis, *reason; /* "" where no number was refused */
    int64_t most;
};
enum { PDL_AXIS_LIMITS = 8 };
/* One row for each axis that the model has a use for (two PEs or more). */
enum pdl_status pdl_axis_limits(pdl_arena *a, const struct pdl_model *model,
                                int64_t batch, struct pdl_axis_limit *out,
                                int *n, struct pdl_err *err);

/* ---- search ------------------------------------------------------------ */

/* What the framework makes of a strategy: some split convolutions only. */
void pdl_framework_adapt(const struct pdl_framework *f,
                         const struct pdl_model *model, struct pdl_strategy *s);

enum pdl_goal {
    PDL_GOAL_TIME,
    PDL_GOAL_MEMORY,
    PDL_GOAL_ENERGY,
    PDL_GOAL_COST,
    PDL_GOAL_PARETO /* all that nothing beats in both time and memory */
};

/* May plans use the host's memory? ASKED: as the space has it, for all layers
 * alike; AUTO: also block by block, recomputation among it (swap=karma), of
 * every strategy of one stage. */
enum pdl_offload { PDL_OFFLOAD_ASKED, PDL_OFFLOAD_AUTO, PDL_OFFLOAD_NONE };

struct pdl_search_options {
    int64_t pes, batch;
    enum pdl_offload offload;
    bool allow_empty;
    const char *axes; /* only these: "data,pipe"; NULL: all */
    int most_zero;    /* stages of ZeRO at most; 0: all */
    bool basic;       /* what most planners have: no schedules without bubbles,
                         no sharding inside nodes, no tensor axis wider than
                         the heads of keys */
    enum pdl_goal goal;
    int64_t top;     /* of a large space so many are kept; 0: 20 */
    bool exhaustive; /* prices also what a bound excludes */
    bool one_order;  /* the best are not priced in other orders of their axes */
    bool uncounted;  /* how many fit is not asked: what is too slow is not
                        looked at further */
    /* only whether anything fits: of a large space the plans that hold least
     * are looked at, until one does (no interleaving, no zero-bubble schedule:
     * both have more in flight); nothing is priced, `feasible` says it */
    bool only_fits;
    int threads; /* 0: all cores */
    /* called now and then; false stops the search. NULL: none */
    bool (*progress)(void *ctx, int64_t done, int64_t total);
    void *ctx;
};

struct pdl_found {
    const char *strategy;
    bool priced;
    const char *excluded; /* the limit it breaks; NULL: none */
    struct pdl_projection x;
    double goal; /* what is counted */
    /* of pdl_oracle_rank */
    double high_s; /* 9 of 10 steps are shorter */
    int tie;       /* from 1: those of one number cannot be told apart; 0: not
                      ranked */
    int runs;      /* measured, that share all its features */
    double anchored_s; /* what a step takes by own runs; 0: there are none */
};

/* Plans whose steps are projected to be less than this apart are as likely to
 * be in the other order: of 526 pairs of measured runs (one model, machine and
 * batch) 56 % are in order, of those 3 to 6 % apart 73 %
 * (tests/oracle/campaigns.py). */
#define PDL_TIE .03

/* What a search chooses from: "recompute", "none|selective|full". */
struct pdl_space_axis {
    const char *name, *values;
};

/* Of a small space every strategy is listed, with what excludes it. A large
 * one (transformers of equal blocks) is priced from pieces, which gives the
 * same figures; only the best are listed, priced once more as whole plans.
 * Points are evaluated (priced in full) or pruned: refused by a limit, too
 * large for the memory, or slower than the best even where all that is not
 * computation and the messages of layers were free. */
struct pdl_search_result {
    struct pdl_found *list; /* best first */
    int64_t n, evaluated, pruned, feasible;
    int64_t points, refused, too_large, too_slow;
    int64_t unasked; /* of too_slow: so slow that whether they fit is not
                        known; `feasible` is of the others */
    /* Of those too large for a PE or a host: which is so by least, and how many
     * times; 0: not known. */
    struct pdl_projection closest;
    double over;
    int64_t pieces;  /* small plans that points were composed of */
    double pieces_s; /* seconds it took to price them, over all threads */
    int64_t decided; /* strategies whose blocks were decided on (AUTO) */
    int64_t orders, reordered; /* other orders of the axes of the best that were
                                  priced; plans that are better in one */
    int naxes;                 /* 0: a small space */
    const struct pdl_space_axis *axes;
    bool stopped; /* before all were priced */
};

/* Prices every strategy of the model's space on opt->pes PEs. The system must
 * have that many (pdl_system_for_pes). */
enum pdl_status pdl_search(pdl_arena *a, const struct pdl_model *model,
                           const struct pdl_system *sys,
                           const struct pdl_oracle_options *oracle,
                           const struct pdl_search_options *opt,
                           struct pdl_search_result *out, struct pdl_err *err);

/* ---- a strategy for each layer ----------------------------------------- */

struct pdl_layers_result {
    struct pdl_found best;    /* layered if that is better, else uniform */
    struct pdl_found uniform; /* the best of pdl_search */
    struct pdl_found layered; /* the best with a choice for each layer */
    bool better;              /* layered is, as a whole plan */
    /* What the parts of `layered` add up to, with gradient exchange hidden
     * and with all of it exposed: the bounds between which its step lies, but
     * for what is shared between layers. */
    double hidden_s, exposed_s;
    int units, classes;     /* layers that choose; different ones */
    int candidates, pairs;  /* strategies to choose from; neighbours */
    int clauses;            /* of layered */
    int64_t lowered, moves; /* parts and redistributions priced */
    int pipelines;          /* whose stages were chosen too */
    int tried;              /* whole plans that were compared */
    bool exact;   /* no choice was left out: the graph is series-parallel, and
                   of a pipeline all labels were kept */
    bool limited; /* switches cost more, to fit into the notation */
    bool stopped;
};

/* The best assignment of strategies to layers: dynamic programming over the
 * graph of layers, on costs of lowered parts and of the redistributions
 * between them. For the pipelines of the best uniform plans the stages, and
 * for each block whether to keep, to recompute or to offload what backward
 * reads, are chosen together with the strategies. The answers of several
 * weights of gradient exchange (none to all of it exposed) are priced as whole
 * plans, and the best that fits into memory is returned beside the best uniform
 * one. By time only. Same answer on any number of threads. */
enum pdl_status pdl_search_layers(pdl_arena *a, const struct pdl_model *model,
                                  const struct pdl_system *sys,
                                  const struct pdl_oracle_options *oracle,
                                  const struct pdl_search_options *opt,
                                  struct pdl_layers_result *out,
                                  struct pdl_err *err);

/* ---- where ranks go ---------------------------------------------------- */

struct pdl_place_job {
    const struct pdl_model *model;
    const struct pdl_system *system; /* with room for every node named below */
    const struct pdl_strategy *strategy;
    const struct pdl_plan_options *plan;
    const struct pdl_oracle_options *oracle;
    int64_t nnodes;       /* of the job: PEs over those of a node, rounded up */
    const int64_t *nodes; /* which nodes of the system they are */
};
/* The best order of axes and nodes. */
struct pdl_placement {
    double given_s, step_s;       /* as written; the best */
    struct pdl_strategy strategy; /* axes in the best order */
    int *node; /* k-th node of the mesh: its place in the job's list */
    int64_t tried;
};
enum pdl_status pdl_place(pdl_arena *a, const struct pdl_place_job *job,
                          struct pdl_placement *out, struct pdl_err *err);
/* The PE, counted along the nodes of the placement, that a rank of the
 * strategy as it was given goes to. */
int64_t pdl_placed(const struct pdl_strategy *given,
                   const struct pdl_placement *p, int64_t rank);

/* ---- one kernel by its shape (empirical) --------------------------------- */

enum pdl_shape_kind {
    PDL_SHAPE_STREAM,     /* bytes moved, nothing else */
    PDL_SHAPE_MATMUL,     /* y[n, f] = x[n, c] w[c, f], groups of them */
    PDL_SHAPE_CONV,       /* n samples, c channels, f filters */
    PDL_SHAPE_ATTENTION,  /* n samples, groups = heads, c = size of a head,
                            in[0] queries, out[0] keys */
    PDL_SHAPE_BATCH_NORM, /* bytes of the activation; n rows of c channels,
                            or 0 where that is not known */
    PDL_SHAPE_LAYER_NORM, /* the same, in n rows of c items */
};

/* The local operation: what is left to one PE after the split. */
struct pdl_shape {
    enum pdl_shape_kind kind;
    enum pdl_pass pass;
    enum pdl_precision precision;
    int64_t n, c, f, groups;
    int nspatial;
    int64_t in[3], out[3], kernel[3], stride[3];
    bool causal;
    double seen;  /* ATTENTION: part of all scores; 0: half if causal */
    double bytes; /* STREAM, BATCH_NORM, LAYER_NORM */
};

/* Device seconds of one kernel of this shape; 0 for an empty shape. */
double pdl_shape_seconds(const struct pdl_pe *pe, const struct pdl_shape *s);

/* ---- measured against projected ---------------------------------------- */

/* What to take of a file of measurements: "model=vgg16*,axes=serial|data":
 * "," is and, "|" is or, values are globs. */
struct pdl_row_filter {
    int n;
    const char *key[8], *value[8]; /* value with its "|" */
};
enum pdl_status pdl_row_filter_parse(pdl_arena *a, const char *text,
                                     const char *const *keys,
                                     struct pdl_row_filter *out,
                                     struct pdl_err *err);
/* Does a row whose key has this value stay? */
bool pdl_row_filter_has(const struct pdl_row_filter *s, const char *key,
                        const char *value);

/* One measured time of one layer (schema paradl.layers/1). */
struct pdl_layer_time {
    const char *model, *layer, *op, *pass, *split, *dtype; /* "" when none */
    int64_t parts;
    struct pdl_shape shape;
    double measured_s;
};
struct pdl_layer_times {
    struct pdl_layer_time *row;
    int n;
};
enum pdl_status pdl_layers_read(pdl_arena *a, const struct pdl_doc *doc,
                                const struct pdl_row_filter *select,
                                struct pdl_layer_times *out,
                                struct pdl_err *err);
/* As it was measured: the kernel and the framework's call around it. */
double pdl_layer_seconds(const struct pdl_pe *pe,
                         const struct pdl_layer_time *row);

/* One measured training step (schema paradl.runs/1). Texts as the command line
 * takes them; NULL or 0 where the file has none. */
struct pdl_run {
    const char *id, *set, *model, *system, *strategy, *precision, *optimizer,
        *framework, *attention, *dropout, *gradient_dtype;
    const char *axes; /* those larger than 1: "data+filter", "serial" */
    int64_t batch;
    bool compile, async_tensor;
    double step_s, compute_s, comm_s;
    double allocated_bytes, reserved_bytes, device_bytes;
    double resident_bytes; /* weights, gradients and optimizer between steps */
    double stage0_reserved_bytes; /* of a PE of the first stage */
    bool tried, fits; /* does the file say whether it ran out of memory? */
};
struct pdl_runs {
    struct pdl_run *run;
    int n;
};
extern const char *const pdl_run_keys[]; /* to select by; NULL ends them */
enum pdl_status pdl_runs_read(pdl_arena *a, const struct pdl_doc *doc,
                              const struct pdl_row_filter *select,
                              struct pdl_runs *out, struct pdl_err *err);
/* "data+filter": the axes of a strategy that are larger than 1. */
const char *pdl_strategy_axes(pdl_arena *a, const char *strategy);

/* Pairs of runs of one network on as many PEs by different axes, whose
 * samples per second differ by more than `least`: in how many is the one
 * projected to be faster the faster? */
struct pdl_ranking {
    int pairs, right;
};
void pdl_rank_pairs(const struct pdl_run *const *run, const int64_t *pes,
                    const double *projected_s, int n, double least,
                    struct pdl_ranking *out);

/* ---- a step as PyTorch's profiler saw it ------------------------------- */

enum pdl_kineto_phase {
    PDL_KINETO_COMPUTE,
    PDL_KINETO_UPDATE,
    PDL_KINETO_COLLECTIVE, /* waits for the slowest rank included */
    PDL_KINETO_P2P,
    PDL_KINETO_COPY,
    PDL_KINETO_PHASES
};
enum { PDL_KINETO_CLASSES = 16, PDL_KINETO_ROWS = 8 };

/* Seconds are of one step, calls of the whole trace. */
struct pdl_kineto_class {
    const char *name;
    enum pdl_kineto_phase phase;
    int64_t calls;
    double seconds;
};
struct pdl_kineto {
    int64_t events, kernels, steps;
    bool marked; /* steps are: else the whole trace is taken to be one */
    double step_s, exposed_s, idle_s;
    double phase_s[PDL_KINETO_PHASES];
    int nclasses;
    struct pdl_kineto_class of[PDL_KINETO_CLASSES];
};
enum pdl_status pdl_kineto_read(const char *path, struct pdl_kineto *out,
                                struct pdl_err *err);
enum pdl_status pdl_kineto_bytes(struct pdl_bytes in, const char *name,
                                 struct pdl_kineto *out, struct pdl_err *err);

/* Projected and measured, phase by phase; the number of rows. */
struct pdl_kineto_row {
    const char *name;
    double projected_s, measured_s;
};
int pdl_kineto_join(const struct pdl_kineto *k, const struct pdl_projection *x,
                    struct pdl_kineto_row *out);

/* ---- fitting named parameters ------------------------------------------ */

/* A parameter of a system that a fit may move, within bounds. */
struct pdl_fit_param {
    const char *name; /* dotted, as in the file */
    size_t offset;    /* of a double, into struct pdl_system */
    double low, high, start;
    double prior;  /* weight of log(value / start)^2 beside the error: what
                      the rows do not identify stays where it is known to be */
    double spread; /* standard deviation of log(start), for the posterior */
};
enum { PDL_FIT_MAX = 32 };
/* What is known of a start before any measurement: within this factor in 80 %
 * of cases. Stated. */
#define PDL_PRIOR_FACTOR  1.5
#define PDL_IN_80_PERCENT 1.2816 /* deviations of a normal distribution */
struct pdl_fit_result {
    double before, after; /* the error, as the caller counts it */
    double misfit; /* -2 log of the posterior density, but for a constant:
                             of two models, how much less says by how much the
                             one is more likely (6: strong, 10: very strong
                             evidence, Kass and Raftery 1995) */
    int evaluations;
    double value[PDL_FIT_MAX];
    /* how much the error grows when the parameter is off by a quarter; where
     * that is within one standard error, the rows do not identify it */
    double sensitivity[PDL_FIT_MAX];
    bool identified[PDL_FIT_MAX];
};
typedef double (*pdl_fit_cost)(const struct pdl_system *sys, void *ctx);
/* Deterministic search along one parameter after the other, steps in
 * proportion to the value; `rows` measurements make up the error. Changes
 * sys. posterior: the largest one, where starts are known within their spread
 * and rows within 2 %; else the least error, and what the rows do not identify
 * keeps its start. */
void pdl_fit_system(struct pdl_system *sys, const struct pdl_fit_param *param,
                    int n, pdl_fit_cost cost, void *ctx, int rows,
                    bool posterior, struct pdl_fit_result *out);
/* How well a fit's parameters are known together (fit_spread.c): independent
 * moves of their logarithms, each as far as 80 % of cases go, and how far each
 * parameter goes in all of them. */
struct pdl_fit_moves {
    double move[PDL_FIT_MAX][PDL_FIT_MAX]; /* of each move, each parameter */
    double spread[PDL_FIT_MAX];
};
void pdl_fit_moves(struct pdl_system *sys, const struct pdl_fit_param *param,
                   int n, pdl_fit_cost cost, void *ctx, int rows,
                   struct pdl_fit_moves *out);
/* Every parameter where it starts. */
void pdl_fit_reset(struct pdl_system *sys, const struct pdl_fit_param *param,
                   int n);
/* The parameters that training steps can identify; NULL past the end. */
const struct pdl_fit_param *pdl_fit_run_param(int i);
/* The parameters that layer times can identify; NULL past the end. */
const struct pdl_fit_param *pdl_fit_layer_param(int i);

/* How well projected times match measured ones. */
struct pdl_time_match {
    int n;
    double accuracy;           /* mean of 1 - |p - m| / m */
    double mape, median, bias; /* of p / m - 1: mean and median size, median */
    double spearman;
};
enum pdl_status pdl_match_times(pdl_arena *a, const double *projected,
                                const double *measured, int n,
                                struct pdl_time_match *out);

/* One operation's price, for --layers and --trace. */
struct pdl_op_price {
    double seconds;
    int level;    /* of the system that a collective crosses; -1: none */
    double flows; /* that leave a block of PEs at a time ... */
    int at;       /* ... of this level; 0: a node */
};
void pdl_price_op(const struct pdl_plan *plan, const struct pdl_system *sys,
                  const struct pdl_oracle_options *opt, int op,
                  struct pdl_op_price *out);
/* Of all operations (a FREE costs nothing); equal ones are looked at once. */
enum pdl_status pdl_price_ops(const struct pdl_plan *plan,
                              const struct pdl_system *sys,
                              const struct pdl_oracle_options *opt,
                              struct pdl_op_price *out, struct pdl_err *err);

/* Seconds of buckets of these many bytes, exchanged as operation `op` (an
 * allreduce of gradients) would be, by this algorithm (NULL: the quickest) or
 * compressed so; infinite where the algorithm does not run on such a group. And
 * of these, those in which the PE itself codes. */
void pdl_exchange_seconds(const struct pdl_plan *plan,
                          const struct pdl_system *sys,
                          const struct pdl_oracle_options *opt, int op,
                          const char *algorithm, const char *compress,
                          const double *bytes, int n, double *seconds,
                          double *coding);

/* ---- who shares what --------------------------------------------------- */

/* Collectives of one kind on one set of mesh factors: how many of their flows
 * leave a block of PEs (a node, a leaf, a rack) at a time, and what that does
 * to each. */
struct pdl_contention {
    int op;                 /* the first of them */
    bool gradient;          /* after backward */
    int64_t count, members; /* operations of a step; ranks of a group */
    int level;              /* of the system that they cross */
    int at;                 /* level of the block that is left; 0: a node */
    double groups;          /* flows that share its uplinks */
    double adapters;        /* of it: a node's, or what its nodes have, thinned
                               by over-subscription */
    double phi;     /* time of a byte over that of a group alone, 1: none */
    double seconds; /* of a step, busy */
};
/* One row for each, in the order of the plan; derived from the mesh, the
 * placement of ranks on nodes and the uplinks of the system's levels, never
 * given. */
struct pdl_contentions {
    int n;
    const struct pdl_contention *row;
};
enum pdl_status pdl_contention(pdl_arena *a, const struct pdl_plan *plan,
                               const struct pdl_system *sys,
                               const struct pdl_oracle_options *opt,
                               struct pdl_contentions *out,
                               struct pdl_err *err);

/* ---- when ---------------------------------------------------------------- */

/* One operation of one micro-batch, as the projection's own simulation ran
 * it. Operations that take no time are left out. */
struct pdl_event {
    int op, stage;
    int64_t micro; /* -1: once a step (gradient exchange, update) */
    double start_s, seconds;
};
struct pdl_timeline {
    int64_t n;
    const struct pdl_event *events; /* by stage, then in program order */
};
/* Every event of a step; refused where they would be more than a few
 * million. */
enum pdl_status pdl_timeline(pdl_arena *a, const struct pdl_plan *plan,
                             const struct pdl_system *sys,
                             const struct pdl_oracle_options *opt,
                             struct pdl_timeline *out, struct pdl_err *err);

/* ---- where ------------------------------------------------------------- */

/* Memory of the fullest PE of each lane of the pipeline (one lane where there
 * is none): projections with their memory filled and nothing else. The fullest
 * of them is the step's. */
struct pdl_lane_memory {
    int n;
    const struct pdl_projection *lane;
};
enum pdl_status pdl_lane_memory(pdl_arena *a, const struct pdl_plan *plan,
                                const struct pdl_system *sys,
                                const struct pdl_oracle_options *opt,
                                struct pdl_lane_memory *out,
                                struct pdl_err *err);

/* Bytes that every link of the network carries in a step (nlinks of them are
 * written), rank r on host r, so many to a node: rings in the order of ranks,
 * one for each that a group has in a node, as the prices count them; messages
 * between stages, and what halos and all-to-alls move. A group is taken to send
 * what the first of its lane sends. */
struct pdl_net;
enum pdl_status pdl_link_traffic(pdl_arena *a, const struct pdl_plan *plan,
                                 const struct pdl_net *net, int64_t per_node,
                                 int64_t *bytes, struct pdl_err *err);

/* ---- why ---------------------------------------------------------------- */

/* Limits are inherent in the strategy, bottlenecks are the system's or the
 * software's (the ParaDL report's table of findings). */
enum pdl_limit_kind { PDL_LIMIT, PDL_BOTTLENECK };

struct pdl_limit {
    const char *id; /* "gradient-exchange"; the table is in explain.c */
    enum pdl_limit_kind kind;
    const char *phase; /* of the step, or "memory", "scaling" */
    double share;      /* of the step, of the memory, or of the limit */
    const char *text;  /* one sentence: numbers, and what would help */
};

/* The step with `factor` times as much of a resource (latencies: divided):
 * flops, memory_bw, memory, link:<level>, latency:<level>. */
struct pdl_gain {
    const char *resource;
    double factor, step_s;
    bool feasible;
};

/* Largest share first; gains in the order of the resources. */
struct pdl_explanation {
    int nlimits, ngains;
    const struct pdl_limit *limits;
    const struct pdl_gain *gains;
};

/* What holds the projection `x` of this plan back, from its numbers, and what
 * 10 % more of each resource would give: the plan is priced again on a changed
 * copy of the system. */
enum pdl_status pdl_explain(pdl_arena *a, const struct pdl_plan *plan,
                            const struct pdl_system *sys,
                            const struct pdl_oracle_options *opt,
                            const struct pdl_projection *x,
                            struct pdl_explanation *out, struct pdl_err *err);

PDL_END
#endif
