/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl diff-run: where two runs part. The work is paradl-run's. */
#include "cli/questions/handover.h"

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

static enum pdl_status set_up(const struct diff_options *o, pdl_job *j,
                              struct pdl_err *err)
{
    enum pdl_status st = pdl_job_set(j, "model", o->model, err);

    if (st == PDL_OK)
        st = pdl_job_set(j, "dim", o->dim, err);
    if (st == PDL_OK)
        st = pdl_job_set(j, "precision", o->precision ? o->precision : "fp64",
                         err);
    if (st == PDL_OK)
        st = cli_set_count(j, "batch", o->batch > 0 ? o->batch : 8, err);
    if (st == PDL_OK)
        st = cli_set_flag(j, "allow-empty", o->allow_empty, err);
    return st;
}

/* Both strategies as plans of one model, in place of their texts. */
static enum pdl_status write_plans(pdl_arena *a, const struct cli_handover *h,
                                   struct pdl_args *args, struct pdl_err *err)
{
    static const char *const names[] = {"a.plan", "b.plan"};
    pdl_job *j = pdl_job_create();
    enum pdl_status st = j ? set_up(args->opts, j, err)
                           : pdl_fail(err, PDL_ENOMEM, "out of memory");
    char hash[17];

    for (int i = 0; i < 2 && st == PDL_OK; i++) {
        const char *path = cli_handover_file(h, a, names[i]);

        st = path ? pdl_job_set(j, "strategy", args->pos[i], err)
                  : pdl_fail(err, PDL_ENOMEM, "out of memory");
        if (st == PDL_OK)
            st = cli_handover_plan(j, path, hash, err);
        args->pos[i] = path;
    }
    pdl_job_destroy(j);
    return st;
}

static int diff_strategies(struct pdl_args args)
{
    pdl_arena *a = pdl_arena_create(1 << 16);
    struct cli_handover h;
    struct pdl_err err = {"", ""};
    enum pdl_status st = a ? cli_handover_open(&h, &err)
                           : pdl_fail(&err, PDL_ENOMEM, "out of memory");
    int rc;

    if (st != PDL_OK) {
        pdl_arena_destroy(a);
        return cli_fail(st, &err);
    }
    st = write_plans(a, &h, &args, &err);
    rc = st == PDL_OK ? cli_launch_wait(&cli_diff_run, &args, 0)
                      : cli_fail(st, &err);
    cli_handover_close(&h);
    pdl_arena_destroy(a);
    return rc;
}

static int diff_run(const struct pdl_args *args)
{
    const struct diff_options *o = args->opts;
    struct pdl_err err = {"", ""};

    if (check(args, &err) != PDL_OK)
        return cli_usage(&err);
    return o->model ? diff_strategies(*args)
                    : cli_launch(&cli_diff_run, args, 0);
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
