/* paradl/job.h - from texts to a priced plan.
 *
 * A job is what is to be trained (model), where (system, pes) and how
 * (strategy, batch, precision, framework ...), each a setting by its name,
 * written as on the command line. From it follow a plan, its price, the best
 * strategies and an explanation; every command of paradl asks a job.
 *
 *     pdl_job *j = pdl_job_create();
 *     pdl_job_set(j, "model", "gpt2", &err);
 *     pdl_job_set(j, "system", "dgx-a100", &err);
 *     pdl_job_set(j, "batch", "64", &err);
 *     pdl_job_set(j, "strategy", "data=8", &err);
 *     if (pdl_job_price(j, &err) == PDL_OK)
 *         printf("%g s\n", pdl_job_projection(j)->step_s);
 *
 * Ownership: a job copies what it is given, and what it returns lives until a
 * setting that it depends on changes, the same question is asked again, or the
 * job is destroyed.
 * Threads: different jobs may be used by different threads at the same time;
 * one job by one thread at a time, but for pdl_job_cancel. */
#ifndef PARADL_JOB_H
#define PARADL_JOB_H

#include "paradl/base.h"
#include "paradl/model.h"
#include "paradl/oracle.h"
#include "paradl/plan.h"
#include "paradl/system.h"

PDL_BEGIN

typedef struct pdl_job pdl_job;

pdl_job *pdl_job_create(void);    /* NULL: out of memory */
void pdl_job_destroy(pdl_job *j); /* NULL is allowed */
/* A job with the same settings, which reads the model and the system of `j`
 * until it is given others: destroy it first. For variants of a job. */
pdl_job *pdl_job_fork(const pdl_job *j);

/* What can be set; NULL past the end. */
struct pdl_job_setting {
    const char *name, *choices, *summary; /* choices "a|b"; NULL: any text */
};
const struct pdl_job_setting *pdl_job_setting_at(int i);
/* value NULL: back to the default. Names, choices, counts and ranges are
 * checked here; models, systems and strategies are when they are used. */
enum pdl_status pdl_job_set(pdl_job *j, const char *name, const char *value,
                            struct pdl_err *err);
/* The text that was set, or NULL. */
const char *pdl_job_get(const pdl_job *j, const char *name);

/* The system as a value instead of by its name; it must outlive the job, or
 * the next call. NULL: by the setting again. */
void pdl_job_use_system(pdl_job *j, const struct pdl_system *sys);

/* Measured runs of whoever asks, which plans are anchored to and ranked by;
 * they must outlive the job. */
void pdl_job_use_runs(pdl_job *j, const struct pdl_own_run *run, int n);

/* Each does what the ones before it do, where that is not done yet. */
/* Loads model and system and settles the defaults. */
enum pdl_status pdl_job_open(pdl_job *j, struct pdl_err *err);
/* The plan of the strategy, or of the plan file; needs no system. */
enum pdl_status pdl_job_lower(pdl_job *j, struct pdl_err *err);
/* What a step of it costs on the system. */
enum pdl_status pdl_job_price(pdl_job *j, struct pdl_err *err);
/* The same without a plan, for many strategies one after the other: what they
 * have in common is kept (pdl_pricer). */
enum pdl_status pdl_job_project(pdl_job *j, struct pdl_projection *out,
                                struct pdl_err *err);
/* Fills the 80 % interval of the projection: several more of them. */
enum pdl_status pdl_job_interval(pdl_job *j, struct pdl_err *err);
/* What limits the step, and what more of each resource would give. */
enum pdl_status pdl_job_explain(pdl_job *j, struct pdl_explanation *out,
                                struct pdl_err *err);
/* The best strategies on `pes` PEs, best first; no strategy need be set. A
 * search that is cancelled, or stopped by the progress function, has the best
 * so far and says `stopped`. */
enum pdl_status pdl_job_search(pdl_job *j, struct pdl_search_result *out,
                               struct pdl_err *err);
/* The same with a strategy for each layer (goal time only). */
/* Its plans that fit in the order in which they are named: pdl_oracle_rank. */
enum pdl_status pdl_job_rank(pdl_job *j, struct pdl_search_result *found,
                             struct pdl_err *err);
enum pdl_status pdl_job_search_layers(pdl_job *j, struct pdl_layers_result *out,
                                      struct pdl_err *err);
/* The plan as a plan file (doc/formats/plan.md). */
enum pdl_status pdl_job_write_plan(const pdl_job *j, struct pdl_sink *out,
                                   struct pdl_err *err);

/* What was made; NULL: not yet. */
const struct pdl_model *pdl_job_model(const pdl_job *j);
const struct pdl_system *pdl_job_system(const pdl_job *j);
const struct pdl_oracle_options *pdl_job_options(const pdl_job *j);
const struct pdl_strategy *pdl_job_asked(const pdl_job *j); /* as given */
const struct pdl_plan *pdl_job_plan(const pdl_job *j);
enum pdl_goal pdl_job_goal(const pdl_job *j); /* what "goal" says */
const struct pdl_projection *pdl_job_projection(const pdl_job *j);

/* Called now and then while a search runs, from its threads, one at a time;
 * false stops it. NULL: none. */
typedef bool (*pdl_job_progress)(void *ctx, int64_t done, int64_t total);
void pdl_job_on_progress(pdl_job *j, pdl_job_progress call, void *ctx);
/* From any thread: what runs ends soon, what is asked next is refused with
 * PDL_EINTR until a setting is set. */
void pdl_job_cancel(pdl_job *j);

PDL_END
#endif
