/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line that was given, again: made from the command's own table,
 * so that a result can say how it was made. Quoted for a POSIX shell. Options
 * that only say where text goes (--report, --json) are left out. */
#include "cli/cli_priv.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void quoted(struct pdl_sink *out, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-_=+:,./@%";

    if (*word && word[strspn(word, plain)] == '\0') {
        pdl_printf(out, " %s", word);
        return;
    }
    pdl_puts(out, " '");
    for (; *word; word++)
        if (*word == '\'')
            pdl_puts(out, "'\\''");
        else
            pdl_put(out, word, 1);
    pdl_puts(out, "'");
}

const char *cli_option_value(const struct pdl_opt *o, const void *opts,
                             char *buf, size_t size)
{
    const char *at = (const char *)opts + o->offset;
    bool whole = o->kind == PDL_OPT_INT || o->kind == PDL_OPT_COUNT;
    int64_t i = 0;
    double x = 0;

    if (o->kind == PDL_OPT_TEXT)
        return *(const char *const *)(const void *)at;
    if (o->kind == PDL_OPT_FLAG)
        return *(const bool *)(const void *)at ? "" : NULL;
    if (whole || o->kind == PDL_OPT_SIZE)
        i = *(const int64_t *)(const void *)at;
    else
        x = *(const double *)(const void *)at;
    if (i == 0 && x == 0)
        return NULL;
    /* whole numbers are read without a unit: 5000, not 5k */
    if (whole)
        snprintf(buf, size, "%lld", (long long)i);
    else if (o->kind == PDL_OPT_NUM || o->kind == PDL_OPT_AMOUNT)
        snprintf(buf, size, "%.17g", x);
    else if (o->kind == PDL_OPT_SIZE && i >= INT64_C(1) << 53)
        snprintf(buf, size, "%lldB", (long long)i); /* no double has it */
    else if (o->kind == PDL_OPT_SIZE)
        return pdl_unit_print((double)i, PDL_UNIT_BYTES, buf, size);
    else
        return pdl_unit_print(x, PDL_UNIT_SECONDS, buf, size);
    return buf;
}

/* Options that say what is asked, not what to search or where text goes. */
static bool asks_the_same(const struct pdl_opt *o, const struct pdl_cmd *other)
{
    static const char *const own[] = {"system",  "batch",  "pes",
                                      "emit",    "export", "output",
                                      "details", "report", "offload"};

    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (strcmp(o->name, own[i]) == 0)
            return false;
    for (int i = 0; i < other->nopts; i++)
        if (strcmp(o->name, other->opts[i].name) == 0)
            return true;
    return false;
}

void cli_same_options(const struct pdl_cmd *cmd, const struct pdl_args *args,
                      const struct pdl_cmd *other, struct pdl_sink *out)
{
    char buf[64];

    for (int i = 0; i < cmd->nopts; i++) {
        const struct pdl_opt *o = &cmd->opts[i];
        const char *value = cli_option_value(o, args->opts, buf, sizeof buf);

        if (!value || !asks_the_same(o, other))
            continue;
        pdl_printf(out, " --%s", o->name);
        if (o->kind != PDL_OPT_FLAG)
            quoted(out, value);
    }
}

void cli_quote(struct pdl_sink *out, const char *word)
{
    quoted(out, word);
}

void cli_command_line(const struct pdl_cmd *cmd, const struct pdl_args *args,
                      struct pdl_sink *out)
{
    char buf[64];

    pdl_printf(out, "paradl %s", cmd->name);
    for (int i = 0; i < args->npos; i++)
        quoted(out, args->pos[i]);
    for (int i = 0; i < cmd->nopts; i++) {
        const struct pdl_opt *o = &cmd->opts[i];
        const char *value =
            strcmp(o->name, "report") == 0
                ? NULL
                : cli_option_value(o, args->opts, buf, sizeof buf);

        if (!value)
            continue;
        pdl_printf(out, " --%s", o->name);
        if (o->kind != PDL_OPT_FLAG)
            quoted(out, value);
    }
}
