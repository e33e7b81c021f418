/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl project: what one strategy costs for a model on a system. */
#include "cli/output/projection.h"
#include "cli/questions/framework.h"
#include "cli/questions/runs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct options {
    struct cli_question q;
    bool layers, details;
    const char *emit, *trace, *chakra, *export, *output, *from, *kineto,
        *report, *evidence;
    double measured_s;
    struct cli_whole_options run;
    struct cli_epoch_options epoch;
};

#define AT(field) offsetof(struct options, field)
// clang-format off
static const struct pdl_opt opts[] = {
    CLI_PLAN_OPTS,
    {"pes", 0, PDL_OPT_COUNT, AT(q.pes), "N", NULL,
     "number of PEs; must be the product of the strategy's axes"},
    CLI_QUESTION_OPTS,
    {"offload", 0, PDL_OPT_TEXT, AT(q.offload), "WHETHER", "auto|none",
     "decide by block what is kept, made again, or waits on the host"},
    {"layers", 0, PDL_OPT_FLAG, AT(layers), NULL, NULL,
     "also every operation with its price"},
    {"trace", 0, PDL_OPT_TEXT, AT(trace), "FILE.json", NULL,
     "also write the step as a Chrome trace (chrome://tracing, Perfetto)"},
    {"chakra", 0, PDL_OPT_TEXT, AT(chakra), "PREFIX", NULL,
     "also write the step as Chakra execution traces, PREFIX.0.et and so on, and "
     "PREFIX.groups.json"},
    {"emit", 0, PDL_OPT_TEXT, AT(emit), "FILE.plan", NULL,
     "also write the plan to a file ('paradl plan show' reads it)"},
    CLI_EXPORT_OPTS("also write the job for another program, to -o"),
    {"from", 0, PDL_OPT_TEXT, AT(from), "FORMAT",
     "megatron-args|deepspeed|torchtitan|nanotron|accelerate|paradl",
     "MODEL is another program's launch file: take the job from it"},
    {"measured-step", 0, PDL_OPT_TIME, AT(measured_s), "TIME", NULL,
     "what a step takes today, to compare"},
    CLI_EVIDENCE_OPT("own measured runs, which the projection is anchored to"),
    {"kineto", 0, PDL_OPT_TEXT, AT(kineto), "TRACE", NULL,
     "a trace of PyTorch's profiler (.json, .json.gz), to compare by phase"},
    {"samples", 0, PDL_OPT_NUM, AT(run.samples), "N", NULL,
     "of a whole run, to project its time"},
    {"tokens", 0, PDL_OPT_NUM, AT(run.tokens), "N", NULL,
     "the same, for a transformer: 300G"},
    {"ramp-up", 0, PDL_OPT_TEXT, AT(run.ramp_up), "START,INCREMENT,SAMPLES", NULL,
     "of that run's batch, as Megatron's --rampup-batch-size"},
    {"straggler", 0, PDL_OPT_NUM, AT(run.straggler), "X", NULL,
     "slow nodes make its steps so many times longer (1)"},
    {"mtbf", 0, PDL_OPT_TIME, AT(run.mtbf_s), "TIME", NULL,
     "mean time between failures of one PE, e.g. 2000d (none fails)"},
    {"checkpoint-time", 0, PDL_OPT_TIME, AT(run.checkpoint_s), "TIME", NULL,
     "training stands still to save it; how often follows (Daly)"},
    {"restart-time", 0, PDL_OPT_TIME, AT(run.restart_s), "TIME", NULL,
     "from a failure to going on (0)"},
    {"checkpoint-interval", 0, PDL_OPT_TIME, AT(run.more.interval_s), "TIME", NULL,
     "work between checkpoints (Daly's); this and what follows are simulated, "
     "200 runs"},
    {"spares", 0, PDL_OPT_COUNT, AT(run.more.spares), "N", NULL,
     "nodes that wait to replace others (0), where these need a repair"},
    {"repair-time", 0, PDL_OPT_TIME, AT(run.more.repair_s), "TIME", NULL,
     "until a node that failed is back, mean (at once)"},
    {"manual", 0, PDL_OPT_NUM, AT(run.more.manual), "PART", NULL,
     "part of the failures that wait for a person (0)"},
    {"manual-time", 0, PDL_OPT_TIME, AT(run.more.manual_s), "TIME", NULL,
     "what the person takes, mean"},
    {"slow-mtbf", 0, PDL_OPT_TIME, AT(run.more.slow_mtbf_pe_s), "TIME", NULL,
     "until a PE turns slow, mean (none does)"},
    {"slow-by", 0, PDL_OPT_NUM, AT(run.more.slow_by), "X", NULL,
     "steps are then so many times longer"},
    {"slow-found", 0, PDL_OPT_TIME, AT(run.more.found_s), "TIME", NULL,
     "until it is found and taken out, mean"},
    {"allow-empty", 0, PDL_OPT_FLAG, AT(q.allow_empty), NULL, NULL,
     "admit an axis larger than the index it cuts"},
    {"shuffle", 0, PDL_OPT_TEXT, AT(epoch.shuffle), "all|NAME[:q=X]", NULL,
     "an epoch of --dataset by where samples come from: global (the shared "
     "file system), local, partial, pair"},
    {"hidden", 0, PDL_OPT_NUM, AT(epoch.hidden), "X", NULL,
     "part of the samples that an epoch hides, 0 to 0.9"},
    {"details", 0, PDL_OPT_FLAG, AT(details), NULL, NULL,
     "--json: also what a page shows (stages, schedule, links)"},
    {"report", 0, PDL_OPT_TEXT, AT(report), "FILE.html", NULL,
     "also write a page with charts"},
};
// clang-format on
#undef AT

static void json_layers(struct pdl_json *w, const struct cli_job *j,
                        const struct pdl_op_price *prices)
{
    char buf[256];

    pdl_json_key(w, "operations");
    pdl_json_array(w);
    for (int i = 0; i < j->plan->nops; i++) {
        struct pdl_op_price price = prices[i];

        if (j->plan->ops[i].kind == PDL_PLAN_OP_FREE)
            continue;
        pdl_json_row(w);
        pdl_json_kint(w, "id", i);
        pdl_json_kstr(w, "name", pdl_plan_op_text(j->plan, i, buf, sizeof buf));
        pdl_json_knum(w, "seconds", price.seconds);
        if (price.level >= 0)
            pdl_json_kstr(w, "level", j->sys.levels[price.level].name);
        pdl_json_end(w);
    }
    pdl_json_end(w);
}

/* Where a measured step lies: -1 below the interval, 0 inside, 1 above. */
static int beside_band(const struct cli_job *j, double measured_s)
{
    struct pdl_projection x = j->x;

    pdl_interval(j->plan, &j->sys, &j->oracle, &x);
    if (!(x.low_s > 0))
        return 0;
    return measured_s < x.low_s ? -1 : measured_s > x.high_s;
}

/* What to check when a step takes longer than projected, the likeliest of this
 * job first. */
enum { CAUSES = 5 };
static const double MUCH = .15; /* of a step */

static int causes(const struct cli_job *j, const char *out[CAUSES])
{
    const struct {
        bool holds;
        const char *what;
    } all[CAUSES] = {
        {pdl_memory_tight(&j->x),
         "memory is nearly full: the allocator gives back and asks again"},
        {j->x.exposed_comm_s > MUCH * j->x.step_s,
         "the network: other jobs, an adapter that is down ('paradl bench' "
         "measures it)"},
        {!j->oracle.framework, "what the framework adds: --framework"},
        {true, "the input: reading and preparing samples is not projected"},
        {true, "clocks: power and heat ('paradl calibrate' measures rates)"},
    };
    int n = 0;

    for (int i = 0; i < CAUSES; i++)
        if (all[i].holds)
            out[n++] = all[i].what;
    return n;
}

static void measured_json(struct pdl_json *w, const struct cli_job *j,
                          double measured_s)
{
    int where = beside_band(j, measured_s);
    const char *what[CAUSES];
    int n = where > 0 ? causes(j, what) : 0;

    pdl_json_key(w, "measured");
    pdl_json_object(w);
    pdl_json_knum(w, "step_s", measured_s);
    pdl_json_knum(w, "accuracy",
                  1 - fabs(j->x.step_s - measured_s) / measured_s);
    pdl_json_kbool(w, "inside", where == 0);
    pdl_json_key(w, "check");
    pdl_json_array(w);
    for (int i = 0; i < n; i++)
        pdl_json_str(w, what[i]);
    pdl_json_end(w);
    pdl_json_end(w);
}

static void check_text(const struct cli_job *j, double measured_s)
{
    int where = beside_band(j, measured_s), n = 0;
    const char *what[CAUSES];

    if (where == 0)
        cli_say(2, "that is inside the 80 %% interval");
    else if (where < 0)
        cli_say(2, "that is faster than the 80 %% interval: is less done than "
                   "said (shorter sequences, frozen weights), or is the system "
                   "a faster one?");
    else {
        cli_say(2, "that is slower than the 80 %% interval; check");
        n = causes(j, what);
    }
    for (int i = 0; i < n; i++)
        cli_say(4, "  %s", what[i]);
}

static void measured_text(const struct cli_job *j, double measured_s)
{
    char a[32], b[32];

    pdl_printf(cli_out(),
               "\nmeasured       %s a step; projected %s, %+.1f %%\n",
               pdl_unit_format(measured_s, PDL_UNIT_SECONDS, a, sizeof a),
               pdl_unit_format(j->x.step_s, PDL_UNIT_SECONDS, b, sizeof b),
               100 * (j->x.step_s / measured_s - 1));
    check_text(j, measured_s);
}

/* A priced job and what was asked for it. */
struct answer {
    struct pdl_anchor anchor; /* --evidence */
    const struct cli_job *j;
    const struct options *o;
    const struct pdl_args *args;
    const struct cli_question *q; /* with what a launch file said */
    struct pdl_launch from;
    struct cli_remedy remedy[CLI_REMEDIES];
    int nremedies;
    struct pdl_op_price *prices; /* with --layers: of each operation */
    struct pdl_kineto trace;     /* with --kineto */
    bool whole;                  /* run was asked for */
    struct cli_whole run;
    struct cli_epochs epochs; /* --shuffle */
};

static void print_json(const struct answer *x, bool details,
                       struct pdl_sink *out)
{
    const struct cli_job *j = x->j;
    const struct options *o = x->o;
    struct pdl_json w;

    pdl_json_init(&w, out);
    pdl_json_schema(&w, "project");
    cli_question_json(&w, &cli_project, x->args, j);
    pdl_json_kstr(&w, "strategy", x->q->strategy);
    pdl_json_kint(&w, "tokens", j->model->tokens);
    if (x->q->framework)
        pdl_json_kstr(&w, "framework", x->q->framework);
    if (o->from)
        cli_from_json(&w, o->from, &x->from);
    cli_job_json(&w, j);
    if (!j->x.feasible)
        cli_remedies_json(&w, x->remedy, x->nremedies);
    if (o->measured_s > 0)
        measured_json(&w, j, o->measured_s);
    if (o->evidence)
        cli_anchor_json(&w, j, &x->anchor);
    if (x->whole)
        cli_whole_json(&w, &x->run);
    if (o->epoch.shuffle)
        cli_epochs_json(&w, &x->epochs);
    if (o->kineto)
        cli_kineto_json(&w, &x->trace, j);
    if (o->layers)
        json_layers(&w, j, x->prices);
    if (details)
        cli_details_json(&w, j);
    pdl_json_end(&w);
}

static int report(const struct answer *x)
{
    struct pdl_buf json;
    int rc;

    pdl_buf_init(&json);
    print_json(x, true, &json.sink);
    rc = cli_report(&json, x->o->report);
    pdl_buf_free(&json);
    return rc;
}

/* ---- text --------------------------------------------------------------- */

static void print_text(const struct answer *x)
{
    const struct cli_job *j = x->j;
    const struct options *o = x->o;
    struct pdl_sink *out = cli_out();
    char buf[256], t[32];

    if (o->from)
        cli_from_text(&x->from, j, o->q.system);
    cli_job_text(j);
    if (x->args->verbose)
        cli_basis_text(j);
    cli_remedies_text(x->remedy, x->nremedies);
    if (o->measured_s > 0)
        measured_text(j, o->measured_s);
    if (o->evidence)
        cli_anchor_text(j, &x->anchor);
    if (x->whole)
        cli_whole_text(&x->run, j);
    if (o->epoch.shuffle)
        cli_epochs_text(&x->epochs);
    if (o->kineto)
        cli_kineto_text(&x->trace, j);
    for (int i = 0; o->layers && i < j->plan->nops; i++) {
        struct pdl_op_price p = x->prices[i];

        if (j->plan->ops[i].kind == PDL_PLAN_OP_FREE)
            continue;
        pdl_printf(out, "%5d  %-52.52s %10s  %s\n", i,
                   pdl_plan_op_text(j->plan, i, buf, sizeof buf),
                   pdl_unit_format(p.seconds, PDL_UNIT_SECONDS, t, sizeof t),
                   p.level >= 0 ? j->sys.levels[p.level].name : "");
    }
}

/* Is what was asked a question? Else one line of usage. */
static enum pdl_status asked(const struct answer *x, bool *whole,
                             struct pdl_err *err)
{
    const struct pdl_args *args = x->args;
    const struct options *o = x->o;
    enum pdl_status st;

    if (!x->q->system || (!o->from && (!x->q->strategy || x->q->batch == 0))) {
        pdl_fail(err, PDL_EINVAL,
                 o->from ? "project needs --system"
                         : "project needs --system, --strategy and --batch");
        pdl_hint(err, "see 'paradl project --help'");
        return PDL_EINVAL;
    }
    st = cli_export_asked(o->export, o->output, err);
    if (st == PDL_OK)
        st = cli_epochs_asked(&o->epoch, x->q->dataset, err);
    if (st == PDL_OK)
        st = cli_whole_asked(&o->run, whole, err);
    if (st == PDL_OK &&
        !(o->measured_s > 0 && o->measured_s <= CLI_LONGEST_S) &&
        pdl_opt_given(&cli_project, args, "measured-step"))
        st = pdl_fail(err, PDL_EINVAL,
                      "--measured-step is more than 0, at most %.0g s",
                      CLI_LONGEST_S);
    if (st == PDL_OK && args->npos > 1 && !o->from) {
        st = pdl_fail(err, PDL_EINVAL, "one MODEL, not two: '%.60s'",
                      args->pos[1]);
        if (strchr(args->pos[1], '='))
            pdl_hint(err, "axes of a strategy are divided by commas: "
                          "data=16,filter=4");
    }
    return st;
}

/* The step's price, and whatever else of it was asked. */
static enum pdl_status price(pdl_arena *a, struct answer *x, struct cli_job *j,
                             struct cli_question *q, struct pdl_err *err)
{
    const struct options *o = x->o;
    enum pdl_status st =
        o->from ? cli_from(a, o->from, x->args, q, &x->from, err) : PDL_OK;

    if (st == PDL_OK && o->kineto)
        st = pdl_kineto_read(o->kineto, &x->trace, err);
    if (st == PDL_OK)
        st = cli_job_open(q, j, err);
    if (st == PDL_OK)
        st = cli_export_fits(j, q->framework, o->export, err);
    if (st == PDL_OK && o->evidence)
        st = cli_runs_own(a, o->evidence, j, err);
    if (st == PDL_OK)
        st = cli_job_price(q, q->strategy, j, err);
    if (st == PDL_OK && o->evidence)
        st = cli_anchor(a, j, &x->anchor, err);
    if (st == PDL_OK && o->epoch.shuffle)
        st = cli_epochs_price(a, &o->epoch, q->dataset, j, &x->epochs, err);
    if (st == PDL_OK && x->whole)
        st = cli_whole_time(q, j, &o->run, &x->run, err);
    if (st == PDL_OK && o->layers) {
        x->prices = PDL_NEW(a, struct pdl_op_price, j->plan->nops + 1);
        st = x->prices
                 ? pdl_price_ops(j->plan, &j->sys, &j->oracle, x->prices, err)
                 : pdl_fail(err, PDL_ENOMEM, "out of memory");
    }
    return st;
}

/* The answer, and the files that were asked for. */
static int write_out(pdl_arena *a, struct answer *x, struct cli_job *j)
{
    const struct options *o = x->o;
    int rc;

    x->j = j;
    if (!j->x.feasible)
        x->nremedies = cli_remedies(a, x->q, j, x->remedy);
    if (x->args->json)
        print_json(x, o->details, cli_out());
    else
        print_text(x);
    rc = o->emit ? cli_job_emit(j, o->emit) : EXIT_OK;
    if (rc == EXIT_OK && o->trace)
        rc = cli_job_trace(j, o->trace);
    if (rc == EXIT_OK && o->chakra)
        rc = cli_job_chakra(j, o->chakra);
    if (rc == EXIT_OK && o->export)
        rc = cli_job_export(j, &(struct cli_export){o->export, o->output,
                                                    &cli_project, x->args});
    if (rc == EXIT_OK && o->report)
        rc = report(x);
    return rc == EXIT_OK && !j->x.feasible ? EXIT_NO : rc;
}

static int project(const struct pdl_args *args)
{
    const struct options *o = args->opts;
    struct cli_question q = o->q;
    struct answer x = {.o = o, .args = args, .q = &q};
    struct pdl_err err = {"", ""};
    enum pdl_status st = asked(&x, &x.whole, &err);
    struct cli_job *j;
    pdl_arena *a;
    int rc;

    if (st != PDL_OK)
        return cli_usage(&err);
    q.model = args->pos[0];
    a = pdl_arena_create(PDL_ARENA_DEFAULT);
    j = a ? PDL_NEW(a, struct cli_job, 1) : NULL;
    st = j ? price(a, &x, j, &q, &err)
           : pdl_fail(&err, PDL_ENOMEM, "out of memory");
    rc = st == PDL_OK ? write_out(a, &x, j) : cli_fail(st, &err);
    cli_job_close(j);
    pdl_arena_destroy(a);
    return rc;
}

const struct pdl_cmd cli_project = {
    .name = "project",
    .args = "MODEL|FILE [MODEL]",
    .min_pos = 1,
    .max_pos = 2,
    .summary = "what one strategy costs: time, traffic, memory",
    .text = "Lowers the model and the strategy to a plan, prices every "
            "operation of it on the system and prints the time of a training "
            "step by phase, the memory of a PE and whether it fits (exit code "
            "1 when it does not). With --from, MODEL is the launch file of a "
            "job that runs today; where it does not name its model, that "
            "comes second.",
    .example = "paradl project resnet50 --system abci-v100 "
               "--strategy data=64 --batch 2048",
    .opts = opts,
    .nopts = sizeof opts / sizeof opts[0],
    .opts_size = sizeof(struct options),
    .run = project,
};
