/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli_priv.h"

#include <stdio.h>
#include <string.h>

struct options {
    bool man, list;
};

static const struct pdl_opt opts[] = {
    {"man", 0, PDL_OPT_FLAG, offsetof(struct options, man), NULL, NULL,
     "print the manual page (roff) instead"},
    {"list", 0, PDL_OPT_FLAG, offsetof(struct options, list), NULL, NULL,
     "only the names of all commands, one a line"},
};

static const struct pdl_cmd *find(const char *name)
{
    for (int i = 0; i < cli_ncommands; i++)
        if (strcmp(cli_commands[i]->name, name) == 0)
            return cli_commands[i];
    return NULL;
}

static void man_overview(struct pdl_sink *out)
{
    pdl_printf(out,
               ".TH PARADL 1 \"\" \"ParaDL %s\" \"ParaDL\"\n.nh\n.ad l\n"
               ".SH NAME\n"
               "paradl \\- how to train a network on a machine, before you "
               "book or build it\n.SH SYNOPSIS\n.B paradl\nCOMMAND "
               "[arguments] [options]\n.SH DESCRIPTION\n"
               "Projects time, traffic and memory of parallel training, finds "
               "the best strategy and says what limits it; proves and "
               "simulates collective algorithms; trains as planned. Results "
               "go to standard output, everything else to standard error. "
               "Every command takes \\-\\-json and \\-\\-help and has a page "
               "of its own: man paradl\\-plan.\n.SH COMMANDS\n",
               pdl_version());
    for (int i = 0; i < cli_ncommands; i++)
        pdl_printf(out, ".TP\n.B %s\n%s\n", cli_commands[i]->name,
                   cli_commands[i]->summary);
    cli_notation_man(out);
    pdl_puts(out, ".SH EXAMPLES\n.nf\n"
                  "paradl model show resnet50\n"
                  "paradl plan resnet50 \\-\\-system abci\\-v100 \\-\\-pes 64 "
                  "\\-\\-batch 2048\n"
                  "paradl collective verify \\-\\-all\n.fi\n");
    pdl_puts(out, ".SH EXIT STATUS\n0 success; 1 the answer is no; 2 wrong "
                  "usage; 3 bad input; 4 the environment lacks something; 5 "
                  "internal error; 130 interrupted.\n");
}

static void list(struct pdl_sink *out, bool names_only)
{
    for (int i = 0; i < cli_ncommands; i++)
        if (names_only)
            pdl_printf(out, "%s\n", cli_commands[i]->name);
        else
            cli_summary(out, cli_commands[i]);
}

static void json_options(struct pdl_json *j, const struct pdl_opt *o, int n)
{
    for (int i = 0; i < n; i++) {
        pdl_json_row(j);
        pdl_json_kstr(j, "name", o[i].name);
        pdl_json_kstr(j, "argument", o[i].arg);
        pdl_json_kstr(j, "choices", o[i].choices);
        pdl_json_kstr(j, "help", o[i].help);
        pdl_json_end(j);
    }
}

/* One command (with its options) or, for NULL, all of them. */
static void json_help(struct pdl_sink *out, const struct pdl_cmd *only)
{
    struct pdl_json j;

    pdl_json_init(&j, out);
    pdl_json_schema(&j, "help");
    pdl_json_key(&j, "commands");
    pdl_json_array(&j);
    for (int i = 0; i < cli_ncommands; i++) {
        const struct pdl_cmd *cmd = cli_commands[i];

        if (only && cmd != only)
            continue;
        pdl_json_object(&j);
        pdl_json_kstr(&j, "name", cmd->name);
        pdl_json_kstr(&j, "arguments", cmd->args);
        pdl_json_kstr(&j, "summary", cmd->summary);
        pdl_json_kstr(&j, "example", cmd->example);
        pdl_json_key(&j, "options");
        pdl_json_array(&j);
        json_options(&j, cmd->opts, cmd->nopts);
        json_options(&j, pdl_common_opts + cmd->no_json,
                     pdl_ncommon_opts - cmd->no_json);
        pdl_json_end(&j);
        pdl_json_end(&j);
    }
    pdl_json_end(&j);
    pdl_json_end(&j);
}

static int help(const struct pdl_args *args)
{
    const struct options *o = args->opts;
    struct pdl_sink *out = cli_out();
    const struct pdl_cmd *cmd;
    char name[128];

    if (args->npos == 0) {
        if (args->json)
            json_help(out, NULL);
        else if (o->man)
            man_overview(out);
        else
            list(out, o->list);
        return EXIT_OK;
    }
    snprintf(name, sizeof name, "%.60s%s%.60s", args->pos[0],
             args->npos > 1 ? " " : "", args->npos > 1 ? args->pos[1] : "");
    cmd = find(name);
    if (!cmd && cli_is_notation(name)) {
        cli_notation(out);
        return EXIT_OK;
    }
    if (!cmd && args->npos == 1 && cli_is_group(name)) {
        cli_overview(out, name);
        return EXIT_OK;
    }
    if (!cmd)
        return cli_no_command(name, cli_notation_topic);
    if (args->json)
        json_help(out, cmd);
    else if (o->man)
        pdl_man_print("paradl", cmd, out);
    else
        pdl_help_print("paradl", cmd, out);
    return EXIT_OK;
}

const struct pdl_cmd cli_help = {
    .name = "help",
    .args = "[COMMAND]",
    .max_pos = 2,
    .summary = "explain a command, or list them all",
    .text = "Prints the help of a command, as COMMAND --help does; without "
            "one, the list of commands. 'paradl help notation' explains how "
            "models, systems and strategies are written.",
    .example = "paradl help info",
    .opts = opts,
    .nopts = sizeof opts / sizeof opts[0],
    .opts_size = sizeof(struct options),
    .run = help,
};
