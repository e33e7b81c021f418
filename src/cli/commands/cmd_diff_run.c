/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl diff-run: where two runs part. The work is paradl-run's. */
#include "cli/cli_priv.h"

#include "options/diff_options.h" /* of src/run */

/* Files and folders are compared as they are. */
static enum pdl_status check(const struct pdl_args *args, struct pdl_err *err)
{
    static const char *const runs[] = {"batch",     "steps", "precision",
                                       "backend",   "lr",    "seed",
                                       "optimizer", "dim",   "allow-empty"};
    const struct diff_options *o = args->opts;

    if (!(o->tolerance >= 0))
        return pdl_fail(err, PDL_EINVAL, "--tolerance: is not negative");
    for (size_t i = 0; i < sizeof runs / sizeof runs[0] && !o->model; i++)
        if (pdl_opt_given(&cli_diff_run, args, runs[i])) {
            pdl_fail(err, PDL_EINVAL, "--%s is for --model MODEL", runs[i]);
            pdl_hint(err, "without it, A and B are runs that have been");
            return PDL_EINVAL;
        }
    return PDL_OK;
}

static int diff_run(const struct pdl_args *args)
{
    struct pdl_err err = {"", ""};

    if (check(args, &err) != PDL_OK)
        return cli_usage(&err);
    return cli_launch(&cli_diff_run, args, 0);
}

const struct pdl_cmd cli_diff_run = {
    .name = "diff-run",
    .args = "A B",
    .min_pos = 2,
    .max_pos = 2,
    .summary = "the first tensor in which two runs or strategies differ",
    .text = "With --model, A and B are strategies: both run the same steps "
            "from the same weights on ranks that are threads of one process, "
            "and every result of every operation is compared, bit for bit "
            "where no sum crossed ranks, else within the tolerance. Without "
            "--model they are files of 'paradl train --json', and the losses "
            "are compared, or folders of checkpoints, of which every tensor of "
            "every common step is. Exit code 1: they differ, and the first "
            "difference "
            "is named. Strategies must cut the batch alike: compare "
            "pipe=2(1f1b,m=4) with accumulate=4.",
    .example = "paradl diff-run serial data=2,spatial=2 --model lenet5",
    .opts = diff_opts,
    .nopts = NDIFF_OPTS,
    .opts_size = sizeof(struct diff_options),
    .run = diff_run,
};
