/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl plan show|check|cost: plan files (doc/formats/plan.md). A file is
 * never trusted: all three run the checker. */
#include "cli/output/projection.h"

#include <stdio.h>
#include <string.h>

enum { MAX_FILE = 1 << 29 };

/* Larger plans are not executed symbolically: FLOPs and items of all ranks. */
static const double MAX_PROOF = 2e8;

struct options {
    struct cli_question q;
    bool prove, text;
};

/* ---- reading ----------------------------------------------------------- */

/* The checker's word is about the file here, not about this program. */
static enum pdl_status check(const char *path, const struct pdl_plan *p,
                             struct pdl_err *err)
{
    struct pdl_err inner = {"", ""};
    enum pdl_status st = pdl_plan_check(p, &inner);

    if (st == PDL_OK)
        return st;
    return pdl_fail(err, st == PDL_EWRONG ? PDL_EINVAL : st, "%s: %s", path,
                    inner.msg);
}

static enum pdl_status open_plan(pdl_arena *a, const char *path,
                                 struct pdl_plan_head *head,
                                 const struct pdl_plan **p, struct pdl_err *err)
{
    struct pdl_bytes in;
    enum pdl_status st = pdl_file_read(a, path, MAX_FILE, &in, err);

    if (st == PDL_OK)
        st = pdl_plan_read(a, in, path, NULL, head, p, err);
    return st == PDL_OK ? check(path, *p, err) : st;
}

/* ---- show -------------------------------------------------------------- */

struct tally {
    int64_t count, flops, bytes;
};

/* By kind of operation: how many, and what the first rank does in them. */
static void count_ops(const struct pdl_plan *p, struct tally *t)
{
    for (int i = 0; i < p->nops; i++) {
        struct pdl_work w;

        t[p->ops[i].kind].count++;
        if (p->ops[i].kind == PDL_PLAN_OP_FREE)
            continue;
        pdl_plan_op_work(p, i, 0, &w);
        t[p->ops[i].kind].flops += w.flops;
        t[p->ops[i].kind].bytes += w.read_bytes + w.write_bytes;
    }
}

static void show_json(const struct pdl_plan_head *head,
                      const struct pdl_plan *p, const char *strategy,
                      const struct tally *t)
{
    struct pdl_json w;

    pdl_json_init(&w, cli_out());
    pdl_json_schema(&w, "plan-show");
    pdl_json_kstr(&w, "model", head->model);
    pdl_json_kstr(&w, "system", head->system);
    pdl_json_kstr(&w, "strategy", strategy);
    pdl_json_kint(&w, "pes", p->mesh->pes);
    pdl_json_kint(&w, "batch", p->batch);
    pdl_json_kint(&w, "micro_batches", p->micro_batches);
    pdl_json_kint(&w, "stages", p->nstages);
    pdl_json_kint(&w, "tensors", p->ntensors);
    pdl_json_key(&w, "operations");
    pdl_json_array(&w);
    for (int k = 0; k <= PDL_PLAN_OP_FREE; k++) {
        if (t[k].count == 0)
            continue;
        pdl_json_row(&w);
        pdl_json_kstr(&w, "kind", pdl_plan_op_name((enum pdl_plan_op_kind)k));
        pdl_json_kint(&w, "count", t[k].count);
        pdl_json_kint(&w, "flops", t[k].flops);
        pdl_json_kint(&w, "bytes", t[k].bytes);
        pdl_json_end(&w);
    }
    pdl_json_end(&w);
    pdl_json_end(&w);
}

static void show_text(pdl_arena *a, const struct pdl_plan_head *head,
                      const struct pdl_plan *p, const char *strategy,
                      const struct tally *t)
{
    static const struct pdl_column columns[] = {{"OPERATION", false},
                                                {"COUNT", true},
                                                {"FLOPS", true},
                                                {"BYTES", true}};
    struct pdl_sink *out = cli_out();
    struct pdl_table table;
    char x[32], model[256];

    snprintf(model, sizeof model, "%s", head->model);
    pdl_tame(model);
    pdl_printf(out, "%s, %s, batch %lld, on %lld PEs%s%s\n", model, strategy,
               (long long)p->batch, (long long)p->mesh->pes,
               head->system ? " of " : "", head->system ? head->system : "");
    pdl_printf(out, "%d stage%s, %lld micro-batch%s, %d tensors, mesh",
               p->nstages, p->nstages == 1 ? "" : "s",
               (long long)p->micro_batches, p->micro_batches == 1 ? "" : "es",
               p->ntensors);
    for (int f = 0; f < p->mesh->nfactors; f++)
        pdl_printf(out, " a%d=%lld", f, (long long)p->mesh->factor[f]);
    pdl_puts(out, "\n");
    pdl_table_init(&table, a, columns, 4);
    for (int k = 0; k <= PDL_PLAN_OP_FREE; k++) {
        if (t[k].count == 0)
            continue;
        pdl_table_cell(&table, "%s",
                       pdl_plan_op_name((enum pdl_plan_op_kind)k));
        pdl_table_cell(&table, "%lld", (long long)t[k].count);
        pdl_table_cell(&table, "%s",
                       t[k].flops == 0
                           ? ""
                           : pdl_unit_format((double)t[k].flops, PDL_UNIT_NONE,
                                             x, sizeof x));
        pdl_table_cell(&table, "%s",
                       t[k].bytes == 0
                           ? ""
                           : pdl_unit_format((double)t[k].bytes, PDL_UNIT_BYTES,
                                             x, sizeof x));
    }
    pdl_table_print(&table, cli_width(), out);
    pdl_puts(out, "FLOPs and bytes are those of the first rank.\n");
    for (int i = 0; i < p->nfallbacks; i++)
        pdl_printf(out, "note: %s\n", p->fallbacks[i]);
}

static enum pdl_status show_plan(pdl_arena *a, const struct pdl_args *args,
                                 struct pdl_err *err)
{
    const struct options *o = args->opts;
    struct tally t[PDL_PLAN_OP_FREE + 1] = {{0}};
    struct pdl_plan_head head;
    const struct pdl_plan *p;
    struct pdl_buf b;
    enum pdl_status st = open_plan(a, args->pos[0], &head, &p, err);

    if (st != PDL_OK)
        return st;
    if (o->text) {
        pdl_plan_print(p, &head, cli_out());
        return PDL_OK;
    }
    count_ops(p, t);
    pdl_buf_init(&b);
    pdl_strategy_print(p->strategy, &b.sink);
    if (args->json)
        show_json(&head, p, b.text, t);
    else
        show_text(a, &head, p, b.text, t);
    pdl_buf_free(&b);
    return PDL_OK;
}

static int show(const struct pdl_args *args)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_err err = {"", ""};
    enum pdl_status st = a ? show_plan(a, args, &err)
                           : pdl_fail(&err, PDL_ENOMEM, "out of memory");

    pdl_arena_destroy(a);
    return st == PDL_OK ? EXIT_OK : cli_fail(st, &err);
}

/* ---- check ------------------------------------------------------------- */

static double proof_size(const struct pdl_plan *p)
{
    double n = 0;

    for (int i = 0; i < p->nops; i++) {
        struct pdl_work w;

        pdl_plan_op_work(p, i, 0, &w);
        n += (double)w.flops + (double)w.write_bytes;
    }
    return n * (double)p->mesh->pes * (double)p->micro_batches;
}

static int prove(const char *path, const struct pdl_plan *p)
{
    struct pdl_err err = {"", ""}, inner = {"", ""};
    enum pdl_status st;

    if (proof_size(p) > MAX_PROOF) {
        pdl_fail(&err, PDL_EINVAL, "%s: too large to execute symbolically",
                 path);
        pdl_hint(&err, "--prove is for small batches of small networks");
        return cli_fail(PDL_EINVAL, &err);
    }
    st = pdl_plan_prove(p, 1, &inner);
    if (st == PDL_OK)
        return EXIT_OK;
    pdl_fail(&err, st, "%s: %s", path, inner.msg);
    cli_fail(st == PDL_EWRONG ? PDL_EINVAL : st, &err);
    return st == PDL_EWRONG ? EXIT_NO : EXIT_INPUT;
}

static void check_result(const struct pdl_args *args, const struct pdl_plan *p)
{
    const struct options *o = args->opts;
    struct pdl_json w;

    if (!args->json) {
        cli_say(2, "%s: %d operations, %d tensors, %lld PE%s: ok%s",
                args->pos[0], p->nops, p->ntensors, (long long)p->mesh->pes,
                p->mesh->pes == 1 ? "" : "s",
                o->prove ? ", equal to the unsharded network" : "");
        return;
    }
    pdl_json_init(&w, cli_out());
    pdl_json_schema(&w, "plan-check");
    pdl_json_kbool(&w, "ok", true);
    pdl_json_kbool(&w, "proved", o->prove);
    pdl_json_kint(&w, "operations", p->nops);
    pdl_json_kint(&w, "tensors", p->ntensors);
    pdl_json_kint(&w, "pes", p->mesh->pes);
    pdl_json_end(&w);
}

static int check_file(const struct pdl_args *args)
{
    const struct options *o = args->opts;
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_plan_head head;
    const struct pdl_plan *p = NULL;
    struct pdl_err err = {"", ""};
    enum pdl_status st = a ? open_plan(a, args->pos[0], &head, &p, &err)
                           : pdl_fail(&err, PDL_ENOMEM, "out of memory");
    int rc = st == PDL_OK ? EXIT_OK : cli_fail(st, &err);

    if (p && rc == EXIT_OK && o->prove)
        rc = prove(args->pos[0], p);
    if (p && rc == EXIT_OK)
        check_result(args, p);
    pdl_arena_destroy(a);
    return rc;
}

/* ---- cost -------------------------------------------------------------- */

static int cost(const struct pdl_args *args)
{
    const struct options *o = args->opts;
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct cli_job *j = a ? PDL_NEW(a, struct cli_job, 1) : NULL;
    struct pdl_err err = {"", ""};
    enum pdl_status st = j ? cli_job_price_file(&o->q, args->pos[0], j, &err)
                           : pdl_fail(&err, PDL_ENOMEM, "out of memory");
    struct pdl_json w;
    int rc;

    if (st != PDL_OK) {
        rc = cli_fail(st, &err);
    } else {
        if (args->json) {
            pdl_json_init(&w, cli_out());
            pdl_json_schema(&w, "project");
            cli_job_json(&w, j);
            pdl_json_end(&w);
        } else {
            cli_job_text(j);
        }
        rc = j->x.feasible ? EXIT_OK : EXIT_NO;
    }
    cli_job_close(j);
    pdl_arena_destroy(a);
    return rc;
}

/* ---- tables ------------------------------------------------------------ */

#define AT(field) offsetof(struct options, field)
// clang-format off
static const struct pdl_opt show_opts[] = {
    {"text", 0, PDL_OPT_FLAG, AT(text), NULL, NULL,
     "the whole file again, in its canonical form"},
};
static const struct pdl_opt check_opts[] = {
    {"prove", 0, PDL_OPT_FLAG, AT(prove), NULL, NULL,
     "also execute it in exact arithmetic beside the unsharded network"},
};
static const struct pdl_opt cost_opts[] = {
    {"system", 0, PDL_OPT_TEXT, AT(q.system), "SYSTEM", NULL,
     "price it there (default: the system that the file names)"},
    {"parameters", 0, PDL_OPT_TEXT, AT(q.parameters), "KIND", "ideal|empirical",
     "peak rates, or sustained and measured ones (default)"},
    {"optimizer", 0, PDL_OPT_TEXT, AT(q.optimizer), "NAME", "sgd|adam",
     "sgd with momentum, or adam (default: what the file names)"},
    {"precision", 0, PDL_OPT_TEXT, AT(q.precision), "NAME",
     "fp32|tf32|bf16|fp16|fp8|mxfp8|fp4|nvfp4",
     "of the arithmetic (default: what the file names)"},
    {"framework", 0, PDL_OPT_TEXT, AT(q.framework), "FRAMEWORK", NULL,
     "whose habits to add: pytorch, megatron, chainermnx, ... (default: none)"},
    {"attention", 0, PDL_OPT_TEXT, AT(q.attention), "KIND", "flash|unfused",
     "keep no scores (default), or products, softmax and scores apart"},
    {"dropout", 0, PDL_OPT_TEXT, AT(q.dropout), "X", NULL,
     "its probability (default: the framework's)"},
    {"gradient-dtype", 0, PDL_OPT_TEXT, AT(q.gradient_dtype), "NAME",
     "fp32|bf16|fp16", "what gradients add up in (default: as the weights)"},
    {"compile", 0, PDL_OPT_FLAG, AT(q.compile), NULL, NULL,
     "element-wise operators are fused by a compiler"},
    {"dataset", 0, PDL_OPT_TEXT, AT(q.dataset), "D", NULL,
     "samples of an epoch, to project its time: a number, a name or a file"},
};
// clang-format on
#undef AT

const struct pdl_cmd cli_plan_show = {
    .name = "plan show",
    .args = "FILE",
    .min_pos = 1,
    .max_pos = 1,
    .summary = "what a plan file holds",
    .text = "Reads a plan file, checks it and prints its header, its mesh and "
            "its operations by kind. --text writes the file again.",
    .example = "paradl plan show lenet5.plan",
    .opts = show_opts,
    .nopts = sizeof show_opts / sizeof show_opts[0],
    .opts_size = sizeof(struct options),
    .run = show,
};

const struct pdl_cmd cli_plan_check = {
    .name = "plan check",
    .args = "FILE",
    .min_pos = 1,
    .max_pos = 1,
    .summary = "is a plan file right?",
    .text = "Reads a plan file and runs the checker: every read follows a "
            "write, nothing is used after it is freed, every collective "
            "resolves what it says, every window has its halo, every weight "
            "is updated once. --prove executes small plans in exact "
            "arithmetic and compares the updated weights with those of the "
            "unsharded network (exit code 1 when they differ).",
    .example = "paradl plan check lenet5.plan --prove",
    .opts = check_opts,
    .nopts = sizeof check_opts / sizeof check_opts[0],
    .opts_size = sizeof(struct options),
    .run = check_file,
};

const struct pdl_cmd cli_plan_cost = {
    .name = "plan cost",
    .args = "FILE",
    .min_pos = 1,
    .max_pos = 1,
    .summary = "what a plan file costs on a system",
    .text = "Prices the operations of a plan file, as 'paradl project' prices "
            "those it lowers itself: the plan may be moved to another system.",
    .example = "paradl plan cost lenet5.plan --system dgx-a100",
    .opts = cost_opts,
    .nopts = sizeof cost_opts / sizeof cost_opts[0],
    .opts_size = sizeof(struct options),
    .run = cost,
};
