/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of commands and the way to the one that is meant. Command names
 * have one or two words ("info", "model show"). */
#include "cli/cli_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// clang-format off
const struct pdl_cmd *const cli_commands[] = {
    &cli_plan,
    &cli_plan_show,
    &cli_plan_check,
    &cli_plan_cost,
    &cli_plan_run,
    &cli_project,
    &cli_scale,
    &cli_fit_in,
    &cli_place,
    &cli_tune,
    &cli_compare,
    &cli_design,
    &cli_train,
    &cli_evaluate,
    &cli_federate,
    &cli_diff_run,
    &cli_data_show,
    &cli_data_stage,
    &cli_data_check,
    &cli_validate,
    &cli_calibrate,
    &cli_bench,
    &cli_model_show,
    &cli_model_list,
    &cli_model_convert,
    &cli_model_divide,
    &cli_system_show,
    &cli_system_list,
    &cli_system_import,
    &cli_framework_show,
    &cli_framework_list,
    &cli_topology_list,
    &cli_topology_search,
    &cli_topology_show,
    &cli_topology_export,
    &cli_simulate,
    &cli_collective_list,
    &cli_collective_verify,
    &cli_collective_show,
    &cli_collective_compare,
    &cli_collective_nccl,
    &cli_report_cmd,
    &cli_serve,
    &cli_info,
    &cli_help,
    &cli_completion,
};
// clang-format on
const int cli_ncommands = sizeof cli_commands / sizeof cli_commands[0];

/* How many of argv's words the command's name takes; 0 when it is another. */
static int words_matched(const struct pdl_cmd *cmd, int argc, char **argv)
{
    const char *blank = strchr(cmd->name, ' ');
    size_t first = blank ? (size_t)(blank - cmd->name) : strlen(cmd->name);

    if (argc < 1 || strlen(argv[0]) != first ||
        memcmp(argv[0], cmd->name, first) != 0)
        return 0;
    if (!blank)
        return 1;
    return argc > 1 && strcmp(argv[1], blank + 1) == 0 ? 2 : 0;
}

static bool starts_group(const struct pdl_cmd *cmd, const char *word)
{
    size_t n = strlen(word);

    return strncmp(cmd->name, word, n) == 0 && cmd->name[n] == ' ';
}

void cli_summary(struct pdl_sink *out, const struct pdl_cmd *cmd)
{
    enum { COLUMN = 23 };

    pdl_printf(out, "  %-20s ", cmd->name);
    pdl_wrap(out, cmd->summary, COLUMN, COLUMN);
}

void cli_overview(struct pdl_sink *out, const char *group)
{
    pdl_printf(out, "Usage: paradl %s [options]\n\nCommands:\n",
               group ? group : "COMMAND");
    for (int i = 0; i < cli_ncommands; i++)
        if (!group || starts_group(cli_commands[i], group))
            cli_summary(out, cli_commands[i]);
    pdl_puts(out, "\nHelp: paradl help COMMAND\n");
    if (!group)
        pdl_puts(out, "      paradl help notation   how models, systems and "
                      "strategies are written\n");
}

bool cli_is_group(const char *word)
{
    for (int i = 0; i < cli_ncommands; i++)
        if (starts_group(cli_commands[i], word))
            return true;
    return false;
}

int cli_no_command(const char *name, const char *topic)
{
    struct pdl_suggest s;
    struct pdl_err err;

    pdl_fail(&err, PDL_EINVAL, "no command '%.120s'", name);
    pdl_suggest_init(&s, name);
    for (int i = 0; i < cli_ncommands; i++)
        pdl_suggest_try(&s, cli_commands[i]->name);
    if (topic)
        pdl_suggest_try(&s, topic);
    if (pdl_suggest_best(&s))
        pdl_hint(&err, "did you mean '%s'?", pdl_suggest_best(&s));
    else
        pdl_hint(&err, "'paradl help' lists the commands");
    return cli_usage(&err);
}

static int unknown(int argc, char **argv)
{
    bool group = cli_is_group(argv[0]);
    char word[128];

    if (group && (argc == 1 || argv[1][0] == '-')) {
        bool help = argc > 1 && (strcmp(argv[1], "--help") == 0 ||
                                 strcmp(argv[1], "-h") == 0);

        cli_overview(help ? cli_out() : cli_stderr(), argv[0]);
        return help ? EXIT_OK : EXIT_USAGE;
    }
    snprintf(word, sizeof word, "%.60s%s%.60s", argv[0], group ? " " : "",
             group ? argv[1] : "");
    return cli_no_command(word, NULL);
}

/* "plan shw FILE": meant was a command of the group that 'plan' is too. */
static void suggest_of_group(const struct pdl_cmd *cmd, const char *word,
                             struct pdl_err *err)
{
    struct pdl_suggest s;
    char name[128];

    snprintf(name, sizeof name, "%s %.60s", cmd->name, word);
    pdl_suggest_init(&s, name);
    for (int i = 0; i < cli_ncommands; i++)
        if (starts_group(cli_commands[i], cmd->name))
            pdl_suggest_try(&s, cli_commands[i]->name);
    if (pdl_suggest_best(&s) && s.distance <= 2)
        pdl_hint(err, "did you mean 'paradl %s'?", pdl_suggest_best(&s));
}

static int run(const struct pdl_cmd *cmd, int argc, char **argv)
{
    struct pdl_args args = {.npos = 0};
    struct pdl_err err = {"", ""};
    enum pdl_status st;
    int rc;

    args.opts = calloc(1, cmd->opts_size + 1);
    if (!args.opts)
        return EXIT_BUG;
    st = pdl_opts_parse(cmd, argc, argv, &args, &err);
    cli_color(&args);
    if (st != PDL_OK) {
        if (argc > 0)
            suggest_of_group(cmd, argv[0], &err);
        rc = cli_usage(&err);
    } else if (args.help) {
        pdl_help_print("paradl", cmd, cli_out());
        rc = EXIT_OK;
    } else {
        rc = cmd->run(&args);
    }
    free(args.opts);
    return rc;
}

int cli_run(int argc, char **argv)
{
    const struct pdl_cmd *cmd = NULL;
    int words = 0;

    for (int i = 0; i < cli_ncommands; i++) {
        int n = words_matched(cli_commands[i], argc, argv);

        if (n > words) { /* "plan show" before "plan" */
            words = n;
            cmd = cli_commands[i];
        }
    }
    if (words == 0)
        return unknown(argc, argv);
    if (cli_asked() && cli_needs_ranks(cmd))
        return cli_refuse_ranks(cmd->name);
    return run(cmd, argc - words, argv + words);
}
