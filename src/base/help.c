/* SPDX-License-Identifier: Apache-2.0
 *
 * What a command's table looks like to people and shells: --help, a man
 * page, completions for bash, zsh and fish. */
#include "base_priv.h"

#include <stdio.h>
#include <string.h>

enum { HELP_COLUMN = 26, WIDTH = 80 };

static const struct pdl_opt *opt_at(const struct pdl_cmd *cmd, int i)
{
    return i < cmd->nopts ? &cmd->opts[i] : &pdl_common_opts[i - cmd->nopts];
}

static int nopts(const struct pdl_cmd *cmd)
{
    return cmd->nopts + pdl_ncommon_opts;
}

/* Breaks text at blanks; indent for all lines, `at` is where the first one
 * already stands. */
static void wrap(struct pdl_sink *out, const char *text, int indent, int at)
{
    bool blank = false; /* owed before the next word */

    while (*text) {
        size_t n = strcspn(text, " \n");

        if (blank && at + 1 + (int)n > WIDTH) {
            pdl_puts(out, "\n");
            at = 0;
            blank = false;
        }
        if (blank)
            at++;
        pdl_puts(out, blank ? " " : "");
        for (; at < indent; at++)
            pdl_puts(out, " ");
        pdl_put(out, text, n);
        at += (int)n;
        text += n;
        blank = *text == ' ';
        if (*text == '\n') {
            pdl_puts(out, "\n");
            at = 0;
        }
        if (*text)
            text++;
    }
    pdl_puts(out, "\n");
}

static void print_option(struct pdl_sink *out, const struct pdl_opt *o)
{
    char left[80];
    int n;

    if (o->letter)
        snprintf(left, sizeof left, "  -%c, --%s%s%s", o->letter, o->name,
                 o->arg ? " " : "", o->arg ? o->arg : "");
    else
        snprintf(left, sizeof left, "      --%s%s%s", o->name,
                 o->arg ? " " : "", o->arg ? o->arg : "");
    n = (int)strlen(left);
    pdl_puts(out, left);
    if (n >= HELP_COLUMN - 1) {
        pdl_puts(out, "\n");
        n = 0;
    }
    wrap(out, o->help, HELP_COLUMN, n);
}

void pdl_help_print(const char *program, const struct pdl_cmd *cmd,
                    struct pdl_sink *out)
{
    pdl_printf(out, "Usage: %s %s%s%s [options]\n\n", program, cmd->name,
               *cmd->args ? " " : "", cmd->args);
    wrap(out, cmd->text, 0, 0);
    pdl_puts(out, "\nOptions:\n");
    for (int i = 0; i < nopts(cmd); i++)
        print_option(out, opt_at(cmd, i));
    pdl_printf(out, "\nExample:\n  %s\n", cmd->example);
}

/* Escapes what roff would read as a command. */
static void roff(struct pdl_sink *out, const char *s)
{
    for (const char *from = s;; s++) {
        if (*s && *s != '\\' && *s != '-' &&
            !((*s == '.' || *s == '\'') && (s == from || s[-1] == '\n')))
            continue;
        pdl_put(out, from, (size_t)(s - from));
        if (!*s)
            return;
        if (*s == '\\')
            pdl_puts(out, "\\e");
        else if (*s == '-')
            pdl_puts(out, "\\-");
        else
            pdl_printf(out, "\\&%c", *s);
        from = s + 1;
    }
}

void pdl_man_print(const char *program, const struct pdl_cmd *cmd,
                   struct pdl_sink *out)
{
    pdl_printf(out, ".TH \"%s %s\" 1 \"\" \"ParaDL %s\" \"ParaDL\"\n", program,
               cmd->name, pdl_version());
    pdl_puts(out, ".SH NAME\n");
    pdl_printf(out, "%s %s \\- ", program, cmd->name);
    roff(out, cmd->summary);
    pdl_printf(out, "\n.SH SYNOPSIS\n.B %s %s\n", program, cmd->name);
    if (*cmd->args) {
        roff(out, cmd->args);
        pdl_puts(out, "\n");
    }
    pdl_puts(out, "[options]\n.SH DESCRIPTION\n");
    roff(out, cmd->text);
    pdl_puts(out, "\n.SH OPTIONS\n");
    for (int i = 0; i < nopts(cmd); i++) {
        const struct pdl_opt *o = opt_at(cmd, i);

        pdl_puts(out, ".TP\n.B ");
        if (o->letter)
            pdl_printf(out, "\\-%c, ", o->letter);
        pdl_puts(out, "\\-\\-");
        roff(out, o->name);
        if (o->arg) {
            pdl_puts(out, " ");
            roff(out, o->arg);
        }
        pdl_puts(out, "\n");
        roff(out, o->help);
        pdl_puts(out, "\n");
    }
    pdl_puts(out, ".SH EXAMPLE\n.nf\n");
    roff(out, cmd->example);
    pdl_puts(out, "\n.fi\n.SH EXIT STATUS\n"
                  "0 success; 1 the answer is no; 2 wrong usage; 3 bad input; "
                  "4 the environment lacks something; 5 internal error; "
                  "130 interrupted.\n");
}

/* Quotes for single-quoted shell text. */
static void shell(struct pdl_sink *out, const char *s)
{
    for (; *s; s++) {
        if (*s == '\'')
            pdl_puts(out, "'\\''");
        else if (*s == '[' || *s == ']' || *s == ':')
            pdl_printf(out, "\\%c", *s);
        else
            pdl_put(out, s, 1);
    }
}

static void bash(const char *program, const struct pdl_cmd *const *cmds, int n,
                 struct pdl_sink *out)
{
    pdl_printf(out, "# bash completion for %s, made by '%s completion bash'\n",
               program, program);
    pdl_printf(out, "_%s() {\n", program);
    pdl_puts(out, "    local cur=${COMP_WORDS[COMP_CWORD]}\n"
                  "    local line=\"${COMP_WORDS[*]:1:COMP_CWORD-1} \"\n"
                  "    local words=\n"
                  "    case \"$line\" in\n");
    for (int i = n - 1; i >= 0; i--) {
        pdl_printf(out, "    \"%s \"*) words='", cmds[i]->name);
        for (int k = 0; k < nopts(cmds[i]); k++)
            pdl_printf(out, "%s--%s", k ? " " : "", opt_at(cmds[i], k)->name);
        pdl_puts(out, "' ;;\n");
    }
    for (int i = 0; i < n; i++) {
        const char *blank = strchr(cmds[i]->name, ' ');
        size_t len = blank ? (size_t)(blank - cmds[i]->name) : 0;

        if (!blank ||
            (i > 0 && strncmp(cmds[i - 1]->name, cmds[i]->name, len + 1) == 0))
            continue;
        pdl_printf(out, "    \"%.*s \") words='", (int)len, cmds[i]->name);
        for (int k = i; k < n; k++)
            if (strncmp(cmds[k]->name, cmds[i]->name, len + 1) == 0)
                pdl_printf(out, "%s ", cmds[k]->name + len + 1);
        pdl_puts(out, "' ;;\n");
    }
    pdl_puts(out, "    *) words='");
    for (int i = 0; i < n; i++) {
        size_t len = strcspn(cmds[i]->name, " ");

        if (i == 0 || strncmp(cmds[i - 1]->name, cmds[i]->name, len) != 0 ||
            strcspn(cmds[i - 1]->name, " ") != len)
            pdl_printf(out, "%.*s ", (int)len, cmds[i]->name);
    }
    pdl_printf(out,
               "' ;;\n    esac\n"
               "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
               "    [ -n \"${COMPREPLY[0]}\" ] || COMPREPLY=($(compgen -f -- "
               "\"$cur\"))\n}\ncomplete -o filenames -F _%s %s\n",
               program, program);
}

static void zsh(const char *program, const struct pdl_cmd *const *cmds, int n,
                struct pdl_sink *out)
{
    pdl_printf(out, "#compdef %s\n# made by '%s completion zsh'\n", program,
               program);
    pdl_puts(out, "local line=\"${words[2]} ${words[3]}\"\n"
                  "case \"$line \" in\n");
    for (int i = n - 1; i >= 0; i--) {
        pdl_printf(out, "\"%s \"*)\n  _arguments \\\n", cmds[i]->name);
        for (int k = 0; k < nopts(cmds[i]); k++) {
            const struct pdl_opt *o = opt_at(cmds[i], k);

            pdl_printf(out, "    '--%s[", o->name);
            shell(out, o->help);
            pdl_puts(out, "]");
            if (o->arg)
                pdl_printf(out, ":%s:_files", o->arg);
            pdl_puts(out, "' \\\n");
        }
        pdl_puts(out, "    '*:file:_files' ;;\n");
    }
    pdl_puts(out, "*)\n  local -a commands\n  commands=(\n");
    for (int i = 0; i < n; i++) {
        pdl_printf(out, "    '%s:", cmds[i]->name);
        shell(out, cmds[i]->summary);
        pdl_puts(out, "'\n");
    }
    pdl_puts(out, "  )\n  _describe command commands ;;\nesac\n");
}

static void fish(const char *program, const struct pdl_cmd *const *cmds, int n,
                 struct pdl_sink *out)
{
    pdl_printf(out, "# fish completion, made by '%s completion fish'\n",
               program);
    for (int i = 0; i < n; i++) {
        size_t len = strcspn(cmds[i]->name, " ");
        const char *sub = cmds[i]->name + len;

        pdl_printf(out, "complete -c %s -n __fish_use_subcommand -a %.*s -d '",
                   program, (int)len, cmds[i]->name);
        shell(out, cmds[i]->summary);
        pdl_puts(out, "'\n");
        if (*sub) {
            pdl_printf(out,
                       "complete -c %s -n '__fish_seen_subcommand_from %.*s' "
                       "-a %s -d '",
                       program, (int)len, cmds[i]->name, sub + 1);
            shell(out, cmds[i]->summary);
            pdl_puts(out, "'\n");
        }
        for (int k = 0; k < nopts(cmds[i]); k++) {
            const struct pdl_opt *o = opt_at(cmds[i], k);

            pdl_printf(out,
                       "complete -c %s -n '__fish_seen_subcommand_from %s' "
                       "-l %s",
                       program, *sub ? sub + 1 : cmds[i]->name, o->name);
            if (o->letter)
                pdl_printf(out, " -s %c", o->letter);
            pdl_printf(out, "%s -d '", o->arg ? " -r" : "");
            shell(out, o->help);
            pdl_puts(out, "'\n");
        }
    }
}

bool pdl_completion_print(const char *program,
                          const struct pdl_cmd *const *cmds, int ncmds,
                          const char *shell_name, struct pdl_sink *out)
{
    static const struct {
        const char *name;
        void (*print)(const char *, const struct pdl_cmd *const *, int,
                      struct pdl_sink *);
    } shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};

    for (size_t i = 0; i < sizeof shells / sizeof shells[0]; i++)
        if (strcmp(shells[i].name, shell_name) == 0) {
            shells[i].print(program, cmds, ncmds, out);
            return true;
        }
    return false;
}
