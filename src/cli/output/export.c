/* SPDX-License-Identifier: Apache-2.0
 *
 * --export: the job as the configuration of another program. */
#include "cli/output/projection.h"

#include "paradl/report.h"

enum pdl_status cli_export_asked(const char *format, const char *path,
                                 struct pdl_err *err)
{
    if ((format == NULL) == (path == NULL))
        return PDL_OK;
    pdl_fail(err, PDL_EINVAL,
             format ? "--export needs -o FILE" : "-o needs --export FORMAT");
    pdl_hint(err, "e.g. --export megatron -o run.sh");
    return PDL_EINVAL;
}

/* A framework adds them up as it does; without one they are as the weights. */
static int gradient_bytes(const struct pdl_oracle_options *o)
{
    if (o->gradient_bytes > 0 || o->framework)
        return o->gradient_bytes;
    return pdl_dtype_bits(pdl_precision_storage(o->precision)) / 8;
}

static enum pdl_status write_job(const struct cli_job *j,
                                 const struct cli_export *x, struct pdl_buf *b,
                                 struct pdl_err *err)
{
    struct pdl_export_job job = {
        .model = j->model,
        .strategy = &j->strategy,
        .system = &j->sys,
        .batch = j->x.batch,
        .precision = j->oracle.precision,
        .sgd = j->oracle.optimizer_slots < 2,
        .unfused = j->oracle.unfused,
        .compile = j->oracle.compile,
        .async_tensor = j->oracle.async_tensor,
        .dropout = j->oracle.dropout,
        .gradient_bytes = gradient_bytes(&j->oracle),
        .plan = j->plan,
        .step_s = j->x.step_s,
        .memory_bytes = j->x.peak_bytes,
    };
    struct pdl_buf command;
    enum pdl_status st;

    pdl_buf_init(&command);
    cli_command_line(x->cmd, x->args, &command.sink);
    job.command = command.text;
    st = pdl_export(&job, x->format, &b->sink, err);
    pdl_buf_free(&command);
    return st;
}

bool cli_job_exports(const struct cli_job *j, const struct cli_export *x)
{
    struct pdl_buf b;
    bool can;

    pdl_buf_init(&b);
    can = write_job(j, x, &b, NULL) == PDL_OK;
    pdl_buf_free(&b);
    return can;
}

int cli_job_export(const struct cli_job *j, const struct cli_export *x)
{
    struct pdl_err err = {"", ""};
    struct pdl_buf b;
    enum pdl_status st;
    int rc;

    pdl_buf_init(&b);
    st = write_job(j, x, &b, &err);
    rc = st == PDL_OK ? cli_write(x->path, &b) : cli_fail(st, &err);
    pdl_buf_free(&b);
    return rc;
}
