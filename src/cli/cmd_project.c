/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl project: what one strategy costs for a model on a system. */
#include "cli_priv.h"

#include "paradl/model.h"
#include "paradl/oracle.h"
#include "paradl/plan.h"
#include "paradl/system.h"

#include <stdio.h>
#include <string.h>

struct options {
    const char *system, *strategy, *parameters, *optimizer, *precision, *dim;
    int64_t batch, pes, dataset;
    bool layers, allow_empty;
};

#define AT(field) offsetof(struct options, field)
// clang-format off
static const struct pdl_opt opts[] = {
    {"system", 0, PDL_OPT_TEXT, AT(system), "SYSTEM", NULL,
     "a built-in system, one with parameters, or a YAML file"},
    {"strategy", 0, PDL_OPT_TEXT, AT(strategy), "STRATEGY", NULL,
     "how to parallelise, e.g. data=16,filter=4"},
    {"batch", 0, PDL_OPT_INT, AT(batch), "B", NULL,
     "samples of one step, over all PEs"},
    {"pes", 0, PDL_OPT_INT, AT(pes), "N", NULL,
     "number of PEs; must be the product of the strategy's axes"},
    {"parameters", 0, PDL_OPT_TEXT, AT(parameters), "KIND", "ideal|empirical",
     "peak rates, or sustained and measured ones (default)"},
    {"optimizer", 0, PDL_OPT_TEXT, AT(optimizer), "NAME", "sgd|adam",
     "sgd with momentum, or adam (default by kind of model)"},
    {"precision", 0, PDL_OPT_TEXT, AT(precision), "NAME",
     "fp32|tf32|bf16|fp16|fp8",
     "of the arithmetic (default: fp32 for CNNs, bf16 for transformers)"},
    {"dataset", 0, PDL_OPT_INT, AT(dataset), "D", NULL,
     "samples of an epoch, to project its time"},
    {"dim", 0, PDL_OPT_TEXT, AT(dim), "NAME=N,...", NULL,
     "bind symbolic dimensions of the model"},
    {"layers", 0, PDL_OPT_FLAG, AT(layers), NULL, NULL,
     "also every operation with its price"},
    {"allow-empty", 0, PDL_OPT_FLAG, AT(allow_empty), NULL, NULL,
     "admit an axis larger than the index it cuts"},
};
// clang-format on
#undef AT

struct job {
    struct pdl_system sys;
    struct pdl_strategy strategy;
    const struct pdl_model *model;
    const struct pdl_plan *plan;
    struct pdl_oracle_options oracle;
    struct pdl_projection x;
};

static enum pdl_status settle(const struct options *o, struct job *j,
                              struct pdl_err *err)
{
    bool cnn = strcmp(j->model->kind, "transformer") != 0;
    const char *precision = o->precision ? o->precision : cnn ? "fp32" : "bf16";
    const char *optimizer = o->optimizer ? o->optimizer : cnn ? "sgd" : "adam";

    j->oracle = (struct pdl_oracle_options){
        .parameters = o->parameters && strcmp(o->parameters, "ideal") == 0
                          ? PDL_IDEAL
                          : PDL_EMPIRICAL,
        .precision = pdl_precision_find(precision),
        .optimizer_slots = strcmp(optimizer, "adam") == 0 ? 2 : 1,
        .dataset = o->dataset,
    };
    if (j->sys.pe.peak_flop_per_s[j->oracle.precision] > 0)
        return PDL_OK;
    return pdl_fail(err, PDL_EINVAL, "%s has no %s arithmetic", j->sys.pe.name,
                    precision);
}

static enum pdl_dtype storage(enum pdl_precision p)
{
    return p == PDL_PREC_BF16   ? PDL_BF16
           : p == PDL_PREC_FP16 ? PDL_F16
           : p == PDL_PREC_FP8  ? PDL_BF16
                                : PDL_F32;
}

static enum pdl_status make(pdl_arena *a, const char *model,
                            const struct options *o, struct job *j,
                            struct pdl_err *err)
{
    struct pdl_model_options mo = {.dims = o->dim};
    struct pdl_plan_options po = {.batch = o->batch,
                                  .allow_empty = o->allow_empty};
    enum pdl_status st = pdl_model_load(a, model, &mo, &j->model, err);

    if (st == PDL_OK)
        st = pdl_system_open(a, o->system, &j->sys, err);
    if (st == PDL_OK)
        st = pdl_strategy_parse(a, o->strategy, &j->strategy, err);
    if (st == PDL_OK)
        st = settle(o, j, err);
    if (st != PDL_OK)
        return st;
    po.dtype = storage(j->oracle.precision);
    st = pdl_plan_lower(a, j->model, &j->strategy, &po, &j->plan, err);
    if (st == PDL_OK && o->pes > 0 && o->pes != j->plan->mesh->pes)
        st = pdl_fail(err, PDL_EINVAL,
                      "the strategy multiplies to %lld PEs, not %lld",
                      (long long)j->plan->mesh->pes, (long long)o->pes);
    if (st == PDL_OK)
        st = pdl_system_for_pes(a, &j->sys, j->plan->mesh->pes, err);
    if (st == PDL_OK)
        st = pdl_project(j->plan, &j->sys, &j->oracle, &j->x, err);
    return st;
}

/* ---- JSON -------------------------------------------------------------- */

static void json_memory(struct pdl_json *w, const struct pdl_projection *x)
{
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

static const char *op_text(const struct pdl_plan *p, int i, char *buf,
                           size_t size)
{
    static const char *const passes[] = {"forward", "backward-data",
                                         "backward-weights"};
    const struct pdl_plan_op *o = &p->ops[i];

    if (o->kind != PDL_PLAN_OP_COMPUTE)
        snprintf(buf, size, "%s %s", pdl_plan_op_name(o->kind),
                 o->nin == 1 ? p->tensors[o->in[0]].name : "");
    else
        snprintf(buf, size, "%s %s", passes[o->pass],
                 o->node >= 0 ? p->model->nodes[o->node].name : "loss");
    return buf;
}

static void json_layers(struct pdl_json *w, const struct job *j)
{
    char buf[256];

    pdl_json_key(w, "operations");
    pdl_json_array(w);
    for (int i = 0; i < j->plan->nops; i++) {
        struct pdl_price price;

        if (j->plan->ops[i].kind == PDL_PLAN_OP_FREE)
            continue;
        pdl_price_op(j->plan, &j->sys, &j->oracle, i, &price);
        pdl_json_row(w);
        pdl_json_kint(w, "id", i);
        pdl_json_kstr(w, "name", op_text(j->plan, i, buf, sizeof buf));
        pdl_json_knum(w, "seconds", price.seconds);
        if (price.level >= 0)
            pdl_json_kstr(w, "level", j->sys.levels[price.level].name);
        pdl_json_end(w);
    }
    pdl_json_end(w);
}

static void print_json(const struct job *j, bool layers)
{
    const struct pdl_projection *x = &j->x;
    struct pdl_json w;

    pdl_json_init(&w, cli_out());
    pdl_json_schema(&w, "project");
    pdl_json_kint(&w, "pes", x->pes);
    pdl_json_kint(&w, "batch", x->batch);
    pdl_json_kbool(&w, "feasible", x->feasible);
    pdl_json_key(&w, "reasons");
    pdl_json_flat(&w);
    if (!x->feasible)
        pdl_json_str(&w, x->reason);
    pdl_json_end(&w);
    pdl_json_knum(&w, "step_s", x->step_s);
    pdl_json_knum(&w, "epoch_s", x->epoch_s);
    pdl_json_knum(&w, "samples_per_s", x->samples_per_s);
    pdl_json_knum(&w, "tokens_per_s", x->tokens_per_s);
    pdl_json_knum(&w, "mfu", x->mfu);
    json_time(&w, x);
    pdl_json_knum(&w, "compute_s", x->compute_s);
    pdl_json_knum(&w, "comm_s", x->comm_s);
    json_memory(&w, x);
    pdl_json_key(&w, "fallbacks");
    pdl_json_array(&w);
    for (int i = 0; i < j->plan->nfallbacks; i++)
        pdl_json_str(&w, j->plan->fallbacks[i]);
    pdl_json_end(&w);
    pdl_json_kstr(&w, "precision", pdl_precision_name(j->oracle.precision));
    pdl_json_kstr(&w, "optimizer",
                  j->oracle.optimizer_slots == 2 ? "adam" : "sgd");
    if (layers)
        json_layers(&w, j);
    pdl_json_end(&w);
}

/* ---- text --------------------------------------------------------------- */

static void line(const char *name, double v, enum pdl_unit unit, double share)
{
    char buf[32];

    pdl_printf(cli_out(), "  %-22s %12s", name,
               pdl_unit_format(v, unit, buf, sizeof buf));
    if (share >= 0)
        pdl_printf(cli_out(), "  %5.1f %%", 100 * share);
    pdl_puts(cli_out(), "\n");
}

static void print_times(const struct pdl_projection *x)
{
    const struct {
        const char *name;
        double s;
    } rows[] = {
        {"forward", x->forward_s},
        {"backward", x->backward_s},
        {"update", x->update_s},
        {"exposed communication", x->exposed_comm_s},
        {"pipeline bubble", x->bubble_s},
    };
    const struct {
        const char *name;
        double s;
    } busy[] = {
        {"gradient exchange", x->gradient_comm_s},
        {"layer collectives", x->layer_comm_s},
        {"halo exchange", x->halo_s},
        {"stage to stage", x->p2p_s},
    };

    line("step", x->step_s, PDL_UNIT_SECONDS, 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].s > 0)
            line(rows[i].name, rows[i].s, PDL_UNIT_SECONDS,
                 rows[i].s / x->step_s);
    pdl_puts(cli_out(), "Network busy\n");
    for (size_t i = 0; i < sizeof busy / sizeof busy[0]; i++)
        if (busy[i].s > 0)
            line(busy[i].name, busy[i].s, PDL_UNIT_SECONDS, -1);
}

static void print_text(const struct job *j, bool layers)
{
    const struct pdl_projection *x = &j->x;
    struct pdl_sink *out = cli_out();
    char buf[256], t[32];

    pdl_printf(out, "%s, batch %lld, on %lld PEs of %s (%s, %s)\n",
               j->model->name, (long long)x->batch, (long long)x->pes,
               j->sys.name, pdl_precision_name(j->oracle.precision),
               j->oracle.parameters == PDL_IDEAL ? "ideal" : "empirical");
    pdl_puts(out, "Time of a step\n");
    print_times(x);
    pdl_puts(out, "Memory of a PE\n");
    line("weights", (double)x->weights_bytes, PDL_UNIT_BYTES, -1);
    line("gradients", (double)x->gradients_bytes, PDL_UNIT_BYTES, -1);
    line("optimizer", (double)x->optimizer_bytes, PDL_UNIT_BYTES, -1);
    line("activations", (double)x->activations_bytes, PDL_UNIT_BYTES, -1);
    line("peak", (double)x->peak_bytes, PDL_UNIT_BYTES,
         (double)x->peak_bytes / (double)x->capacity_bytes);
    pdl_printf(out, "%s%.1f samples/s, %.1f %% of the peak FLOP/s\n",
               x->feasible ? "" : "DOES NOT FIT: more memory than a PE has. ",
               x->samples_per_s, 100 * x->mfu);
    for (int i = 0; i < j->plan->nfallbacks && i < 8; i++)
        pdl_printf(out, "note: %s\n", j->plan->fallbacks[i]);
    for (int64_t i = 0; i < j->sys.nnotes; i++)
        pdl_printf(out, "note: %s\n", j->sys.notes[i]);
    for (int i = 0; layers && i < j->plan->nops; i++) {
        struct pdl_price p;

        if (j->plan->ops[i].kind == PDL_PLAN_OP_FREE)
            continue;
        pdl_price_op(j->plan, &j->sys, &j->oracle, i, &p);
        pdl_printf(out, "%5d  %-52.52s %10s  %s\n", i,
                   op_text(j->plan, i, buf, sizeof buf),
                   pdl_unit_format(p.seconds, PDL_UNIT_SECONDS, t, sizeof t),
                   p.level >= 0 ? j->sys.levels[p.level].name : "");
    }
}

static int project(const struct pdl_args *args)
{
    const struct options *o = args->opts;
    struct pdl_err err = {"", ""};
    pdl_arena *a;
    struct job *j;
    enum pdl_status st = PDL_OK;
    int rc;

    if (!o->system || !o->strategy || o->batch == 0) {
        pdl_fail(&err, PDL_EINVAL,
                 "project needs --system, --strategy and "
                 "--batch");
        pdl_hint(&err, "see 'paradl project --help'");
        return cli_usage(&err);
    }
    a = pdl_arena_create(PDL_ARENA_DEFAULT);
    j = a ? PDL_NEW(a, struct job, 1) : NULL;
    if (!j)
        st = pdl_fail(&err, PDL_ENOMEM, "out of memory");
    if (st == PDL_OK)
        st = make(a, args->pos[0], o, j, &err);
    if (st != PDL_OK) {
        rc = cli_fail(st, &err);
    } else {
        if (args->json)
            print_json(j, o->layers);
        else
            print_text(j, o->layers);
        rc = j->x.feasible ? EXIT_OK : EXIT_NO;
    }
    pdl_arena_destroy(a);
    return rc;
}

const struct pdl_cmd cli_project = {
    .name = "project",
    .args = "MODEL",
    .min_pos = 1,
    .max_pos = 1,
    .summary = "what one strategy costs: time, traffic, memory",
    .text = "Lowers the model and the strategy to a plan, prices every "
            "operation of it on the system and prints the time of a training "
            "step by phase, the memory of a PE and whether it fits (exit code "
            "1 when it does not).",
    .example = "paradl project resnet50 --system abci-v100 "
               "--strategy data=64 --batch 2048",
    .opts = opts,
    .nopts = sizeof opts / sizeof opts[0],
    .opts_size = sizeof(struct options),
    .run = project,
};
