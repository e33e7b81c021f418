/* SPDX-License-Identifier: Apache-2.0
 *
 * What the command tables look like to shells: completions for bash, zsh and
 * fish. Each offers, in this order of depth: first words, second words of a
 * group ("model" -> show, list), and then options, values that are a choice,
 * names of what an argument is, and files. A name may be both a command and a
 * group ("plan"). */
#include "base_priv.h"

#include <string.h>

struct program {
    const char *name;
    const struct pdl_cmd *const *cmds;
    int n;
    struct pdl_sink *out;
    const struct pdl_completion_names *names; /* NULL: none are known */
};

/* Names that an argument like "MODEL|FILE" or "[SYSTEM]" may be, or NULL. */
static const char *names_of(const struct program *p, const char *arg)
{
    const char *word = arg + strspn(arg, "[");
    size_t n = strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");

    for (int i = 0; p->names && p->names[i].of; i++)
        if (strlen(p->names[i].of) == n && memcmp(p->names[i].of, word, n) == 0)
            return p->names[i].of;
    return NULL;
}

static size_t first_len(const struct pdl_cmd *cmd)
{
    return strcspn(cmd->name, " ");
}

static bool same_first(const struct pdl_cmd *a, const struct pdl_cmd *b)
{
    return first_len(a) == first_len(b) &&
           memcmp(a->name, b->name, first_len(a)) == 0;
}

/* Is the i-th the first command with its first word? */
static bool leads(const struct program *p, int i)
{
    for (int k = 0; k < i; k++)
        if (same_first(p->cmds[k], p->cmds[i]))
            return false;
    return true;
}

/* Second word, or NULL. */
static const char *second(const struct pdl_cmd *cmd)
{
    const char *blank = strchr(cmd->name, ' ');

    return blank ? blank + 1 : NULL;
}

static bool is_group(const struct program *p, int i)
{
    for (int k = 0; k < p->n; k++)
        if (second(p->cmds[k]) && same_first(p->cmds[k], p->cmds[i]))
            return true;
    return false;
}

static void first_words(const struct program *p)
{
    for (int i = 0; i < p->n; i++)
        if (leads(p, i))
            pdl_printf(p->out, "%s%.*s", i ? " " : "",
                       (int)first_len(p->cmds[i]), p->cmds[i]->name);
}

static void second_words(const struct program *p, int i)
{
    const char *blank = "";

    for (int k = 0; k < p->n; k++)
        if (second(p->cmds[k]) && same_first(p->cmds[k], p->cmds[i])) {
            pdl_printf(p->out, "%s%s", blank, second(p->cmds[k]));
            blank = " ";
        }
}

/* "a|b|c" as "a b c" */
static void put_choices(struct pdl_sink *out, const char *choices, size_t len)
{
    for (size_t i = 0; i < len; i++)
        pdl_put(out, choices[i] == '|' ? " " : choices + i, 1);
}

/* The words an argument may be, where the table says so: "bash|zsh|fish" or
 * COMMAND. */
static bool has_arg_words(const struct pdl_cmd *cmd)
{
    const char *word = cmd->args + strspn(cmd->args, "[");
    size_t n = strcspn(word, " ]"), i = 0;

    if (strncmp(word, "COMMAND", n) == 0 && n == strlen("COMMAND"))
        return true;
    while (i < n && ((word[i] >= 'a' && word[i] <= 'z') || word[i] == '|' ||
                     word[i] == '-'))
        i++;
    return i == n && memchr(word, '|', n) != NULL;
}

static void arg_words(const struct program *p, const struct pdl_cmd *cmd)
{
    const char *word = cmd->args + strspn(cmd->args, "[");

    if (!has_arg_words(cmd))
        return;
    if (*word == 'C')
        first_words(p);
    else
        put_choices(p->out, word, strcspn(word, " ]"));
}

/* Text inside single quotes; special characters get a backslash. */
static void quoted(struct pdl_sink *out, const char *s, const char *special)
{
    for (; *s; s++) {
        if (*s == '\'')
            pdl_puts(out, "'\\''");
        else if (strchr(special, *s))
            pdl_printf(out, "\\%c", *s);
        else
            pdl_put(out, s, 1);
    }
}

/* ---- bash --------------------------------------------------------------- */

static void bash_command(const struct program *p, const struct pdl_cmd *cmd)
{
    const char *of = names_of(p, cmd->args);

    pdl_printf(p->out, "    '%s')\n        args=", cmd->name);
    if (of) {
        pdl_printf(p->out, "$_%s_%s", p->name, of);
    } else {
        pdl_puts(p->out, "'");
        arg_words(p, cmd);
        pdl_puts(p->out, "'");
    }
    pdl_puts(p->out, "\n        options='");
    for (int k = 0; k < base_nopts(cmd); k++)
        pdl_printf(p->out, "%s--%s", k ? " " : "", base_opt_at(cmd, k)->name);
    pdl_puts(p->out, "'\n        case \"$prev\" in\n");
    for (int k = 0; k < base_nopts(cmd); k++) {
        const struct pdl_opt *o = base_opt_at(cmd, k);

        if (!o->arg)
            continue;
        if (o->letter)
            pdl_printf(p->out, "        -%c | --%s)", o->letter, o->name);
        else
            pdl_printf(p->out, "        --%s)", o->name);
        of = names_of(p, o->arg);
        pdl_puts(p->out, " value=1 words=");
        if (o->choices) {
            pdl_puts(p->out, "'");
            put_choices(p->out, o->choices, strlen(o->choices));
            pdl_puts(p->out, "'");
        } else if (of) {
            pdl_printf(p->out, "$_%s_%s", p->name, of);
        }
        pdl_puts(p->out, " ;;\n");
    }
    pdl_puts(p->out, "        esac ;;\n");
}

static void bash(const struct program *p)
{
    pdl_printf(p->out,
               "# bash completion for %s, made by '%s completion bash'\n",
               p->name, p->name);
    for (int i = 0; p->names && p->names[i].of; i++)
        pdl_printf(p->out, "_%s_%s='%s'\n", p->name, p->names[i].of,
                   p->names[i].names);
    pdl_printf(p->out, "_%s() {\n", p->name);
    pdl_puts(
        p->out,
        "    local cur=${COMP_WORDS[COMP_CWORD]}\n"
        "    local prev=${COMP_WORDS[COMP_CWORD-1]}\n"
        "    local cmd=${COMP_WORDS[1]} value= words= subs= args= options=\n"
        "    # --color=auto arrives as three words\n"
        "    if [ \"$cur\" = '=' ]; then\n"
        "        cur=\n"
        "    elif [ \"$prev\" = '=' ]; then\n"
        "        prev=${COMP_WORDS[COMP_CWORD-2]}\n"
        "    fi\n"
        "    COMPREPLY=()\n"
        "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
        "        COMPREPLY=($(compgen -W '");
    first_words(p);
    pdl_puts(p->out, "' -- \"$cur\"))\n        return\n    fi\n"
                     "    if [ \"$COMP_CWORD\" -eq 2 ]; then\n"
                     "        case \"$cmd\" in\n");
    for (int i = 0; i < p->n; i++)
        if (leads(p, i) && is_group(p, i)) {
            pdl_printf(p->out, "        '%.*s') subs='",
                       (int)first_len(p->cmds[i]), p->cmds[i]->name);
            second_words(p, i);
            pdl_puts(p->out, "' ;;\n");
        }
    pdl_puts(p->out, "        esac\n    else\n"
                     "        case \"$cmd ${COMP_WORDS[2]}\" in\n");
    for (int i = 0; i < p->n; i++)
        if (second(p->cmds[i]))
            pdl_printf(p->out, "        '%s') cmd='%s' ;;\n", p->cmds[i]->name,
                       p->cmds[i]->name);
    pdl_puts(p->out, "        esac\n    fi\n    case \"$cmd\" in\n");
    for (int i = 0; i < p->n; i++)
        bash_command(p, p->cmds[i]);
    pdl_printf(p->out,
               "    esac\n"
               "    if [ -z \"$value\" ]; then\n"
               "        case \"$cur\" in\n"
               "        -*) words=$options ;;\n"
               "        *) words=\"$subs $args\" ;;\n"
               "        esac\n"
               "    fi\n"
               "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
               "}\ncomplete -o default -F _%s %s\n",
               p->name, p->name);
}

/* ---- zsh ---------------------------------------------------------------- */

/* What completes an argument: names and files, or files. */
static void zsh_action(const struct program *p, const char *arg)
{
    const char *of = names_of(p, arg);

    if (of)
        pdl_printf(p->out, "_%s_%s", p->name, of);
    else
        pdl_puts(p->out, "_files");
}

static void zsh_option(const struct program *p, const struct pdl_opt *o)
{
    struct pdl_sink *out = p->out;

    pdl_printf(out, "    '--%s%s[", o->name, o->arg ? "=" : "");
    quoted(out, o->help, "[]:\\");
    pdl_puts(out, "]");
    if (o->arg) {
        pdl_printf(out, ":%s:", o->arg);
        if (o->choices) {
            pdl_puts(out, "(");
            put_choices(out, o->choices, strlen(o->choices));
            pdl_puts(out, ")");
        } else {
            zsh_action(p, o->arg);
        }
    }
    pdl_puts(out, "' \\\n");
    if (o->letter) {
        pdl_printf(out, "    '-%c[", o->letter);
        quoted(out, o->help, "[]:\\");
        pdl_printf(out, "]%s%s%s", o->arg ? ":" : "", o->arg ? o->arg : "",
                   o->arg ? ":" : "");
        if (o->arg)
            zsh_action(p, o->arg);
        pdl_puts(out, "' \\\n");
    }
}

static void zsh_describe(const struct program *p, int group)
{
    pdl_puts(p->out, "  commands=(\n");
    for (int i = 0; i < p->n; i++) {
        const struct pdl_cmd *cmd = p->cmds[i];

        if (group >= 0 && (!second(cmd) || !same_first(cmd, p->cmds[group])))
            continue;
        if (group < 0 && !leads(p, i))
            continue;
        pdl_printf(p->out, "    '%.*s:",
                   (int)(group < 0 ? first_len(cmd) : strlen(second(cmd))),
                   group < 0 ? cmd->name : second(cmd));
        if (group < 0 && second(cmd))
            second_words(p, i);
        else
            quoted(p->out, cmd->summary, ":\\");
        pdl_puts(p->out, "'\n");
    }
    pdl_puts(p->out, "  )\n  _describe command commands\n");
}

static void zsh(const struct program *p)
{
    pdl_printf(p->out, "#compdef %s\n# made by '%s completion zsh'\n", p->name,
               p->name);
    for (int i = 0; p->names && p->names[i].of; i++)
        pdl_printf(p->out, "_%s_%s() { compadd -- %s; _files }\n", p->name,
                   p->names[i].of, p->names[i].names);
    pdl_puts(p->out, "local -a commands\nlocal cmd=${words[2]}\n"
                     "if (( CURRENT == 2 )); then\n");
    zsh_describe(p, -1);
    pdl_puts(p->out,
             "  return\nelif (( CURRENT == 3 )); then\n  case $cmd in\n");
    for (int i = 0; i < p->n; i++)
        if (leads(p, i) && is_group(p, i)) {
            pdl_printf(p->out, "  %.*s)\n", (int)first_len(p->cmds[i]),
                       p->cmds[i]->name);
            zsh_describe(p, i);
            pdl_puts(p->out, "  ;;\n");
        }
    pdl_puts(p->out, "  esac\nelse\n  case \"$cmd ${words[3]}\" in\n");
    for (int i = 0; i < p->n; i++)
        if (second(p->cmds[i]))
            pdl_printf(p->out, "  '%s') cmd='%s' ;;\n", p->cmds[i]->name,
                       p->cmds[i]->name);
    pdl_puts(p->out, "  esac\nfi\ncase $cmd in\n");
    for (int i = 0; i < p->n; i++) {
        pdl_printf(p->out, "'%s')\n  _arguments \\\n", p->cmds[i]->name);
        for (int k = 0; k < base_nopts(p->cmds[i]); k++)
            zsh_option(p, base_opt_at(p->cmds[i], k));
        if (has_arg_words(p->cmds[i])) {
            pdl_puts(p->out, "    '*:argument:(");
            arg_words(p, p->cmds[i]);
            pdl_puts(p->out, ")' ;;\n");
        } else {
            pdl_puts(p->out, "    '*:argument:");
            zsh_action(p, p->cmds[i]->args);
            pdl_puts(p->out, "' ;;\n");
        }
    }
    pdl_puts(p->out, "esac\n");
}

/* ---- fish --------------------------------------------------------------- */

static void fish_option(const struct program *p, const struct pdl_cmd *cmd,
                        const struct pdl_opt *o)
{
    pdl_printf(p->out, "complete -c %s -n '__%s_at %s' -l %s", p->name, p->name,
               cmd->name, o->name);
    if (o->letter)
        pdl_printf(p->out, " -s %c", o->letter);
    if (o->choices) {
        pdl_puts(p->out, " -x -a '");
        put_choices(p->out, o->choices, strlen(o->choices));
        pdl_puts(p->out, "'");
    } else if (o->arg) {
        pdl_puts(p->out, " -r");
        if (names_of(p, o->arg))
            pdl_printf(p->out, " -a \"$__%s_%s\"", p->name,
                       names_of(p, o->arg));
    }
    pdl_puts(p->out, " -d '");
    quoted(p->out, o->help, "\\");
    pdl_puts(p->out, "'\n");
}

static void fish_words(const struct program *p, int i)
{
    const struct pdl_cmd *cmd = p->cmds[i];
    int first = (int)first_len(cmd);

    if (leads(p, i)) {
        pdl_printf(p->out,
                   "complete -c %s -n __fish_use_subcommand -f -a %.*s -d '",
                   p->name, first, cmd->name);
        if (second(cmd))
            second_words(p, i);
        else
            quoted(p->out, cmd->summary, "\\");
        pdl_puts(p->out, "'\n");
    }
    if (second(cmd)) {
        pdl_printf(p->out,
                   "complete -c %s -n '__%s_at %.*s; and test (count "
                   "(commandline -opc)) -eq 2' -f -a %s -d '",
                   p->name, p->name, first, cmd->name, second(cmd));
        quoted(p->out, cmd->summary, "\\");
        pdl_puts(p->out, "'\n");
    }
    if (has_arg_words(cmd)) {
        pdl_printf(p->out, "complete -c %s -n '__%s_at %s' -f -a '", p->name,
                   p->name, cmd->name);
        arg_words(p, cmd);
        pdl_puts(p->out, "'\n");
    } else if (names_of(p, cmd->args)) {
        pdl_printf(p->out, "complete -c %s -n '__%s_at %s' -a \"$__%s_%s\"\n",
                   p->name, p->name, cmd->name, p->name,
                   names_of(p, cmd->args));
    }
}

static void fish(const struct program *p)
{
    pdl_printf(p->out,
               "# fish completion, made by '%s completion fish'\n"
               "function __%s_at # the words after the program\n"
               "    set -l typed (commandline -opc)\n"
               "    test (count $typed) -gt (count $argv); or return 1\n"
               "    for i in (seq (count $argv))\n"
               "        test $typed[(math $i + 1)] = $argv[$i]; or return 1\n"
               "    end\n"
               "end\n",
               p->name, p->name);
    for (int i = 0; p->names && p->names[i].of; i++)
        pdl_printf(p->out, "set -g __%s_%s %s\n", p->name, p->names[i].of,
                   p->names[i].names);
    for (int i = 0; i < p->n; i++) {
        fish_words(p, i);
        for (int k = 0; k < base_nopts(p->cmds[i]); k++)
            fish_option(p, p->cmds[i], base_opt_at(p->cmds[i], k));
    }
}

bool pdl_completion_print(const char *program,
                          const struct pdl_cmd *const *cmds, int ncmds,
                          const char *shell, struct pdl_sink *out)
{
    return pdl_completion_print_names(program, cmds, ncmds, NULL, shell, out);
}

bool pdl_completion_print_names(const char *program,
                                const struct pdl_cmd *const *cmds, int ncmds,
                                const struct pdl_completion_names *names,
                                const char *shell, struct pdl_sink *out)
{
    static const struct {
        const char *name;
        void (*print)(const struct program *p);
    } shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
    struct program p = {program, cmds, ncmds, out, names};

    for (size_t i = 0; i < sizeof shells / sizeof shells[0]; i++)
        if (strcmp(shells[i].name, shell) == 0) {
            shells[i].print(&p);
            return true;
        }
    return false;
}
