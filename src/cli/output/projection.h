/* Answers about a job that several commands print, for people and as JSON; what
 * is asked is in cli/questions. */
#ifndef CLI_OUTPUT_PROJECTION_H
#define CLI_OUTPUT_PROJECTION_H

#include "cli/questions/projection.h"

#include "paradl/report.h"

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
/* anchor.c: --evidence, after cli_runs_own */
enum pdl_status cli_anchor(pdl_arena *a, const struct cli_job *j,
                           struct pdl_anchor *out, struct pdl_err *err);
void cli_anchor_text(const struct cli_job *j, const struct pdl_anchor *x);
void cli_anchor_json(struct pdl_json *w, const struct cli_job *j,
                     const struct pdl_anchor *x);
/* training.c: how long so many tokens of training take with a plan (and what
 * they cost); nothing where that is not known, or not asked (0) */
void cli_training_text(const struct pdl_found *f, const struct pdl_system *sys,
                       double tokens);
void cli_training_json(struct pdl_json *w, const struct pdl_found *f,
                       const struct pdl_system *sys, double tokens);
/* against.c: --against beside the best */
void cli_against_text(const struct pdl_found *mine,
                      const struct pdl_found *best,
                      const struct pdl_framework *f);
void cli_against_json(struct pdl_json *w, const struct pdl_found *mine,
                      const struct pdl_found *best,
                      const struct pdl_framework *f);

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
/* All of them, and one on what measured runs there are like it. */
enum { CLI_NOTES = 12 };
struct cli_notes {
    char text[CLI_NOTES][256];
    int n;
};
/* Of a plan that is priced; of the model and the system alone; one more. */
void cli_job_notes(const struct cli_job *j, struct cli_notes *out);
void cli_given_notes(const struct cli_job *j, struct cli_notes *out);
void cli_note(struct cli_notes *out, const char *text);
void cli_notes_text(const struct cli_notes *n);
void cli_notes_json(struct pdl_json *w, const struct cli_notes *n);
void cli_evidence(const struct cli_job *j, struct pdl_evidence *out, char *buf,
                  size_t size);
/* Which groups share which adapters, and what it costs them. */
void cli_limits_json(struct pdl_json *w, pdl_arena *a, const struct cli_job *j,
                     int64_t batch);
void cli_limits_text(pdl_arena *a, const struct cli_job *j, int64_t batch);
void cli_contention_json(struct pdl_json *w, const struct cli_job *j);
void cli_contention_text(const struct cli_job *j);
/* Why: limits, and what 10 % more of each resource gives. */
void cli_explain_json(struct pdl_json *w, const struct cli_job *j);
void cli_explain_text(const struct cli_job *j);
/* outofcore.c: what swap=karma decided, and why; nothing for others. */
void cli_outofcore_json(struct pdl_json *w, const struct cli_job *j);
void cli_outofcore_text(const struct cli_job *j);
/* Writes the step as a Chrome trace; an exit code. */
int cli_job_trace(const struct cli_job *j, const char *path);
/* Writes the step as execution traces of Chakra, PREFIX.N.et of each PE, and
 * PREFIX.groups.json; step_chakra.c. */
int cli_job_chakra(const struct cli_job *j, const char *prefix);
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
void cli_kineto_text(const struct pdl_kineto *k, const struct cli_job *j);
void cli_kineto_json(struct pdl_json *w, const struct pdl_kineto *k,
                     const struct cli_job *j);

/* A whole run: what is asked, what it comes to. */
struct cli_whole_options {
    double samples, tokens, mtbf_s, checkpoint_s, restart_s, straggler;
    const char *ramp_up;
    struct pdl_interruptions more; /* run is filled from the above */
};
struct cli_whole {
    double samples, ramped; /* all; those of smaller batches */
    double ramp_s;
    struct pdl_goodput x;
    bool simulated;
    struct pdl_interrupted sim;
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

/* ---- epochs.c: --shuffle ---- */

struct cli_epoch_options {
    const char *shuffle;
    double hidden;
};
enum { CLI_EPOCHS = 8 };
struct cli_epochs {
    struct pdl_data_about about;
    int n;
    struct cli_epoch {
        char name[32];
        double q;
        struct pdl_epoch x;
    } row[CLI_EPOCHS];
};
enum pdl_status cli_epochs_asked(const struct cli_epoch_options *o,
                                 const char *dataset, struct pdl_err *err);
enum pdl_status cli_epochs_price(pdl_arena *a,
                                 const struct cli_epoch_options *o,
                                 const char *dataset, const struct cli_job *j,
                                 struct cli_epochs *x, struct pdl_err *err);
void cli_epochs_text(const struct cli_epochs *x);
void cli_epochs_json(struct pdl_json *w, const struct cli_epochs *x);

#endif
