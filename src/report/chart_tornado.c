/* SPDX-License-Identifier: Apache-2.0
 *
 * A tornado: how much shorter the result is with a little more of each input,
 * the strongest on top. Bars grow to the left from what it is today. */
#include "report_priv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { WIDTH = 1000, LEFT = 200, RIGHT = 760, TOP = 34, ROW = 28, FOOT = 30 };

static int by_value(const void *pa, const void *pb)
{
    const struct report_effect *a = pa, *b = pb;

    return (a->value > b->value) - (a->value < b->value);
}

static double less(const struct report_tornado *c, int i)
{
    return c->today > 0 ? 1 - c->effects[i].value / c->today : 0;
}

static void row(struct pdl_sink *out, const struct report_tornado *c, int i,
                double most)
{
    double part = fmax(less(c, i), 0), y = TOP + (double)ROW * i;
    double width = most > 0 ? part / most * (RIGHT - LEFT - 20) : 0;
    char value[64], text[160];

    pdl_unit_format(c->effects[i].value, c->unit, value, sizeof value);
    report_svg_text(out, "text-anchor=\"end\"", LEFT - 8, y + ROW / 2.0 + 4,
                    c->effects[i].name);
    report_svg_rect(out, "part f0", RIGHT - width, y + 4, width, ROW - 8);
    report_tip(out, "%s: %s", c->effects[i].name, value);
    pdl_puts(out, "</rect>");
    snprintf(text, sizeof text,
             part < 0.00005 ? "no change" : "\xe2\x88\x92%.2g %% \xc2\xb7 %s",
             100 * part, value);
    report_svg_text(out, part < 0.00005 ? "class=\"d\"" : "", RIGHT + 10,
                    y + ROW / 2.0 + 4, text);
    pdl_puts(out, "\n");
}

static void table(struct pdl_sink *out, const struct report_tornado *c)
{
    static const struct report_column columns[] = {
        {"10 % more of", false}, {"then", true}, {"less", true}};
    struct report_table t;

    report_details(out, "the numbers of this chart");
    report_table_begin(&t, out, columns, 3);
    for (int i = 0; i < c->n; i++) {
        report_cell(&t, "%s", c->effects[i].name);
        report_cell_unit(&t, c->effects[i].value, c->unit);
        report_cell(&t, "%.2f %%", 100 * less(c, i));
    }
    report_table_end(&t);
    report_details_end(out);
}

void report_tornado(struct pdl_sink *out, const struct report_tornado *c)
{
    double bottom = TOP + (double)ROW * c->n, most = 0;
    char value[64], text[160];

    qsort(c->effects, (size_t)c->n, sizeof *c->effects, by_value);
    for (int i = 0; i < c->n; i++)
        most = fmax(most, less(c, i));
    report_svg(out, c->id, "tornado", c->label, WIDTH, (int)bottom + FOOT);
    pdl_unit_format(c->today, c->unit, value, sizeof value);
    snprintf(text, sizeof text, "today %s", value);
    report_svg_line(out, "axis", RIGHT, TOP - 6, RIGHT, bottom + 4);
    report_svg_text(out, "text-anchor=\"middle\"", RIGHT, TOP - 14, text);
    report_svg_text(out, "class=\"d\"", LEFT, TOP - 14, "\xe2\x86\x90 shorter");
    for (int i = 0; i < c->n; i++)
        row(out, c, i, most);
    report_svg_text(out, "class=\"d\" text-anchor=\"middle\"",
                    (LEFT + RIGHT) / 2.0, bottom + 22, c->title);
    report_svg_end(out);
    table(out, c);
}
