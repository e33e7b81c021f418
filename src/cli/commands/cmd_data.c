/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl data: what a data set is, samples to local disks, and whether they
 * are whole. The work is paradl-run's, which reads data. */
#include "cli/cli_priv.h"

#include "options/data_options.h" /* of src/run */

static int show(const struct pdl_args *args)
{
    return cli_launch(&cli_data_show, args, 0);
}

static int check(const struct pdl_args *args)
{
    return cli_launch(&cli_data_check, args, 0);
}

static int stage(const struct pdl_args *args)
{
    const struct data_options *o = args->opts;
    struct pdl_err err = {"", ""};
    int64_t ranks = o->ranks > 0 ? o->ranks : 1, rank;

    if (!o->store || !*o->store) {
        pdl_fail(&err, PDL_EINVAL, "data stage needs --store DIR");
        pdl_hint(&err, "a folder on the local disk");
        return cli_usage(&err);
    }
    if (o->only &&
        pdl_int_parse(o->only, 0, ranks - 1, &rank, NULL) != PDL_OK) {
        pdl_fail(&err, PDL_EINVAL, "--only: ranks are 0 to %lld",
                 (long long)ranks - 1);
        return cli_usage(&err);
    }
    return cli_launch(&cli_data_stage, args, 0);
}

const struct pdl_cmd cli_data_show = {
    .name = "data show",
    .args = "PATH",
    .min_pos = 1,
    .max_pos = 1,
    .summary = "format, samples and shape of a data set or a store",
    .text = "PATH is what 'paradl train --data' takes, or a store of samples: "
            "its file, or a folder of them.",
    .example = "paradl data show digits",
    .opts = data_opts,
    .nopts = NDATA_OPTS,
    .opts_size = sizeof(struct data_options),
    .run = show,
};

const struct pdl_cmd cli_data_stage = {
    .name = "data stage",
    .args = "PATH",
    .min_pos = 1,
    .max_pos = 1,
    .summary = "puts the samples of a data set into stores on local disks",
    .text =
        "Each of P ranks gets a file with its share of the training samples, "
        "decoded, with room for what 'train --store DIR' exchanges. Several "
        "threads read; samples that are there and whole stay, so a staging "
        "that was stopped goes on. With --only, each node stages its own "
        "ranks. A run places samples itself where the files say otherwise.",
    .example = "paradl data stage digits --store /tmp/paradl-store -n 2",
    .opts = data_stage_opts,
    .nopts = NDATA_STAGE_OPTS,
    .opts_size = sizeof(struct data_options),
    .run = stage,
};

const struct pdl_cmd cli_data_check = {
    .name = "data check",
    .args = "PATH",
    .min_pos = 1,
    .max_pos = 1,
    .summary = "reads every sample of a data set or a store",
    .text = "Of a data set every sample is read and decoded; of a store the "
            "checksum of every sample is compared. Exit code 1: some samples "
            "are damaged, and the first is named.",
    .example = "paradl data check digits",
    .opts = data_opts,
    .nopts = NDATA_OPTS,
    .opts_size = sizeof(struct data_options),
    .run = check,
};
