/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl federate: checks the command line and becomes paradl-run, which has
 * the runtime: as one process whose threads train clients, or as MPI ranks. */
#include "cli/questions/handover.h"

#include "options/federate_options.h" /* of src/run */

#include <stdio.h>
#include <stdlib.h>

enum { MAX_RANKS = 100000 };

static enum pdl_status check(const struct pdl_args *args, struct pdl_err *err)
{
    const struct federate_options *o = args->opts;
    bool given = pdl_opt_given(&cli_federate, args, "clients");

    if (!o->data)
        return pdl_fail(err, PDL_EINVAL, "federate needs --data");
    if (given && o->clients < 1)
        return pdl_fail(err, PDL_EINVAL, "--clients: at least one");
    if (o->select > (given ? o->clients : 10))
        return pdl_fail(
            err, PDL_EINVAL, "--select %lld, but there are %lld clients",
            (long long)o->select, (long long)(given ? o->clients : 10));
    if (!(o->drop >= 0 && o->drop < 1))
        return pdl_fail(err, PDL_EINVAL, "--drop: from 0 to below 1");
    if (!(o->spread >= 0 && o->spread <= 10))
        return pdl_fail(err, PDL_EINVAL, "--spread: from 0 to 10");
    if (o->ranks > MAX_RANKS || o->threads > MAX_RANKS)
        return pdl_fail(err, PDL_EINVAL, "-n, --threads: from 1 to %d",
                        (int)MAX_RANKS);
    if (o->client_samples && !o->project)
        return pdl_fail(err, PDL_EINVAL, "--client-samples is for --project");
    if (o->flops > 0 && o->speed > 0)
        return pdl_fail(err, PDL_EINVAL,
                        "--speed and --device-flops say the same");
    if (!o->checkpoint && (o->resume || o->every || o->keep))
        return pdl_fail(err, PDL_EINVAL,
                        "--resume, --every and --keep are for "
                        "--checkpoint DIR");
    return PDL_OK;
}

/* ---- looking after the ranks ------------------------------------------- */

/* What an orderly end left in the file; -1: there was none. */
static int read_code(pdl_arena *a, const char *path)
{
    struct pdl_bytes in;
    int64_t rc = -1;

    if (pdl_file_read(a, path, 64, &in, NULL) != PDL_OK || in.len < 2)
        return -1;
    return pdl_int_parse(pdl_arena_printf(a, "%.*s", (int)in.len - 1, in.data),
                         0, 255, &rc, NULL) == PDL_OK
               ? (int)rc
               : -1;
}

/* MPI ranks: one that is lost takes the others along, and they begin again
 * from the last checkpoint, where there is one. */
static int run_ranks(const struct pdl_args *args, pdl_arena *a,
                     const struct cli_handover *h)
{
    enum { TIMES = 3 };
    struct federate_options *o = args->opts;
    const char *code = cli_handover_file(h, a, "code");
    struct pdl_err err = {"", ""};
    int left = o->checkpoint ? TIMES : 0, rc = -1;

    if (!code)
        return EXIT_BUG;
    setenv("PARADL_RC", code, 1);
    for (;;) {
        int ended = cli_launch_wait(&cli_federate, args, o->ranks);

        rc = read_code(a, code);
        if (rc < 0 && ended != EXIT_ENV && ended > EXIT_NO && ended <= EXIT_BUG)
            rc = ended; /* refused before there were ranks */
        if (rc >= 0 || ended == EXIT_INTR || left-- == 0)
            break;
        fprintf(stderr,
                "paradl: a rank was lost; starting again from the last "
                "checkpoint in %s\n",
                o->checkpoint);
        o->resume = true;
    }
    if (rc >= 0)
        return rc;
    pdl_fail(&err, PDL_ENOENV, "a rank was lost");
    pdl_hint(&err, "%s",
             o->checkpoint ? "'--resume' goes on from the last checkpoint"
                           : "with --checkpoint DIR it would be started again");
    return cli_fail(PDL_ENOENV, &err);
}

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
    rc = alone ? cli_launch_wait(&cli_federate, args, 0)
               : run_ranks(args, a, &h);
    if (rc == EXIT_OK && page)
        rc = o->result ? make_page(a, o->result, page) : EXIT_BUG;
    cli_handover_close(&h);
    pdl_arena_destroy(a);
    return rc;
}

static int federate(const struct pdl_args *args)
{
    struct federate_options *o = args->opts;
    struct pdl_err err = {"", ""};
    bool alone = o->emit || o->project || o->show_partition || o->virtual_ranks;

    if (check(args, &err) != PDL_OK)
        return cli_usage(&err);
    if (cli_check_output(o->save, ".safetensors", &err) != PDL_OK ||
        cli_check_output(o->result, NULL, &err) != PDL_OK ||
        cli_check_output(o->report, NULL, &err) != PDL_OK)
        return cli_fail(PDL_EIO, &err);
    o->progress = o->progress || (cli_progress() && !args->json);
    alone = alone || o->ranks < 2;
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
