/* SPDX-License-Identifier: Apache-2.0
 *
 * The ranked plans as a table. Where the terminal is too narrow for the
 * strategies, each stands in full on a line below its numbers: cut in the
 * middle, ten of them would look alike. */
#include "projection.h"

#include <string.h>

static const char *seconds(double v, char *buf)
{
    return v > 0 ? pdl_unit_format(v, PDL_UNIT_SECONDS, buf, 32) : "-";
}

static void add_row(struct pdl_table *t, const struct pdl_found *f, bool best,
                    bool strategy)
{
    const struct pdl_projection *x = &f->x;
    char buf[32];

    pdl_table_cell(t, "%s", !x->feasible ? "x" : best ? "*" : "");
    if (strategy)
        pdl_table_cell(t, "%s", f->strategy);
    pdl_table_cell(t, "%s", seconds(x->step_s, buf));
    pdl_table_cell(t, "%s", seconds(x->compute_s, buf));
    pdl_table_cell(t, "%s", seconds(x->exposed_comm_s, buf));
    pdl_table_cell(t, "%s", seconds(x->bubble_s, buf));
    pdl_table_cell(t, "%s",
                   pdl_unit_format((double)x->peak_bytes, PDL_UNIT_BYTES, buf,
                                   sizeof buf));
    pdl_table_cell(t,
                   x->samples_per_s < 10    ? "%.2f"
                   : x->samples_per_s < 100 ? "%.1f"
                                            : "%.0f",
                   x->samples_per_s);
}

/* A strategy in lines that the terminal holds, broken after commas. */
static void put_strategy(const char *s)
{
    enum { INDENT = 5 };
    size_t room = cli_width() > 2 * INDENT ? (size_t)cli_width() - INDENT : 75;

    while (*s) {
        size_t n = strlen(s);

        if (n > room) {
            n = room;
            while (n > 1 && s[n - 1] != ',')
                n--;
            n = n > 1 ? n : room;
        }
        pdl_printf(cli_out(), "%*s%.*s\n", INDENT, "", (int)n, s);
        s += n;
    }
}

/* The lines of the table, a strategy after each but the heading. */
static void interleave(const struct pdl_buf *b, const struct pdl_found *list,
                       int show)
{
    const char *line = b->text;

    for (int i = -1; line && *line && i < show; i++) {
        size_t n = strcspn(line, "\n");

        pdl_put(cli_out(), line, n);
        pdl_puts(cli_out(), "\n");
        if (i >= 0)
            put_strategy(list[i].strategy);
        line += n + (line[n] == '\n');
    }
}

void cli_plans_text(pdl_arena *a, const struct pdl_found *list, int show)
{
    enum { NUMBERS = 58 }; /* columns that these take at most */
    static const struct pdl_column columns[] = {
        {"", false},       {"STRATEGY", false}, {"STEP", true},
        {"COMPUTE", true}, {"EXPOSED", true},   {"BUBBLE", true},
        {"MEMORY", true},  {"SAMPLES/S", true},
    };
    struct pdl_column narrow[7] = {columns[0]};
    bool wide = true;
    struct pdl_table t;
    struct pdl_buf b;

    memcpy(narrow + 1, columns + 2, 6 * sizeof *narrow);
    for (int i = 0; i < show && cli_width() > 0; i++)
        if (NUMBERS + pdl_text_width(list[i].strategy) > cli_width())
            wide = false;
    pdl_table_init(&t, a, wide ? columns : narrow, wide ? 8 : 7);
    for (int i = 0; i < show; i++)
        add_row(&t, &list[i], i == 0, wide);
    if (wide) {
        pdl_table_print(&t, cli_width(), cli_out());
        return;
    }
    pdl_buf_init(&b);
    pdl_table_print(&t, cli_width(), &b.sink);
    interleave(&b, list, show);
    pdl_buf_free(&b);
}
