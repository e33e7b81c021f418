/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl fit-in: the questions the other way round. Does it fit; what is the
 * largest batch, the longest sequence, the most layers, the fewest PEs; which
 * is the cheapest in time, and which the fastest within a budget. Every answer
 * is the best plan of a search, priced in full; sizes are doubled, and between
 * one that fits and one that does not their doublings are halved. Each has a
 * largest that is tried; an answer that is it says so. */
#include "cli/output/fit_in.h"
#include "cli/questions/handover.h"

#include <stdio.h>
#include <string.h>

#define AT(field) offsetof(struct options, field)
// clang-format off
static const struct pdl_opt opts[] = {
    CLI_SYSTEM_OPT,
    {"pes", 0, PDL_OPT_COUNT, AT(q.pes), "N", NULL, "number of PEs, at most"},
    {"batch", 0, PDL_OPT_COUNT, AT(q.batch), "B", NULL,
     "samples of one step (default: one for each PE)"},
    {"train", 0, PDL_OPT_COUNT, AT(train), "SAMPLES", NULL,
     "samples of the whole training, for --deadline and --budget"},
    {"tokens", 0, PDL_OPT_NUM, AT(tokens), "N", NULL,
     "the same, for a transformer: 300G"},
    {"deadline", 0, PDL_OPT_TIME, AT(deadline_s), "TIME", NULL,
     "cheapest that trains so many samples in time"},
    {"budget", 0, PDL_OPT_NUM, AT(budget), "COST", NULL,
     "fastest within this cost (SYSTEM:pe.price_per_hour=X says the price)"},
    CLI_QUESTION_OPTS,
    {"offload", 0, PDL_OPT_TEXT, AT(offload), "WHETHER", "auto|none",
     "auto: also with what is decided by block: kept, made again, or on the "
     "host; none: without the host's memory"},
    {"report", 0, PDL_OPT_TEXT, AT(report), "FILE.html", NULL,
     "also write a page with charts"},
};
// clang-format on
#undef AT

static bool on_points(void *ctx, int64_t done, int64_t total)
{
    struct cli_fit *k = ctx;

    k->progress.total = total;
    pdl_progress_step(&k->progress, done);
    return cli_go_on(cli_asked(), done, total);
}

static enum pdl_status set_search(pdl_job *j, struct cli_fit *k, bool only_fits,
                                  struct pdl_err *err)
{
    enum pdl_status st = pdl_job_set(j, "top", "1", err);

    if (st == PDL_OK)
        st = pdl_job_set(j, "one-order", "yes", err);
    if (st == PDL_OK)
        st = pdl_job_set(j, "uncounted", "yes", err);
    if (st == PDL_OK)
        st = cli_set_flag(j, "only-fits", only_fits, err);
    if (st == PDL_OK)
        st = pdl_job_set(j, "offload", k->o->offload, err);
    pdl_job_on_progress(j, on_points, k);
    return st;
}

/* only_fits: what the best plan is, is not asked. */
static enum pdl_status search(struct cli_fit *k, const char *model, int64_t pes,
                              int64_t batch, bool only_fits,
                              struct cli_fit_trial *t, struct pdl_err *err)
{
    struct cli_job j = {.job = NULL};
    struct cli_question q = k->o->q;
    struct pdl_search_result r = {.list = NULL};
    enum pdl_status st;

    *t = (struct cli_fit_trial){.pes = pes, .batch = batch};
    snprintf(k->what, sizeof k->what, "search %lld: pricing",
             (long long)k->searches + 1);
    q.model = model;
    q.pes = pes;
    q.batch = batch;
    q.dim = k->dim ? k->dim : q.dim;
    st = cli_job_open(&q, &j, err);
    if (st == PDL_OK)
        st = set_search(j.job, k, only_fits, err);
    if (st == PDL_OK)
        st = pdl_job_search(j.job, &r, err);
    if (st == PDL_OK) {
        t->fits = r.feasible > 0;
        t->tokens = j.model->tokens;
    }
    if (st == PDL_OK && r.evaluated > 0) {
        t->strategy = pdl_arena_strdup(k->arena, r.list[0].strategy);
        t->x = r.list[0].x;
        pdl_project_bill(&t->x, &j.sys, &t->bill);
    }
    k->searches++;
    cli_job_close(&j);
    return st;
}

/* ---- questions --------------------------------------------------------- */

/* A size that is doubled so many times: what is searched. */
enum size { BATCH, PES, SEQUENCE, LAYERS };

/* A config.json takes the length of a sequence as a dimension, a name of the
 * zoo as a parameter. */
static bool is_config(const char *model)
{
    size_t n = strlen(model);

    return n > 5 && strcmp(model + n - 5, ".json") == 0;
}

static const char *as_dim(struct cli_fit *k, int64_t tokens)
{
    const char *also = k->o->q.dim;

    return pdl_arena_printf(k->arena, "%s%sseq=%lld", also ? also : "",
                            also ? "," : "", (long long)tokens);
}

static enum pdl_status try_size(struct cli_fit *k, enum size what,
                                int64_t first, int doubled, bool only_fits,
                                struct cli_fit_trial *t, struct pdl_err *err)
{
    int64_t n = first << doubled;
    const char *name = k->model;
    enum pdl_status st;

    if (what == SEQUENCE && is_config(k->model))
        k->dim = as_dim(k, n);
    else if (what == SEQUENCE || what == LAYERS)
        name =
            pdl_arena_printf(k->arena, "%s%s%s=%lld", k->model,
                             strchr(k->model, ':') ? "," : ":",
                             what == SEQUENCE ? "seq" : "layers", (long long)n);
    if (!name)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    st = search(k, name, what == PES ? n : k->o->q.pes,
                what == BATCH ? n : k->o->q.batch, only_fits, t, err);
    k->dim = NULL;
    t->layers = what == LAYERS ? n : 0;
    return st;
}

/* The best plan of a size that fits. */
static enum pdl_status finish(struct cli_fit *k, enum size what, int64_t first,
                              int doubled, const struct cli_fit_trial *found,
                              struct cli_fit_trial *best, struct pdl_err *err)
{
    *best = *found;
    return found->strategy
               ? PDL_OK
               : try_size(k, what, first, doubled, false, best, err);
}

/* What fits stays so with fewer samples, fewer tokens and more PEs: halving
 * the doublings between one that fits and one that does not finds the last (of
 * PEs, the first), and its best plan is searched. lo fits or is not tried (-1),
 * hi does not. */
static enum pdl_status halve(struct cli_fit *k, enum size what, int64_t first,
                             int lo, int hi, struct cli_fit_trial *best,
                             struct pdl_err *err)
{
    struct cli_fit_trial found = {.fits = false};
    enum pdl_status st = PDL_OK;
    int sign = what == PES ? -1 : 1, most = hi - 1;

    while (st == PDL_OK && sign * (hi - lo) > 1) {
        int mid = lo + (hi - lo) / 2;
        struct cli_fit_trial t = {.fits = false};

        st = try_size(k, what, first, mid, true, &t, err);
        if (t.fits)
            found = t;
        *(t.fits ? &lo : &hi) = mid;
    }
    if (st == PDL_OK && found.fits)
        st = finish(k, what, first, lo, &found, best, err);
    best->most = what != PES && lo == most;
    return st;
}

/* Transformers' plans have micro-batches and fit at any size: for them the
 * doubling ends at 16 samples for each PE, which is tried first. */
static enum pdl_status largest_batch(struct cli_fit *k,
                                     const struct cli_fit_trial *asked,
                                     struct cli_fit_trial *best,
                                     struct pdl_err *err)
{
    int64_t pes = k->o->q.pes, from = asked->fits ? k->o->q.batch : 1;
    int64_t most = (k->j->model->tokens > 0 ? 16 : 4096) * pes;
    enum pdl_status st = PDL_OK;
    struct cli_fit_trial t = {.fits = false};
    int n = 0;

    *best = asked->fits ? *asked : t;
    while (from << (n + 1) <= most)
        n++;
    if (n > 0 && k->j->model->tokens > 0)
        st = try_size(k, BATCH, from, n, true, &t, err);
    if (t.fits && st == PDL_OK)
        st = finish(k, BATCH, from, n, &t, best, err);
    else if (st == PDL_OK)
        st = halve(k, BATCH, from, asked->fits ? 0 : -1,
                   k->j->model->tokens > 0 && n > 0 ? n : n + 1, best, err);
    /* of a transformer the largest was tried on its own */
    if (k->j->model->tokens > 0 && n > 0)
        best->most = t.fits;
    return st;
}

static enum pdl_status fewest_pes(struct cli_fit *k,
                                  const struct cli_fit_trial *asked,
                                  struct cli_fit_trial *best,
                                  struct pdl_err *err)
{
    int64_t pes = k->o->q.pes, first = 1;
    int n = 0;

    *best = (struct cli_fit_trial){.fits = false};
    while (2 << n <= pes && k->o->q.batch % (2 << n) == 0)
        n++;
    if (first << n == pes && asked->fits)
        *best = *asked;
    else if (first << n == pes)
        return PDL_OK;
    return halve(k, PES, 1, best->fits ? n : n + 1, -1, best, err);
}

/* Models of the zoo and configurations take seq=. */
static enum pdl_status longest_sequence(struct cli_fit *k,
                                        const struct cli_fit_trial *asked,
                                        struct cli_fit_trial *best,
                                        struct pdl_err *err)
{
    static const int64_t MOST = 1 << 22;
    int64_t tokens = k->j->model->tokens;
    int64_t says = k->j->model->most_tokens, most = says > 0 ? says : MOST;
    int n = 0;

    *best = (struct cli_fit_trial){.fits = false};
    if (tokens == 0 || strstr(k->model, "seq=") || !asked->fits ||
        (k->o->q.dim && strstr(k->o->q.dim, "seq=")) ||
        (!is_config(k->model) && strchr(k->model, '/')))
        return PDL_OK;
    *best = *asked;
    while (tokens << (n + 1) <= most)
        n++;
    return halve(k, SEQUENCE, tokens, 0, n + 1, best, err);
}

/* How many layers a model of the zoo has, where they can be set; else 0. */
int64_t cli_fit_layers(const char *model)
{
    char name[80];
    struct pdl_zoo_param p;

    if (strstr(model, "layers="))
        return 0;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(model, ":"), model);
    for (int i = 0; pdl_zoo_param(name, i, &p); i++)
        if (strcmp(p.key, "layers") == 0)
            return p.value;
    return 0;
}

/* The largest model of this width: a deeper one, as deep as models are. */
static enum pdl_status most_layers(struct cli_fit *k,
                                   const struct cli_fit_trial *asked,
                                   struct cli_fit_trial *best,
                                   struct pdl_err *err)
{
    enum { DEEPEST = 128 };
    int64_t layers = cli_fit_layers(k->model);
    int n = 0;

    *best = (struct cli_fit_trial){.fits = false};
    if (layers < 1 || !asked->fits)
        return PDL_OK;
    *best = *asked;
    best->layers = layers;
    while (layers << (n + 1) <= DEEPEST)
        n++;
    return halve(k, LAYERS, layers, 0, n + 1, best, err);
}

static double pe_seconds(const struct cli_fit_trial *t)
{
    return t->x.step_s * (double)t->pes;
}

/* PEs by doubling: of those in time the one that costs least (by its PE hours:
 * all have one price), or the quickest that can be paid. */
static enum pdl_status within(struct cli_fit *k, bool deadline,
                              struct cli_fit_trial *best, struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    *best = (struct cli_fit_trial){.fits = false};
    for (int64_t p = 1; p <= k->o->q.pes && st == PDL_OK; p *= 2) {
        struct cli_fit_trial t;

        if (k->o->q.batch % p != 0)
            continue;
        st = search(k, k->model, p, k->o->q.batch, false, &t, err);
        if (st != PDL_OK || !t.fits)
            continue;
        if (deadline && cli_fit_train_s(k, &t) <= k->o->deadline_s &&
            (!best->fits || pe_seconds(&t) < pe_seconds(best)))
            *best = t;
        if (!deadline && cli_fit_train_cost(k, &t) <= k->o->budget &&
            (!best->fits || t.x.step_s < best->x.step_s))
            *best = t;
    }
    return st;
}

static enum pdl_status answer(struct cli_fit *k, struct cli_fit_answers *x,
                              struct pdl_err *err)
{
    const struct cli_question *q = &k->o->q;
    enum pdl_status st =
        search(k, k->model, q->pes, q->batch, false, &x->as_asked, err);

    if (st == PDL_OK)
        st = largest_batch(k, &x->as_asked, &x->batch, err);
    if (st == PDL_OK)
        st = fewest_pes(k, &x->as_asked, &x->pes, err);
    if (st == PDL_OK)
        st = longest_sequence(k, &x->as_asked, &x->sequence, err);
    if (st == PDL_OK)
        st = most_layers(k, &x->as_asked, &x->layers, err);
    if (st == PDL_OK && k->o->deadline_s > 0)
        st = within(k, true, &x->deadline, err);
    if (st == PDL_OK && k->o->budget > 0)
        st = within(k, false, &x->budget, err);
    if (st == PDL_OK && k->o->offload && strcmp(k->o->offload, "auto") == 0 &&
        (x->as_asked.fits || x->batch.fits))
        cli_methods(k->j,
                    x->as_asked.fits ? x->as_asked.strategy : x->batch.strategy,
                    x->as_asked.fits ? q->batch : x->batch.batch,
                    x->batch.fits ? x->batch.batch : q->batch, &x->methods);
    return st;
}

static enum pdl_status sensible(const struct pdl_args *args,
                                const struct options *o, struct pdl_err *err)
{
    if ((o->deadline_s <= 0 && pdl_opt_given(&cli_fit_in, args, "deadline")) ||
        (o->budget <= 0 && pdl_opt_given(&cli_fit_in, args, "budget")))
        return pdl_fail(err, PDL_EINVAL,
                        "--deadline and --budget are more than 0");
    if (!o->q.system || o->q.pes < 1)
        return pdl_fail(err, PDL_EINVAL, "fit-in needs --system and --pes");
    if ((o->deadline_s > 0 || o->budget > 0) && o->train < 1 &&
        !(o->tokens >= 1))
        return pdl_fail(err, PDL_EINVAL,
                        "--deadline and --budget need --train SAMPLES or "
                        "--tokens N");
    return PDL_OK;
}

static enum pdl_status
settle_train(struct options *o, const struct pdl_model *m, struct pdl_err *err)
{
    if (!(o->tokens >= 1))
        return PDL_OK;
    if (o->train > 0)
        return pdl_fail(err, PDL_EINVAL, "--train and --tokens are the same");
    if (m->tokens < 1 || o->tokens > 1e18)
        return pdl_fail(err, PDL_EINVAL,
                        m->tokens < 1 ? "--tokens: the model has none (--train "
                                        "says its samples)"
                                      : "--tokens is too large");
    o->train = (int64_t)(o->tokens / (double)m->tokens);
    return o->train > 0
               ? PDL_OK
               : pdl_fail(err, PDL_EINVAL, "--tokens: not one sample of %lld",
                          (long long)m->tokens);
}

static void write_json(struct pdl_sink *out, const struct pdl_args *args,
                       const struct cli_fit *k, const struct cli_fit_answers *x)
{
    struct pdl_json w;
    struct pdl_buf line;

    pdl_json_init(&w, out);
    pdl_json_schema(&w, "fit-in");
    pdl_buf_init(&line);
    cli_command_line(&cli_fit_in, args, &line.sink);
    pdl_json_kstr(&w, "command", line.text);
    pdl_buf_free(&line);
    cli_fit_json(&w, k, x);
    pdl_json_end(&w);
}

static int tell(const struct pdl_args *args, const struct cli_fit *k,
                const struct cli_fit_answers *x)
{
    struct pdl_buf json;
    int rc = EXIT_OK;

    if (args->json)
        write_json(cli_out(), args, k, x);
    else
        cli_fit_text(k, x);
    if (!k->o->report)
        return rc;
    pdl_buf_init(&json);
    write_json(&json.sink, args, k, x);
    rc = cli_report(&json, k->o->report);
    pdl_buf_free(&json);
    return rc;
}

static int fit_in(const struct pdl_args *args)
{
    struct options o = *(const struct options *)args->opts;
    struct cli_fit k = {.o = &o, .model = args->pos[0]};
    struct cli_fit_answers x = {.as_asked = {.fits = false}};
    struct pdl_err err = {"", ""};
    enum pdl_status st = sensible(args, &o, &err);
    int rc;

    if (st != PDL_OK) {
        pdl_hint(&err, "see 'paradl fit-in --help'");
        return cli_usage(&err);
    }
    o.q.model = args->pos[0];
    o.q.batch = o.q.batch > 0 ? o.q.batch : o.q.pes;
    k.arena = pdl_arena_create(PDL_ARENA_DEFAULT);
    k.j = k.arena ? PDL_NEW(k.arena, struct cli_job, 1) : NULL;
    st = k.j ? cli_open_for(&o.q, NULL,
                            o.offload && strcmp(o.offload, "auto") == 0, k.j,
                            &k.whose, &err)
             : pdl_fail(&err, PDL_ENOMEM, "out of memory");
    if (st == PDL_OK)
        st = settle_train(&o, k.j->model, &err);
    pdl_progress_start(&k.progress, cli_stderr(),
                       !args->quiet && cli_progress(), k.what, 0);
    if (st == PDL_OK)
        st = answer(&k, &x, &err);
    if (st == PDL_OK && x.as_asked.fits) /* for its notes */
        st = cli_job_price(&o.q, x.as_asked.strategy, k.j, &err);
    pdl_progress_end(&k.progress);
    rc = st != PDL_OK ? cli_fail(st, &err) : tell(args, &k, &x);
    cli_job_close(k.j);
    pdl_arena_destroy(k.arena);
    return rc != EXIT_OK || x.as_asked.fits ? rc : EXIT_NO;
}

const struct pdl_cmd cli_fit_in = {
    .name = "fit-in",
    .args = "MODEL",
    .min_pos = 1,
    .max_pos = 1,
    .summary = "does it fit; largest batch, sequence, model, fewest PEs",
    .text = "Searches the best plan as asked (exit code 1 when none fits), for "
            "the largest batch, the longest sequence and the most layers on "
            "that many PEs, for the fewest PEs at that batch, and, with "
            "--train, for the cheapest plan that meets a deadline and the "
            "fastest plan within a budget.",
    .example = "paradl fit-in resnet50 --system abci-v100 --pes 16 --batch 512",
    .opts = opts,
    .nopts = sizeof opts / sizeof opts[0],
    .opts_size = sizeof(struct options),
    .run = fit_in,
};
