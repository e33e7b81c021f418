/* SPDX-License-Identifier: Apache-2.0
 *
 * What a command's table looks like to people: --help and a man page. */
#include "base_priv.h"

#include <stdio.h>
#include <string.h>

enum { HELP_COLUMN = 26, WIDTH = 80 };

/* One word, broken after commas where a line of its own cannot hold it.
 * Returns the column after it. */
static int put_word(struct pdl_sink *out, const char *word, size_t len,
                    int indent, int at)
{
    for (;;) {
        size_t n = base_break(word, len, WIDTH - at);

        pdl_put(out, word, n);
        word += n;
        len -= n;
        if (len == 0)
            return at + (int)n;
        pdl_printf(out, "\n%*s", indent, "");
        at = indent;
    }
}

/* Does a word that no line can hold begin on this one? */
static bool begins_here(const char *word, size_t len, int indent, int at)
{
    return (int)len > WIDTH - indent &&
           (int)base_break(word, len, WIDTH - at) <= WIDTH - at;
}

void pdl_wrap(struct pdl_sink *out, const char *text, int indent, int at)
{
    bool blank = false; /* owed before the next word */

    while (*text) {
        size_t n = strcspn(text, " \n");

        if (blank && at + 1 + (int)n > WIDTH &&
            !begins_here(text, n, indent, at + 1)) {
            pdl_puts(out, "\n");
            at = 0;
            blank = false;
        }
        if (blank)
            at++;
        pdl_puts(out, blank ? " " : "");
        for (; at < indent; at++)
            pdl_puts(out, " ");
        at = put_word(out, text, n, indent, at);
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

/* Does the help name every choice itself? */
static bool names_all(const struct pdl_opt *o)
{
    for (const char *p = o->choices; p; p = strchr(p, '|')) {
        char word[32];

        p += *p == '|';
        snprintf(word, sizeof word, "%.*s", (int)strcspn(p, "|"), p);
        if (!strstr(o->help, word))
            return false;
    }
    return true;
}

/* The help of an option, and what it can be. */
static const char *explained(const struct pdl_opt *o, char *buf, size_t size)
{
    size_t n;

    if (!o->choices || names_all(o))
        return o->help;
    n = (size_t)snprintf(buf, size, "%s: ", o->help);
    for (const char *p = o->choices; *p && n + 3 < size; p++) {
        buf[n++] = *p == '|' ? ',' : *p;
        if (*p == '|')
            buf[n++] = ' ';
    }
    buf[n < size ? n : size - 1] = '\0';
    return buf;
}

static void print_option(struct pdl_sink *out, const struct pdl_opt *o)
{
    char text[400];
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
    pdl_wrap(out, explained(o, text, sizeof text), HELP_COLUMN, n);
}

void pdl_help_print(const char *program, const struct pdl_cmd *cmd,
                    struct pdl_sink *out)
{
    char usage[400];
    enum { INDENT = 7 };

    snprintf(usage, sizeof usage, "%s %s%s%s [options]", program, cmd->name,
             *cmd->args ? " " : "", cmd->args);
    pdl_puts(out, "Usage: ");
    pdl_wrap(out, usage, INDENT, INDENT);
    pdl_puts(out, "\n");
    pdl_wrap(out, cmd->text, 0, 0);
    pdl_puts(out, "\nOptions:\n");
    for (int i = 0; i < base_nopts(cmd); i++)
        print_option(out, base_opt_at(cmd, i));
    pdl_printf(out, "\nExample:\n  %s\n", cmd->example);
}

/* Escapes what roff would read as a command. */
static void roff_part(struct pdl_sink *out, const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        bool first = i == 0 || s[i - 1] == '\n';

        if (s[i] == '\\')
            pdl_puts(out, "\\e");
        else if (s[i] == '-')
            pdl_puts(out, "\\-");
        else if (first && (s[i] == '.' || s[i] == '\''))
            pdl_printf(out, "\\&%c", s[i]);
        else
            pdl_put(out, s + i, 1);
    }
}

static void roff(struct pdl_sink *out, const char *s)
{
    roff_part(out, s, strlen(s));
}

/* Paragraphs: an empty line of the table is a break, not an empty line. */
static void roff_text(struct pdl_sink *out, const char *s)
{
    const char *end;

    while ((end = strstr(s, "\n\n")) != NULL) {
        roff_part(out, s, (size_t)(end - s));
        pdl_puts(out, "\n.PP\n");
        s = end + strspn(end, "\n");
    }
    roff(out, s);
    pdl_puts(out, "\n");
}

static void man_option(struct pdl_sink *out, const struct pdl_opt *o)
{
    char text[400];

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
    roff(out, explained(o, text, sizeof text));
    pdl_puts(out, "\n");
}

void pdl_man_print(const char *program, const struct pdl_cmd *cmd,
                   struct pdl_sink *out)
{
    char page[64]; /* one word, as whatis and apropos need it */

    snprintf(page, sizeof page, "%s %s", program, cmd->name);
    for (char *p = page; *p; p++)
        *p = *p == ' ' ? '-' : *p;
    pdl_printf(out, ".TH \"%s\" 1 \"\" \"ParaDL %s\" \"ParaDL\"\n", page,
               pdl_version());
    /* names are to be copied: no hyphens at the end of a line */
    pdl_puts(out, ".nh\n.ad l\n.SH NAME\n");
    roff(out, page);
    pdl_puts(out, " \\- ");
    roff(out, cmd->summary);
    pdl_printf(out, "\n.SH SYNOPSIS\n.B %s %s\n", program, cmd->name);
    if (*cmd->args) {
        roff(out, cmd->args);
        pdl_puts(out, "\n");
    }
    pdl_puts(out, "[options]\n.SH DESCRIPTION\n");
    roff_text(out, cmd->text);
    pdl_puts(out, ".SH OPTIONS\n");
    for (int i = 0; i < base_nopts(cmd); i++)
        man_option(out, base_opt_at(cmd, i));
    pdl_puts(out, ".SH EXAMPLE\n.nf\n");
    roff(out, cmd->example);
    pdl_puts(out, "\n.fi\n.SH EXIT STATUS\n"
                  "0 success; 1 the answer is no; 2 wrong usage; 3 bad input; "
                  "4 the environment lacks something; 5 internal error; "
                  "130 interrupted.\n.SH SEE ALSO\n");
    pdl_printf(out, ".BR %s (1)\n", program);
}
