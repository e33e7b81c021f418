/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl bench: measures a collective on the machine it runs on. The work is
 * done by paradl-run (src/run/bench.c); here the command line is checked, so
 * that a mistake is one line and not one line a rank. */
#include "cli/cli_priv.h"
#include "cli/questions/cli_collective.h"

#include "options/bench_options.h" /* of src/run */
#include "paradl/coll.h"

#include <string.h>

static bool is_known(const char *collective)
{
    static const char *const names[] = {"allreduce", "reduce-scatter",
                                        "allgather", "alltoall", "broadcast"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], collective) == 0)
            return true;
    return false;
}

static enum pdl_status check(const struct pdl_args *args, struct pdl_err *err)
{
    const struct bench_options *o = args->opts;
    int64_t ranks = o->ranks ? o->ranks : 2;

    if (ranks < 1 || ranks > 100000)
        return pdl_fail(err, PDL_EINVAL, "-n: from 1 to 100000");
    if (pdl_opt_given(&cli_bench, args, "seconds") && !(o->seconds > 0))
        return pdl_fail(err, PDL_EINVAL, "--seconds: a time above 0");
    if (pdl_opt_given(&cli_bench, args, "timeout") && !(o->timeout > 0))
        return pdl_fail(err, PDL_EINVAL, "--timeout: a time above 0");
    if (strcmp(args->pos[0], "allreduce") != 0 && o->in_place)
        return pdl_fail(err, PDL_EINVAL, "--in-place is for allreduce");
    return PDL_OK;
}

enum pdl_status cli_bench_names(const char *collective, const char *algorithm,
                                int64_t ranks, struct pdl_err *err)
{
    struct pdl_coll_job job;

    if (!is_known(collective)) {
        pdl_fail(err, PDL_EINVAL, "no benchmark of '%s'", collective);
        pdl_hint(err, "there are: allreduce, reduce-scatter, allgather, "
                      "alltoall, broadcast");
        return PDL_EINVAL;
    }
    if (!algorithm || strcmp(algorithm, "auto") == 0)
        return PDL_OK;
    /* any count that every algorithm takes */
    return pdl_coll_job_make(collective, algorithm, (int)ranks, 1024 * ranks, 4,
                             &job, err);
}

void cli_bench_as_trained(struct bench_options *o, const char *collective)
{
    o->fixed_order = true;
    o->in_place = strcmp(collective, "allreduce") == 0;
}

/* A program from a file is for this collective and number of ranks. */
static enum pdl_status check_program(const char *collective, const char *path,
                                     int64_t ranks, struct pdl_err *err)
{
    pdl_arena *a = pdl_arena_create((size_t)4 << 30);
    struct pdl_coll_job job;
    enum pdl_status st =
        a ? cli_program_read(a, path, &job, err)
          : pdl_fail(err, PDL_ENOMEM, "no memory for %s", path);

    if (st == PDL_OK &&
        (job.nranks != ranks || strcmp(collective, "allreduce") != 0 ||
         job.alg->collective != pdl_collective_find("allreduce")))
        st = pdl_fail(err, PDL_EINVAL,
                      "%s: a program for %s on %d ranks, not %s on %d", path,
                      job.alg->collective->name, job.nranks, collective,
                      (int)ranks);
    pdl_arena_destroy(a);
    return st;
}

static int bench(const struct pdl_args *args)
{
    const struct bench_options *o = args->opts;
    struct pdl_err err = {"", ""};
    bool memory = o->transport && strcmp(o->transport, "memory") == 0;
    bool program = o->algorithm && cli_is_program(o->algorithm);
    int64_t ranks = o->ranks ? o->ranks : 2;
    enum pdl_status st;

    if (check(args, &err) != PDL_OK)
        return cli_usage(&err);
    st = cli_bench_names(args->pos[0], program ? NULL : o->algorithm, ranks,
                         &err);
    if (st == PDL_OK && program)
        st = check_program(args->pos[0], o->algorithm, ranks, &err);
    if (st != PDL_OK)
        return cli_fail(st, &err);
    return cli_launch(&cli_bench, args, memory ? 0 : ranks);
}

const struct pdl_cmd cli_bench = {
    .name = "bench",
    .args = "COLLECTIVE",
    .min_pos = 1,
    .max_pos = 1,
    .summary = "measures a collective here, beside MPI's own",
    .text = "Runs a collective on real ranks and buffers and prints how long "
            "it takes, in the columns of nccl-tests. Before every call the "
            "input is written anew and after it every element is checked; a "
            "wrong one makes the command fail. The limit is the time in which "
            "all ranks together can copy what each of them gets: no collective "
            "of one node can be faster, since what a rank gets is read and "
            "written at least once.",
    .example = "paradl bench allreduce -n 2 --size 4KiB..64KiB",
    .opts = bench_opts,
    .nopts = NBENCH_OPTS,
    .opts_size = sizeof(struct bench_options),
    .run = bench,
};
