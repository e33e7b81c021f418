/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl plan: the strategies of a model's space on N PEs, priced and ranked.
 * What a limit of the papers forbids is not priced: it is counted as pruned,
 * and --space lists it with the reason. Large spaces (transformers) are
 * described by --space instead. */
#include "cli/output/layers.h"
#include "cli/questions/framework.h"
#include "cli/questions/handover.h"
#include "cli/questions/runs.h"
#include "cli/questions/tuned.h"
#include "cli/output/projection.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

struct options {
    struct cli_question q;
    int64_t top, max_pes;
    const char *strategies, *goal, *emit, *report, *export, *output, *against,
        *offload, *evidence;
    bool space, per_layer, details, collectives;
    double seconds, tokens, measured_s;
    struct cli_epoch_options epoch;
};

#define AT(field) offsetof(struct options, field)
// clang-format off
static const struct pdl_opt opts[] = {
    CLI_SYSTEM_OPT,
    {"pes", 0, PDL_OPT_COUNT, AT(q.pes), "N", NULL, "number of PEs"},
    {"max-pes", 0, PDL_OPT_COUNT, AT(max_pes), "N", NULL,
     "instead: the number up to N (1, 2, 3, 4, 6, 8, 12, ...) whose best plan is "
     "the best"},
    {"batch", 0, PDL_OPT_COUNT, AT(q.batch), "B", NULL,
     "samples of one step, over all PEs"},
    {"top", 0, PDL_OPT_COUNT, AT(top), "K", NULL,
     "how many to show (default 10; of a page 60)"},
    {"strategies", 0, PDL_OPT_TEXT, AT(strategies), "AXIS,...", NULL,
     "only these axes: data,spatial,filter,channel,pipe,tensor,expert,context"},
    {"goal", 0, PDL_OPT_TEXT, AT(goal), "GOAL", "time|memory|energy|cost|pareto",
     "rank by step time (default), memory, energy or cost of a step; pareto: "
     "all that nothing beats in both time and memory"},
    CLI_QUESTION_OPTS,
    {"offload", 0, PDL_OPT_TEXT, AT(offload), "WHETHER", "auto|none",
     "auto: also decide by block what is kept, made again, or waits on the host "
     "(swap=karma); none: do not use the host's memory"},
    {"emit", 0, PDL_OPT_TEXT, AT(emit), "FILE.plan", NULL,
     "also write the best plan to a file ('paradl plan show' reads it)"},
    CLI_EXPORT_OPTS("also write the best plan for another program, to -o"),
    {"tokens", 0, PDL_OPT_NUM, AT(tokens), "N", NULL,
     "also how many days (and, where the system has a price, what money) so "
     "many tokens of training take: 15T"},
    {"against", 0, PDL_OPT_TEXT, AT(against), "STRATEGY", NULL,
     "also compare the best with this one, which is run today"},
    {"measured-step", 0, PDL_OPT_TIME, AT(measured_s), "TIME", NULL,
     "what a step of --against takes today, which plans are anchored to"},
    CLI_EVIDENCE_OPT("own measured runs, which plans are anchored to and ranked by"),
    {"per-layer", 0, PDL_OPT_FLAG, AT(per_layer), NULL, NULL,
     "find a strategy for each layer, and compare it with the best for all"},
    {"collectives", 0, PDL_OPT_FLAG, AT(collectives), NULL, NULL,
     "also how the gradients of the best are best exchanged ('paradl tune')"},
    {"seconds", 0, PDL_OPT_TIME, AT(seconds), "TIME", NULL,
     "stop after so long and print the best so far"},
    {"space", 0, PDL_OPT_FLAG, AT(space), NULL, NULL,
     "also say what the search chose from, what was excluded, and the most "
     "PEs of each axis"},
    {"shuffle", 0, PDL_OPT_TEXT, AT(epoch.shuffle), "all|NAME[:q=X]", NULL,
     "also an epoch of --dataset with the best plan, by where samples come "
     "from: global (the shared file system), local, partial, pair"},
    {"hidden", 0, PDL_OPT_NUM, AT(epoch.hidden), "X", NULL,
     "part of the samples that an epoch hides, 0 to 0.9"},
    {"details", 0, PDL_OPT_FLAG, AT(details), NULL, NULL,
     "--json: also what a page shows of the best (stages, schedule, links, "
     "scaling) and the front of time and memory"},
    {"report", 0, PDL_OPT_TEXT, AT(report), "FILE.html", NULL,
     "also write a page with charts"},
};
// clang-format on
#undef AT

struct search {
    pdl_arena *arena;
    const struct options *o;
    const struct pdl_args *args;
    struct cli_job *j;
    struct pdl_search_result r;
    struct pdl_layers_result layers; /* --per-layer */
    struct pdl_progress progress;
    struct cli_for whose;
    struct pdl_found mine;    /* --against */
    struct cli_epochs epochs; /* --shuffle; none where nothing fits */
    struct cli_tuned tuned;   /* --collectives */
    double least_s;    /* the shortest step; 0: none fits, or not asked */
    pdl_answer *asked; /* who asks; NULL: the program's user */
};

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal)
{
    (void)signal;
    interrupted = 1;
}

static bool go_on(void *ctx, int64_t done, int64_t total)
{
    struct search *s = ctx;

    s->progress.total = total;
    pdl_progress_step(&s->progress, done);
    return !interrupted && cli_go_on(s->asked, done, total) &&
           (s->o->seconds <= 0 ||
            pdl_clock_s() - s->progress.start_s < s->o->seconds);
}

/* The answer by layers and the best for all of them, the better first. */
static enum pdl_status by_layers(struct search *s, struct pdl_err *err)
{
    enum pdl_status st = pdl_job_search_layers(s->j->job, &s->layers, err);
    const struct pdl_layers_result *l = &s->layers;
    struct pdl_found *list = PDL_NEW(s->arena, struct pdl_found, 2);

    if (st != PDL_OK)
        return st;
    if (!list)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    s->r = (struct pdl_search_result){.list = list, .stopped = l->stopped};
    if (l->best.priced)
        list[s->r.n++] = l->best;
    if (l->better ? l->uniform.priced : l->layered.priced)
        list[s->r.n++] = l->better ? l->uniform : l->layered;
    s->r.evaluated = s->r.n;
    for (int i = 0; i < s->r.n; i++)
        s->r.feasible += list[i].x.feasible;
    return PDL_OK;
}

enum { MAX_TABLE = 10, MAX_PAGE = 60 };

/* How many of a large space are kept: more than are shown, since the first of
 * them by time need not be the first that is named. */
static int64_t most_kept(const struct options *o)
{
    return o->top > MAX_PAGE ? o->top : MAX_PAGE;
}

static enum pdl_status run(struct search *s, bool progress, struct pdl_err *err)
{
    pdl_job *j = s->j->job;
    enum pdl_status st = pdl_job_set(j, "axes", s->o->strategies, err);

    if (st == PDL_OK)
        st = pdl_job_set(j, "goal", s->o->goal, err);
    if (st == PDL_OK)
        st = pdl_job_set(j, "offload", s->o->offload, err);
    if (st == PDL_OK)
        st = cli_set_count(j, "top", most_kept(s->o), err);
    if (st != PDL_OK)
        return st;
    pdl_job_on_progress(j, go_on, s);
    if (!s->asked)
        signal(SIGINT, on_interrupt);
    pdl_progress_start(&s->progress, cli_stderr(), progress, "pricing", 0);
    s->progress.start_s = pdl_clock_s();
    st = s->o->per_layer ? by_layers(s, err) : pdl_job_search(j, &s->r, err);
    pdl_progress_end(&s->progress);
    if (!s->asked)
        signal(SIGINT, SIG_DFL);
    if (st == PDL_OK && !s->o->per_layer && pdl_job_goal(j) == PDL_GOAL_TIME) {
        s->least_s =
            s->r.n > 0 && s->r.list[0].x.feasible ? s->r.list[0].x.step_s : 0;
        st = pdl_job_rank(j, &s->r, err);
    }
    return st;
}

/* ---- output ------------------------------------------------------------ */

/* What is written of the answer. */
struct extent {
    int show;
    bool space;   /* and what was excluded */
    bool details; /* and what a page shows of the best */
    bool brief;   /* the others without what must be priced again */
    double seconds;
};

static void rank_json(struct pdl_json *w, const struct pdl_found *f)
{
    if (f->tie == 0)
        return;
    pdl_json_kint(w, "tie", f->tie);
    pdl_json_knum(w, "upper_s", f->high_s);
    pdl_json_kint(w, "measured_runs", f->runs);
    if (f->anchored_s > 0)
        pdl_json_knum(w, "anchored_s", f->anchored_s);
}

/* A plan of the list again, for its JSON fields. */
static void json_plan(struct search *s, struct pdl_json *w, int i,
                      const struct extent *e)
{
    const struct pdl_found *f = &s->r.list[i];

    if (e->brief && i > 0) {
        pdl_json_object(w);
        pdl_json_kint(w, "rank", i + 1);
        pdl_json_kstr(w, "strategy", f->strategy);
        rank_json(w, f);
        cli_brief_json(w, &f->x, &s->j->sys);
        pdl_json_end(w);
    } else if (cli_job_price(&s->o->q, f->strategy, s->j, NULL) == PDL_OK) {
        pdl_json_object(w);
        pdl_json_kint(w, "rank", i + 1);
        pdl_json_kstr(w, "strategy", f->strategy);
        rank_json(w, f);
        cli_job_json(w, s->j);
        if (i == 0 && e->details)
            cli_details_json(w, s->j);
        pdl_json_end(w);
    }
}

static void print_json(struct search *s, const struct extent *e,
                       struct pdl_sink *out)
{
    struct pdl_json w;

    pdl_json_init(&w, out);
    pdl_json_schema(&w, "plan");
    cli_question_json(&w, &cli_plan, s->args, s->j);
    pdl_json_kint(&w, "pes", s->o->q.pes);
    pdl_json_kint(&w, "batch", s->o->q.batch);
    pdl_json_kstr(&w, "framework", s->whose.name);
    pdl_json_kstr(&w, "framework_why", s->whose.why);
    pdl_json_kint(&w, "tokens", s->j->model->tokens);
    pdl_json_kstr(&w, "precision", pdl_precision_name(s->j->oracle.precision));
    pdl_json_kstr(&w, "optimizer",
                  s->j->oracle.optimizer_slots < 2 ? "sgd" : "adam");
    pdl_json_kint(&w, "evaluated", s->r.evaluated);
    pdl_json_kint(&w, "pruned", s->r.pruned);
    pdl_json_kint(&w, "feasible_count", s->r.feasible);
    if (s->r.decided > 0)
        pdl_json_kint(&w, "decided", s->r.decided);
    pdl_json_knum(&w, "search_s", e->seconds);
    if (s->least_s > 0)
        pdl_json_knum(&w, "smallest_step_s", s->least_s);
    if (s->r.naxes > 0)
        cli_space_json(&w, &s->r, e->space);
    if (s->o->per_layer)
        cli_layers_json(&w, &s->layers);
    pdl_json_key(&w, "plans");
    pdl_json_array(&w);
    for (int i = 0; i < e->show; i++)
        json_plan(s, &w, i, e);
    pdl_json_end(&w);
    if (s->r.n > 0)
        cli_training_json(&w, &s->r.list[0], &s->j->sys, s->o->tokens);
    cli_tuned_json(&w, &s->tuned);
    if (s->epochs.n > 0)
        cli_epochs_json(&w, &s->epochs);
    if (s->o->against && s->r.n > 0)
        cli_against_json(&w, &s->mine, &s->r.list[0], s->j->oracle.framework);
    if (e->details && e->show > 0) {
        cli_front_json(&w, &s->r);
        cli_scaling_json(&w, &s->o->q, s->j, s->r.list[0].strategy);
    }
    if (e->space) {
        cli_excluded_json(&w, &s->r);
        cli_limits_json(&w, s->arena, s->j, s->o->q.batch);
    }
    pdl_json_end(&w);
}

/* `hint`: --space was not given, which says more. */
static void print_counts(const struct pdl_search_result *r, bool hint)
{
    if (r->points == 0)
        cli_say(2, "nothing to price: no strategy that may be searched has as "
                   "many PEs and shares the batch evenly (--space says of "
                   "what; another --batch or --framework may)");
    else if (r->naxes > 0)
        cli_say(2,
                "%lld points: %lld fit; %lld priced, %lld excluded by "
                "memory, %lld by time (%lld before it was asked whether they "
                "fit), %lld by a limit; the best in %lld other orders of their "
                "axes%s",
                (long long)r->points, (long long)r->feasible,
                (long long)r->evaluated, (long long)r->too_large,
                (long long)r->too_slow, (long long)r->unasked,
                (long long)r->refused, (long long)r->orders,
                hint ? " (--space says of what)" : "");
    else
        cli_say(0,
                "%lld priced, %lld fit, %lld excluded by a limit%s; "
                "x: does not fit",
                (long long)r->evaluated, (long long)r->feasible,
                (long long)r->pruned, hint ? " (--space says which)" : "");
}

/* --offload auto */
static void print_decided(const struct pdl_search_result *r)
{
    if (r->decided > 0)
        cli_say(2,
                "%lld decided block by block (swap=karma), in the order of "
                "their steps in core",
                (long long)r->decided);
}

/* The first line: what is planned, for whom. */
static void print_whose(const struct search *s)
{
    bool none = cli_framework_none(s->whose.name);

    char tokens[48] = "";

    if (s->j->model->tokens > 0)
        snprintf(tokens, sizeof tokens, " of %lld tokens",
                 (long long)s->j->model->tokens);
    cli_say(2, "%s, batch %lld%s, %s, on %lld PEs of %s%s%s (%s)",
            s->j->model->name, (long long)s->o->q.batch, tokens,
            pdl_precision_name(s->j->oracle.precision), (long long)s->o->q.pes,
            s->j->sys.name, none ? "" : ", for ", none ? "" : s->whose.name,
            none ? "ideal: no framework runs this" : s->whose.why);
}

/* What the ranking says beyond the order; the best that was measured. */
static void print_ties(const struct search *s, int show)
{
    const struct pdl_found *l = s->r.list;
    char step[32];

    if (s->least_s <= 0)
        return;
    if (show > 1 && l[1].tie == 1)
        cli_say(2,
                "= ties with *: less than %.0f %% apart in UP TO, which "
                "projections "
                "cannot tell from each other; the simplest is first. UP TO: 9 "
                "of 10 steps are shorter; what was measured less is less sure",
                100 * PDL_TIE);
    if (l[0].anchored_s > 0)
        cli_say(2, "STEP, UP TO and SAMPLES/S are what own runs make of them");
    for (int64_t i = 1; l[0].runs == 0 && i < s->r.n && l[i].tie > 0; i++)
        if (l[i].runs > 0) {
            cli_say(2,
                    "the first that was measured (%d run%s like it): %s, %s a "
                    "step",
                    l[i].runs, l[i].runs == 1 ? "" : "s", l[i].strategy,
                    pdl_unit_format(l[i].x.step_s, PDL_UNIT_SECONDS, step,
                                    sizeof step));
            return;
        }
}

static void print_text(struct search *s, int show)
{
    print_whose(s);
    cli_plans_text(s->arena, s->r.list, show, &s->j->sys,
                   pdl_job_goal(s->j->job));
    print_ties(s, show);
    print_counts(&s->r, !s->o->space);
    print_decided(&s->r);
    for (int i = 0; s->o->space && i < s->r.naxes; i++)
        cli_say(15, "  %-12s %s", s->r.axes[i].name, s->r.axes[i].values);
    if (s->r.stopped)
        pdl_puts(cli_out(), "stopped before the end: the best so far\n");
    for (int i = 0; s->o->space && i < s->r.n; i++)
        if (s->r.list[i].excluded)
            cli_say(31, "  %-28s %s", s->r.list[i].strategy,
                    s->r.list[i].excluded);
    if (s->o->space)
        cli_limits_text(s->arena, s->j, s->o->q.batch);
}

/* Where to go on from the best. */
static void print_next(const struct search *s)
{
    struct pdl_buf line;

    pdl_buf_init(&line);
    pdl_puts(&line.sink, "paradl project");
    cli_quote(&line.sink, s->o->q.model);
    pdl_puts(&line.sink, " --system");
    cli_quote(&line.sink, s->o->q.system);
    pdl_printf(&line.sink, " --batch %lld --strategy '%s'",
               (long long)s->o->q.batch, s->r.list[0].strategy);
    cli_same_options(&cli_plan, s->args, &cli_project, &line.sink);
    if (!pdl_opt_given(&cli_plan, s->args, "framework") &&
        !cli_framework_none(s->whose.name))
        pdl_printf(&line.sink, " --framework %s", s->whose.name);
    pdl_puts(cli_out(), "phase by phase, and why:\n");
    cli_say_command(line.text ? line.text : "");
    pdl_buf_free(&line);
}

/* How many times as many PEs to ask about: 8, or twice as many as share what
 * the nearest plan needs of one. */
static int64_t more(const struct pdl_projection *nearest)
{
    int64_t n = 8;

    while (nearest->capacity_bytes > 0 && n < 1 << 20 &&
           nearest->peak_bytes / nearest->capacity_bytes >= n / 2)
        n *= 2;
    return n;
}

/* Nothing fits: what is doubtful of the question, and who knows what would. */
static void print_none(struct search *s)
{
    struct cli_notes notes;
    struct pdl_buf line;

    if (cli_job_price(&s->o->q, s->r.list[0].strategy, s->j, NULL) == PDL_OK) {
        cli_job_notes(s->j, &notes);
        cli_notes_text(&notes);
    }
    pdl_buf_init(&line);
    pdl_puts(&line.sink, "paradl fit-in");
    cli_quote(&line.sink, s->o->q.model);
    pdl_puts(&line.sink, " --system");
    cli_quote(&line.sink, s->o->q.system);
    pdl_printf(&line.sink, " --batch %lld --pes %lld", (long long)s->o->q.batch,
               (long long)s->o->q.pes * (long long)more(&s->r.list[0].x));
    cli_same_options(&cli_plan, s->args, &cli_fit_in, &line.sink);
    if (!pdl_opt_given(&cli_plan, s->args, "framework"))
        pdl_printf(&line.sink, " --framework %s", s->whose.name);
    pdl_puts(cli_out(),
             "nothing fits; how many PEs, and which sizes, would:\n");
    cli_say_command(line.text ? line.text : "");
    pdl_buf_free(&line);
}

/* The best again, how sure it is, and where to go on. */
static void print_first(struct search *s)
{
    char low[32], high[32], note[256];
    struct pdl_evidence evidence;
    struct pdl_anchor own;
    struct cli_notes notes;

    if (s->r.n > 0 && s->r.list[0].priced && s->r.list[0].x.feasible &&
        cli_job_price(&s->o->q, s->r.list[0].strategy, s->j, NULL) == PDL_OK) {
        struct pdl_projection *x = &s->j->x;

        if (!s->o->per_layer) /* says it already */
            cli_mark(CLI_GOOD, "best:", s->r.list[0].strategy);
        pdl_interval(s->j->plan, &s->j->sys, &s->j->oracle, x);
        if (x->low_s > 0)
            pdl_printf(
                cli_out(), "80 %% of its steps take between %s and %s%s\n",
                pdl_unit_format(x->low_s, PDL_UNIT_SECONDS, low, sizeof low),
                pdl_unit_format(x->high_s, PDL_UNIT_SECONDS, high, sizeof high),
                s->r.list[0].anchored_s > 0 ? ", without own runs" : "");
        cli_evidence(s->j, &evidence, note, sizeof note);
        if (note[0])
            cli_say(2, "%s", note);
        if (s->j->oracle.nown > 0 &&
            cli_anchor(s->arena, s->j, &own, NULL) == PDL_OK)
            cli_anchor_text(s->j, &own);
        cli_outofcore_text(s->j);
        cli_job_notes(s->j, &notes);
        cli_notes_text(&notes);
        if (!s->o->per_layer)
            print_next(s);
    } else if (s->r.n > 0 && s->r.list[0].priced && !s->r.stopped &&
               s->r.feasible == 0 && !s->o->per_layer) {
        print_none(s);
    }
}

/* ---- --against ----------------------------------------------------------- */

/* What is run today, priced as the others are. */
static enum pdl_status price_mine(struct search *s, struct pdl_found *out,
                                  struct pdl_err *err)
{
    struct pdl_search_result one = {.list = out, .n = 1};
    enum pdl_status st = cli_job_price(&s->o->q, s->o->against, s->j, err);

    *out = (struct pdl_found){
        .strategy = s->o->against, .priced = true, .x = s->j->x};
    out->x.feasible = true; /* else it has no rank */
    if (st == PDL_OK)
        st = pdl_job_rank(s->j->job, &one, err);
    out->x.feasible = s->j->x.feasible;
    return st;
}

/* Before the search: what cannot be priced need not wait for it. */
static enum pdl_status know_mine(struct search *s, struct pdl_err *err)
{
    const struct options *o = s->o;
    enum pdl_status st = o->against ? price_mine(s, &s->mine, err) : PDL_OK;

    if (st != PDL_OK || !(o->measured_s > 0))
        return st;
    st = cli_runs_measured(s->arena, o->measured_s, s->j, err);
    return st == PDL_OK ? price_mine(s, &s->mine, err) : st;
}

/* An epoch with the best plan. */
static enum pdl_status price_epochs(struct search *s, struct pdl_err *err)
{
    const struct options *o = s->o;
    enum pdl_status st;

    if (!o->epoch.shuffle || s->r.n == 0 || !s->r.list[0].x.feasible)
        return PDL_OK;
    st = cli_job_price(&o->q, s->r.list[0].strategy, s->j, err);
    return st == PDL_OK ? cli_epochs_price(s->arena, &o->epoch, o->q.dataset,
                                           s->j, &s->epochs, err)
                        : st;
}

/* As many as asked for, else as many as are read. */
static int shown(const struct search *s, int64_t usual)
{
    bool front = pdl_job_goal(s->j->job) == PDL_GOAL_PARETO;
    int64_t want = s->o->top > 0 ? s->o->top : front ? s->r.n : usual;
    int64_t most = s->r.evaluated < s->r.n ? s->r.evaluated : s->r.n;

    if (s->r.naxes > 0) /* the list of a large space is of priced ones */
        most = s->r.n;
    return (int)(want < most ? want : most);
}

/* The page has the best that were priced (or --top), and what was not. */
static int report(struct search *s, double seconds)
{
    struct extent e = {.show = shown(s, MAX_PAGE),
                       .space = true,
                       .details = true,
                       .brief = true,
                       .seconds = seconds};
    struct pdl_buf json;
    int rc;

    pdl_buf_init(&json);
    print_json(s, &e, &json.sink);
    rc = cli_report(&json, s->o->report);
    pdl_buf_free(&json);
    return rc;
}

/* The first of the list that the format can express; none: the first, for the
 * reason. */
static int64_t exported(struct search *s)
{
    struct cli_export x = {s->o->export, s->o->output, &cli_plan, s->args};

    for (int64_t i = 0; i < s->r.n && s->r.list[i].x.feasible; i++)
        if (cli_job_price(&s->o->q, s->r.list[i].strategy, s->j, NULL) ==
                PDL_OK &&
            cli_job_exports(s->j, &x)) {
            if (i > 0 && !s->args->quiet)
                pdl_printf(cli_stderr(),
                           "paradl: %s cannot express the best; number %lld is "
                           "exported: %s\n",
                           s->o->export, (long long)i + 1,
                           s->r.list[i].strategy);
            return i;
        }
    return 0;
}

/* The best one again, for its operations. */
static int emit(struct search *s)
{
    const struct options *o = s->o;
    struct pdl_err err = {"", ""};
    int64_t at = o->export ? exported(s) : 0;
    enum pdl_status st;
    int rc;

    st = cli_job_price(&o->q, s->r.list[at].strategy, s->j, &err);
    rc = st != PDL_OK ? cli_fail(st, &err) : EXIT_OK;
    if (rc == EXIT_OK && o->export)
        rc = cli_job_export(s->j, &(struct cli_export){o->export, o->output,
                                                       &cli_plan, s->args});
    if (rc == EXIT_OK && o->emit && at > 0)
        st = cli_job_price(&o->q, s->r.list[0].strategy, s->j, &err);
    if (rc == EXIT_OK && st != PDL_OK)
        rc = cli_fail(st, &err);
    if (rc == EXIT_OK && o->emit)
        rc = cli_job_emit(s->j, o->emit);
    return rc;
}

static bool decides(const struct options *o)
{
    return o->offload && strcmp(o->offload, "auto") == 0;
}

/* The model says for which framework to plan, unless the user did. */
static enum pdl_status open_for(struct search *s, struct options *o,
                                struct pdl_err *err)
{
    return cli_open_for(&o->q, o->export, o->per_layer || decides(o), s->j,
                        &s->whose, err);
}

/* 1, 2, 3, 4, 6, 8, 12, ...: those up to N are among those up to more. */
static int64_t next_count(int64_t n)
{
    bool power = (n & (n - 1)) == 0;

    return n < 2 ? n + 1 : power ? n / 2 * 3 : n / 3 * 4;
}

/* The best that n PEs can do, by what is counted (of times the shortest, which
 * need not be the first of those that tie); infinite: nothing fits. */
static enum pdl_status best_of(struct search *s, const struct options *o,
                               int64_t n, double *best, struct pdl_err *err)
{
    struct options one = *o;
    struct search t = {
        .arena = s->arena, .o = &one, .args = s->args, .asked = s->asked};
    struct cli_job j = {.job = NULL};
    enum pdl_status st;

    one.q.pes = n;
    t.j = &j;
    *best = INFINITY;
    st = open_for(&t, &one, err);
    if (st == PDL_OK)
        st = run(&t, !s->args->quiet && cli_progress(), err);
    if (st == PDL_OK && t.r.n > 0 && t.r.list[0].x.feasible)
        *best = t.least_s > 0 ? t.least_s : t.r.list[0].goal;
    cli_job_close(&j);
    return st;
}

/* --max-pes: every number is searched, the best of all is asked for again. */
static enum pdl_status choose_pes(struct search *s, struct options *o,
                                  struct pdl_err *err)
{
    double best = INFINITY, here;
    int64_t chosen = 1;

    for (int64_t n = 1; n <= o->max_pes && !interrupted; n = next_count(n)) {
        enum pdl_status st = best_of(s, o, n, &here, err);

        if (st != PDL_OK)
            return st;
        chosen = here < best ? n : chosen;
        best = fmin(best, here);
    }
    o->q.pes = chosen;
    return PDL_OK;
}

/* Is what was asked a question? Else one line of usage. */
static enum pdl_status sensible(const struct options *o,
                                const struct pdl_args *args,
                                struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    if (!o->q.system || (o->q.pes < 1) == (o->max_pes < 1) || o->q.batch < 1) {
        pdl_fail(err, PDL_EINVAL,
                 "plan needs --system, --pes (or --max-pes) and --batch");
        pdl_hint(err, "see 'paradl plan --help'");
        return PDL_EINVAL;
    }
    if (pdl_opt_given(&cli_plan, args, "measured-step") &&
        (!o->against || !(o->measured_s > 0) || o->measured_s > CLI_LONGEST_S))
        st = pdl_fail(err, PDL_EINVAL,
                      "--measured-step is more than 0, at most %.0g s, and of "
                      "the strategy that --against names",
                      CLI_LONGEST_S);
    if (o->seconds < 0)
        st = pdl_fail(err, PDL_EINVAL, "--seconds is no less than 0");
    if (pdl_opt_given(&cli_plan, args, "tokens") && !(o->tokens > 0))
        st = pdl_fail(err, PDL_EINVAL, "--tokens is more than 0");
    if (st == PDL_OK)
        st = cli_export_asked(o->export, o->output, err);
    return st == PDL_OK ? cli_epochs_asked(&o->epoch, o->q.dataset, err) : st;
}

/* All that is asked before the answer is written. */
static enum pdl_status find_all(struct search *s, struct options *o,
                                struct pdl_err *err)
{
    enum pdl_status st = o->max_pes > 0 ? choose_pes(s, o, err) : PDL_OK;

    if (st == PDL_OK)
        st = open_for(s, o, err);
    if (st == PDL_OK && o->evidence)
        st = cli_runs_own(s->arena, o->evidence, s->j, err);
    if (st == PDL_OK)
        st = know_mine(s, err);
    if (st == PDL_OK)
        st = run(s, !s->args->quiet && cli_progress(), err);
    if (st == PDL_OK && o->collectives && s->r.feasible > 0)
        st = cli_tune_best(s->arena, &o->q, s->r.list[0].strategy, s->j,
                           &s->tuned, err);
    return st == PDL_OK ? price_epochs(s, err) : st;
}

static void print_all(struct search *s, double seconds)
{
    const struct options *o = s->o;
    int show = shown(s, MAX_TABLE);

    if (s->args->json) {
        print_json(s,
                   &(struct extent){.show = show,
                                    .space = o->space,
                                    .details = o->details,
                                    .seconds = seconds},
                   cli_out());
        return;
    }
    if (o->per_layer)
        cli_layers_text(s->arena, &s->layers, s->j, &o->q);
    else
        print_text(s, show);
    print_first(s);
    if (s->r.n > 0)
        cli_training_text(&s->r.list[0], &s->j->sys, o->tokens);
    if (o->collectives && s->r.feasible > 0)
        cli_tuned_text(&s->tuned);
    if (s->epochs.n > 0)
        cli_epochs_text(&s->epochs);
    if (o->against && s->r.n > 0)
        cli_against_text(&s->mine, &s->r.list[0], s->j->oracle.framework);
}

static int plan(const struct pdl_args *args)
{
    struct options o = *(const struct options *)args->opts;
    struct search s = {.o = &o, .args = args, .asked = cli_asked()};
    struct pdl_err err = {"", ""};
    enum pdl_status st;
    double start = pdl_clock_s();
    int rc;

    if (sensible(&o, args, &err) != PDL_OK)
        return cli_usage(&err);
    if (!cli_axes_known(o.strategies, &err))
        return cli_fail(PDL_EINVAL, &err);
    o.q.model = args->pos[0];
    s.arena = pdl_arena_create(PDL_ARENA_DEFAULT);
    s.j = s.arena ? PDL_NEW(s.arena, struct cli_job, 1) : NULL;
    st = s.j ? find_all(&s, &o, &err)
             : pdl_fail(&err, PDL_ENOMEM, "out of memory");
    if (st != PDL_OK) {
        rc = cli_fail(st, &err);
    } else {
        print_all(&s, pdl_clock_s() - start);
        rc = (o.emit || o.export) && s.r.feasible > 0 ? emit(&s) : EXIT_OK;
        if (rc == EXIT_OK && o.report)
            rc = report(&s, pdl_clock_s() - start);
        if (rc == EXIT_OK && s.r.feasible == 0)
            rc = EXIT_NO;
        if (interrupted)
            rc = EXIT_INTR;
    }
    cli_job_close(s.j);
    pdl_arena_destroy(s.arena);
    return rc;
}

const struct pdl_cmd cli_plan = {
    .name = "plan",
    .args = "MODEL",
    .min_pos = 1,
    .max_pos = 1,
    .summary = "which strategy, ranked",
    .text = "Prices the strategies of the model's space on the given number "
            "of PEs and ranks them. Convolutional networks: data, spatial, "
            "filter, channel, pipe and every product of two. Transformers: "
            "(for megatron unless --framework or --export says otherwise, or "
            "it cannot launch the network: then for pytorch; others for own; "
            "none: what no framework runs) "
            "every pipe x data x expert x context x tensor, sequence "
            "parallelism, micro-batch, schedule, "
            "recomputation, sharded states, overlap and offload; points "
            "are priced or excluded by a stated bound, what fits of those that "
            "other planners have too is counted "
            "exactly, and --space prints the space. * marks the "
            "best, x what does not fit into memory. Interrupted, it prints the "
            "best so far. With --per-layer every layer gets its own axes, by "
            "dynamic programming over the graph of layers with the costs of "
            "redistribution; stages of a pipeline, recomputation and copies "
            "to the host are chosen with them.",
    .example = "paradl plan resnet50 --system abci-v100 --pes 16 --batch 512",
    .opts = opts,
    .nopts = sizeof opts / sizeof opts[0],
    .opts_size = sizeof(struct options),
    .run = plan,
};
