/* What a job is made of. */
#ifndef JOB_PRIV_H
#define JOB_PRIV_H

#include "paradl/job.h"

#include <stdatomic.h>

/* X(id, "name", kind, depends, choices, summary). kind: TEXT, COUNT (from 1),
 * FLAG (yes or no). What has to be made again when it changes: SOURCE (model,
 * system), TERMS (options of the oracle), PLAN, SEARCH (nothing that is
 * kept). */
// clang-format off
#define JOB_SETTINGS(X) \
    X(MODEL, "model", TEXT, SOURCE, NULL, "a network of the zoo or a file") \
    X(DIM, "dim", TEXT, SOURCE, NULL, "symbolic dimensions: NAME=N,...") \
    X(LOSS, "loss", TEXT, SOURCE, "cross-entropy|smoothed|mean-squares", \
      "what is trained for; not set: the model as it is") \
    X(SYSTEM, "system", TEXT, SOURCE, NULL, "a built-in system or a YAML file") \
    X(PES, "pes", COUNT, TERMS, NULL, "processing elements (PEs) to use") \
    X(PLAN, "plan", TEXT, SOURCE, NULL, "a plan file, instead of a strategy") \
    X(PARAMETERS, "parameters", TEXT, TERMS, "ideal|empirical", "peak rates, or sustained ones") \
    X(PRECISION, "precision", TEXT, TERMS, "fp64|fp32|tf32|bf16|fp16|fp8|mxfp8|fp4|nvfp4", "of the arithmetic") \
    X(OPTIMIZER, "optimizer", TEXT, TERMS, "sgd|adam", "sgd has momentum") \
    X(FRAMEWORK, "framework", TEXT, TERMS, NULL, "whose habits to add") \
    X(ATTENTION, "attention", TEXT, TERMS, "flash|unfused", "are scores kept?") \
    X(DROPOUT, "dropout", TEXT, TERMS, NULL, "its probability") \
    X(GRADIENT_DTYPE, "gradient-dtype", TEXT, TERMS, "fp32|bf16|fp16", "what gradients add up in") \
    X(HEADROOM, "headroom", TEXT, TERMS, NULL, "memory of a PE to leave free: 5%") \
    X(CONGESTION, "congestion", TEXT, TERMS, NULL, "factor on network time: 1..1.5") \
    X(WITHOUT, "without", TEXT, TERMS, NULL, "effects of the model to leave out") \
    X(DATASET, "dataset", COUNT, TERMS, NULL, "samples of an epoch") \
    X(COMPILE, "compile", FLAG, TERMS, "yes|no", "element-wise operators are fused") \
    X(ASYNC_TENSOR, "async-tensor", FLAG, TERMS, "yes|no", "tensor collectives hide") \
    X(STRATEGY, "strategy", TEXT, PLAN, NULL, "how to parallelise: data=8") \
    X(BATCH, "batch", COUNT, PLAN, NULL, "samples of a step over all PEs") \
    X(ALLOW_EMPTY, "allow-empty", FLAG, PLAN, "yes|no", "admit empty parts") \
    X(GOAL, "goal", TEXT, SEARCH, "time|memory|energy|cost|pareto", "what is best") \
    X(AXES, "axes", TEXT, SEARCH, NULL, "search these axes only: data,pipe") \
    X(TOP, "top", COUNT, SEARCH, NULL, "strategies to keep of a large space") \
    X(THREADS, "threads", COUNT, SEARCH, NULL, "of a search; not set: all cores") \
    X(BASIC, "basic", FLAG, SEARCH, "yes|no", "what most planners have") \
    X(EXHAUSTIVE, "exhaustive", FLAG, SEARCH, "yes|no", "price what a bound excludes") \
    X(OFFLOAD, "offload", TEXT, SEARCH, "auto|none", "decide by block what is kept, made again, or waits on the host; or use no host") \
    X(ONE_ORDER, "one-order", FLAG, SEARCH, "yes|no", "keep the order of axes") \
    X(UNCOUNTED, "uncounted", FLAG, SEARCH, "yes|no", "do not count what fits") \
    X(ONLY_FITS, "only-fits", FLAG, SEARCH, "yes|no", "ask only whether anything fits")
// clang-format on

enum job_setting {
#define X(id, name, kind, depends, choices, summary) JOB_##id,
    JOB_SETTINGS(X)
#undef X
        JOB_NSETTINGS
};

/* What is there, each with all before it. */
enum job_state { JOB_EMPTY, JOB_LOADED, JOB_SETTLED, JOB_LOWERED, JOB_PRICED };

struct pdl_job {
    char *text[JOB_NSETTINGS];
    int64_t count[JOB_NSETTINGS]; /* of counts and flags; 0: not set, no */
    enum job_state state;
    pdl_arena *source, *step, *found; /* model, system; plan; search */
    const struct pdl_model *model;
    const struct pdl_system *given; /* instead of the setting; NULL: none */
    const struct pdl_own_run *own;
    int nown;
    struct pdl_system base, sys; /* as loaded; with as many PEs as it takes */
    bool has_system;
    struct pdl_oracle_options oracle;
    struct pdl_strategy *asked, *strategy; /* as given; as it is run */
    struct pdl_plan_head head;             /* of the plan file, */
    const struct pdl_plan *file;           /* and its plan; NULL: none */
    const struct pdl_plan *plan;
    struct pdl_projection x;
    pdl_pricer *pricer; /* of what is settled; NULL: not yet */
    pdl_job_progress progress;
    void *ctx;
    atomic_bool cancelled;
};

/* settle.c: does a text that is more than a name mean something? */
enum pdl_status job_check_term(enum job_setting i, const char *text,
                               struct pdl_err *err);
/* settle.c: the options of the oracle from the texts. */
enum pdl_status job_settle(pdl_job *j, struct pdl_err *err);
/* make.c: what was settled is so no longer. */
void job_unsettle(pdl_job *j);
/* PDL_EINTR where the job was cancelled. */
enum pdl_status job_may(const pdl_job *j, struct pdl_err *err);

#endif
