/* Measured against projected: shared by validate and calibrate. */
#ifndef CLI_MEASURED_H
#define CLI_MEASURED_H

#include "cli/questions/projection.h"

/* What both commands are asked. */
struct cli_measured {
    const char *file, *select, *system;
    pdl_arena *a;
    const struct pdl_doc *doc;
    const char *schema;               /* "paradl.layers/1", "paradl.runs/1" */
    const char *without, *congestion; /* as the options have them */
    const char *leave_out; /* a campaign that intervals know nothing of */
    const char *command;   /* for a page; NULL: not said */
    bool ablate;
};

/* Reads the file and its schema; other schemas are refused. */
enum pdl_status cli_measured_open(struct cli_measured *m, struct pdl_err *err);

/* validate_layers.c, validate_runs.c: print, and return an exit code; page:
 * gets the JSON too, NULL: none is asked for */
int cli_validate_layers(struct cli_measured *m, bool json,
                        struct pdl_buf *page);
int cli_validate_runs(struct cli_measured *m, bool json, struct pdl_buf *page);

/* A fit that was done. */
struct cli_residual {
    const char *id, *strategy;
    double off;  /* projected / measured - 1 */
    double left; /* the same by a fit without its group; NAN: not asked for */
    double kind; /* by one without its kind of strategies; NAN: only that */
};
struct cli_fit {
    const char *leave_out; /* "kind", "pes", "run"; NULL: only the kinds */
    const char *start;     /* PARAMETER=VALUE,...; NULL: those known */
    bool usage;            /* what failed is the command line, not the file */
    const struct pdl_fit_param *param;
    int n, rows;
    double held_out;  /* 80 % of errors of strategies left out; 0: none */
    double *kind_off; /* of each run, its kind left out */
    struct cli_residual *residual; /* of each run; NULL: not kept */
    struct pdl_fit_result result;
};
/* calibrate_runs.c */
enum pdl_status cli_fit_runs(struct cli_measured *m, struct pdl_system *sys,
                             struct cli_fit *fit, struct pdl_err *err);

/* One group's line and its JSON object. */
struct cli_group {
    const char *by, *name;
    struct pdl_time_match match;
};
/* Groups rows by a text each has; NULL text: not in any group. */
struct cli_groups {
    struct cli_group *group;
    int n, cap;
};
enum pdl_status cli_group_by(pdl_arena *a, struct cli_groups *g, const char *by,
                             const char *const *text, const double *projected,
                             const double *measured, int n);
void cli_groups_print(const struct cli_groups *g, pdl_arena *a);
void cli_groups_json(const struct cli_groups *g, struct pdl_json *w);

#endif
