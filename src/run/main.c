/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl-run: the ranks of train, started by paradl, mpirun or srun. */
#include "run_priv.h"
#include "train_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const struct pdl_cmd *cmd;
    int (*run)(const struct pdl_args *args);
} commands[] = {
    {&cli_train_command, run_train},
};
enum { NCOMMANDS = sizeof commands / sizeof commands[0] };

static bool file_write(void *ctx, const char *data, size_t len)
{
    return fwrite(data, 1, len, ctx) == len;
}

struct pdl_sink *run_out(void)
{
    static struct pdl_sink sink;

    if (!sink.write)
        sink = (struct pdl_sink){.write = file_write, .ctx = stdout};
    return &sink;
}

int run_fail(enum pdl_status st, const struct pdl_err *err)
{
    static const int codes[] = {
        [PDL_OK] = RUN_OK,        [PDL_ENOMEM] = RUN_INPUT,
        [PDL_EIO] = RUN_INPUT,    [PDL_EPARSE] = RUN_INPUT,
        [PDL_EINVAL] = RUN_INPUT, [PDL_ENOENV] = RUN_ENV,
        [PDL_EINTR] = RUN_INTR,   [PDL_EWRONG] = RUN_BUG,
    };

    fflush(stdout);
    fprintf(stderr, "paradl: %s%s%s%s\n", err->msg,
            *err->hint ? " (hint: " : "", err->hint, *err->hint ? ")" : "");
    return codes[st];
}

int run_finish(int rc)
{
    const char *path = getenv("PARADL_RC");
    char text[16];

    if (!path || !*path)
        return rc;
    snprintf(text, sizeof text, "%d\n", rc);
    return pdl_file_write(path, text, strlen(text), NULL) == PDL_OK ? 0 : rc;
}

static int run(int i, int argc, char **argv)
{
    const struct pdl_cmd *cmd = commands[i].cmd;
    struct pdl_args args = {.npos = 0};
    struct pdl_err err = {"", ""};
    int rc;

    args.opts = calloc(1, cmd->opts_size + 1);
    if (!args.opts)
        return RUN_BUG;
    if (pdl_opts_parse(cmd, argc, argv, &args, &err) != PDL_OK) {
        run_fail(PDL_EINVAL, &err);
        rc = run_finish(RUN_USAGE);
    } else if (args.help) {
        pdl_help_print("paradl-run", cmd, run_out());
        rc = RUN_OK;
    } else {
        rc = commands[i].run(&args);
    }
    free(args.opts);
    return rc;
}

int main(int argc, char **argv)
{
    for (int i = 0; argc > 1 && i < NCOMMANDS; i++)
        if (strcmp(argv[1], commands[i].cmd->name) == 0)
            return run(i, argc - 2, argv + 2);
    fprintf(stderr, "Usage: paradl-run COMMAND [options]\n\nCommands:\n");
    for (int i = 0; i < NCOMMANDS; i++)
        fprintf(stderr, "  %-12s %s\n", commands[i].cmd->name,
                commands[i].cmd->summary);
    fprintf(stderr, "\nUsually started by paradl; under Slurm: srun paradl-run "
                    "train ...\n");
    return RUN_USAGE;
}
