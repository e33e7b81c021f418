/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl-run bench: a collective measured on real ranks. */
#include "bench.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int index_of(const char *choices, const char *name)
{
    int i = 0;

    if (!name)
        return 0;
    for (const char *p = choices; *p; i++) {
        size_t n = strcspn(p, "|");

        if (strlen(name) == n && strncmp(p, name, n) == 0)
            return i;
        p += n + (p[n] == '|');
    }
    return 0;
}

/* "4KiB..64MiB": each twice the one before; "1MiB": that one. */
static enum pdl_status read_sizes(struct bench *b, struct pdl_err *err)
{
    const char *text = b->o->size ? b->o->size : "4KiB..64MiB";
    const char *dots = strstr(text, "..");
    struct pdl_err inner = {"", ""};
    char first[64];
    int64_t from, to;
    enum pdl_status st;

    snprintf(first, sizeof first, "%.*s",
             (int)(dots ? dots - text : (long)strlen(text)), text);
    st = pdl_bytes_parse(first, &from, &inner);
    to = from;
    if (st == PDL_OK && dots)
        st = pdl_bytes_parse(dots + 2, &to, &inner);
    if (st != PDL_OK) {
        pdl_fail(err, st, "--size: %s", inner.msg);
        pdl_hint(err, "%s", inner.hint);
        return st;
    }
    if (from < 1 || to < from || to > (int64_t)1 << 40)
        return pdl_fail(err, PDL_EINVAL, "--size: %s is no range", text);
    for (int64_t n = from; n <= to && b->nsizes < BENCH_MAX_SIZES; n *= 2)
        b->sizes[b->nsizes++] = n;
    return PDL_OK;
}

static enum pdl_status prepare(struct bench *b, struct pdl_err *err)
{
    static const int64_t bytes[] = {
#define X(name, text, bytes) bytes,
        PDL_COMM_TYPE_LIST(X)
#undef X
    };

    b->type = (enum pdl_comm_type)index_of(
        "float32|float64|bf16|fp16|int32|int64", b->o->type);
    b->op = (enum pdl_comm_op)index_of("sum|max|min|avg", b->o->op);
    b->size = bytes[b->type];
    if (b->coll->reduces && b->o->against && b->size == 2)
        return pdl_fail(err, PDL_EINVAL, "MPI has no type %s", b->o->type);
    if (b->o->against && b->op == PDL_COMM_AVG)
        return pdl_fail(err, PDL_EINVAL, "MPI has no operation avg");
    if (b->op == PDL_COMM_AVG && b->size == 2)
        return pdl_fail(err, PDL_EINVAL,
                        "--op avg: not of %s, whose quotients round",
                        b->o->type);
    return read_sizes(b, err);
}

static struct pdl_comm_options options_of(const struct bench *b)
{
    const struct bench_options *o = b->o;

    return (struct pdl_comm_options){.transport = o->transport,
                                     .algorithm = b->algorithm,
                                     .program = b->program,
                                     .fixed_order = o->fixed_order,
                                     .timeout_s = o->timeout,
                                     .ranks_per_node = (int)o->ranks_per_node};
}

static enum pdl_status measure(struct bench *b, struct pdl_err *err)
{
    enum pdl_status st;

    if (b->o->table)
        return PDL_OK;
    st = pdl_comm_measure(b->comm, &b->probe, err);
    for (int i = 0; st == PDL_OK && i < b->nsizes; i++)
        st = run_bench_size(b, i, err);
    return st;
}

static int64_t wrong(const struct bench *b)
{
    int64_t n = 0;

    for (int i = 0; i < b->nsizes; i++)
        n += b->row[i].wrong;
    return n;
}

static int report(const struct bench *b, enum pdl_status st, bool json,
                  const struct pdl_err *err)
{
    if (st != PDL_OK)
        return run_fail(st, err);
    if (pdl_comm_rank(b->comm) == 0) {
        if (b->o->table)
            run_bench_table(b, json);
        else
            run_bench_print(b, json);
    }
    return wrong(b) > 0 ? EXIT_NO : EXIT_OK;
}

/* ---- virtual ranks ---------------------------------------------------- */

struct worker {
    pthread_t thread;
    struct bench b;
    enum pdl_status st;
    struct pdl_err err;
};

static void *work(void *arg)
{
    struct worker *w = arg;

    w->st = measure(&w->b, &w->err);
    return NULL;
}

static int on_threads(struct bench *b, const struct pdl_args *args,
                      const struct pdl_comm_table *table)
{
    struct pdl_comm_options opt = options_of(b);
    struct worker *w = calloc((size_t)b->ranks, sizeof *w);
    pdl_comm **comms = calloc((size_t)b->ranks, sizeof(pdl_comm *));
    struct pdl_err err = {"", ""};
    enum pdl_status st = PDL_ENOMEM;
    int started = 0, rc = EXIT_ENV;

    opt.table = table;
    if (w && comms)
        st = pdl_comm_create_memory(b->ranks, &opt, comms, &err);
    for (; st == PDL_OK && started < b->ranks; started++) {
        w[started].b = *b;
        w[started].b.comm = comms[started];
        if (pthread_create(&w[started].thread, NULL, work, &w[started]) != 0)
            abort(); /* the others would wait for it */
    }
    for (int i = 0; i < started; i++)
        pthread_join(w[i].thread, NULL);
    rc = started > 0 ? report(&w[0].b, w[0].st, args->json, &w[0].err)
                     : run_fail(st, &err);
    for (int i = 0; i < started; i++)
        pdl_comm_destroy(comms[i]);
    free(w);
    free(comms);
    return rc;
}

/* ---- processes -------------------------------------------------------- */

static int on_mpi(struct bench *b, const struct pdl_args *args,
                  const struct pdl_comm_table *table)
{
    struct pdl_comm_options opt = options_of(b);
    struct pdl_err err = {"", ""};
    enum pdl_status st;
    int rc, rank, provided;

    opt.table = table;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided) !=
        MPI_SUCCESS)
        return EXIT_ENV;
    run_same_mpi();
    MPI_Comm_size(MPI_COMM_WORLD, &b->ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    b->mpi = true;
    st = pdl_comm_create(MPI_COMM_WORLD, &opt, &b->comm, &err);
    if (st == PDL_OK && b->o->tune)
        st = run_bench_tune(b, &opt, &err);
    if (st == PDL_OK)
        st = measure(b, &err);
    if (st == PDL_OK)
        rc = report(b, st, args->json, &err);
    else
        rc = rank == 0 || b->comm ? run_fail(st, &err) : EXIT_ENV;
    if (st != PDL_OK && b->comm)
        MPI_Abort(MPI_COMM_WORLD, rc); /* others may wait for ever */
    pdl_comm_destroy(b->comm);
    MPI_Finalize();
    return rc;
}

/* "bruck" of an allgather is "allgather/bruck" to a communicator. */
static const char *algorithm_of(pdl_arena *a, const struct bench *b)
{
    const char *name = b->o->algorithm;

    if (!name || strcmp(name, "auto") == 0 || b->program)
        return NULL;
    return pdl_arena_printf(a, "%s/%s", b->coll->name, name);
}

/* --algorithm FILE.coll: a program from a file. */
static enum pdl_status read_program(pdl_arena *a, struct bench *b,
                                    struct pdl_err *err)
{
    const char *path = b->o->algorithm, *end = path ? strrchr(path, '.') : NULL;
    struct pdl_coll_program *program;
    struct pdl_bytes text;
    enum pdl_status st;

    if (!end || strcmp(end, ".coll") != 0)
        return PDL_OK;
    st = pdl_file_read(a, path, (size_t)1 << 28, &text, err);
    if (st == PDL_OK)
        st = pdl_coll_parse(a, text, path, &program, err);
    if (st == PDL_OK)
        b->program = program;
    return st;
}

static int bench(const struct pdl_args *args)
{
    const struct bench_options *o = args->opts;
    struct bench b = {.o = o,
                      .ranks = o->ranks ? (int)o->ranks : 2,
                      .coll = run_bench_collective(args->pos[0])};
    bool memory = o->transport && strcmp(o->transport, "memory") == 0;
    struct pdl_comm_table table = {NULL, 0};
    struct pdl_err err = {"", ""};
    pdl_arena *a = pdl_arena_create(1 << 24);
    enum pdl_status st = a ? PDL_OK : PDL_ENOMEM;
    int rc;

    if (st == PDL_OK && !b.coll)
        st = pdl_fail(&err, PDL_EINVAL, "no benchmark of '%s'", args->pos[0]);
    if (st == PDL_OK)
        st = prepare(&b, &err);
    if (st == PDL_OK)
        st = read_program(a, &b, &err);
    if (st == PDL_OK)
        b.algorithm = algorithm_of(a, &b);

    if (st == PDL_OK && o->tune && (memory || !o->profile))
        st = pdl_fail(&err, PDL_EINVAL,
                      "--learn needs --profile FILE and processes");
    if (st != PDL_OK) {
        run_fail_all(st, &err);
        pdl_arena_destroy(a);
        return EXIT_USAGE;
    }
    st = run_bench_profile(a, o, &table, &err);
    rc = st != PDL_OK ? run_fail_all(st, &err)
         : memory     ? on_threads(&b, args, &table)
                      : on_mpi(&b, args, &table);
    pdl_arena_destroy(a);
    return rc;
}

const struct pdl_cmd run_bench = {
    .name = "bench",
    .args = "COLLECTIVE",
    .min_pos = 1,
    .max_pos = 1,
    .summary = "measures a collective on the ranks it runs on",
    .text = "",
    .example = "",
    .opts = bench_opts,
    .nopts = NBENCH_OPTS,
    .opts_size = sizeof(struct bench_options),
    .run = bench,
};
