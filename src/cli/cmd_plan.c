/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl plan: every pure strategy and every product of two axes on N PEs,
 * priced and ranked. What a limit of the papers forbids is not priced: it is
 * counted as pruned, and --space lists it with the reason. */
#include "projection.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
    struct cli_question q;
    int64_t top;
    const char *strategies, *goal, *emit, *report, *export, *output;
    bool space;
};

#define AT(field) offsetof(struct options, field)
// clang-format off
static const struct pdl_opt opts[] = {
    {"system", 0, PDL_OPT_TEXT, AT(q.system), "SYSTEM", NULL,
     "a built-in system, one with parameters, or a YAML file"},
    {"pes", 0, PDL_OPT_INT, AT(q.pes), "N", NULL, "number of PEs"},
    {"batch", 0, PDL_OPT_INT, AT(q.batch), "B", NULL,
     "samples of one step, over all PEs"},
    {"top", 0, PDL_OPT_INT, AT(top), "K", NULL,
     "how many to show (default 10, 0: all)"},
    {"strategies", 0, PDL_OPT_TEXT, AT(strategies), "AXIS,...", NULL,
     "only these axes: data,spatial,filter,channel,pipe"},
    {"goal", 0, PDL_OPT_TEXT, AT(goal), "GOAL", "time|memory|energy|cost",
     "rank by step time (default), memory, energy or cost of a step"},
    {"parameters", 0, PDL_OPT_TEXT, AT(q.parameters), "KIND",
     "ideal|empirical", "peak rates, or sustained and measured ones (default)"},
    {"optimizer", 0, PDL_OPT_TEXT, AT(q.optimizer), "NAME", "sgd|adam",
     "sgd with momentum, or adam (default by kind of model)"},
    {"precision", 0, PDL_OPT_TEXT, AT(q.precision), "NAME",
     "fp32|tf32|bf16|fp16|fp8",
     "of the arithmetic (default: fp32 for CNNs, bf16 for transformers)"},
    {"congestion", 0, PDL_OPT_TEXT, AT(q.congestion), "LOW..HIGH", NULL,
     "factor on network time by other jobs, as a range (default: none)"},
    {"framework", 0, PDL_OPT_TEXT, AT(q.framework), "NAME", NULL,
     "whose habits to add: pytorch, megatron, chainermnx, ... (default: none)"},
    {"dataset", 0, PDL_OPT_INT, AT(q.dataset), "D", NULL,
     "samples of an epoch, to project its time"},
    {"dim", 0, PDL_OPT_TEXT, AT(q.dim), "NAME=N,...", NULL,
     "bind symbolic dimensions of the model"},
    {"emit", 0, PDL_OPT_TEXT, AT(emit), "FILE.plan", NULL,
     "also write the best plan to a file ('paradl plan show' reads it)"},
    {"export", 0, PDL_OPT_TEXT, AT(export), "FORMAT",
     "megatron|deepspeed|torchtitan|torchtitan-toml|accelerate|sbatch",
     "also write the best plan for another program, to -o"},
    {"output", 'o', PDL_OPT_TEXT, AT(output), "FILE", NULL,
     "where that file goes"},
    {"space", 0, PDL_OPT_FLAG, AT(space), NULL, NULL,
     "also list what was excluded, with the reason"},
    {"report", 0, PDL_OPT_TEXT, AT(report), "FILE.html", NULL,
     "also write a page with charts"},
};
// clang-format on
#undef AT

enum { MAX_CANDIDATES = 4096 };

struct candidate {
    const char *strategy;
    const char *excluded; /* the reason, NULL: priced */
    struct pdl_projection x;
    double rank_by; /* what the goal counts; 0: the step's time */
};

struct search {
    pdl_arena *arena;
    const struct options *o;
    const struct pdl_args *args;
    struct cli_job *j;
    struct candidate *list;
    int n, evaluated, feasible;
};

/* In the order the mesh is written: outermost first. */
static const char *const axes[] = {"pipe", "data", "spatial", "filter",
                                   "channel"};
enum { NAXES = sizeof axes / sizeof axes[0] };

static bool wanted(const struct search *s, const char *axis)
{
    const char *p = s->o->strategies;
    size_t n = strlen(axis);

    if (!p)
        return true;
    for (; p; p = strchr(p, ',')) {
        p += *p == ',';
        if (strncmp(p, axis, n) == 0 && (p[n] == ',' || p[n] == '\0'))
            return true;
    }
    return false;
}

static void add(struct search *s, const char *text)
{
    if (s->n < MAX_CANDIDATES)
        s->list[s->n++] =
            (struct candidate){.strategy = pdl_arena_strdup(s->arena, text)};
}

/* Pipelines get as many micro-batches as stages times 4, as far as the batch
 * allows. */
static void term(const struct search *s, const char *axis, int64_t n,
                 int64_t data, char *buf, size_t size)
{
    int64_t m = 4 * n;

    if (strcmp(axis, "pipe") != 0) {
        snprintf(buf, size, "%s=%lld", axis, (long long)n);
        return;
    }
    while (m > 1 && (s->o->q.batch % m != 0 || s->o->q.batch / m < data))
        m--;
    snprintf(buf, size, "pipe=%lld(m=%lld)", (long long)n, (long long)m);
}

static void enumerate(struct search *s)
{
    int64_t pes = s->o->q.pes;
    char a[64], b[64], both[160];

    for (int i = 0; i < NAXES; i++) {
        if (!wanted(s, axes[i]))
            continue;
        term(s, axes[i], pes, 1, a, sizeof a);
        add(s, a);
        for (int k = i + 1; k < NAXES; k++)
            for (int64_t p = 2; wanted(s, axes[k]) && p <= pes / 2; p++) {
                bool data = strcmp(axes[k], "data") == 0;

                if (pes % p != 0)
                    continue;
                term(s, axes[i], p, data ? pes / p : 1, a, sizeof a);
                term(s, axes[k], pes / p, 1, b, sizeof b);
                snprintf(both, sizeof both, "%s,%s", a, b);
                add(s, both);
            }
    }
}

static enum pdl_status price(struct search *s, struct candidate *c,
                             struct pdl_err *err)
{
    pdl_arena *scratch = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_err why = {"", ""};
    enum pdl_status st;

    if (!scratch)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    st = cli_job_price(scratch, &s->o->q, c->strategy, s->j, &why);
    if (st == PDL_OK) {
        c->x = s->j->x;
        s->evaluated++;
        s->feasible += c->x.feasible;
    } else {
        c->excluded = pdl_arena_strdup(s->arena, why.msg);
    }
    pdl_arena_destroy(scratch);
    if (st == PDL_ENOMEM)
        *err = why;
    return st == PDL_ENOMEM ? st : PDL_OK;
}

/* Feasible before infeasible, priced before excluded; then the goal. */
static int by_goal(const void *pa, const void *pb)
{
    const struct candidate *a = pa, *b = pb;
    bool ea = a->excluded != NULL, eb = b->excluded != NULL;

    if (ea != eb)
        return ea - eb;
    if (a->x.feasible != b->x.feasible)
        return b->x.feasible - a->x.feasible;
    if (a->rank_by != b->rank_by)
        return a->rank_by < b->rank_by ? -1 : 1;
    if (a->x.step_s != b->x.step_s)
        return a->x.step_s < b->x.step_s ? -1 : 1;
    return strcmp(a->strategy, b->strategy);
}

static double counted(const struct search *s, const struct candidate *c)
{
    const char *goal = s->o->goal ? s->o->goal : "time";
    struct pdl_bill bill;

    pdl_project_bill(&c->x, &s->j->sys, &bill);
    return strcmp(goal, "memory") == 0   ? (double)c->x.peak_bytes
           : strcmp(goal, "energy") == 0 ? bill.energy_j
           : strcmp(goal, "cost") == 0   ? bill.cost
                                         : 0;
}

static enum pdl_status run(struct search *s, bool progress, struct pdl_err *err)
{
    struct pdl_progress p;
    enum pdl_status st = PDL_OK;

    enumerate(s);
    pdl_progress_start(&p, cli_stderr(), progress, "pricing", s->n);
    for (int i = 0; i < s->n && st == PDL_OK; i++) {
        st = price(s, &s->list[i], err);
        pdl_progress_step(&p, i);
    }
    pdl_progress_end(&p);
    for (int i = 0; i < s->n; i++)
        s->list[i].rank_by = s->list[i].excluded ? 0 : counted(s, &s->list[i]);
    qsort(s->list, (size_t)s->n, sizeof s->list[0], by_goal);
    return st;
}

/* ---- output ---------------------------------------------------------------- */

/* A plan of the list again, for its JSON fields. */
static void json_plan(struct search *s, struct pdl_json *w, int i)
{
    pdl_arena *scratch = pdl_arena_create(PDL_ARENA_DEFAULT);

    if (scratch && cli_job_price(scratch, &s->o->q, s->list[i].strategy, s->j,
                                 NULL) == PDL_OK) {
        pdl_json_object(w);
        pdl_json_kint(w, "rank", i + 1);
        pdl_json_kstr(w, "strategy", s->list[i].strategy);
        cli_job_json(w, s->j);
        pdl_json_end(w);
    }
    pdl_arena_destroy(scratch);
}

/* What was asked. */
static void json_question(const struct search *s, struct pdl_json *w)
{
    struct pdl_buf line;

    pdl_buf_init(&line);
    cli_command_line(&cli_plan, s->args, &line.sink);
    pdl_json_kstr(w, "command", line.text);
    pdl_buf_free(&line);
    pdl_json_kstr(w, "model", s->j->model->name);
    pdl_json_kstr(w, "system", s->j->sys.name);
    pdl_json_kint(w, "pes", s->o->q.pes);
    pdl_json_kint(w, "batch", s->o->q.batch);
    pdl_json_kstr(w, "parameters",
                  s->j->oracle.parameters == PDL_IDEAL ? "ideal" : "empirical");
}

static void print_json(struct search *s, int show, bool space, double seconds,
                       struct pdl_sink *out)
{
    struct pdl_json w;

    pdl_json_init(&w, out);
    pdl_json_schema(&w, "plan");
    json_question(s, &w);
    pdl_json_kint(&w, "evaluated", s->evaluated);
    pdl_json_kint(&w, "pruned", s->n - s->evaluated);
    pdl_json_kint(&w, "feasible_count", s->feasible);
    pdl_json_knum(&w, "search_s", seconds);
    pdl_json_key(&w, "plans");
    pdl_json_array(&w);
    for (int i = 0; i < show; i++)
        json_plan(s, &w, i);
    pdl_json_end(&w);
    if (space) {
        pdl_json_key(&w, "excluded");
        pdl_json_array(&w);
        for (int i = 0; i < s->n; i++)
            if (s->list[i].excluded) {
                pdl_json_row(&w);
                pdl_json_kstr(&w, "strategy", s->list[i].strategy);
                pdl_json_kstr(&w, "reason", s->list[i].excluded);
                pdl_json_end(&w);
            }
        pdl_json_end(&w);
    }
    pdl_json_end(&w);
}

static void print_text(struct search *s, int show)
{
    static const struct pdl_column columns[] = {
        {"", false},       {"STRATEGY", false}, {"STEP", true},
        {"COMPUTE", true}, {"EXPOSED", true},   {"BUBBLE", true},
        {"MEMORY", true},  {"SAMPLES/S", true},
    };
    char t[5][32];
    struct pdl_table table;

    pdl_printf(cli_out(), "%s, batch %lld, on %lld PEs of %s\n",
               s->j->model->name, (long long)s->o->q.batch,
               (long long)s->o->q.pes, s->j->sys.name);
    pdl_table_init(&table, s->arena, columns, 8);
    for (int i = 0; i < show; i++) {
        const struct pdl_projection *x = &s->list[i].x;

        pdl_table_cell(&table, "%s", !x->feasible ? "x" : i == 0 ? "*" : "");
        pdl_table_cell(&table, "%s", s->list[i].strategy);
        pdl_table_cell(&table, "%s",
                       pdl_unit_format(x->step_s, PDL_UNIT_SECONDS, t[0], 32));
        pdl_table_cell(
            &table, "%s",
            pdl_unit_format(x->compute_s, PDL_UNIT_SECONDS, t[1], 32));
        pdl_table_cell(
            &table, "%s",
            pdl_unit_format(x->exposed_comm_s, PDL_UNIT_SECONDS, t[2], 32));
        pdl_table_cell(
            &table, "%s",
            pdl_unit_format(x->bubble_s, PDL_UNIT_SECONDS, t[3], 32));
        pdl_table_cell(
            &table, "%s",
            pdl_unit_format((double)x->peak_bytes, PDL_UNIT_BYTES, t[4], 32));
        pdl_table_cell(&table, "%.0f", x->samples_per_s);
    }
    pdl_table_print(&table, cli_width(), cli_out());
    pdl_printf(cli_out(),
               "%d priced, %d fit, %d excluded by a limit (--space says "
               "which); x: does not fit\n",
               s->evaluated, s->feasible, s->n - s->evaluated);
    for (int i = 0; s->o->space && i < s->n; i++)
        if (s->list[i].excluded)
            pdl_printf(cli_out(), "  %-28s %s\n", s->list[i].strategy,
                       s->list[i].excluded);
}

/* How sure the first is. */
static void print_first(struct search *s)
{
    pdl_arena *scratch = pdl_arena_create(PDL_ARENA_DEFAULT);
    char low[32], high[32];

    if (scratch && s->n > 0 && !s->list[0].excluded &&
        cli_job_price(scratch, &s->o->q, s->list[0].strategy, s->j, NULL) ==
            PDL_OK) {
        struct pdl_projection *x = &s->j->x;

        pdl_interval(s->j->plan, &s->j->sys, &s->j->oracle, x);
        if (x->low_s > 0)
            pdl_printf(
                cli_out(), "80 %% of steps of the first between %s and %s\n",
                pdl_unit_format(x->low_s, PDL_UNIT_SECONDS, low, sizeof low),
                pdl_unit_format(x->high_s, PDL_UNIT_SECONDS, high,
                                sizeof high));
    }
    pdl_arena_destroy(scratch);
}

/* The page has everything that was priced (or --top), and what was not. */
static int report(struct search *s, double seconds)
{
    int show = s->o->top > 0 && s->o->top < s->evaluated ? (int)s->o->top
                                                         : s->evaluated;
    struct pdl_buf json;
    int rc;

    pdl_buf_init(&json);
    print_json(s, show, true, seconds, &json.sink);
    rc = cli_report(&json, s->o->report);
    pdl_buf_free(&json);
    return rc;
}

/* The best one again, for its operations. */
static int emit(struct search *s)
{
    const struct options *o = s->o;
    pdl_arena *scratch = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_err err = {"", ""};
    enum pdl_status st = PDL_OK;
    int rc;

    if (!scratch)
        st = pdl_fail(&err, PDL_ENOMEM, "out of memory");
    if (st == PDL_OK)
        st = cli_job_price(scratch, &s->o->q, s->list[0].strategy, s->j, &err);
    rc = st != PDL_OK ? cli_fail(st, &err)
         : o->emit    ? cli_job_emit(&o->q, s->j, o->emit)
                      : EXIT_OK;
    if (rc == EXIT_OK && o->export)
        rc = cli_job_export(s->j, &(struct cli_export){o->export, o->output,
                                                       &cli_plan, s->args});
    pdl_arena_destroy(scratch);
    return rc;
}

static int plan(const struct pdl_args *args)
{
    struct options o = *(const struct options *)args->opts;
    struct search s = {.o = &o, .args = args};
    struct pdl_err err = {"", ""};
    enum pdl_status st = PDL_OK;
    double start = pdl_clock_s();
    int rc, show;

    if (!o.q.system || o.q.pes < 1 || o.q.batch < 1) {
        pdl_fail(&err, PDL_EINVAL, "plan needs --system, --pes and --batch");
        pdl_hint(&err, "see 'paradl plan --help'");
        return cli_usage(&err);
    }
    if (cli_export_asked(o.export, o.output, &err) != PDL_OK)
        return cli_usage(&err);
    o.q.model = args->pos[0];
    s.arena = pdl_arena_create(PDL_ARENA_DEFAULT);
    if (s.arena) {
        s.j = PDL_NEW(s.arena, struct cli_job, 1);
        s.list = PDL_NEW(s.arena, struct candidate, MAX_CANDIDATES);
    }
    if (!s.j || !s.list)
        st = pdl_fail(&err, PDL_ENOMEM, "out of memory");
    if (st == PDL_OK)
        st = cli_job_open(s.arena, &o.q, s.j, &err);
    if (st == PDL_OK)
        st = run(&s, !args->quiet && cli_progress(), &err);
    if (st != PDL_OK) {
        rc = cli_fail(st, &err);
    } else {
        show = o.top > 0 && o.top < s.evaluated ? (int)o.top
               : o.top == 0 && s.evaluated > 10 ? 10
                                                : s.evaluated;
        if (args->json)
            print_json(&s, show, o.space, pdl_clock_s() - start, cli_out());
        else
            print_text(&s, show);
        print_first(&s);
        rc = (o.emit || o.export) && s.feasible > 0 ? emit(&s) : EXIT_OK;
        if (rc == EXIT_OK && o.report)
            rc = report(&s, pdl_clock_s() - start);
        if (rc == EXIT_OK && s.feasible == 0)
            rc = EXIT_NO;
    }
    pdl_arena_destroy(s.arena);
    return rc;
}

const struct pdl_cmd cli_plan = {
    .name = "plan",
    .args = "MODEL",
    .min_pos = 1,
    .max_pos = 1,
    .summary = "which strategy, ranked",
    .text = "Prices every pure strategy (data, spatial, filter, channel, "
            "pipe) and every product of two of them on the given number of "
            "PEs and ranks them. * marks the best, x what does not fit into "
            "memory.",
    .example = "paradl plan resnet50 --system abci-v100 --pes 16 --batch 512",
    .opts = opts,
    .nopts = sizeof opts / sizeof opts[0],
    .opts_size = sizeof(struct options),
    .run = plan,
};
