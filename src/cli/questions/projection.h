/* What the commands that project are asked, by the same options, and the job
 * that answers. */
#ifndef CLI_PROJECTION_H
#define CLI_PROJECTION_H

#include "cli/cli_priv.h"

#include "paradl/job.h"
#include "paradl/system.h"

/* What these commands are asked, by the same options. */
struct cli_question {
    const char *model, *system, *strategy, *parameters, *optimizer, *precision,
        *dim, *framework, *without, *congestion, *attention, *dropout,
        *gradient_dtype, *headroom, *loss, *memory, *offload;
    const char *dataset;
    int64_t batch, pes;
    bool allow_empty, compile, async_tensor;
};

/* The options that every command with a cli_question takes, in a table whose
 * struct has it as member q. */
// clang-format off
#define CLI_SYSTEM_OPT \
    {"system", 0, PDL_OPT_TEXT, offsetof(struct options, q.system), "SYSTEM", NULL, \
     "a built-in system, one with parameters, or a YAML file"}
/* One strategy on one batch. */
#define CLI_PLAN_OPTS CLI_SYSTEM_OPT, \
    {"strategy", 0, PDL_OPT_TEXT, offsetof(struct options, q.strategy), "STRATEGY", NULL, \
     "how to parallelise, e.g. data=16,filter=4"}, \
    {"batch", 0, PDL_OPT_COUNT, offsetof(struct options, q.batch), "B", NULL, \
     "samples of one step, over all PEs"}
/* What is found, for another program. */
#define CLI_EXPORT_OPTS(what) \
    {"export", 0, PDL_OPT_TEXT, offsetof(struct options, export), "FORMAT", \
     "megatron|deepspeed|torchtitan|torchtitan-toml|accelerate|nanotron|paradl|sbatch|pipeline-csv", what}, \
    {"output", 'o', PDL_OPT_TEXT, offsetof(struct options, output), "FILE", NULL, \
     "where that file goes"}
/* Runs that its user measured. */
#define CLI_EVIDENCE_OPT(what) \
    {"evidence", 0, PDL_OPT_TEXT, offsetof(struct options, evidence), "RUNS.json", NULL, what}
#define CLI_QUESTION_OPTS \
    {"parameters", 0, PDL_OPT_TEXT, offsetof(struct options, q.parameters), "KIND", "ideal|empirical", \
     "peak rates, or sustained and measured ones (default)"}, \
    {"optimizer", 0, PDL_OPT_TEXT, offsetof(struct options, q.optimizer), "NAME", "sgd|adam", \
     "sgd with momentum, or adam (default by kind of model)"}, \
    {"precision", 0, PDL_OPT_TEXT, offsetof(struct options, q.precision), "NAME", \
     "fp32|tf32|bf16|fp16|fp8|mxfp8|fp4|nvfp4", \
     "of the arithmetic (default: fp32 for CNNs, bf16 for transformers, else what PE and framework have)"}, \
    {"congestion", 0, PDL_OPT_TEXT, offsetof(struct options, q.congestion), "LOW..HIGH", NULL, \
     "factor on network time by other jobs, as a range (default: none)"}, \
    {"framework", 0, PDL_OPT_TEXT, offsetof(struct options, q.framework), "FRAMEWORK", NULL, \
     "whose habits to add: pytorch, megatron, chainermnx, ... (default: none; of " \
     "plan and fit-in by kind of model and PE)"}, \
    {"attention", 0, PDL_OPT_TEXT, offsetof(struct options, q.attention), "KIND", "flash|unfused", \
     "keep no scores (default), or products, softmax and scores apart"}, \
    {"dropout", 0, PDL_OPT_TEXT, offsetof(struct options, q.dropout), "X", NULL, \
     "its probability (default: the framework's)"}, \
    {"gradient-dtype", 0, PDL_OPT_TEXT, offsetof(struct options, q.gradient_dtype), "NAME", \
     "fp32|bf16|fp16", "what gradients add up in (default: as the weights)"}, \
    {"headroom", 0, PDL_OPT_TEXT, offsetof(struct options, q.headroom), "PERCENT", NULL, \
     "memory of a PE that a plan must leave free (default: 0; of plan and fit-in for a " \
     "framework other than own 10%)"}, \
    {"memory", 0, PDL_OPT_TEXT, offsetof(struct options, q.memory), "SIZE", NULL, \
     "memory of a PE, e.g. 12GiB (default: the system's)"}, \
    {"compile", 0, PDL_OPT_FLAG, offsetof(struct options, q.compile), NULL, NULL, \
     "element-wise operators are fused by a compiler"}, \
    {"async-tensor", 0, PDL_OPT_FLAG, offsetof(struct options, q.async_tensor), NULL, NULL, \
     "tensor collectives hide behind their products"}, \
    {"dataset", 0, PDL_OPT_TEXT, offsetof(struct options, q.dataset), "D", NULL, \
     "samples of an epoch, to project its time: their number, a name (imagenet) " \
     "or a description FILE.yaml"}, \
    {"dim", 0, PDL_OPT_TEXT, offsetof(struct options, q.dim), "NAME=N,...", NULL, \
     "bind symbolic dimensions of the model"}
// clang-format on

/* The longest step that anybody measures: as in files of runs. */
static const double CLI_LONGEST_S = 1e9;

/* A job, and what it has made so far. */
struct cli_job {
    pdl_job *job;
    struct pdl_system sys;
    struct pdl_strategy asked,
        strategy; /* as given; as the framework runs it */
    const struct pdl_model *model;
    const struct pdl_plan *plan;
    struct pdl_oracle_options oracle;
    struct pdl_projection x;
};

/* A job with the settings of a question, its model and system loaded; to be
 * closed, whatever it returns. */
enum pdl_status cli_job_open(const struct cli_question *q, struct cli_job *j,
                             struct pdl_err *err);
/* Takes over what its job has made by now. */
void cli_job_take(struct cli_job *j);
/* A variant of a job that is open, to be closed before it. */
enum pdl_status cli_job_fork(const struct cli_job *j, struct cli_job *out,
                             struct pdl_err *err);
void cli_job_close(struct cli_job *j);
/* Lowers and prices one strategy; of the question, batch and number of PEs may
 * have changed. */
enum pdl_status cli_job_price(const struct cli_question *q,
                              const char *strategy, struct cli_job *j,
                              struct pdl_err *err);
/* The same of a plan file. */
enum pdl_status cli_job_price_file(const struct cli_question *q,
                                   const char *path, struct cli_job *j,
                                   struct pdl_err *err);

#endif
