/* SPDX-License-Identifier: Apache-2.0
 *
 * From a question on the command line to a priced plan, and its JSON. */
#include "cli/questions/projection.h"

#include "cli/questions/handover.h"

#include <math.h>
#include <string.h>

/* The oracle knows the state variables of these two. */
static const char *optimizer(const char *name)
{
    return !name ? NULL : strcmp(name, "adam") == 0 ? "adam" : "sgd";
}

static enum pdl_status set_texts(pdl_job *j, const struct cli_question *q,
                                 struct pdl_err *err)
{
    const struct {
        const char *name, *value;
    } texts[] = {{"model", q->model},
                 {"dim", q->dim},
                 {"loss", q->loss},
                 {"system", q->system},
                 {"parameters", q->parameters},
                 {"precision", q->precision},
                 {"optimizer", optimizer(q->optimizer)},
                 {"framework", q->framework},
                 {"attention", q->attention},
                 {"dropout", q->dropout},
                 {"gradient-dtype", q->gradient_dtype},
                 {"headroom", q->headroom},
                 {"congestion", q->congestion},
                 {"without", q->without}};
    enum pdl_status st = PDL_OK;

    for (size_t i = 0; i < sizeof texts / sizeof texts[0] && st == PDL_OK; i++)
        st = pdl_job_set(j, texts[i].name, texts[i].value, err);
    return st;
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
        st = cli_set_count(j, "dataset", q->dataset, err);
    if (st == PDL_OK)
        st = cli_set_flag(j, "allow-empty", q->allow_empty, err);
    if (st == PDL_OK)
        st = cli_set_flag(j, "compile", q->compile, err);
    if (st == PDL_OK)
        st = cli_set_flag(j, "async-tensor", q->async_tensor, err);
    return st;
}

/* What the job has made by now. */
static void take(struct cli_job *j)
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
    if (st == PDL_OK)
        take(j);
    return st;
}

enum pdl_status cli_job_fork(const struct cli_job *j, struct cli_job *out,
                             struct pdl_err *err)
{
    out->job = pdl_job_fork(j->job);
    return out->job ? PDL_OK : pdl_fail(err, PDL_ENOMEM, "out of memory");
}

void cli_job_close(struct cli_job *j)
{
    if (j)
        pdl_job_destroy(j->job);
}

enum pdl_status cli_job_price(const struct cli_question *q,
                              const char *strategy, struct cli_job *j,
                              struct pdl_err *err)
{
    const char *pes = pdl_job_get(j->job, "pes");
    enum pdl_status st = pdl_job_set(j->job, "strategy", strategy, err);

    if (st == PDL_OK && (q->pes > 0) != (pes != NULL))
        st = cli_set_count(j->job, "pes", q->pes, err);
    if (st == PDL_OK)
        st = cli_set_count(j->job, "batch", q->batch, err);
    if (st == PDL_OK)
        st = pdl_job_price(j->job, err);
    if (st == PDL_OK)
        take(j);
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
        take(j);
    return st;
}

int cli_job_emit(const struct cli_job *j, const char *path)
{
    struct pdl_err err = {"", ""};
    struct pdl_buf b;
    enum pdl_status st;
    int rc;

    pdl_buf_init(&b);
    st = pdl_job_write_plan(j->job, &b.sink, &err);
    rc = st == PDL_OK ? cli_write(path, &b) : cli_fail(st, &err);
    pdl_buf_free(&b);
    return rc;
}

static void json_memory(struct pdl_json *w, const struct pdl_projection *x)
{
    char note[256];

    cli_memory_note(x, note, sizeof note);
    pdl_json_key(w, "memory");
    pdl_json_object(w);
    pdl_json_kint(w, "allocated_bytes", x->allocated_bytes);
    pdl_json_kint(w, "reserved_bytes", x->reserved_bytes);
    pdl_json_kint(w, "peak_bytes", x->peak_bytes);
    pdl_json_kint(w, "comm_buffers_bytes", x->comm_buffers_bytes);
    pdl_json_kint(w, "weights_bytes", x->weights_bytes);
    pdl_json_kint(w, "gradients_bytes", x->gradients_bytes);
    pdl_json_kint(w, "optimizer_bytes", x->optimizer_bytes);
    pdl_json_kint(w, "activations_bytes", x->activations_bytes);
    pdl_json_kint(w, "workspace_bytes", x->workspace_bytes);
    pdl_json_kint(w, "capacity_bytes", x->capacity_bytes);
    pdl_json_knum(w, "headroom",
                  1 - (double)x->peak_bytes / (double)x->capacity_bytes);
    if (note[0])
        pdl_json_kstr(w, "note", note);
    pdl_json_kint(w, "host_bytes", x->host_bytes);
    pdl_json_knum(w, "gamma", x->gamma);
    pdl_json_end(w);
}

static void json_time(struct pdl_json *w, const struct pdl_projection *x)
{
    pdl_json_key(w, "time");
    pdl_json_object(w);
    pdl_json_knum(w, "forward_s", x->forward_s);
    pdl_json_knum(w, "backward_s", x->backward_s);
    pdl_json_knum(w, "update_s", x->update_s);
    pdl_json_knum(w, "recompute_s", x->recompute_s);
    pdl_json_knum(w, "bubble_s", x->bubble_s);
    pdl_json_knum(w, "gradient_comm_s", x->gradient_comm_s);
    pdl_json_knum(w, "layer_comm_s", x->layer_comm_s);
    pdl_json_knum(w, "halo_s", x->halo_s);
    pdl_json_knum(w, "p2p_s", x->p2p_s);
    pdl_json_knum(w, "exposed_comm_s", x->exposed_comm_s);
    pdl_json_knum(w, "io_s", x->io_s);
    pdl_json_end(w);
}

void cli_brief_json(struct pdl_json *w, const struct pdl_projection *x,
                    const struct pdl_system *sys)
{
    struct pdl_bill bill;

    pdl_json_kint(w, "pes", x->pes);
    pdl_json_kint(w, "batch", x->batch);
    pdl_json_kbool(w, "feasible", x->feasible);
    pdl_json_key(w, "reasons");
    pdl_json_flat(w);
    if (!x->feasible)
        pdl_json_str(w, x->reason);
    pdl_json_end(w);
    pdl_json_knum(w, "step_s", x->step_s);
    pdl_json_knum(w, "epoch_s", x->epoch_s);
    pdl_json_knum(w, "samples_per_s", x->samples_per_s);
    pdl_json_knum(w, "tokens_per_s", x->tokens_per_s);
    pdl_json_knum(w, "mfu", x->mfu);
    json_time(w, x);
    pdl_json_knum(w, "compute_s", x->compute_s);
    pdl_json_knum(w, "comm_s", x->comm_s);
    json_memory(w, x);
    pdl_project_bill(x, sys, &bill);
    pdl_json_knum(w, "energy_j", bill.energy_j > 0 ? bill.energy_j : NAN);
    pdl_json_knum(w, "cost", bill.cost > 0 ? bill.cost : NAN);
}

void cli_interval_json(struct pdl_json *w, const struct cli_job *j)
{
    struct pdl_projection bars = j->x;

    pdl_interval(j->plan, &j->sys, &j->oracle, &bars);
    pdl_json_key(w, "interval_s");
    pdl_json_flat(w);
    pdl_json_num(w, bars.low_s > 0 ? bars.low_s : NAN); /* null: ideal */
    pdl_json_num(w, bars.high_s > 0 ? bars.high_s : NAN);
    pdl_json_end(w);
}

void cli_job_json(struct pdl_json *w, const struct cli_job *j)
{
    char order[256];

    cli_order_note(j->plan, order, sizeof order);
    cli_brief_json(w, &j->x, &j->sys);
    cli_interval_json(w, j);
    if (order[0])
        pdl_json_kstr(w, "positions", order);
    pdl_json_key(w, "fallbacks");
    pdl_json_array(w);
    for (int i = 0; i < j->plan->nfallbacks; i++)
        pdl_json_str(w, j->plan->fallbacks[i]);
    pdl_json_end(w);
    if (j->asked.swap_auto) { /* what was settled */
        struct pdl_buf b;

        pdl_buf_init(&b);
        pdl_strategy_print(&j->strategy, &b.sink);
        pdl_json_kstr(w, "swapped", b.text);
        pdl_buf_free(&b);
    }
    pdl_json_kstr(w, "precision", pdl_precision_name(j->oracle.precision));
    pdl_json_kstr(w, "optimizer",
                  j->oracle.optimizer_slots == 2 ? "adam" : "sgd");
    cli_contention_json(w, j);
    cli_explain_json(w, j);
}
