/* SPDX-License-Identifier: Apache-2.0
 *
 * From a question on the command line to a job and its priced plan. */
#include "cli/questions/projection.h"

#include "cli/questions/handover.h"

#include <string.h>

/* The oracle knows the state variables of these two. */
static const char *optimizer(const char *name)
{
    return !name ? NULL : strcmp(name, "adam") == 0 ? "adam" : "sgd";
}

/* "none" is none. */
static const char *framework(const char *name)
{
    return name && strcmp(name, "none") == 0 ? NULL : name;
}

static enum pdl_status set_texts(pdl_job *j, const struct cli_question *q,
                                 struct pdl_err *err)
{
    char other[1024];
    int long_name = snprintf(other, sizeof other, "%s%spe.memory=%s",
                             q->system ? q->system : "",
                             q->system && strchr(q->system, ':') ? "," : ":",
                             q->memory ? q->memory : "");
    const char *system = q->memory ? other : q->system;
    const struct {
        const char *name, *value;
    } texts[] = {{"model", q->model},
                 {"dim", q->dim},
                 {"loss", q->loss},
                 {"system", system},
                 {"parameters", q->parameters},
                 {"precision", q->precision},
                 {"optimizer", optimizer(q->optimizer)},
                 {"framework", framework(q->framework)},
                 {"attention", q->attention},
                 {"dropout", q->dropout},
                 {"gradient-dtype", q->gradient_dtype},
                 {"headroom", q->headroom},
                 {"congestion", q->congestion},
                 {"without", q->without}};
    double memory = 1;
    enum pdl_status st = PDL_OK;

    if (q->memory &&
        pdl_unit_parse(q->memory, PDL_UNIT_BYTES, &memory, NULL) == PDL_OK &&
        !(memory >= 1))
        return pdl_fail(err, PDL_EINVAL, "--memory: '%.40s' holds nothing",
                        q->memory);
    if (q->memory && (!q->system || long_name >= (int)sizeof other))
        return pdl_fail(err, PDL_EINVAL, "--memory changes a --system");
    for (size_t i = 0; i < sizeof texts / sizeof texts[0] && st == PDL_OK; i++)
        st = pdl_job_set(j, texts[i].name, texts[i].value, err);
    return st;
}

/* The job wants to know how many samples there are. */
static enum pdl_status set_dataset(pdl_job *j, const char *text,
                                   struct pdl_err *err)
{
    pdl_arena *a = text ? pdl_arena_create(1 << 22) : NULL;
    struct pdl_data_about d = {.samples = 0};
    enum pdl_status st = PDL_OK;

    if (text)
        st = a ? pdl_data_about(a, text, &d, err)
               : pdl_fail(err, PDL_ENOMEM, "out of memory");
    pdl_arena_destroy(a);
    return st == PDL_OK ? cli_set_count(j, "dataset", d.samples, err) : st;
}

static enum pdl_status set_all(pdl_job *j, const struct cli_question *q,
                               struct pdl_err *err)
{
    enum pdl_status st = set_texts(j, q, err);

    if (st == PDL_OK)
        st = cli_set_count(j, "pes", q->pes, err);
    if (st == PDL_OK)
        st = cli_set_count(j, "batch", q->batch, err);
    if (st == PDL_OK)
        st = set_dataset(j, q->dataset, err);
    if (st == PDL_OK)
        st = cli_set_flag(j, "allow-empty", q->allow_empty, err);
    if (st == PDL_OK)
        st = cli_set_flag(j, "compile", q->compile, err);
    if (st == PDL_OK)
        st = cli_set_flag(j, "async-tensor", q->async_tensor, err);
    return st;
}

void cli_job_take(struct cli_job *j)
{
    j->model = pdl_job_model(j->job);
    j->plan = pdl_job_plan(j->job);
    if (pdl_job_system(j->job))
        j->sys = *pdl_job_system(j->job);
    if (pdl_job_options(j->job))
        j->oracle = *pdl_job_options(j->job);
    if (j->plan) {
        j->asked = *pdl_job_asked(j->job);
        j->strategy = *j->plan->strategy;
    }
    if (pdl_job_projection(j->job))
        j->x = *pdl_job_projection(j->job);
}

enum pdl_status cli_job_open(const struct cli_question *q, struct cli_job *j,
                             struct pdl_err *err)
{
    enum pdl_status st;

    j->job = pdl_job_create();
    st = j->job ? set_all(j->job, q, err)
                : pdl_fail(err, PDL_ENOMEM, "out of memory");
    if (st == PDL_OK)
        st = pdl_job_open(j->job, err);
    if (st == PDL_OK && cli_asked())
        pdl_job_on_progress(j->job, cli_go_on, cli_asked());
    if (st == PDL_OK)
        cli_job_take(j);
    return st;
}

enum pdl_status cli_job_fork(const struct cli_job *j, struct cli_job *out,
                             struct pdl_err *err)
{
    out->job = pdl_job_fork(j->job);
    if (out->job && cli_asked())
        pdl_job_on_progress(out->job, cli_go_on, cli_asked());
    return out->job ? PDL_OK : pdl_fail(err, PDL_ENOMEM, "out of memory");
}

void cli_job_close(struct cli_job *j)
{
    if (j)
        pdl_job_destroy(j->job);
}

/* --offload auto: what is made again or waits is decided, too. */
static const char *with_offload(const struct cli_question *q,
                                const char *strategy, char *buf, size_t size)
{
    if (!strategy || !q->offload || strcmp(q->offload, "auto") != 0 ||
        strstr(strategy, "swap="))
        return strategy;
    return snprintf(buf, size, "%s,swap=karma", strategy) < (int)size
               ? buf
               : strategy;
}

enum pdl_status cli_job_price(const struct cli_question *q,
                              const char *strategy, struct cli_job *j,
                              struct pdl_err *err)
{
    char text[4096];
    const char *pes = pdl_job_get(j->job, "pes");
    enum pdl_status st =
        cli_cancelled(cli_asked())
            ? pdl_fail(err, PDL_EINTR, "the question was taken back")
            : pdl_job_set(j->job, "strategy",
                          with_offload(q, strategy, text, sizeof text), err);

    if (st == PDL_OK && (q->pes > 0) != (pes != NULL))
        st = cli_set_count(j->job, "pes", q->pes, err);
    if (st == PDL_OK)
        st = cli_set_count(j->job, "batch", q->batch, err);
    if (st == PDL_OK)
        st = pdl_job_price(j->job, err);
    if (st == PDL_OK)
        cli_job_take(j);
    return st;
}

enum pdl_status cli_job_price_file(const struct cli_question *q,
                                   const char *path, struct cli_job *j,
                                   struct pdl_err *err)
{
    enum pdl_status st;

    j->job = pdl_job_create();
    st = j->job ? set_all(j->job, q, err)
                : pdl_fail(err, PDL_ENOMEM, "out of memory");
    if (st == PDL_OK)
        st = pdl_job_set(j->job, "plan", path, err);
    if (st == PDL_OK)
        st = pdl_job_price(j->job, err);
    if (st == PDL_OK)
        cli_job_take(j);
    return st;
}
