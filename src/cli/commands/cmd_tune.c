/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl tune: how the gradients of a strategy are best exchanged. */
#include "cli/output/projection.h"
#include "cli/questions/tuned.h"

#include "paradl/tune.h"

#include <stdio.h>
#include <string.h>

struct options {
    struct cli_question q;
    const char *nccl, *table, *env;
    double least;
    bool lossless, buckets;
};

#define AT(field) offsetof(struct options, field)
// clang-format off
static const struct pdl_opt opts[] = {
    CLI_PLAN_OPTS,
    {"lossless", 0, PDL_OPT_FLAG, AT(lossless), NULL, NULL,
     "nothing that changes the sums"},
    {"least", 0, PDL_OPT_AMOUNT, AT(least), "X", NULL,
     "part of the step that compression must save (0.03)"},
    {"buckets", 0, PDL_OPT_FLAG, AT(buckets), NULL, NULL,
     "when each bucket is ready, begins and how long it takes"},
    {"nccl", 0, PDL_OPT_TEXT, AT(nccl), "FILE.csv", NULL,
     "also write a file for NCCL's tuner plugin"},
    {"table", 0, PDL_OPT_TEXT, AT(table), "FILE.yaml", NULL,
     "also write a table for our collectives ($PARADL_PROFILE)"},
    {"env", 0, PDL_OPT_TEXT, AT(env), "FILE.sh", NULL,
     "also write the algorithm as variables of NCCL and Open MPI"},
    CLI_QUESTION_OPTS,
};
// clang-format on
#undef AT

struct answer {
    pdl_arena *arena;
    const struct options *o;
    const struct pdl_args *args;
    struct cli_job *j;
    struct pdl_tune_result r;
};

/* ---- text and JSON ------------------------------------------------------ */

static const char *unit(pdl_arena *a, double v, enum pdl_unit u)
{
    char buf[32];
    const char *text =
        pdl_arena_strdup(a, pdl_unit_format(v, u, buf, sizeof buf));

    return text ? text : "";
}

static void print_row(const struct answer *w, const char *name,
                      const struct pdl_tuned *x, struct pdl_table *t)
{
    pdl_table_cell(t, "%s%s", x == w->r.best ? "* " : "  ", name);
    pdl_table_cell(t, "%s", unit(w->arena, x->x.step_s, PDL_UNIT_SECONDS));
    pdl_table_cell(t, "%s",
                   unit(w->arena, x->x.exposed_comm_s, PDL_UNIT_SECONDS));
    pdl_table_cell(t, "%s%s",
                   unit(w->arena, (double)x->x.peak_bytes, PDL_UNIT_BYTES),
                   x->x.feasible ? "" : " x");
    pdl_table_cell(t, "%s%s", x->compress ? x->compress : "none",
                   x->layers ? " (some)" : "");
    pdl_table_cell(t, "%s", cli_loss_name(x->compress));
}

static void print_buckets(const struct answer *w)
{
    static const struct pdl_column columns[] = {
        {"BUCKET", true}, {"WEIGHTS", true}, {"BYTES", true},
        {"READY", true},  {"BEGINS", true},  {"TAKES", true},
    };
    struct pdl_table t;

    pdl_table_init(&t, w->arena, columns, 6);
    for (int i = 0; i < w->r.nbuckets; i++) {
        const struct pdl_tuned_bucket *b = &w->r.bucket[i];

        pdl_table_cell(&t, "%d", i);
        pdl_table_cell(&t, "%d", b->weights);
        pdl_table_cell(&t, "%s",
                       unit(w->arena, (double)b->bytes, PDL_UNIT_BYTES));
        pdl_table_cell(&t, "%s", unit(w->arena, b->ready_s, PDL_UNIT_SECONDS));
        pdl_table_cell(&t, "%s", unit(w->arena, b->start_s, PDL_UNIT_SECONDS));
        pdl_table_cell(&t, "%s", unit(w->arena, b->seconds, PDL_UNIT_SECONDS));
    }
    pdl_table_print(&t, cli_width(), cli_out());
    cli_say(2, "backward ends at %s",
            unit(w->arena, w->r.backward_s, PDL_UNIT_SECONDS));
}

static void print_verdict(const struct answer *w)
{
    const struct pdl_tune_result *r = &w->r;
    double saves = 1 - r->any.x.step_s / r->dense.x.step_s;

    if (r->best->compress)
        cli_say(2,
                "compress: %s saves %.1f %% of the best step without "
                "(accuracy: %s)",
                r->any.compress, 100 * saves, cli_loss_name(r->any.compress));
    else if (r->any.compress)
        cli_say(2, "do not compress: %s would save %.1f %% of a step",
                r->any.compress, 100 * saves);
    else
        cli_say(2, "do not compress: nothing is faster");
    if (r->best->layers)
        cli_say(2, "of %d layers only: the strategy names them",
                r->best->layers);
    cli_say(2, "strategy: %s", r->best->strategy);
    cli_say(2, "%lld combinations, %lld projected in full",
            (long long)r->combinations, (long long)r->projected);
}

static void print_text(const struct answer *w)
{
    static const struct pdl_column columns[] = {
        {"  EXCHANGE", false}, {"STEP", true},      {"EXPOSED", true},
        {"MEMORY", true},      {"COMPRESS", false}, {"ACCURACY", false},
    };
    struct pdl_table t;

    cli_say(2, "%s on %s, %s", w->j->model->name, w->j->sys.name,
            w->o->q.strategy);
    pdl_table_init(&t, w->arena, columns, 6);
    print_row(w, "as given", &w->r.base, &t);
    print_row(w, "not compressed", &w->r.dense, &t);
    if (w->r.any.compress)
        print_row(w, "compressed", &w->r.any, &t);
    pdl_table_print(&t, cli_width(), cli_out());
    print_verdict(w);
    if (w->o->buckets)
        print_buckets(w);
}

static void json_way(struct pdl_json *j, const char *key,
                     const struct pdl_tuned *x)
{
    pdl_json_key(j, key);
    pdl_json_object(j);
    pdl_json_kstr(j, "strategy", x->strategy);
    pdl_json_kstr(j, "algorithm", x->algorithm ? x->algorithm : "auto");
    pdl_json_kstr(j, "compress", x->compress ? x->compress : "none");
    pdl_json_kstr(j, "accuracy", cli_loss_name(x->compress));
    pdl_json_kint(j, "compressed_layers", x->layers);
    pdl_json_kint(j, "bucket_bytes", x->bucket_bytes);
    pdl_json_kbool(j, "overlap", !x->no_overlap);
    pdl_json_knum(j, "step_s", x->x.step_s);
    pdl_json_knum(j, "exposed_comm_s", x->x.exposed_comm_s);
    pdl_json_kint(j, "peak_bytes", x->x.peak_bytes);
    pdl_json_kbool(j, "feasible", x->x.feasible);
    pdl_json_end(j);
}

static void print_json(const struct answer *w)
{
    const struct pdl_tune_result *r = &w->r;
    struct pdl_json j;

    pdl_json_init(&j, cli_out());
    pdl_json_schema(&j, "tune");
    pdl_json_kstr(&j, "strategy", r->best->strategy);
    pdl_json_kbool(&j, "compress", r->best->compress != NULL);
    json_way(&j, "given", &r->base);
    json_way(&j, "dense", &r->dense);
    json_way(&j, "any", &r->any);
    pdl_json_kint(&j, "combinations", r->combinations);
    pdl_json_kint(&j, "projected", r->projected);
    pdl_json_knum(&j, "backward_s", r->backward_s);
    pdl_json_key(&j, "buckets");
    pdl_json_array(&j);
    for (int i = 0; i < r->nbuckets; i++) {
        const struct pdl_tuned_bucket *b = &r->bucket[i];

        pdl_json_object(&j);
        pdl_json_kint(&j, "bytes", b->bytes);
        pdl_json_kint(&j, "weights", b->weights);
        pdl_json_knum(&j, "ready_s", b->ready_s);
        pdl_json_knum(&j, "start_s", b->start_s);
        pdl_json_knum(&j, "seconds", b->seconds);
        pdl_json_end(&j);
    }
    pdl_json_end(&j);
    pdl_json_end(&j);
}

/* ---- files for others --------------------------------------------------- */

/* The protocol that NCCL's tuner expects most of (pdl_nccl_ways); Simple where
 * it says nothing. */
static const char *protocol_of(const struct answer *w, const char *algorithm,
                               int64_t bytes)
{
    int64_t pes = w->j->x.pes;
    struct pdl_nccl_way list[PDL_NCCL_WAYS];
    int n = 0;

    if (pdl_nccl_ways(&w->j->sys, "allreduce", pes, 0, bytes, list, &n, NULL) !=
        PDL_OK)
        return "simple";
    for (int i = 0; i < n; i++)
        if (strcmp(list[i].algorithm, algorithm) == 0)
            return strcmp(list[i].protocol, "LL") == 0      ? "ll"
                   : strcmp(list[i].protocol, "LL128") == 0 ? "ll128"
                                                            : "simple";
    return "simple";
}

/* Rows of NCCL's example tuner (plugins/tuner/example): collective, bytes from
 * and to, algorithm, protocol, channels, nodes, ranks; -1: any. Its trees have
 * the rounds and bytes of halving-doubling. None: NCCL chooses. */
static void write_nccl(const struct answer *w, struct pdl_sink *out)
{
    int64_t pes = w->j->x.pes, per = w->j->sys.node.pes, from = 0;
    const int64_t most = UINT32_MAX;
    const char *alg = w->r.best->algorithm;

    pdl_printf(out, "# %s\n", w->r.best->strategy);
    if (!alg)
        return;
    alg = strcmp(alg, "halving-doubling") == 0 ? "tree" : "ring";
    for (int64_t to = 1024; from <= most; to *= 2) {
        const char *protocol = protocol_of(w, alg, to);

        if (to < most && strcmp(protocol, protocol_of(w, alg, 2 * to)) == 0)
            continue;
        to = to < most ? to : most;
        pdl_printf(out, "allreduce,%lld,%lld,%s,%s,-1,%lld,%lld,-1,-1\n",
                   (long long)from, (long long)to, alg, protocol,
                   (long long)((pes + per - 1) / per), (long long)pes);
        from = to + 1;
    }
}

/* A table without rules: the built-in ones. */
static void write_table(const struct answer *w, struct pdl_sink *out)
{
    const char *alg = w->r.best->algorithm;

    pdl_printf(out, "# %s\nschema: paradl.profile/1\n", w->r.best->strategy);
    if (!alg)
        return;
    pdl_printf(out, "allreduce:\n  - {ranks: %lld, algorithm: \"%s",
               (long long)w->j->x.pes, alg);
    if (strcmp(alg, "ring-ring") == 0)
        pdl_printf(out, ":k=%lld", (long long)w->j->sys.node.pes);
    pdl_puts(out, "\"}\n");
}

/* Open MPI's numbers of coll_tuned_allreduce_algorithm: 4 ring, 6 Rabenseifner.
 * Neither has a ring of rings: NCCL's rings go through a node by themselves. */
static void write_env(const struct answer *w, struct pdl_sink *out)
{
    const struct pdl_tuned *x = w->r.best;
    bool halving =
        x->algorithm && strcmp(x->algorithm, "halving-doubling") == 0;

    pdl_printf(out, "# %s\n# DistributedDataParallel(bucket_cap_mb=%lld)\n",
               x->strategy,
               (long long)(x->bucket_bytes > 0 ? x->bucket_bytes >> 20 : 25));
    if (x->algorithm)
        pdl_printf(out,
                   "export NCCL_ALGO=%s\n"
                   "export OMPI_MCA_coll_tuned_use_dynamic_rules=1\n"
                   "export OMPI_MCA_coll_tuned_allreduce_algorithm=%d\n",
                   halving ? "Tree" : "Ring", halving ? 6 : 4);
}

static enum pdl_status write_file(const struct answer *w, const char *path,
                                  void (*put)(const struct answer *,
                                              struct pdl_sink *),
                                  struct pdl_err *err)
{
    struct pdl_buf b;
    enum pdl_status st;

    if (!path)
        return PDL_OK;
    pdl_buf_init(&b);
    put(w, &b.sink);
    st = pdl_file_write(path, b.text, b.len, err);
    pdl_buf_free(&b);
    return st;
}

/* ---- the command -------------------------------------------------------- */

static enum pdl_status ask(struct answer *w, struct pdl_err *err)
{
    struct pdl_tune_options opt = {.lossless = w->o->lossless,
                                   .least = w->o->least};
    struct pdl_plan_options plan = {.batch = w->o->q.batch};
    enum pdl_status st = cli_job_price(&w->o->q, w->o->q.strategy, w->j, err);

    if (st == PDL_OK)
        st =
            pdl_tune_gradients(w->arena, w->j->model, &w->j->sys, &w->j->oracle,
                               &plan, w->o->q.strategy, &opt, &w->r, err);
    if (st == PDL_OK)
        st = write_file(w, w->o->nccl, write_nccl, err);
    if (st == PDL_OK)
        st = write_file(w, w->o->table, write_table, err);
    if (st == PDL_OK)
        st = write_file(w, w->o->env, write_env, err);
    return st;
}

static int tune(const struct pdl_args *args)
{
    struct options o = *(const struct options *)args->opts;
    struct pdl_err err = {"", ""};
    enum pdl_status st = PDL_OK;
    pdl_arena *a;
    struct answer *w;
    int rc;

    if (!o.q.system || !o.q.strategy || o.q.batch < 1 || o.least >= 1) {
        pdl_fail(&err, PDL_EINVAL,
                 o.least >= 1 ? "--least is a part of the step, below 1"
                              : "tune needs --system, --strategy and --batch");
        pdl_hint(&err, "see 'paradl tune --help'");
        return cli_usage(&err);
    }
    o.q.model = args->pos[0];
    a = pdl_arena_create(PDL_ARENA_DEFAULT);
    w = a ? PDL_NEW(a, struct answer, 1) : NULL;
    if (w)
        w->j = PDL_NEW(a, struct cli_job, 1);
    if (!w || !w->j)
        st = pdl_fail(&err, PDL_ENOMEM, "out of memory");
    if (st == PDL_OK) {
        w->arena = a;
        w->o = &o;
        w->args = args;
        st = cli_job_open(&o.q, w->j, &err);
    }
    if (st == PDL_OK)
        st = ask(w, &err);
    rc = st == PDL_OK ? EXIT_OK : cli_fail(st, &err);
    if (st == PDL_OK && args->json)
        print_json(w);
    else if (st == PDL_OK)
        print_text(w);
    cli_job_close(w ? w->j : NULL);
    pdl_arena_destroy(a);
    return rc;
}

const struct pdl_cmd cli_tune = {
    .name = "tune",
    .args = "MODEL",
    .min_pos = 1,
    .max_pos = 1,
    .summary = "how gradients are best exchanged",
    .text = "Looks at every combination of algorithm, compression, size of "
            "buckets and overlap for the gradients of a strategy, and projects "
            "the best in full. Says whether to compress, and prints the "
            "strategy to take, which project and train understand. ACCURACY: "
            "exact (the same sums), tried on small data (doc/tune.md), or "
            "unknown.",
    .example = "paradl tune resnet50 --system abci-v100 --strategy data=32 "
               "--batch 1024",
    .opts = opts,
    .nopts = sizeof opts / sizeof opts[0],
    .opts_size = sizeof(struct options),
    .run = tune,
};
