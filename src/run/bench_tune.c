/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of choices: every algorithm that may win is timed at every size on
 * the machine it runs on, as the benchmark times one. Neighbouring sizes with
 * the same winner are one rule. Rules for other numbers of ranks are kept. */
#include "bench.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NCONTENDERS = 8 };
/* Those of coll.h that any machine may profit from; rows end with NULL. */
static const struct {
    const char *collective, *algorithm[NCONTENDERS + 1];
} contenders[] = {
    {"allreduce",
     {"flat", "ordered", "recursive-doubling", "rabenseifner", "ring",
      "segmented-ring", "double-tree", "swing"}},
    {"reduce-scatter", {"ordered", "ring", "halving"}},
    {"allgather", {"bruck", "ring", "recursive-doubling"}},
    {"alltoall", {"pairwise", "bruck"}},
    {"broadcast", {"binomial", "scatter-allgather", "chain"}},
};

static const char *const *contenders_of(const struct bench *b)
{
    static const char *const none[] = {NULL};

    for (size_t i = 0; i < sizeof contenders / sizeof contenders[0]; i++)
        if (strcmp(contenders[i].collective, b->coll->name) == 0)
            return contenders[i].algorithm;
    return none;
}

/* Longer than this everyone sending everything to everyone is hopeless. */
enum { FLAT_LIMIT = 65536 };

enum pdl_status run_bench_profile(pdl_arena *a, const struct bench_options *o,
                                  struct pdl_comm_table *out,
                                  struct pdl_err *err)
{
    const char *path = o->profile ? o->profile : getenv("PARADL_PROFILE");

    *out = (struct pdl_comm_table){NULL, 0};
    if (!path || !*path || (o->tune && access(path, F_OK) != 0))
        return PDL_OK;
    return pdl_comm_table_read(a, path, out, err);
}

/* Times one algorithm at every size; those it does not run stay 0. */
static enum pdl_status time_one(struct bench *b,
                                const struct pdl_comm_options *opt,
                                const char *algorithm, double *took,
                                struct pdl_err *err)
{
    struct pdl_comm_options with = *opt;
    struct bench_options quick = *b->o;
    struct bench one = *b;
    char named[96];
    enum pdl_status st;

    snprintf(named, sizeof named, "%s/%s", b->coll->name, algorithm);
    with.algorithm = named;
    with.table = NULL;
    quick.against = NULL;
    quick.seconds = b->o->seconds > 0 ? b->o->seconds : 0.1;
    one.o = &quick;
    one.comm = NULL;
    st = pdl_comm_create(MPI_COMM_WORLD, &with, &one.comm, err);
    if (st == PDL_EINVAL)
        return PDL_OK; /* not on this many ranks */
    for (int i = 0; st == PDL_OK && i < b->nsizes; i++) {
        if (strcmp(algorithm, "flat") == 0 && b->sizes[i] > FLAT_LIMIT)
            break;
        st = run_bench_size(&one, i, err);
        took[i] = st == PDL_OK ? one.row[i].ours_s : 0;
    }
    pdl_comm_destroy(one.comm);
    return st;
}

/* The winners, as rules; the largest size stands for all above it. */
static int make_rules(const struct bench *b, double took[][BENCH_MAX_SIZES],
                      struct pdl_comm_rule *rule)
{
    const char *const *names = contenders_of(b);
    int n = 0, last = -1;

    for (int i = 0; i < b->nsizes; i++) {
        int best = -1;

        for (int k = 0; names[k]; k++)
            if (took[k][i] > 0 && (best < 0 || took[k][i] < took[best][i]))
                best = k;
        if (best < 0)
            continue;
        /* a rule of its own is worth more than noise */
        if (last >= 0 && took[last][i] > 0 &&
            took[last][i] < 1.05 * took[best][i])
            best = last;
        if (best != last) {
            snprintf(rule[n].algorithm, sizeof rule[n].algorithm, "%s",
                     names[best]);
            rule[n].collective = b->coll->name;
            rule[n].ranks = b->ranks;
            n++;
        }
        rule[n - 1].up_to = i + 1 < b->nsizes ? b->sizes[i] : INT64_MAX;
        last = best;
    }
    return n;
}

static enum pdl_status write_profile(const struct bench *b,
                                     const struct pdl_comm_rule *mine, int n,
                                     struct pdl_err *err)
{
    pdl_arena *a = pdl_arena_create(1 << 24);
    struct pdl_comm_table old = {NULL, 0}, all = {NULL, 0};
    struct pdl_buf text;
    enum pdl_status st = a ? run_bench_profile(a, b->o, &old, err) : PDL_ENOMEM;

    if (st == PDL_OK)
        all.rule = PDL_NEW(a, struct pdl_comm_rule, old.n + n);
    if (st == PDL_OK && !all.rule)
        st = pdl_fail(err, PDL_ENOMEM, "no memory for a table");
    for (int i = 0; st == PDL_OK && i < old.n; i++)
        if (old.rule[i].ranks != b->ranks ||
            strcmp(old.rule[i].collective, b->coll->name) != 0)
            all.rule[all.n++] = old.rule[i];
    for (int i = 0; st == PDL_OK && i < n; i++)
        all.rule[all.n++] = mine[i];
    pdl_buf_init(&text);
    if (st == PDL_OK) {
        pdl_comm_table_print(&all, &text.sink);
        st = pdl_file_write(b->o->profile, text.text, text.len, err);
    }
    pdl_buf_free(&text);
    pdl_arena_destroy(a);
    return st;
}

enum pdl_status run_bench_tune(struct bench *b,
                               const struct pdl_comm_options *opt,
                               struct pdl_err *err)
{
    double took[NCONTENDERS][BENCH_MAX_SIZES] = {{0}};
    struct pdl_comm_rule rule[BENCH_MAX_SIZES];
    struct pdl_comm_table table = {rule, 0};
    const char *const *names = contenders_of(b);
    struct pdl_comm_options with = *opt;
    enum pdl_status st = PDL_OK;

    for (int k = 0; st == PDL_OK && names[k]; k++)
        st = time_one(b, opt, names[k], took[k], err);
    if (st != PDL_OK)
        return st;
    table.n = make_rules(b, took, rule);
    if (pdl_comm_rank(b->comm) == 0)
        st = write_profile(b, rule, table.n, err);
    if (st != PDL_OK)
        return st;
    /* what follows is measured with the new table */
    pdl_comm_destroy(b->comm);
    b->comm = NULL;
    with.table = &table;
    return pdl_comm_create(MPI_COMM_WORLD, &with, &b->comm, err);
}

/* ---- the table, for people -------------------------------------------- */

void run_bench_table(const struct bench *b, bool json)
{
    struct pdl_comm_rule rule[64];
    struct pdl_comm_table t = {rule, 0};
    struct pdl_json w;

    for (int64_t bytes = 4; bytes <= (int64_t)1 << 36; bytes *= 2) {
        const char *name = pdl_comm_choice(b->comm, b->coll->name, bytes);

        if (t.n == 0 || strcmp(rule[t.n - 1].algorithm, name) != 0) {
            snprintf(rule[t.n].algorithm, sizeof rule[t.n].algorithm, "%s",
                     name);
            rule[t.n].collective = b->coll->name;
            rule[t.n++].ranks = b->ranks;
        }
        rule[t.n - 1].up_to = bytes;
    }
    rule[t.n - 1].up_to = INT64_MAX;
    if (!json) {
        pdl_comm_table_print(&t, run_out());
        return;
    }
    pdl_json_init(&w, run_out());
    pdl_json_schema(&w, "bench-table");
    pdl_json_key(&w, "table");
    pdl_json_array(&w);
    for (int i = 0; i < t.n; i++) {
        pdl_json_row(&w);
        pdl_json_kstr(&w, "collective", rule[i].collective);
        pdl_json_kint(&w, "ranks", rule[i].ranks);
        pdl_json_key(&w, "up_to");
        if (rule[i].up_to == INT64_MAX)
            pdl_json_str(&w, NULL);
        else
            pdl_json_int(&w, rule[i].up_to);
        pdl_json_kstr(&w, "algorithm", rule[i].algorithm);
        pdl_json_end(&w);
    }
    pdl_json_end(&w);
    pdl_json_end(&w);
}
