/* SPDX-License-Identifier: Apache-2.0
 *
 * A projection as JSON, and its plan as a file. */
#include "cli/output/projection.h"

#include <math.h>
#include <string.h>

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

static void json_evidence(struct pdl_json *w, const struct cli_job *j)
{
    struct pdl_evidence e;
    char text[256];

    cli_evidence(j, &e, text, sizeof text);
    pdl_json_key(w, "evidence");
    pdl_json_object(w);
    pdl_json_kint(w, "runs", e.runs);
    pdl_json_knum(w, "error", e.runs > 0 ? e.error : NAN);
    pdl_json_kint(w, "same_framework_and_kind", e.like);
    pdl_json_kstr(w, "text", text);
    pdl_json_end(w);
}

static void json_notes(struct pdl_json *w, const struct cli_job *j)
{
    struct cli_notes notes;

    cli_job_notes(j, &notes);
    cli_notes_json(w, &notes);
}

void cli_job_json(struct pdl_json *w, const struct cli_job *j)
{
    char order[256];

    cli_order_note(j->plan, order, sizeof order);
    cli_brief_json(w, &j->x, &j->sys);
    cli_interval_json(w, j);
    json_evidence(w, j);
    json_notes(w, j);
    if (order[0])
        pdl_json_kstr(w, "positions", order);
    pdl_json_key(w, "fallbacks");
    pdl_json_array(w);
    for (int i = 0; i < j->plan->nfallbacks; i++)
        pdl_json_str(w, j->plan->fallbacks[i]);
    pdl_json_end(w);
    if (j->asked.swap) { /* what was settled */
        struct pdl_buf b;

        pdl_buf_init(&b);
        pdl_strategy_print(&j->strategy, &b.sink);
        pdl_json_kstr(w, "swapped", b.text);
        pdl_buf_free(&b);
        cli_outofcore_json(w, j);
    }
    pdl_json_kstr(w, "precision", pdl_precision_name(j->oracle.precision));
    pdl_json_kstr(w, "optimizer",
                  j->oracle.optimizer_slots == 2 ? "adam" : "sgd");
    cli_contention_json(w, j);
    cli_explain_json(w, j);
}
