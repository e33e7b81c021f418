/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl collective verify: proves algorithms, or a program in a file. */
#include "cli/questions/cli_collective.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct options {
    bool all;
    const char *algorithm, *collective, *ranks;
    int64_t size;
};

static const struct pdl_opt opts[] = {
    {"all", 0, PDL_OPT_FLAG, offsetof(struct options, all), NULL, NULL,
     "every algorithm"},
    {"algorithm", 0, PDL_OPT_TEXT, offsetof(struct options, algorithm),
     "ALGORITHM", NULL, "this one, with its parameters, or FILE.coll"},
    {"collective", 0, PDL_OPT_TEXT, offsetof(struct options, collective),
     "NAME", NULL, "only algorithms of this collective"},
    {"ranks", 'n', PDL_OPT_TEXT, offsetof(struct options, ranks), "P|A..B",
     NULL, "numbers of ranks (1..64)"},
    {"size", 0, PDL_OPT_SIZE, offsetof(struct options, size), "BYTES", NULL,
     "bytes of each rank's buffer (several)"},
};

/* What became of one algorithm. */
struct tally {
    int proved, refused, wrong, ports;
    int64_t steps;
    bool exact;
    struct pdl_err first; /* what was wrong, or why it was refused */
};

static void prove(const struct pdl_coll_job *job, struct tally *t)
{
    struct pdl_coll_proof proof;
    struct pdl_err err = {"", ""};
    enum pdl_status st = pdl_coll_verify(job, &proof, &err);

    if (st == PDL_OK) {
        t->proved++;
        t->steps = proof.steps > t->steps ? proof.steps : t->steps;
        t->ports = proof.ports > t->ports ? proof.ports : t->ports;
        t->exact = t->exact && proof.exact;
    } else if (t->wrong++ == 0) {
        t->first = err;
    }
}

/* At a size that every algorithm can cut, one that leaves a rest, and one
 * that leaves chunks empty; or at the size that was given. */
static void prove_ranks(const char *collective, const char *spec, int p,
                        int64_t bytes, struct tally *t)
{
    const int64_t sizes[] = {48 * (int64_t)p, 4036, 12};
    int accepted = 0;

    for (int i = 0; i < (bytes ? 1 : 3); i++) {
        struct pdl_coll_job job;
        struct pdl_err err = {"", ""};
        int64_t size = bytes ? bytes : sizes[i];
        int elem = size % 4 == 0 ? 4 : 1;

        if (pdl_coll_job_make(collective, spec, p, size / elem, elem, &job,
                              &err) == PDL_OK) {
            accepted++;
            prove(&job, t);
        } else if (t->wrong == 0 && t->refused == 0) {
            t->first = err;
        }
    }
    t->refused += accepted == 0;
}

struct report {
    struct pdl_json json;
    struct pdl_table table;
    bool use_json;
    int wrong, proved;
};

static void report(struct report *rep, const char *collective, const char *name,
                   const struct tally *t)
{
    rep->wrong += t->wrong;
    rep->proved += t->proved;
    if (rep->use_json) {
        pdl_json_object(&rep->json);
        pdl_json_kstr(&rep->json, "collective", collective);
        pdl_json_kstr(&rep->json, "algorithm", name);
        pdl_json_kint(&rep->json, "proved", t->proved);
        pdl_json_kint(&rep->json, "refused", t->refused);
        pdl_json_kint(&rep->json, "wrong", t->wrong);
        pdl_json_kint(&rep->json, "max_steps", t->steps);
        pdl_json_kint(&rep->json, "max_ports", t->ports);
        pdl_json_kbool(&rep->json, "exact", t->exact);
        pdl_json_kstr(&rep->json, "reason",
                      t->wrong || t->refused ? t->first.msg : NULL);
        pdl_json_end(&rep->json);
        return;
    }
    pdl_table_cell(&rep->table, "%s", collective);
    pdl_table_cell(&rep->table, "%s", name);
    pdl_table_cell(&rep->table, "%d", t->proved);
    pdl_table_cell(&rep->table, "%d", t->refused);
    pdl_table_cell(&rep->table, "%" PRId64, t->steps);
    pdl_table_cell(&rep->table, "%d", t->ports);
    pdl_table_cell(&rep->table, "%s",
                   t->wrong        ? t->first.msg
                   : t->proved > 0 ? "right"
                                   : t->first.msg);
}

static void begin(struct report *rep, pdl_arena *a, bool json)
{
    static const struct pdl_column columns[] = {
        {"collective", false}, {"algorithm", false}, {"proved", true},
        {"refused", true},     {"steps", true},      {"ports", true},
        {"verdict", false}};

    rep->use_json = json;
    pdl_table_init(&rep->table, a, columns, 7);
    pdl_json_init(&rep->json, cli_out());
    if (!json)
        return;
    pdl_json_schema(&rep->json, "collective-verify");
    pdl_json_key(&rep->json, "results");
    pdl_json_array(&rep->json);
}

static int finish(struct report *rep)
{
    bool right = rep->wrong == 0 && rep->proved > 0;

    if (rep->use_json) {
        pdl_json_end(&rep->json);
        pdl_json_kint(&rep->json, "proved", rep->proved);
        pdl_json_kint(&rep->json, "wrong", rep->wrong);
        pdl_json_kbool(&rep->json, "right", right);
        pdl_json_end(&rep->json);
    } else {
        pdl_table_print(&rep->table, cli_width(), cli_out());
        pdl_printf(cli_out(), "%d proved, %d wrong\n", rep->proved, rep->wrong);
    }
    return right ? EXIT_OK : EXIT_NO;
}

static int verify_file(const struct pdl_args *args, const char *path,
                       pdl_arena *a)
{
    struct report rep = {.wrong = 0};
    struct tally t = {.exact = true};
    struct pdl_err err = {"", ""};
    struct pdl_coll_job job;
    enum pdl_status st = cli_program_read(a, path, &job, &err);

    if (st != PDL_OK)
        return cli_fail(st, &err);
    begin(&rep, a, args->json);
    prove(&job, &t);
    report(&rep, job.alg->collective->name, job.alg->name, &t);
    return finish(&rep);
}

/* Is this one of the algorithms asked for? */
static bool chosen(const struct options *o, const struct pdl_alg *alg)
{
    size_t n = o->algorithm ? strcspn(o->algorithm, ":") : 0;

    if (o->collective && strcmp(o->collective, alg->collective->name) != 0)
        return false;
    return !o->algorithm ||
           (strlen(alg->name) == n && memcmp(alg->name, o->algorithm, n) == 0);
}

static int verify_table(const struct pdl_args *args, int first, int last,
                        pdl_arena *a)
{
    const struct options *o = args->opts;
    struct report rep = {.wrong = 0};
    struct pdl_progress bar;
    int n = 0;

    while (pdl_alg_at(n))
        n++;
    pdl_progress_start(&bar, cli_stderr(), !args->quiet && cli_progress(),
                       "proving", n);
    begin(&rep, a, args->json);
    for (int i = 0; i < n; i++) {
        const struct pdl_alg *alg = pdl_alg_at(i);
        struct tally t = {.exact = true};

        if (!chosen(o, alg))
            continue;
        for (int p = first; p <= last; p++)
            prove_ranks(alg->collective->name,
                        o->algorithm ? o->algorithm : alg->name, p, o->size,
                        &t);
        report(&rep, alg->collective->name, alg->name, &t);
        pdl_progress_step(&bar, i + 1);
    }
    pdl_progress_end(&bar);
    return finish(&rep);
}

static enum pdl_status check_names(const struct options *o, int *first,
                                   int *last, struct pdl_err *err)
{
    struct pdl_coll_job job = {.alg = NULL};
    const char *collective;

    collective = o->algorithm ? cli_collective_of(o->algorithm, o->collective)
                 : o->collective ? o->collective
                                 : "allreduce";
    if (o->algorithm || o->collective) {
        enum pdl_status st = pdl_alg_parse(
            collective, o->algorithm ? o->algorithm : "", &job, err);

        if (st != PDL_OK && (o->algorithm || !pdl_collective_find(collective)))
            return st;
    }
    return cli_ranks_parse(o->ranks ? o->ranks : "1..64", first, last, err);
}

static int verify(const struct pdl_args *args)
{
    const struct options *o = args->opts;
    pdl_arena *a;
    struct pdl_err err = {"", ""};
    int first, last, rc;

    if (o->all == (o->algorithm != NULL)) {
        pdl_fail(&err, PDL_EINVAL, "say --all or --algorithm A");
        pdl_hint(&err, "for example: %s", cli_collective_verify.example);
        return cli_usage(&err);
    }
    a = pdl_arena_create(PDL_ARENA_DEFAULT);
    if (!a)
        return EXIT_BUG;
    if (o->algorithm && !o->all && cli_is_program(o->algorithm))
        rc = verify_file(args, o->algorithm, a);
    else if (check_names(o, &first, &last, &err) != PDL_OK)
        rc = cli_fail(PDL_EINVAL, &err);
    else
        rc = verify_table(args, first, last, a);
    pdl_arena_destroy(a);
    return rc;
}

const struct pdl_cmd cli_collective_verify = {
    .name = "collective verify",
    .args = "",
    .summary = "prove that collective algorithms are right",
    .text = "Follows every chunk of every rank through the steps and proves "
            "that the result is right whatever order unordered steps take: "
            "no input is missing or added twice, no deadlock, no message "
            "changed while it is sent, sizes agree. Exit code 1 when "
            "something is wrong. Up to 512 ranks the proof is exact, beyond "
            "it is by random labels.",
    .example = "paradl collective verify --algorithm ring-ring:k=4 --ranks 32",
    .opts = opts,
    .nopts = sizeof opts / sizeof opts[0],
    .opts_size = sizeof(struct options),
    .run = verify,
};
