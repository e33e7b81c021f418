/* SPDX-License-Identifier: Apache-2.0
 *
 * --export: the job as the configuration of another program. */
#include "cli/output/projection.h"

#include "paradl/report.h"

#include <string.h>

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

/* The model as the user named it; a graph that was read as a network of a
 * family by that one's name, and a launch file names it itself. */
static const char *named(const struct cli_job *j, const struct cli_export *x)
{
    size_t n = x->args->npos > 0 ? strlen(x->args->pos[0]) : 0;
    bool onnx = n > 5 && strcmp(x->args->pos[0] + n - 5, ".onnx") == 0;

    if (n == 0 || pdl_opt_given(x->cmd, x->args, "from") ||
        (onnx && strcmp(j->model->source, "ONNX") != 0))
        return NULL;
    return x->args->pos[0];
}

static enum pdl_status write_job(const struct cli_job *j,
                                 const struct cli_export *x, struct pdl_buf *b,
                                 struct pdl_err *err)
{
    const char *asked = pdl_job_get(j->job, "precision");
    struct pdl_export_job job = {
        .model = j->model,
        .strategy = &j->strategy,
        .system = &j->sys,
        .batch = j->x.batch,
        .precision = j->oracle.precision,
        .micro_scaling = asked && strcmp(asked, "mxfp8") == 0,
        .sgd = j->oracle.optimizer_slots < 2,
        .unfused = j->oracle.unfused,
        .compile = j->oracle.compile,
        .async_tensor = j->oracle.async_tensor,
        .dropout = j->oracle.dropout,
        .gradient_bytes = gradient_bytes(&j->oracle),
        .plan = j->plan,
        .spec = named(j, x),
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

/* ---- read back before it is written ------------------------------------- */

static const struct {
    const char *format, *reader;
} readers[] = {
    {"megatron", "megatron-args"}, {"deepspeed", "deepspeed"},
    {"torchtitan", "torchtitan"},  {"torchtitan-toml", "torchtitan"},
    {"nanotron", "nanotron"},      {"accelerate", "accelerate"},
    {"paradl", "paradl"},
};

static const char *reader_of(const char *format)
{
    for (size_t i = 0; i < sizeof readers / sizeof readers[0]; i++)
        if (strcmp(readers[i].format, format) == 0)
            return readers[i].reader;
    return NULL;
}

/* Vocabularies are padded, which is said in the file. */
static const double PADDED = .01, SAME = 1e-6;

static bool near(double a, double b, double part)
{
    return a <= b * (1 + part) && b <= a * (1 + part);
}

static enum pdl_status same_model(pdl_arena *a, const struct pdl_model *m,
                                  const char *text, struct pdl_err *err)
{
    const struct pdl_model *back = NULL;
    struct pdl_model_totals x, y;
    enum pdl_status st = pdl_zoo_build(a, text, &back, err);

    if (st == PDL_OK)
        st = pdl_model_totals(m, &x, err);
    if (st == PDL_OK)
        st = pdl_model_totals(back, &y, err);
    if (st != PDL_OK)
        return st;
    if (near((double)x.parameters, (double)y.parameters, PADDED) &&
        near((double)x.forward_flops, (double)y.forward_flops, PADDED))
        return PDL_OK;
    return pdl_fail(err, PDL_EINVAL,
                    "the launch file would be of another network than %s: %s "
                    "has %lld parameters, not %lld",
                    m->name, text, (long long)y.parameters,
                    (long long)x.parameters);
}

/* How it runs, as the file says it. TF32 is the script's, not the file's. */
static enum pdl_status set_said(const struct cli_job *j,
                                const struct pdl_launch *l,
                                struct cli_job *back, struct pdl_err *err)
{
    bool script =
        j->oracle.precision == PDL_PREC_TF32 && l->precision == PDL_PREC_FP32;
    const struct {
        const char *name, *value;
    } said[] = {
        {"precision", script ? "tf32" : pdl_precision_name(l->precision)},
        {"optimizer", l->optimizer},
        {"attention", l->attention},
        {"dropout", l->dropout},
        {"gradient-dtype", l->gradient_dtype}};
    enum pdl_status st = PDL_OK;

    for (size_t i = 0; i < sizeof said / sizeof said[0] && st == PDL_OK; i++)
        if (said[i].value)
            st = pdl_job_set(back->job, said[i].name, said[i].value, err);
    return st;
}

/* The strategy as it reads, on our own network: the same step and memory. A
 * batch that the script says, not the file, is as it was. */
static enum pdl_status same_plan(pdl_arena *a, const struct cli_job *j,
                                 const struct pdl_launch *l,
                                 struct pdl_err *err)
{
    bool ours = l->script_batch;
    struct cli_question q = {.batch = ours ? j->x.batch : l->batch,
                             .pes = l->pes};
    struct cli_job back = {.job = NULL};
    const char *strategy = l->strategy;
    enum pdl_status st = cli_job_fork(j, &back, err);

    if (ours && j->strategy.accumulate > 1)
        strategy = pdl_arena_printf(a, "%s,accumulate=%lld", strategy,
                                    (long long)j->strategy.accumulate);
    if (st == PDL_OK && !strategy)
        st = pdl_fail(err, PDL_ENOMEM, "out of memory");
    if (st == PDL_OK)
        st = set_said(j, l, &back, err);
    if (st == PDL_OK)
        st = cli_job_price(&q, strategy, &back, err);
    if (st == PDL_OK &&
        (!near(back.x.step_s, j->x.step_s, SAME) ||
         !near((double)back.x.peak_bytes, (double)j->x.peak_bytes, SAME)))
        st = pdl_fail(err, PDL_EINVAL,
                      "the launch file reads back as %s in %s, whose step "
                      "takes %.4g s and not %.4g",
                      l->strategy, pdl_precision_name(l->precision),
                      back.x.step_s, j->x.step_s);
    cli_job_close(&back);
    return st;
}

static enum pdl_status read_back(const struct cli_job *j,
                                 const struct cli_export *x,
                                 const struct pdl_buf *b, struct pdl_err *err)
{
    const char *reader = reader_of(x->format);
    pdl_arena *a = reader ? pdl_arena_create(PDL_ARENA_DEFAULT) : NULL;
    struct pdl_bytes text = {b->text, b->len};
    struct pdl_launch l;
    enum pdl_status st;

    if (!reader)
        return PDL_OK;
    if (!a)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    st = pdl_launch_read(a, reader, text, x->path, j->x.pes, &l, err);
    if (st == PDL_OK && l.model && strchr(l.model, ':'))
        st = same_model(a, j->model, l.model, err);
    if (st == PDL_OK)
        st = same_plan(a, j, &l, err);
    pdl_arena_destroy(a);
    return st;
}

int cli_job_export(const struct cli_job *j, const struct cli_export *x)
{
    struct pdl_err err = {"", ""};
    struct pdl_buf b;
    enum pdl_status st;
    int rc;

    pdl_buf_init(&b);
    st = write_job(j, x, &b, &err);
    if (st == PDL_OK)
        st = read_back(j, x, &b, &err);
    rc = st == PDL_OK ? cli_write(x->path, &b) : cli_fail(st, &err);
    pdl_buf_free(&b);
    return rc;
}
