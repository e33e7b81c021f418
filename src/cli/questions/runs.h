/* Measured runs and their projections: shared by validate and calibrate. */
#ifndef CLI_RUNS_H
#define CLI_RUNS_H

#include "cli/questions/measured.h"

struct cli_run {
    const struct pdl_run *run;
    struct cli_question q;
    struct cli_job *job;
    char key[192]; /* of its evidence */
    double micro;  /* samples that a data rank computes at a time */
};

/* A measured memory of a run, and what is like it in the projection. */
struct cli_memory {
    const struct pdl_run *run;
    const char *kind; /* "allocated", "reserved", "device", ... */
    double projected, measured;
};

/* A run of which it is known whether it ran out of memory. */
struct cli_verdict {
    const struct pdl_run *run;
    double projected; /* seconds */
    bool feasible;
};

struct cli_verdicts {
    struct cli_verdict *row;
    int n;
    int fit, fit_right; /* those that ran, and were said to */
    int out, out_right; /* those that did not */
};

/* Runs with a measured step, also as columns; measured memory of all. */
struct cli_runs {
    struct cli_run *run;
    const struct pdl_run **measured_run;
    int64_t *pes;
    double *projected, *measured; /* seconds */
    struct cli_memory *memory;
    struct cli_verdicts verdicts;
    int n, nmemory;
};

/* Reads and prices the selected runs; those that cannot be projected are named
 * and left out. keep: their plans stay, to be priced again, until they are
 * closed; else a job has its projection and nothing else. */
enum pdl_status cli_runs_read(struct cli_measured *m, bool keep,
                              struct cli_runs *out, struct pdl_err *err);

void cli_runs_close(struct cli_runs *s);

/* --evidence: a file of own runs, projected and given to the job, which has
 * them as long as the arena is there. */
enum pdl_status cli_runs_own(pdl_arena *a, const char *file, struct cli_job *j,
                             struct pdl_err *err);

/* --measured-step: the plan that was priced is such a run. */
enum pdl_status cli_runs_measured(pdl_arena *a, double measured_s,
                                  struct cli_job *j, struct pdl_err *err);

/* validate_ablation.c: the accuracy without each effect, by strategy */
enum pdl_status cli_ablation_print(struct cli_measured *m,
                                   const struct cli_runs *s);
enum pdl_status cli_ablation_json(struct cli_measured *m,
                                  const struct cli_runs *s, struct pdl_json *w);

#endif
