/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl project: what one strategy costs for a model on a system. */
#include "projection.h"

#include <stdio.h>
#include <string.h>

struct options {
    struct cli_question q;
    bool layers;
};

#define AT(field) offsetof(struct options, field)
// clang-format off
static const struct pdl_opt opts[] = {
    {"system", 0, PDL_OPT_TEXT, AT(q.system), "SYSTEM", NULL,
     "a built-in system, one with parameters, or a YAML file"},
    {"strategy", 0, PDL_OPT_TEXT, AT(q.strategy), "STRATEGY", NULL,
     "how to parallelise, e.g. data=16,filter=4"},
    {"batch", 0, PDL_OPT_INT, AT(q.batch), "B", NULL,
     "samples of one step, over all PEs"},
    {"pes", 0, PDL_OPT_INT, AT(q.pes), "N", NULL,
     "number of PEs; must be the product of the strategy's axes"},
    {"parameters", 0, PDL_OPT_TEXT, AT(q.parameters), "KIND", "ideal|empirical",
     "peak rates, or sustained and measured ones (default)"},
    {"optimizer", 0, PDL_OPT_TEXT, AT(q.optimizer), "NAME", "sgd|adam",
     "sgd with momentum, or adam (default by kind of model)"},
    {"precision", 0, PDL_OPT_TEXT, AT(q.precision), "NAME",
     "fp32|tf32|bf16|fp16|fp8",
     "of the arithmetic (default: fp32 for CNNs, bf16 for transformers)"},
    {"framework", 0, PDL_OPT_TEXT, AT(q.framework), "NAME", NULL,
     "whose habits to add: pytorch, megatron, chainermnx, ... (default: none)"},
    {"dataset", 0, PDL_OPT_INT, AT(q.dataset), "D", NULL,
     "samples of an epoch, to project its time"},
    {"dim", 0, PDL_OPT_TEXT, AT(q.dim), "NAME=N,...", NULL,
     "bind symbolic dimensions of the model"},
    {"layers", 0, PDL_OPT_FLAG, AT(layers), NULL, NULL,
     "also every operation with its price"},
    {"allow-empty", 0, PDL_OPT_FLAG, AT(q.allow_empty), NULL, NULL,
     "admit an axis larger than the index it cuts"},
};
// clang-format on
#undef AT

static void json_layers(struct pdl_json *w, const struct cli_job *j)
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
        pdl_json_kstr(w, "name", cli_op_text(j->plan, i, buf, sizeof buf));
        pdl_json_knum(w, "seconds", price.seconds);
        if (price.level >= 0)
            pdl_json_kstr(w, "level", j->sys.levels[price.level].name);
        pdl_json_end(w);
    }
    pdl_json_end(w);
}

static void print_json(const struct cli_job *j, bool layers)
{
    struct pdl_json w;

    pdl_json_init(&w, cli_out());
    pdl_json_schema(&w, "project");
    cli_job_json(&w, j);
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

static void print_text(const struct cli_job *j, bool layers)
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
                   cli_op_text(j->plan, i, buf, sizeof buf),
                   pdl_unit_format(p.seconds, PDL_UNIT_SECONDS, t, sizeof t),
                   p.level >= 0 ? j->sys.levels[p.level].name : "");
    }
}

static int project(const struct pdl_args *args)
{
    const struct options *o = args->opts;
    struct cli_question q = o->q;
    struct pdl_err err = {"", ""};
    pdl_arena *a;
    struct cli_job *j;
    enum pdl_status st = PDL_OK;
    int rc;

    if (!q.system || !q.strategy || q.batch == 0) {
        pdl_fail(&err, PDL_EINVAL,
                 "project needs --system, --strategy and "
                 "--batch");
        pdl_hint(&err, "see 'paradl project --help'");
        return cli_usage(&err);
    }
    q.model = args->pos[0];
    a = pdl_arena_create(PDL_ARENA_DEFAULT);
    j = a ? PDL_NEW(a, struct cli_job, 1) : NULL;
    if (!j)
        st = pdl_fail(&err, PDL_ENOMEM, "out of memory");
    if (st == PDL_OK)
        st = cli_job_open(a, &q, j, &err);
    if (st == PDL_OK)
        st = cli_job_price(a, &q, q.strategy, j, &err);
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
