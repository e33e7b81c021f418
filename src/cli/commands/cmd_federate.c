/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl federate: checks the command line and becomes paradl-run, which has
 * the runtime: as one process whose threads train clients, or as MPI ranks. */
#include "cli/cli_priv.h"

#include "options/federate_options.h" /* of src/run */

#include <math.h>

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
    if (!o->checkpoint && (o->resume || o->every || o->keep))
        return pdl_fail(err, PDL_EINVAL,
                        "--resume, --every and --keep are for "
                        "--checkpoint DIR");
    return PDL_OK;
}

static int federate(const struct pdl_args *args)
{
    struct federate_options *o = args->opts;
    struct pdl_err err = {"", ""};
    bool alone = o->emit || o->show_partition || o->virtual_ranks;

    if (check(args, &err) != PDL_OK)
        return cli_usage(&err);
    if (cli_check_output(o->save, ".safetensors", &err) != PDL_OK)
        return cli_fail(PDL_EIO, &err);
    o->progress = o->progress || (cli_progress() && !args->json);
    return cli_launch(&cli_federate, args, alone ? 0 : o->ranks);
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
