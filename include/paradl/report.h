/* paradl/report.h - results as a page for people.
 *
 * A page is made from the JSON that a command prints with --json, and from
 * nothing else: what is shown can always be shown again from the saved file.
 * One HTML file, readable without a network and without scripts: charts are
 * SVG made here, every chart has its table, the data are inside. */
#ifndef PARADL_REPORT_H
#define PARADL_REPORT_H

#include "paradl/base.h"
#include "paradl/model.h"
#include "paradl/plan.h"
#include "paradl/system.h"

PDL_BEGIN

enum { PDL_REPORT_MAX_BYTES = 5000000 }; /* of a page */

/* Writes the page for a result of `plan`, `collective compare` or `simulate`.
 * name is the file's, for messages ("name:line:col: ..."). Nothing is written
 * when it fails. Networks are drawn from their description; those that are
 * files (.xml) are not opened. */
enum pdl_status pdl_report_html(pdl_arena *a, struct pdl_bytes json,
                                const char *name, struct pdl_sink *out,
                                struct pdl_err *err);

/* The schemas that have a page ("plan"); NULL past the end. */
const char *pdl_report_schema_at(int i);

/* ---- exports: a plan as another program starts it ---------------------- */

struct pdl_export_job {
    const struct pdl_model *model;
    const struct pdl_strategy *strategy;
    const struct pdl_system *system;
    int64_t batch; /* samples of a step over all PEs */
    enum pdl_precision precision;
    bool micro_scaling; /* 8 bits in blocks with a scale each (MXFP8) */
    /* how the job runs beside its strategy; as the oracle prices it */
    bool sgd; /* with momentum; else Adam */
    bool unfused, compile, async_tensor;
    double dropout;
    int gradient_bytes; /* where they add up; 0: the program's own habit */
    const struct pdl_plan *plan; /* for where stages begin; NULL: they have
                                    equally many layers */
    const char *spec;     /* the model as it was named; NULL: by its name */
    const char *command;  /* that makes this file again; NULL: not said */
    double step_s;        /* projected; 0: not priced */
    int64_t memory_bytes; /* of the fullest PE; 0: not priced */
};

struct pdl_exporter {
    const char *name, *summary;
    enum pdl_status (*write)(const struct pdl_export_job *job,
                             struct pdl_sink *out, struct pdl_err *err);
    /* can it launch this network? NULL: any */
    enum pdl_status (*suits)(const struct pdl_model *m, const char *format,
                             struct pdl_err *err);
};
const struct pdl_exporter *pdl_exporter_at(int i); /* NULL past the end */
/* Refused with a reason: a format that is not there, and a plan that the other
 * program cannot run (the rule is named). Nothing is written then. */
enum pdl_status pdl_export(const struct pdl_export_job *job, const char *format,
                           struct pdl_sink *out, struct pdl_err *err);

/* The network alone: is any plan of it expressible? */
enum pdl_status pdl_export_suits(const struct pdl_model *m, const char *format,
                                 struct pdl_err *err);

/* ---- imports: a job that another program runs today -------------------- */

struct pdl_launch {
    const char *model;    /* "gpt:layers=96,..."; NULL: the file does not say */
    const char *strategy; /* notation of the command line */
    int64_t batch, pes;
    enum pdl_precision precision;
    const char *dropout; /* its probability; NULL: the file does not say */
    const char *gradient_dtype, *attention, *optimizer; /* the same */
    bool compile, async_tensor;
    bool script_batch;    /* the batch is not in the file: 1 sample a PE */
    const char *note[16]; /* what was assumed, in sentences */
    int nnotes;
};

struct pdl_launch_reader {
    const char *name, *summary;
    enum pdl_status (*read)(pdl_arena *a, struct pdl_bytes in, const char *name,
                            int64_t pes, struct pdl_launch *out,
                            struct pdl_err *err);
};
const struct pdl_launch_reader *
pdl_launch_reader_at(int i); /* NULL past the end */
/* Reads a launch configuration. pes 0: as the file says. The name is for
 * messages ("name:line: ..."). */
enum pdl_status pdl_launch_read(pdl_arena *a, const char *format,
                                struct pdl_bytes in, const char *name,
                                int64_t pes, struct pdl_launch *out,
                                struct pdl_err *err);

PDL_END
#endif
