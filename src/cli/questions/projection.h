/* What the commands that project are asked, the job that answers, and the parts
 * of the answer that several of them print. */
#ifndef CLI_PROJECTION_H
#define CLI_PROJECTION_H

#include "cli/cli_priv.h"

#include "paradl/job.h"
#include "paradl/report.h"
#include "paradl/system.h"

/* What these commands are asked, by the same options. */
struct cli_question {
    const char *model, *system, *strategy, *parameters, *optimizer, *precision,
        *dim, *framework, *without, *congestion, *attention, *dropout,
        *gradient_dtype, *headroom, *loss;
    int64_t batch, pes, dataset;
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
     "megatron|deepspeed|torchtitan|torchtitan-toml|accelerate|sbatch|pipeline-csv", what}, \
    {"output", 'o', PDL_OPT_TEXT, offsetof(struct options, output), "FILE", NULL, \
     "where that file goes"}
#define CLI_QUESTION_OPTS \
    {"parameters", 0, PDL_OPT_TEXT, offsetof(struct options, q.parameters), "KIND", "ideal|empirical", \
     "peak rates, or sustained and measured ones (default)"}, \
    {"optimizer", 0, PDL_OPT_TEXT, offsetof(struct options, q.optimizer), "NAME", "sgd|adam", \
     "sgd with momentum, or adam (default by kind of model)"}, \
    {"precision", 0, PDL_OPT_TEXT, offsetof(struct options, q.precision), "NAME", \
     "fp32|tf32|bf16|fp16|fp8", \
     "of the arithmetic (default: fp32 for CNNs, bf16 for transformers)"}, \
    {"congestion", 0, PDL_OPT_TEXT, offsetof(struct options, q.congestion), "LOW..HIGH", NULL, \
     "factor on network time by other jobs, as a range (default: none)"}, \
    {"framework", 0, PDL_OPT_TEXT, offsetof(struct options, q.framework), "NAME", NULL, \
     "whose habits to add: pytorch, megatron, chainermnx, ... (default: none)"}, \
    {"attention", 0, PDL_OPT_TEXT, offsetof(struct options, q.attention), "KIND", "flash|unfused", \
     "keep no scores (default), or products, softmax and scores apart"}, \
    {"dropout", 0, PDL_OPT_TEXT, offsetof(struct options, q.dropout), "X", NULL, \
     "its probability (default: the framework's)"}, \
    {"gradient-dtype", 0, PDL_OPT_TEXT, offsetof(struct options, q.gradient_dtype), "NAME", \
     "fp32|bf16|fp16", "what gradients add up in (default: as the weights)"}, \
    {"headroom", 0, PDL_OPT_TEXT, offsetof(struct options, q.headroom), "PERCENT", NULL, \
     "memory of a PE that a plan must leave free (default: 0)"}, \
    {"compile", 0, PDL_OPT_FLAG, offsetof(struct options, q.compile), NULL, NULL, \
     "element-wise operators are fused by a compiler"}, \
    {"async-tensor", 0, PDL_OPT_FLAG, offsetof(struct options, q.async_tensor), NULL, NULL, \
     "tensor collectives hide behind their products"}, \
    {"dataset", 0, PDL_OPT_COUNT, offsetof(struct options, q.dataset), "D", NULL, \
     "samples of an epoch, to project its time"}, \
    {"dim", 0, PDL_OPT_TEXT, offsetof(struct options, q.dim), "NAME=N,...", NULL, \
     "bind symbolic dimensions of the model"}
// clang-format on

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
/* The fields of a projection, into the open object. */
void cli_job_json(struct pdl_json *w, const struct cli_job *j);
/* Those of them that need no plan: nothing is priced again. */
void cli_brief_json(struct pdl_json *w, const struct pdl_projection *x,
                    const struct pdl_system *sys);
void cli_interval_json(struct pdl_json *w, const struct cli_job *j);
/* What --details adds: memory of each stage, the schedule, bytes of links. */
void cli_details_json(struct pdl_json *w, const struct cli_job *j);
void cli_schedule_json(struct pdl_json *w, const struct cli_job *j);
/* The strategy on fewer and more PEs, the same work for each data rank. */
void cli_scaling_json(struct pdl_json *w, const struct cli_question *q,
                      const struct cli_job *j, const char *strategy);
/* plan_text.c: the first plans of a list as a table. */
void cli_plans_text(pdl_arena *a, const struct pdl_found *list, int show,
                    const struct pdl_system *sys, enum pdl_goal goal);
/* plan_json.c: plans that no listed one beats in both time and memory, fastest
 * first; what was excluded and why; of a large space, how many points, what
 * excluded them, and what they are. */
void cli_front_json(struct pdl_json *w, const struct pdl_search_result *r);
void cli_excluded_json(struct pdl_json *w, const struct pdl_search_result *r);
void cli_space_json(struct pdl_json *w, const struct pdl_search_result *r,
                    bool axes);
/* What was asked: command, model, system, parameters. */
void cli_question_json(struct pdl_json *w, const struct pdl_cmd *cmd,
                       const struct pdl_args *args, const struct cli_job *j);
/* The same for people: time of a step, memory of a PE, notes. */
void cli_job_text(const struct cli_job *j);
void cli_basis_text(const struct cli_job *j);
/* One sentence on memory that is nearly full, on the order of positions; false:
 * there is nothing to say. */
bool cli_memory_note(const struct pdl_projection *x, char *buf, size_t size);
bool cli_order_note(const struct pdl_plan *p, char *buf, size_t size);
/* Which groups share which adapters, and what it costs them. */
void cli_limits_json(struct pdl_json *w, pdl_arena *a, const struct cli_job *j,
                     int64_t batch);
void cli_limits_text(pdl_arena *a, const struct cli_job *j, int64_t batch);
void cli_contention_json(struct pdl_json *w, const struct cli_job *j);
void cli_contention_text(const struct cli_job *j);
/* Why: limits, and what 10 % more of each resource gives. */
void cli_explain_json(struct pdl_json *w, const struct cli_job *j);
void cli_explain_text(const struct cli_job *j);
/* Writes the step as a Chrome trace; an exit code. */
int cli_job_trace(const struct cli_job *j, const char *path);
/* Writes the job's plan as a plan file; an exit code. */
int cli_job_emit(const struct cli_job *j, const char *path);
/* What would make a plan fit; priced, at most CLI_REMEDIES of them. */
enum { CLI_REMEDIES = 8 };
struct cli_remedy {
    const char *what, *strategy;
    int64_t batch;
    double step_s;
};
int cli_remedies(pdl_arena *a, const struct cli_question *q,
                 const struct cli_job *j, struct cli_remedy *out);
void cli_remedies_text(const struct cli_remedy *r, int n);
void cli_remedies_json(struct pdl_json *w, const struct cli_remedy *r, int n);
/* What --export and -o ask for; both or none. */
struct cli_export {
    const char *format, *path;
    const struct pdl_cmd *cmd;
    const struct pdl_args *args;
};
enum pdl_status cli_export_asked(const char *format, const char *path,
                                 struct pdl_err *err);
/* Writes the job for another program; an exit code. */
int cli_job_export(const struct cli_job *j, const struct cli_export *x);
/* Can the other program express it? */
bool cli_job_exports(const struct cli_job *j, const struct cli_export *x);
/* Reads another program's launch file (the first argument) into a question. */
enum pdl_status cli_from(pdl_arena *a, const char *format,
                         const struct pdl_args *args, struct cli_question *q,
                         struct pdl_launch *out, struct pdl_err *err);
void cli_from_json(struct pdl_json *w, const char *format,
                   const struct pdl_launch *l);
void cli_from_text(const struct pdl_launch *l, const struct cli_job *j,
                   const char *system);

/* Beside a trace of PyTorch's profiler. */
void cli_kineto_text(const struct pdl_kineto *k,
                     const struct pdl_projection *x);
void cli_kineto_json(struct pdl_json *w, const struct pdl_kineto *k,
                     const struct pdl_projection *x);

/* A whole run: what is asked, what it comes to. */
struct cli_whole_options {
    double samples, tokens, mtbf_s, checkpoint_s, restart_s, straggler;
    const char *ramp_up;
};
struct cli_whole {
    double samples, ramped; /* all; those of smaller batches */
    double ramp_s;
    struct pdl_goodput x;
};
enum pdl_status cli_whole_asked(const struct cli_whole_options *o, bool *asked,
                                struct pdl_err *err);
enum pdl_status cli_whole_time(const struct cli_question *q,
                               const struct cli_job *j,
                               const struct cli_whole_options *o,
                               struct cli_whole *out, struct pdl_err *err);
/* "90 s", "4.5 h", "12 d": buf. */
const char *cli_span(double s, char *buf, size_t size);
void cli_whole_text(const struct cli_whole *r, const struct cli_job *j);
void cli_whole_json(struct pdl_json *w, const struct cli_whole *r);

#endif
