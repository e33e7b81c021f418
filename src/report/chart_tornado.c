/* SPDX-License-Identifier: Apache-2.0
 *
 * A tornado: how much shorter the result is with a little more of each input,
 * the strongest on top. Bars grow to the left from what it is today. */
#include "report_priv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { TOP = 34, ROW = 28, FOOT = 30 };

static int by_value(const void *pa, const void *pb)
{
    const struct report_effect *a = pa, *b = pb;

    return (a->value > b->value) - (a->value < b->value);
}

static double less(const struct report_tornado *c, int i)
{
    return c->today > 0 ? 1 - c->effects[i].value / c->today : 0;
}

/* How much shorter, and what it is then; parts of a hundredth of a percent
 * are not worth their digits. */
static bool say(const struct report_tornado *c, int i, char *text, size_t size)
{
    double percent = 100 * fmax(less(c, i), 0);
    char value[64];

    pdl_unit_format(c->effects[i].value, c->unit, value, sizeof value);
    if (percent < 0.005)
        snprintf(text, size, "no change");
    else if (percent < 0.1)
        snprintf(text, size, "\xe2\x88\x92%.2f %% \xc2\xb7 %s", percent, value);
    else
        snprintf(text, size, "\xe2\x88\x92%.2g %% \xc2\xb7 %s", percent, value);
    return percent >= 0.005;
}

static void row(struct pdl_sink *out, const struct report_tornado *c, int i,
                double most, const struct report_frame *f)
{
    double high = f->narrow ? ROW + 12 : ROW, y = f->top + high * i;
    double width =
        most > 0 ? fmax(less(c, i), 0) / most * (f->right - f->left) : 0;
    double line = f->narrow ? y + 12 : y + ROW / 2.0 + 4;
    char text[160];
    bool some = say(c, i, text, sizeof text);

    report_svg_text(out, f->narrow ? "" : "text-anchor=\"end\"",
                    f->narrow ? 2 : f->left - 28, line, c->effects[i].name);
    if (width >= 0.05) {
        report_svg_rect(out, "part f0", f->right - width,
                        f->narrow ? y + 18 : y + 4, width, ROW - 10);
        report_tip(
            out, "%s: %s", c->effects[i].name,
            pdl_unit_format(c->effects[i].value, c->unit, (char[64]){0}, 64));
        pdl_puts(out, "</rect>");
    }
    report_svg_text(out,
                    f->narrow && some ? "text-anchor=\"end\""
                    : f->narrow       ? "class=\"d\" text-anchor=\"end\""
                    : some            ? ""
                                      : "class=\"d\"",
                    f->narrow ? f->right : f->right + 10, line, text);
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

static void draw(struct pdl_sink *out, const struct report_tornado *c,
                 double most, bool narrow)
{
    struct report_frame f = {.narrow = narrow,
                             .left = narrow ? 2 : 220,
                             .right = narrow ? REPORT_NARROW - 2 : 860,
                             .top = TOP};
    char value[64], text[160];

    f.bottom = TOP + (double)(narrow ? ROW + 12 : ROW) * c->n;
    report_svg(out, c->id, "tornado", c->label,
               narrow ? REPORT_NARROW : REPORT_BROAD, (int)f.bottom + FOOT);
    pdl_unit_format(c->today, c->unit, value, sizeof value);
    snprintf(text, sizeof text, "today %s", value);
    report_svg_text(out,
                    narrow ? "text-anchor=\"end\"" : "text-anchor=\"middle\"",
                    f.right, TOP - 14, text);
    snprintf(text, sizeof text, "\xe2\x86\x90 %s",
             c->less ? c->less : "shorter");
    report_svg_text(out, "class=\"d\"", f.left, TOP - 14, text);
    for (int i = 0; i < c->n; i++)
        row(out, c, i, most, &f);
    report_svg_line(out, "axis", f.right, TOP - 6, f.right, f.bottom + 4);
    report_svg_text(out, "class=\"d\" text-anchor=\"middle\"",
                    (f.left + f.right) / 2, f.bottom + 22, c->title);
    report_svg_end(out);
}

void report_tornado(struct pdl_sink *out, const struct report_tornado *c)
{
    double most = 0;

    qsort(c->effects, (size_t)c->n, sizeof *c->effects, by_value);
    for (int i = 0; i < c->n; i++)
        most = fmax(most, less(c, i));
    draw(out, c, most, false);
    draw(out, c, most, true);
    table(out, c);
}
