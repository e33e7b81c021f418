/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl design: which machine to build, buy or rent. A question is a file; one
 * workload and one grid of designs can be written as options, which are put
 * together to the same text. */
#include "cli/output/design.h"

#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILE = 4 << 20, MAX_DRAWS = 1000000 };

struct options {
    const char *model, *tokens, *samples, *deadline, *precision, *framework;
    const char *systems, *pes, *networks;
    const char *prices, *goal, *region, *money;
    const char *csv, *report, *memo, *power;
    double budget;
    int64_t batch, racks, top, threads, draws;
    bool exhaustive;
};

#define AT(field) offsetof(struct options, field)
// clang-format off
static const struct pdl_opt opts[] = {
    {"model", 0, PDL_OPT_TEXT, AT(model), "MODEL", NULL, "instead of a file: the workload"},
    {"batch", 0, PDL_OPT_COUNT, AT(batch), "B", NULL, "its samples of one step"},
    {"tokens", 0, PDL_OPT_TEXT, AT(tokens), "N", NULL, "that it trains on: 300G"},
    {"samples", 0, PDL_OPT_TEXT, AT(samples), "N", NULL, "the same of a model without tokens"},
    {"deadline", 0, PDL_OPT_TEXT, AT(deadline), "TIME", NULL, "it must be done by then: 60d"},
    {"precision", 0, PDL_OPT_TEXT, AT(precision), "NAME", NULL, "of its arithmetic"},
    {"framework", 0, PDL_OPT_TEXT, AT(framework), "NAME", NULL, "that runs it (default by kind of model)"},
    {"systems", 0, PDL_OPT_TEXT, AT(systems), "S;S;...", NULL, "the machines, with parameters where you like"},
    {"pes", 0, PDL_OPT_TEXT, AT(pes), "N,N,...", NULL, "numbers of PEs of each"},
    {"networks", 0, PDL_OPT_TEXT, AT(networks), "F;F;...", NULL,
     "networks of each: fat-tree:taper=2;rail-only;torus:dims=3 (default: as described)"},
    {"prices", 0, PDL_OPT_TEXT, AT(prices), "FILE", NULL, "prices, power, failures, carbon (default: public)"},
    {"money", 0, PDL_OPT_TEXT, AT(money), "HOW", "buy|rent", "how machines are paid (default: buy)"},
    {"budget", 0, PDL_OPT_AMOUNT, AT(budget), "M", NULL, "at most: to buy, or to rent for all runs"},
    {"power", 0, PDL_OPT_TEXT, AT(power), "W", NULL, "of the facility at most: 2MW"},
    {"racks", 0, PDL_OPT_COUNT, AT(racks), "N", NULL, "at most"},
    {"region", 0, PDL_OPT_TEXT, AT(region), "NAME", NULL, "whose electricity (default: world)"},
    {"goal", 0, PDL_OPT_TEXT, AT(goal), "GOAL", "cost|time|energy|carbon", "what is best (default: cost)"},
    {"top", 0, PDL_OPT_COUNT, AT(top), "K", NULL, "how many to show (default 10)"},
    {"exhaustive", 0, PDL_OPT_FLAG, AT(exhaustive), NULL, NULL, "search every design; share no bounds"},
    {"draws", 0, PDL_OPT_COUNT, AT(draws), "N", NULL, "of what is uncertain (default 2000)"},
    {"threads", 0, PDL_OPT_COUNT, AT(threads), "N", NULL, "default: all cores"},
    {"memo", 0, PDL_OPT_TEXT, AT(memo), "FILE", NULL, "keep the plans that were found, and go on from there"},
    {"csv", 0, PDL_OPT_TEXT, AT(csv), "FILE", NULL, "also write a line for each design"},
    {"report", 0, PDL_OPT_TEXT, AT(report), "FILE.html", NULL, "also write a page with charts"},
};
// clang-format on
#undef AT

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal)
{
    (void)signal;
    interrupted = 1;
}

struct watch {
    struct pdl_progress progress;
    pdl_answer *asked;
};

static bool go_on(void *ctx, int64_t done, int64_t total)
{
    struct watch *w = ctx;

    w->progress.total = total;
    pdl_progress_step(&w->progress, done);
    return !interrupted && cli_go_on(w->asked, done, total);
}

/* ---- the question ------------------------------------------------------ */

/* "a;b" as a YAML list of texts in quotes. */
static void put_list(struct pdl_sink *out, const char *key, const char *text,
                     char between)
{
    char ends[2] = {between, '\0'};

    if (!text)
        return;
    pdl_printf(out, "    %s: [", key);
    for (size_t n; *text; text += n + (text[n] == between)) {
        n = strcspn(text, ends);
        pdl_puts(out, "'");
        for (size_t i = 0; i < n; i++)
            pdl_printf(out, text[i] == '\'' ? "''" : "%c", text[i]);
        pdl_puts(out, text[n] ? "', " : "'");
    }
    pdl_puts(out, "]\n");
}

static void put_text(struct pdl_sink *out, const char *key, const char *text)
{
    if (text)
        pdl_printf(out, "    %s: '%s'\n", key, text);
}

/* "options:9:11: ..." of what was put together: which option it is, where it is
 * a value and no map. */
static void name_option(const char *text, struct pdl_err *err)
{
    struct pdl_err inner = *err;
    const char *rest = inner.msg + strcspn(inner.msg, " ");
    char *end = NULL;
    long line, column;
    size_t key;

    if (strncmp(inner.msg, "options:", 8) != 0 || !*rest++)
        return;
    line = strtol(inner.msg + 8, &end, 10);
    column = strtol(end + (*end == ':'), NULL, 10);
    while (line-- > 1 && text)
        text = (text = strchr(text, '\n')) != NULL ? text + 1 : NULL;
    if (!text)
        return;
    column -= (long)strspn(text, " ");
    text += strspn(text, " ");
    key = strcspn(text, ":");
    if (strncmp(rest, text, key) == 0 && rest[key] == ':')
        rest += key + 2;
    if (column > (long)key)
        pdl_say(err, "--%.*s%s: %s", (int)key, text,
                strncmp(text, "sys", 3) == 0 || strncmp(text, "net", 3) == 0
                    ? "s"
                    : "",
                rest);
    else
        pdl_say(err, "%s", rest);
    if (*inner.hint)
        pdl_hint(err, "%s", inner.hint);
}

static enum pdl_status by_options(pdl_arena *a, const struct options *o,
                                  struct pdl_question *q, struct pdl_err *err)
{
    struct pdl_buf b;
    struct pdl_bytes in = {NULL, 0};
    const char *const texts[] = {o->model,    o->tokens,    o->samples,
                                 o->deadline, o->precision, o->framework};
    enum pdl_status st;

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (texts[i] && strpbrk(texts[i], "'\n"))
            return pdl_fail(err, PDL_EINVAL, "'%.40s' has a quote", texts[i]);
    pdl_buf_init(&b);
    pdl_puts(&b.sink, "workloads:\n  -\n");
    put_text(&b.sink, "model", o->model);
    pdl_printf(&b.sink, "    batch: %lld\n", (long long)o->batch);
    put_text(&b.sink, "tokens", o->tokens);
    put_text(&b.sink, "samples", o->samples);
    put_text(&b.sink, "deadline", o->deadline);
    put_text(&b.sink, "precision", o->precision);
    put_text(&b.sink, "framework", o->framework);
    pdl_puts(&b.sink, "designs:\n  -\n");
    put_list(&b.sink, "system", o->systems, ';');
    put_list(&b.sink, "pes", o->pes, ',');
    put_list(&b.sink, "network", o->networks, ';');
    in.data = pdl_arena_strdup(a, b.text);
    in.len = b.len;
    st = in.data ? pdl_question_read(a, in, "options", q, err)
                 : pdl_fail(err, PDL_ENOMEM, "out of memory");
    if (st == PDL_EPARSE)
        name_option(in.data, err);
    pdl_buf_free(&b);
    return st;
}

static enum pdl_status read_power(const char *text, double *out,
                                  struct pdl_err *err)
{
    if (!text ||
        (pdl_unit_parse(text, PDL_UNIT_WATT, out, NULL) == PDL_OK && *out >= 1))
        return PDL_OK;
    pdl_fail(err, PDL_EINVAL, "--power: '%.40s' is no power of 1 W at least",
             text);
    pdl_hint(err, "write it like 2MW");
    return PDL_EINVAL;
}

static enum pdl_status ask(pdl_arena *a, const struct pdl_args *args,
                           struct pdl_question *q, struct pdl_err *err)
{
    const struct options *o = args->opts;
    struct pdl_bytes in = {NULL, 0};
    enum pdl_status st;

    if (args->npos == 0) {
        st = by_options(a, o, q, err);
    } else {
        st = pdl_file_read(a, args->pos[0], MAX_FILE, &in, err);
        if (st == PDL_OK)
            st = pdl_question_read(a, in, args->pos[0], q, err);
    }
    if (st != PDL_OK)
        return st;
    q->prices = o->prices ? o->prices : q->prices;
    q->region = o->region ? o->region : q->region;
    q->rent = o->money ? strcmp(o->money, "rent") == 0 : q->rent;
    q->budget = o->budget > 0 ? o->budget : q->budget;
    st = read_power(o->power, &q->power_w, err);
    q->racks = o->racks > 0 ? o->racks : q->racks;
    for (int g = 0; o->goal && g < PDL_NDESIGN_GOALS; g++)
        if (strcmp(o->goal, pdl_design_goal_name((enum pdl_design_goal)g)) == 0)
            q->goal = (enum pdl_design_goal)g;
    return st;
}

/* ---- the answer -------------------------------------------------------- */

static enum pdl_status run(pdl_arena *a, const struct pdl_args *args,
                           const struct pdl_question *q, struct pdl_designs *d,
                           struct pdl_err *err)
{
    const struct options *o = args->opts;
    struct watch watch = {.asked = cli_asked()};
    struct pdl_design_options opt = {
        .exhaustive = o->exhaustive,
        .threads = (int)fmin((double)o->threads, 4096),
        .draws = (int)o->draws,
        .memo = o->memo,
        .progress = go_on,
        .ctx = &watch};
    enum pdl_status st;

    interrupted = 0;
    if (!watch.asked)
        signal(SIGINT, on_interrupt);
    pdl_progress_start(&watch.progress, cli_stderr(),
                       !args->quiet && cli_progress(), "designs", 0);
    watch.progress.start_s = pdl_clock_s();
    st = pdl_design(a, q, &opt, d, err);
    pdl_progress_end(&watch.progress);
    if (!watch.asked)
        signal(SIGINT, SIG_DFL);
    return st;
}

static void put_json(struct pdl_buf *b, const struct pdl_args *args,
                     const struct pdl_designs *d)
{
    struct pdl_json w;
    struct pdl_buf line;

    pdl_json_init(&w, &b->sink);
    pdl_json_schema(&w, "design");
    pdl_buf_init(&line);
    cli_command_line(&cli_design, args, &line.sink);
    pdl_json_kstr(&w, "command", line.text);
    pdl_buf_free(&line);
    cli_design_json(&w, d);
    pdl_json_end(&w);
}

static int print(pdl_arena *a, const struct pdl_args *args,
                 const struct pdl_designs *d)
{
    const struct options *o = args->opts;
    struct pdl_buf b;
    int rc = EXIT_OK;

    pdl_buf_init(&b);
    if (args->json || o->report)
        put_json(&b, args, d);
    if (args->json)
        pdl_put(cli_out(), b.text, b.len);
    else
        cli_design_text(a, d,
                        o->top > 0 ? (int)fmin((double)o->top, INT_MAX) : 10);
    if (o->report && d->nfit > 0)
        rc = cli_report(&b, o->report);
    pdl_buf_free(&b);
    if (rc != EXIT_OK || !o->csv)
        return rc;
    pdl_buf_init(&b);
    cli_design_csv(&b.sink, d);
    rc = cli_write(o->csv, &b);
    pdl_buf_free(&b);
    return rc;
}

static int design(const struct pdl_args *args)
{
    const struct options *o = args->opts;
    pdl_arena *a = pdl_arena_create((size_t)8 << 30);
    struct pdl_question q;
    struct pdl_designs d = {.n = 0};
    struct pdl_err err = {"", ""};
    enum pdl_status st;
    int rc;

    if (!a)
        return cli_fail(pdl_fail(&err, PDL_ENOMEM, "out of memory"), &err);
    if (args->npos == 0 &&
        !(o->model && o->batch > 0 && o->systems && o->pes)) {
        pdl_fail(&err, PDL_EINVAL,
                 "design needs a file, or --model, --batch, "
                 "--systems and --pes");
        pdl_hint(&err, "see 'paradl design --help'");
        pdl_arena_destroy(a);
        return cli_usage(&err);
    }
    st = cli_check_output(o->report, ".html", &err);
    if (o->draws > MAX_DRAWS && st == PDL_OK)
        st = pdl_fail(&err, PDL_EINVAL, "--draws: %lld is more than %d",
                      (long long)o->draws, MAX_DRAWS);
    if (st == PDL_OK)
        st = cli_check_output(o->csv, NULL, &err);
    if (st == PDL_OK)
        st = ask(a, args, &q, &err);
    if (st == PDL_OK)
        st = run(a, args, &q, &d, &err);
    if (st != PDL_OK) {
        rc = cli_fail(st, &err);
    } else {
        rc = print(a, args, &d);
        if (rc == EXIT_OK && d.nfit == 0) {
            cli_design_none(&d, &err);
            cli_fail(PDL_EINVAL, &err);
            rc = EXIT_NO;
        }
    }
    if (interrupted)
        rc = EXIT_INTR;
    pdl_arena_destroy(a);
    return rc;
}

const struct pdl_cmd cli_design = {
    .name = "design",
    .args = "[QUESTION.yaml]",
    .min_pos = 0,
    .max_pos = 1,
    .summary = "which machine to build, buy or rent",
    .text = "For every design (a machine of so many PEs with a network) the "
            "best plan of each workload is searched, and from it follow time, "
            "money, energy, carbon and a bill of materials. Designs that are "
            "beaten in none of time, cost and energy are marked *; WINS is how "
            "often a design is the best when prices and projections are drawn "
            "anew from their intervals. Interrupted, it answers for what is "
            "done; with --memo the next call goes on. Questions with several "
            "workloads, growing parameters and constraints are files "
            "(doc/formats/design.md).",
    .example = "paradl design --model vgg16 --batch 64 --samples 1M --systems "
               "dgx-h100 --pes 8",
    .opts = opts,
    .nopts = sizeof opts / sizeof opts[0],
    .opts_size = sizeof(struct options),
    .run = design,
};
