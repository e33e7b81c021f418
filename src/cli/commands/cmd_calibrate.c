/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl calibrate: this machine as a system (calibrate_machine.c); with
 * --fit, named physical parameters of a system from measurements. */
#include "cli/commands/cli_calibrate.h"
#include "cli/questions/measured.h"

#include <math.h>
#include <string.h>

#define AT(field) offsetof(struct cli_calibrate_options, field)
// clang-format off
static const struct pdl_opt opts[] = {
    {"fit", 0, PDL_OPT_TEXT, AT(fit), "FILE", NULL,
     "measured runs (paradl.runs/1) or layer times (paradl.layers/1)"},
    {"select", 0, PDL_OPT_TEXT, AT(select), "KEY=VALUE,...", NULL,
     "rows to fit: , is and, | is or, values are globs"},
    {"base", 0, PDL_OPT_TEXT, AT(base), "SYSTEM", NULL,
     "the system whose parameters are fitted"},
    {"output", 'o', PDL_OPT_TEXT, AT(output), "FILE", NULL,
     "where the system goes (default: standard output)"},
    {"without", 0, PDL_OPT_TEXT, AT(without), "EFFECT,...", NULL,
     "fit a model that leaves out these effects"},
    {"leave-out", 0, PDL_OPT_TEXT, AT(leave_out), "GROUP",
     "kind|pes|run",
     "also fit without each kind of strategies, each number of PEs or each run, "
     "and project what was left out"},
    {"start", 0, PDL_OPT_TEXT, AT(start), "PARAMETER=VALUE,...", NULL,
     "what is known of a parameter without the runs, within a factor of 1.5 in "
     "80 % of cases; it weighs as much as the runs, each within 2 %"},
    {"device", 0, PDL_OPT_TEXT, AT(device), "NAME", NULL,
     "a device of this machine instead: cuda, cuda:1"},
    {"ranks", 'n', PDL_OPT_COUNT, AT(ranks), "P", NULL,
     "PEs of this machine, one rank each (as many as processors)"},
    {"threads", 0, PDL_OPT_COUNT, AT(threads), "T", NULL,
     "of a PE (the processors divided by the PEs)"},
    {"max-ranks", 0, PDL_OPT_COUNT, AT(most), "P", NULL,
     "measure collectives on 2, 4, 8 ... up to P ranks (twice the processors, "
     "at least 8)"},
    {"collective", 0, PDL_OPT_TEXT, AT(collective), "NAME",
     "allreduce|reduce-scatter|allgather|alltoall|broadcast",
     "measure this one alone (all five)"},
    {"rounds", 0, PDL_OPT_COUNT, AT(rounds), "N", NULL,
     "of starts of the ranks, whose middle time counts (3)"},
    {"seconds", 0, PDL_OPT_TIME, AT(seconds), "TIME", NULL,
     "for each measurement (0.1s; below 20ms fewer are made)"},
    {"name", 0, PDL_OPT_TEXT, AT(name), "NAME", NULL,
     "of the measured system (this-machine)"},
};
// clang-format on
#undef AT

static double layers_cost(const struct pdl_system *sys, void *ctx)
{
    const struct pdl_layer_times *t = ctx;
    double sum = 0;

    for (int i = 0; i < t->n; i++)
        sum += fabs(log(pdl_layer_seconds(&sys->pe, &t->row[i]) /
                        t->row[i].measured_s));
    return sum / t->n;
}

static enum pdl_status fit_layers(struct cli_measured *m,
                                  struct pdl_system *sys, struct cli_fit *fit,
                                  struct pdl_err *err)
{
    static const char *const keys[] = {"model", "layer", "op", "split",
                                       "dtype", "pass",  NULL};
    struct pdl_layer_times *t = PDL_NEW(m->a, struct pdl_layer_times, 1);
    struct pdl_row_filter select;
    enum pdl_status st;

    if (!t)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    st = pdl_row_filter_parse(m->a, m->select, keys, &select, err);
    if (st == PDL_OK)
        st = pdl_layers_read(m->a, m->doc, &select, t, err);
    if (st == PDL_OK && t->n == 0)
        st = pdl_fail(err, PDL_EINVAL, "%s: nothing selected", m->file);
    if (st != PDL_OK)
        return st;
    while (fit->n < PDL_FIT_MAX && pdl_fit_layer_param(fit->n))
        fit->n++;
    fit->param = pdl_fit_layer_param(0);
    fit->rows = t->n;
    pdl_fit_system(sys, fit->param, fit->n, layers_cost, t, t->n, false,
                   &fit->result);
    return PDL_OK;
}

static void print_left_out(const struct cli_fit *f, struct pdl_sink *out)
{
    const struct cli_residual *x = f->residual;
    double sum = 0;

    for (int i = 0; x && i < f->rows; i++)
        sum += fabs(x[i].left);
    pdl_printf(out, "each %s left out once: mean error %.1f %%\n", f->leave_out,
               100 * sum / f->rows);
    for (int i = 0; x && i < f->rows; i++)
        pdl_printf(out, "  %-20.20s %-34.48s %+6.1f %%\n", x[i].id,
                   x[i].strategy, 100 * x[i].left);
}

static void print_fit(const struct cli_fit *f, struct pdl_sink *out)
{
    pdl_printf(out,
               "fitted to %d times in %d evaluations:\n"
               "error of the logarithm %.4f -> %.4f\n",
               f->rows, f->result.evaluations, f->result.before,
               f->result.after);
    if (f->held_out > 0)
        pdl_printf(out,
                   "kinds of strategies left out one at a time: 80 %% of kinds "
                   "within %.1f %%\n",
                   100 * f->held_out);
    for (int i = 0; i < f->n; i++) {
        double v = f->result.value[i];
        bool edge = v <= f->param[i].low || v >= f->param[i].high;

        pdl_printf(out, "  %-34s %12.5g  %s%s\n", f->param[i].name, v,
                   f->result.identified[i] ? "" : "not identified",
                   edge ? " (at its bound)" : "");
    }
    if (f->residual)
        pdl_puts(out, "what the fit leaves, projected over measured:\n");
    for (int i = 0; f->residual && i < f->rows; i++)
        pdl_printf(out, "  %-20.20s %-34.48s %+6.1f %%\n", f->residual[i].id,
                   f->residual[i].strategy, 100 * f->residual[i].off);
    if (f->residual && f->leave_out)
        print_left_out(f, out);
}

static void json_fit(const struct cli_fit *f)
{
    struct pdl_json w;

    pdl_json_init(&w, cli_out());
    pdl_json_schema(&w, "calibrate");
    pdl_json_kint(&w, "rows", f->rows);
    pdl_json_kint(&w, "evaluations", f->result.evaluations);
    pdl_json_knum(&w, "error_before", f->result.before);
    pdl_json_knum(&w, "error_after", f->result.after);
    pdl_json_knum(&w, "misfit", f->result.misfit);
    pdl_json_knum(&w, "held_out_error", f->held_out);
    pdl_json_key(&w, "parameters");
    pdl_json_array(&w);
    for (int i = 0; i < f->n; i++) {
        pdl_json_row(&w);
        pdl_json_kstr(&w, "name", f->param[i].name);
        pdl_json_knum(&w, "value", f->result.value[i]);
        pdl_json_knum(&w, "low", f->param[i].low);
        pdl_json_knum(&w, "high", f->param[i].high);
        pdl_json_knum(&w, "sensitivity", f->result.sensitivity[i]);
        pdl_json_kbool(&w, "identified", f->result.identified[i]);
        pdl_json_end(&w);
    }
    pdl_json_end(&w);
    if (f->residual) {
        pdl_json_key(&w, "residuals");
        pdl_json_array(&w);
        for (int i = 0; i < f->rows; i++) {
            pdl_json_row(&w);
            pdl_json_kstr(&w, "id", f->residual[i].id);
            pdl_json_kstr(&w, "strategy", f->residual[i].strategy);
            pdl_json_knum(&w, "residual", f->residual[i].off);
            pdl_json_knum(&w, "kind_left_out", f->residual[i].kind);
            if (f->leave_out)
                pdl_json_knum(&w, "left_out", f->residual[i].left);
            pdl_json_end(&w);
        }
        pdl_json_end(&w);
    }
    pdl_json_end(&w);
}

static enum pdl_status fit(struct cli_measured *m, struct pdl_system *sys,
                           struct cli_fit *f, struct pdl_err *err)
{
    enum pdl_status st = cli_measured_open(m, err);

    if (st == PDL_OK)
        st = pdl_system_open(m->a, m->system, sys, err);
    if (st == PDL_OK)
        st = strcmp(m->schema, "paradl.layers/1") == 0
                 ? fit_layers(m, sys, f, err)
                 : cli_fit_runs(m, sys, f, err);
    return st;
}

static int calibrate(const struct pdl_args *args)
{
    const struct cli_calibrate_options *o = args->opts;
    struct cli_measured m = {.file = o->fit,
                             .select = o->select,
                             .system = o->base,
                             .schema = "",
                             .without = o->without};
    struct pdl_err err = {"", ""};
    struct pdl_system sys;
    struct cli_fit f = {.leave_out = o->leave_out, .start = o->start};
    struct pdl_buf text;
    enum pdl_status st;
    int rc;

    if (!o->fit && !o->base && !o->select)
        return cli_calibrate_machine(args);
    if (!o->fit || !o->base) {
        pdl_fail(&err, PDL_EINVAL, "--fit and --base go together");
        pdl_hint(&err, "see 'paradl calibrate --help'");
        return cli_usage(&err);
    }
    m.a = pdl_arena_create(PDL_ARENA_DEFAULT);
    st = m.a ? cli_check_output(o->output, NULL, &err)
             : pdl_fail(&err, PDL_ENOMEM, "out of memory");
    if (st == PDL_OK)
        st = fit(&m, &sys, &f, &err);
    if (st != PDL_OK) {
        rc = f.usage ? cli_usage(&err) : cli_fail(st, &err);
        pdl_arena_destroy(m.a);
        return rc;
    }
    if (args->json)
        json_fit(&f);
    else if (o->output)
        print_fit(&f, cli_out());
    pdl_buf_init(&text);
    pdl_system_write(&sys, &text.sink);
    rc = args->json && !o->output ? EXIT_OK : cli_write(o->output, &text);
    pdl_buf_free(&text);
    pdl_arena_destroy(m.a);
    return rc;
}

const struct pdl_cmd cli_calibrate = {
    .name = "calibrate",
    .args = "",
    .summary = "measures this machine, or fits a system to measurements",
    .text =
        "Without --fit: measures the machine it runs on and writes it as a "
        "system that every other command takes: memory, operators by "
        "shape, messages by size and transport, allreduce by size and "
        "number of ranks. It starts paradl-run on all ranks; nothing else "
        "should run meanwhile. --device: what one GPU takes for every "
        "operation "
        "of networks that train on it, under a load that lasts.\n\n"
        "With --fit: moves named physical parameters of a system, within "
        "bounds, until its projections match the selected measurements "
        "best (of training steps: and what is known of the parameters "
        "without them), and writes the system. Parameters that the rows do not "
        "identify are named.",
    .example = "paradl calibrate -o here.yaml",
    .opts = opts,
    .nopts = sizeof opts / sizeof opts[0],
    .opts_size = sizeof(struct cli_calibrate_options),
    .run = calibrate,
};
