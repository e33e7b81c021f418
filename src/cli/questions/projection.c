/* SPDX-License-Identifier: Apache-2.0
 *
 * From a question on the command line to a priced plan, and its JSON. */
#include "cli/questions/projection.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum pdl_status cli_effects(const char *text, uint32_t *bits,
                            struct pdl_err *err)
{
    *bits = 0;
    while (text && *text) {
        size_t n = strcspn(text, ",");
        char name[64];
        uint32_t bit = 0;
        enum pdl_status st;

        snprintf(name, sizeof name, "%.*s", (int)n, text);
        st = pdl_effect_find(name, &bit, err);
        if (st != PDL_OK)
            return st;
        *bits |= bit;
        text += n + (text[n] == ',');
    }
    return PDL_OK;
}

enum pdl_status cli_congestion(const char *text, struct pdl_oracle_options *o,
                               struct pdl_err *err)
{
    const char *dots = text ? strstr(text, "..") : NULL;
    double low, high;
    char first[32];

    if (!text)
        return PDL_OK;
    snprintf(first, sizeof first, "%.*s",
             dots ? (int)(dots - text) : (int)strlen(text), text);
    if (pdl_unit_parse(first, PDL_UNIT_NONE, &low, NULL) == PDL_OK &&
        pdl_unit_parse(dots ? dots + 2 : first, PDL_UNIT_NONE, &high, NULL) ==
            PDL_OK &&
        low >= 1 && high >= low && high <= 1000) {
        o->congestion = sqrt(low * high);
        o->congestion_low = low;
        o->congestion_high = high;
        return PDL_OK;
    }
    pdl_fail(err, PDL_EINVAL, "--congestion '%.40s' is no range", text);
    pdl_hint(err, "a factor from 1 on, or two: 1..1.5");
    return PDL_EINVAL;
}

/* fp32, bf16, fp16; 0: nothing that gradients are kept in */
static int bytes_of(const char *precision)
{
    enum pdl_precision p = pdl_precision_find(precision);

    return p < PDL_NPRECISIONS ? (int)pdl_precision_bytes(p) : 0;
}

/* What is not said is the framework's default. */
static enum pdl_status settle_dropout(const char *text,
                                      struct pdl_oracle_options *o,
                                      struct pdl_err *err)
{
    o->dropout = pdl_framework_dropout(o->framework);
    if (!text ||
        (pdl_unit_parse(text, PDL_UNIT_NONE, &o->dropout, NULL) == PDL_OK &&
         o->dropout >= 0 && o->dropout < 1))
        return PDL_OK;
    return pdl_fail(err, PDL_EINVAL,
                    "dropout '%.40s' is no probability below 1", text);
}

/* "5" or "5%". */
static enum pdl_status settle_headroom(const char *text,
                                       struct pdl_oracle_options *o,
                                       struct pdl_err *err)
{
    char number[32];
    size_t n = text ? strlen(text) : 0;

    if (!text)
        return PDL_OK;
    n -= n > 0 && text[n - 1] == '%';
    snprintf(number, sizeof number, "%.*s", (int)n, text);
    if (n < sizeof number &&
        pdl_unit_parse(number, PDL_UNIT_NONE, &o->headroom, NULL) == PDL_OK &&
        o->headroom >= 0 && o->headroom < 100) {
        o->headroom /= 100;
        return PDL_OK;
    }
    pdl_fail(err, PDL_EINVAL, "--headroom '%.40s' is no percentage below 100",
             text);
    pdl_hint(err, "write it like 5%%");
    return PDL_EINVAL;
}

enum pdl_status cli_job_settle(pdl_arena *a, const struct cli_question *o,
                               struct cli_job *j, struct pdl_err *err)
{
    bool cnn = strcmp(j->model->kind, "transformer") != 0;
    const char *precision = o->precision ? o->precision : cnn ? "fp32" : "bf16";
    const char *optimizer = o->optimizer ? o->optimizer : cnn ? "sgd" : "adam";
    enum pdl_status st;

    j->oracle = (struct pdl_oracle_options){
        .parameters = o->parameters && strcmp(o->parameters, "ideal") == 0
                          ? PDL_IDEAL
                          : PDL_EMPIRICAL,
        .precision = pdl_precision_find(precision),
        .optimizer_slots = strcmp(optimizer, "adam") == 0 ? 2 : 1,
        .dataset = o->dataset,
        .unfused = o->attention && strcmp(o->attention, "unfused") == 0,
        .compile = o->compile,
        .async_tensor = o->async_tensor,
        .gradient_bytes = o->gradient_dtype ? bytes_of(o->gradient_dtype) : 0,
    };
    st = cli_effects(o->without, &j->oracle.without, err);
    if (st == PDL_OK)
        st = cli_congestion(o->congestion, &j->oracle, err);
    if (st == PDL_OK && o->framework)
        st = pdl_framework_open(a, o->framework, &j->oracle.framework, err);
    if (st == PDL_OK)
        st = settle_dropout(o->dropout, &j->oracle, err);
    if (st == PDL_OK)
        st = settle_headroom(o->headroom, &j->oracle, err);
    if (st != PDL_OK)
        return st;
    if (j->sys.pe.peak_flop_per_s[j->oracle.precision] > 0)
        return PDL_OK;
    return pdl_fail(err, PDL_EINVAL, "%s has no %s arithmetic", j->sys.pe.name,
                    precision);
}

enum pdl_dtype cli_storage(enum pdl_precision p)
{
    return p == PDL_PREC_BF16   ? PDL_BF16
           : p == PDL_PREC_FP16 ? PDL_F16
           : p == PDL_PREC_FP8  ? PDL_BF16
                                : PDL_F32;
}

enum pdl_status cli_job_open(pdl_arena *a, const struct cli_question *q,
                             struct cli_job *j, struct pdl_err *err)
{
    struct pdl_model_options mo = {.dims = q->dim};
    enum pdl_status st = pdl_model_load(a, q->model, &mo, &j->model, err);

    if (st == PDL_OK)
        st = pdl_system_open(a, q->system, &j->sys, err);
    if (st == PDL_OK)
        st = cli_job_settle(a, q, j, err);
    if (st == PDL_OK && q->pes > 0)
        st = pdl_system_for_pes(a, &j->sys, q->pes, err);
    return st;
}

enum pdl_status cli_job_price(pdl_arena *a, const struct cli_question *q,
                              const char *strategy, struct cli_job *j,
                              struct pdl_err *err)
{
    struct pdl_plan_options po = {
        .batch = q->batch,
        .split = pdl_framework_split(j->oracle.framework),
        .allow_empty = q->allow_empty,
        .dtype = cli_storage(j->oracle.precision)};
    enum pdl_status st = pdl_strategy_parse(a, strategy, &j->strategy, err);

    j->asked = j->strategy;
    if (st == PDL_OK)
        st = pdl_speeds(a, &j->sys, j->oracle.precision, &po, err);
    if (st == PDL_OK)
        pdl_framework_adapt(j->oracle.framework, j->model, &j->strategy);
    if (st == PDL_OK)
        st = pdl_swap_settle(a, j->model, &j->sys, &j->oracle, &po,
                             &j->strategy, err);
    if (st == PDL_OK)
        st = pdl_plan_lower(a, j->model, &j->strategy, &po, &j->plan, err);
    if (st == PDL_OK && q->pes > 0 && q->pes != j->plan->mesh->pes)
        st = pdl_fail(err, PDL_EINVAL,
                      "the strategy multiplies to %lld PEs, not %lld",
                      (long long)j->plan->mesh->pes, (long long)q->pes);
    if (st == PDL_OK)
        st = pdl_system_for_pes(a, &j->sys, j->plan->mesh->pes, err);
    if (st == PDL_OK)
        st = pdl_project(j->plan, &j->sys, &j->oracle, &j->x, err);
    return st;
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
