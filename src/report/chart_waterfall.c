/* SPDX-License-Identifier: Apache-2.0
 *
 * A waterfall: every part begins where the one before it ends, the last row
 * is the whole, and a line shows what there is room for. Parts of nothing are
 * left out. */
#include "report_priv.h"

#include <math.h>
#include <stdio.h>

enum {
    WIDTH = 1000,
    LEFT = 180,
    RIGHT = 800,
    TOP = 30,
    ROW = 30,
    FOOT = 46,
    MOST = 32,
};

static void axis(struct pdl_sink *out, const struct report_waterfall *c,
                 const struct report_axis *ax, double bottom)
{
    char text[64];

    for (int i = 0; i < ax->nticks; i++) {
        double x = report_axis_at(ax, ax->ticks[i]);

        report_svg_line(out, "grid", x, TOP, x, bottom);
        report_svg_text(out, "text-anchor=\"middle\"", x, bottom + 16,
                        report_axis_text(ax, ax->ticks[i], text, sizeof text));
    }
    report_svg_text(out, "class=\"d\" text-anchor=\"middle\"",
                    (LEFT + RIGHT) / 2.0, bottom + 36, c->title);
}

static void limit(struct pdl_sink *out, const struct report_waterfall *c,
                  const struct report_axis *ax, double bottom)
{
    double x = report_axis_at(ax, c->limit);
    char value[64], text[160];

    pdl_unit_format(c->limit, c->unit, value, sizeof value);
    snprintf(text, sizeof text, "%.80s %s", c->limit_name, value);
    report_svg_line(out, "limit", x, TOP - 8, x, bottom);
    report_svg_text(
        out,
        x > WIDTH / 2.0 ? "class=\"b\" text-anchor=\"end\"" : "class=\"b\"",
        x > WIDTH / 2.0 ? x + 4 : x - 4, TOP - 14, text);
}

struct step {
    const char *name;
    int colour;
    double from, value;
};

static void box(struct pdl_sink *out, const struct report_waterfall *c,
                const struct report_axis *ax, const struct step *s, double y)
{
    double a = report_axis_at(ax, s->from);
    double b = report_axis_at(ax, s->from + s->value);
    char class[16], text[64];

    snprintf(class, sizeof class, "part f%d", s->colour % REPORT_COLOURS);
    report_svg_rect(out, class, a, y + 5, fmax(b - a, 1.5), ROW - 10);
    report_tip(out, "%s: %s", s->name,
               pdl_unit_format(s->value, c->unit, text, sizeof text));
    pdl_puts(out, "</rect>\n");
}

static void words(struct pdl_sink *out, const struct report_waterfall *c,
                  const struct report_axis *ax, const struct step *s, double y)
{
    char text[64];

    report_svg_text(out, "text-anchor=\"end\"", LEFT - 8, y + ROW / 2.0 + 4,
                    s->name);
    report_svg_text(out, "", report_axis_at(ax, s->from + s->value) + 6,
                    y + ROW / 2.0 + 4,
                    pdl_unit_format(s->value, c->unit, text, sizeof text));
    pdl_puts(out, "\n");
}

static void table(struct pdl_sink *out, const struct report_waterfall *c,
                  double total)
{
    static const struct report_column columns[] = {
        {"part", false}, {"size", true}, {"share", true}};
    struct report_table t;

    report_details(out, "the numbers of this chart");
    report_table_begin(&t, out, columns, 3);
    for (int i = 0; i < c->n; i++) {
        report_cell(&t, "%s", c->names[i]);
        report_cell_unit(&t, c->values[i], c->unit);
        report_cell(&t, "%.1f %%", total > 0 ? 100 * c->values[i] / total : 0);
    }
    report_cell(&t, "total");
    report_cell_unit(&t, total, c->unit);
    report_cell(&t, "100 %%");
    if (c->limit > 0) {
        report_cell(&t, "%s", c->limit_name);
        report_cell_unit(&t, c->limit, c->unit);
        report_cell(&t, "%.1f %%", total > 0 ? 100 * c->limit / total : 0);
    }
    report_table_end(&t);
    report_details_end(out);
}

/* Parts of nothing are left out; the whole comes last. */
static int make_steps(const struct report_waterfall *c, struct step *steps)
{
    double sum = 0;
    int n = 0;

    for (int i = 0; i < c->n && n < MOST; i++)
        if (c->values[i] > 0) {
            steps[n++] = (struct step){c->names[i], i, sum, c->values[i]};
            sum += c->values[i];
        }
    steps[n++] = (struct step){"total", REPORT_COLOURS - 1, 0, sum};
    return n;
}

void report_waterfall(struct pdl_sink *out, const struct report_waterfall *c)
{
    struct report_axis ax = {.unit = c->unit, .from = LEFT, .to = RIGHT};
    struct step steps[MOST + 1];
    int n = make_steps(c, steps);
    double total = steps[n - 1].value, bottom = TOP + (double)n * ROW + 4;

    report_axis_fit(&ax, 0, fmax(total, c->limit));
    report_svg(out, c->id, "waterfall", c->label, WIDTH, (int)bottom + FOOT);
    axis(out, c, &ax, bottom);
    for (int i = 0; i < n; i++)
        box(out, c, &ax, &steps[i], TOP + (double)i * ROW);
    if (c->limit > 0)
        limit(out, c, &ax, bottom);
    for (int i = 0; i < n; i++)
        words(out, c, &ax, &steps[i], TOP + (double)i * ROW);
    report_svg_end(out);
    table(out, c, total);
}
