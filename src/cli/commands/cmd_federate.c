/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl federate: checks the command line and becomes paradl-run, which has
 * the runtime: as one process whose threads train clients, or as MPI ranks. */
#include "cli/questions/supervise.h"
#include "paradl/job.h"

#include "options/federate_options.h" /* of src/run */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_RANKS = 100000,
    MAX_THREADS = 1024,
    RESTARTS = 3,
    MILLION = 1000000,
    MOST_ROUNDS = 1000000000
};

static bool is_share(double x)
{
    return x >= 0 && x < 1;
}

static enum pdl_status check_numbers(const struct federate_options *o,
                                     struct pdl_err *err)
{
    if (!is_share(o->drop) || !is_share(o->away))
        return pdl_fail(err, PDL_EINVAL, "--drop, --away: from 0 to below 1");
    if (!(o->target >= 0 && o->target <= 1))
        return pdl_fail(err, PDL_EINVAL, "--target: from 0 to 1");
    if (o->rounds < 0 || o->only < 0 || o->first_round < 0)
        return pdl_fail(err, PDL_EINVAL,
                        "--rounds, --only, --first-round: from 0");
    if (o->rounds > MOST_ROUNDS || o->first_round > MOST_ROUNDS)
        return pdl_fail(err, PDL_EINVAL, "--rounds, --first-round: at most %d",
                        (int)MOST_ROUNDS);
    if (o->speed > 0 && !(o->speed >= 1e-6 && o->speed <= 1e18))
        return pdl_fail(err, PDL_EINVAL, "--speed: from 1e-6 to 1e18");
    if (!(o->spread >= 0 && o->spread <= 10))
        return pdl_fail(err, PDL_EINVAL, "--spread: from 0 to 10");
    if (o->deadline < 0 || o->latency < 0)
        return pdl_fail(err, PDL_EINVAL, "--deadline, --latency: from 0");
    if (o->epochs > MILLION || o->steps > MILLION || o->batch > MILLION ||
        o->rounds > MILLION || o->client_samples > MILLION)
        return pdl_fail(err, PDL_EINVAL,
                        "--epochs, --steps, --batch, --rounds, "
                        "--client-samples: at most %d",
                        (int)MILLION);
    if (o->ranks > MAX_RANKS)
        return pdl_fail(err, PDL_EINVAL, "-n: from 1 to %d", (int)MAX_RANKS);
    if (o->threads > MAX_THREADS)
        return pdl_fail(err, PDL_EINVAL, "--threads: from 1 to %d",
                        (int)MAX_THREADS);
    return PDL_OK;
}

static bool is_divided(const struct federate_options *o)
{
    return o->algorithm && strncmp(o->algorithm, "feddct", 6) == 0;
}

/* What does not go together. */
static enum pdl_status check_together(const struct federate_options *o,
                                      struct pdl_err *err)
{
    if (o->emit + o->project + o->show_partition > 1)
        return pdl_fail(err, PDL_EINVAL,
                        "--emit, --project, --show-partition: one of them");
    if (o->client_samples && !o->project)
        return pdl_fail(err, PDL_EINVAL, "--client-samples is for --project");
    if ((o->flops > 0) + (o->speed > 0) + (o->system != NULL) > 1)
        return pdl_fail(err, PDL_EINVAL,
                        "--speed, --device-flops and --system say the same");
    if (o->system && is_divided(o))
        return pdl_fail(err, PDL_EINVAL,
                        "--system prices whole networks; the parts of feddct "
                        "take --device-flops");
    if (o->target > 0 && o->no_test)
        return pdl_fail(err, PDL_EINVAL, "--target needs tests: no --no-test");
    if (!o->checkpoint && (o->resume || o->every || o->keep))
        return pdl_fail(err, PDL_EINVAL,
                        "--resume, --every and --keep are for "
                        "--checkpoint DIR");
    return PDL_OK;
}

static enum pdl_status check(const struct pdl_args *args, struct pdl_err *err)
{
    const struct federate_options *o = args->opts;
    bool given = pdl_opt_given(&cli_federate, args, "clients");
    int64_t clients = given ? o->clients : 10;
    enum pdl_status st;

    if (!o->data)
        return pdl_fail(err, PDL_EINVAL, "federate needs --data");
    if (clients < 1)
        return pdl_fail(err, PDL_EINVAL, "--clients: at least one");
    if (o->select > clients)
        return pdl_fail(err, PDL_EINVAL,
                        "--select %lld, but there are %lld clients",
                        (long long)o->select, (long long)clients);
    st = check_numbers(o, err);
    return st == PDL_OK ? check_together(o, err) : st;
}

/* ---- what a client's step costs ---------------------------------------- */

/* Its devices are a system that is priced like any other: --speed. */
static enum pdl_status price(const struct pdl_args *args, struct pdl_err *err)
{
    struct federate_options *o = args->opts;
    int64_t batch = o->batch > 0 ? o->batch : 10;
    char number[32];
    const char *set[][2] = {{"model", args->pos[0]},
                            {"system", o->system},
                            {"strategy", o->strategy ? o->strategy : "serial"},
                            {"precision", "fp32"},
                            {"framework", "own"},
                            {"batch", number}};
    pdl_job *j = pdl_job_create();
    enum pdl_status st =
        j ? PDL_OK : pdl_fail(err, PDL_ENOMEM, "out of memory");

    snprintf(number, sizeof number, "%lld", (long long)batch);
    for (size_t i = 0; i < sizeof set / sizeof set[0] && st == PDL_OK; i++)
        st = pdl_job_set(j, set[i][0], set[i][1], err);
    if (st == PDL_OK)
        st = pdl_job_price(j, err);
    if (st == PDL_OK)
        o->speed = (double)batch / pdl_job_projection(j)->step_s;
    o->system = NULL; /* said */
    pdl_job_destroy(j);
    return st;
}

/* ---- running --------------------------------------------------------- */

/* The page is made of the result that paradl-run leaves in a file. */
static int make_page(pdl_arena *a, const char *result, const char *page)
{
    enum { MOST = 64 << 20 };
    struct pdl_err err = {"", ""};
    struct pdl_bytes in = {NULL, 0};
    struct pdl_buf json;
    enum pdl_status st = pdl_file_read(a, result, MOST, &in, &err);
    int rc;

    if (st != PDL_OK)
        return cli_fail(st, &err);
    pdl_buf_init(&json);
    pdl_put(&json.sink, in.data, in.len);
    rc = cli_report(&json, page);
    pdl_buf_free(&json);
    return rc;
}

/* Waits for it: as ranks, or for the page. */
static int run_and_wait(const struct pdl_args *args, bool alone)
{
    struct federate_options *o = args->opts;
    pdl_arena *a = pdl_arena_create((size_t)1 << 28);
    const char *page = o->report;
    struct pdl_err err = {"", ""};
    struct cli_handover h;
    enum pdl_status st = a ? cli_handover_open(&h, &err)
                           : pdl_fail(&err, PDL_ENOMEM, "out of memory");
    int rc;

    if (st != PDL_OK)
        return cli_fail(st, &err);
    if (page && !o->result)
        o->result = cli_handover_file(&h, a, "result.json");
    o->report = NULL;
    rc = cli_supervise(&(struct cli_supervised){.cmd = &cli_federate,
                                                .args = args,
                                                .ranks = alone ? 0 : o->ranks,
                                                .checkpoint = o->checkpoint,
                                                .resume = &o->resume,
                                                .restarts = RESTARTS},
                       &h);
    if (rc == EXIT_OK && page)
        rc = o->result ? make_page(a, o->result, page) : EXIT_BUG;
    cli_handover_close(&h);
    pdl_arena_destroy(a);
    return rc;
}

/* A client is trained in small steps: threads that wait for the next sleep, and
 * are not held on the processor of their rank, if the environment has no other
 * wish. (Open MPI's name; others do not know it.) */
static void settle_threads(void)
{
    setenv("OMP_WAIT_POLICY", "passive", 0);
    setenv("OMPI_MCA_hwloc_base_binding_policy", "none", 0);
}

static int federate(const struct pdl_args *args)
{
    struct federate_options *o = args->opts;
    struct pdl_err err = {"", ""};
    bool alone = o->emit || o->project || o->show_partition || o->virtual_ranks;
    enum pdl_status st;

    if (check(args, &err) != PDL_OK)
        return cli_usage(&err);
    if (o->system && (st = price(args, &err)) != PDL_OK)
        return cli_fail(st, &err);
    if (cli_check_output(o->save, ".safetensors", &err) != PDL_OK ||
        cli_check_output(o->result, NULL, &err) != PDL_OK ||
        cli_check_output(o->report, NULL, &err) != PDL_OK)
        return cli_fail(PDL_EIO, &err);
    o->progress = o->progress || (cli_progress() && !args->json);
    alone = alone || o->ranks < 2;
    settle_threads();
    if (alone && (!o->report || o->emit || o->project || o->show_partition))
        return cli_launch(&cli_federate, args, 0);
    return run_and_wait(args, alone);
}

const struct pdl_cmd cli_federate = {
    .name = "federate",
    .args = "MODEL",
    .min_pos = 1,
    .max_pos = 1,
    .summary = "trains where data stays with clients and models move",
    .text =
        "Divides a data set among clients and trains a network in rounds: "
        "chosen clients train it on their own samples, and what comes back is "
        "put together, as --algorithm says. Clients are virtual, a few workers "
        "train one after the other; results are summed in the order of the "
        "plan, so that any number of workers, threads or MPI processes, gives "
        "the same bits. Accuracy of a client, or of a group of clients, is of "
        "test samples mixed by class as its own are. --emit prints the plans "
        "of the rounds, --show-partition who has what. A checkpoint may be "
        "within a round. --json prints one line a round and the summary last. "
        "Secure aggregation is not there: the server sees single models.",
    .example = "paradl federate lenet5 --data synthetic --clients 4 --rounds 1",
    .opts = federate_opts,
    .nopts = NFEDERATE_OPTS,
    .opts_size = sizeof(struct federate_options),
    .run = federate,
};
