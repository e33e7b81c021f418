/* SPDX-License-Identifier: Apache-2.0
 *
 * The program that `paradl bench`, `paradl train` and the like start on every
 * rank. Commands that need MPI begin and end it themselves. */
#include "run_priv.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// clang-format off
static const struct pdl_cmd *const commands[] = {
    &run_bench,
    &run_calibrate,
    &run_train,
    &run_evaluate,
    &run_diff,
    &run_federate,
    &run_data_show,
    &run_data_stage,
    &run_data_check,
};
// clang-format on
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

int run_exit_code(enum pdl_status st)
{
    static const int codes[] = {
        [PDL_OK] = EXIT_OK,        [PDL_ENOMEM] = EXIT_INPUT,
        [PDL_EIO] = EXIT_INPUT,    [PDL_EPARSE] = EXIT_INPUT,
        [PDL_EINVAL] = EXIT_INPUT, [PDL_ENOENV] = EXIT_ENV,
        [PDL_EINTR] = EXIT_ENV,    [PDL_EWRONG] = EXIT_NO,
    };

    return codes[st];
}

int run_fail(enum pdl_status st, const struct pdl_err *err)
{
    fflush(stdout);
    fprintf(stderr, "paradl: %s", err->msg);
    if (*err->hint)
        fprintf(stderr, " (hint: %s)", err->hint);
    fputc('\n', stderr);
    return run_exit_code(st);
}

/* MPI may not be there yet: the starters tell ranks apart before it is. */
static bool is_first(void)
{
    const char *rank = run_rank();

    return !rank || strcmp(rank, "0") == 0;
}

int run_fail_all(enum pdl_status st, const struct pdl_err *err)
{
    return is_first() ? run_fail(st, err) : run_exit_code(st);
}

static int run(const struct pdl_cmd *cmd, int argc, char **argv)
{
    struct pdl_args args = {.npos = 0};
    struct pdl_err err = {"", ""};
    int rc;

    args.opts = calloc(1, cmd->opts_size + 1);
    if (!args.opts)
        return EXIT_BUG;
    if (pdl_opts_parse(cmd, argc, argv, &args, &err) != PDL_OK) {
        run_fail(PDL_EINVAL, &err);
        rc = EXIT_USAGE;
    } else if (args.help) {
        pdl_help_print("paradl-run", cmd, run_out());
        rc = EXIT_OK;
    } else {
        rc = cmd->run(&args);
    }
    free(args.opts);
    if ((fflush(stdout) != 0 || ferror(stdout)) && rc == EXIT_OK) {
        pdl_fail(&err, PDL_ENOENV, "standard output: %s", strerror(errno));
        rc = run_fail(PDL_ENOENV, &err);
    }
    return rc;
}

int main(int argc, char **argv)
{
    run_watch_parent();
    signal(SIGXFSZ, SIG_IGN); /* too large a file is an error, not an end */
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("paradl-run %s\n", pdl_version());
        return EXIT_OK;
    }
    for (int i = 0; argc > 1 && i < NCOMMANDS; i++)
        if (strcmp(argv[1], commands[i]->name) == 0)
            return run(commands[i], argc - 2, argv + 2);
    fprintf(stderr, "paradl-run: started by paradl; its commands:");
    for (int i = 0; i < NCOMMANDS; i++)
        fprintf(stderr, " %s", commands[i]->name);
    fputc('\n', stderr);
    return EXIT_USAGE;
}
