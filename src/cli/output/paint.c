/* SPDX-License-Identifier: Apache-2.0
 *
 * Colour, for people at a terminal: it repeats what a mark, a word or the place
 * already says, so that nothing is lost where there is none. */
#include "cli/cli_priv.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool painted[2]; /* standard output, standard error */

static bool wants_color(const struct pdl_args *args, int fd)
{
    const char *no = getenv("NO_COLOR"), *force = getenv("CLICOLOR_FORCE");
    const char *term = getenv("TERM");

    if (args->color && strcmp(args->color, "auto") != 0)
        return strcmp(args->color, "always") == 0;
    if (no && *no)
        return false;
    if (force && *force && strcmp(force, "0") != 0)
        return true;
    return isatty(fd) && term && strcmp(term, "dumb") != 0;
}

void cli_color(const struct pdl_args *args)
{
    if (cli_asked())
        return;
    painted[0] = wants_color(args, STDOUT_FILENO);
    painted[1] = wants_color(args, STDERR_FILENO);
}

static const char *tone(enum cli_tone t)
{
    static const char *const codes[] = {
        [CLI_PLAIN] = "\033[0m",   [CLI_HEAD] = "\033[1m",
        [CLI_GOOD] = "\033[1;32m", [CLI_WARN] = "\033[33m",
        [CLI_BAD] = "\033[1;31m",
    };

    return codes[t];
}

const char *cli_tone(enum cli_tone t)
{
    return painted[0] && !cli_asked() ? tone(t) : "";
}

const char *cli_error_tone(enum cli_tone t)
{
    return painted[1] ? tone(t) : "";
}

void cli_head(const char *text)
{
    pdl_printf(cli_out(), "%s%s%s\n", cli_tone(CLI_HEAD), text,
               cli_tone(CLI_PLAIN));
}

void cli_mark(enum cli_tone t, const char *word, const char *text)
{
    pdl_printf(cli_out(), "%s%s%s ", cli_tone(t), word, cli_tone(CLI_PLAIN));
    pdl_wrap(cli_out(), text, 2, pdl_text_width(word) + 1);
}

/* What a row of a table begins with. */
static enum cli_tone tone_of(const char *line, bool first)
{
    return first          ? CLI_HEAD
           : *line == '*' ? CLI_GOOD
           : *line == 'x' ? CLI_BAD
                          : CLI_PLAIN;
}

void cli_marked_table(const struct pdl_table *t)
{
    struct pdl_sink *out = cli_out();
    struct pdl_buf b;
    const char *at, *end;

    pdl_buf_init(&b);
    pdl_table_print(t, cli_text_width(), &b.sink);
    for (at = b.text ? b.text : ""; *at; at = end + (*end == '\n')) {
        enum cli_tone how = tone_of(at, at == b.text);

        end = at + strcspn(at, "\n");
        if (how != CLI_PLAIN)
            pdl_puts(out, cli_tone(how));
        pdl_put(out, at, (size_t)(end - at));
        if (how != CLI_PLAIN)
            pdl_puts(out, cli_tone(CLI_PLAIN));
        pdl_puts(out, "\n");
    }
    pdl_buf_free(&b);
}
