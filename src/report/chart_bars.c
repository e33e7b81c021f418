/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacked bars, one a row, with the total beside each and a line for a limit.
 * A few hopeless bars would make the good ones too short to read, so bars may
 * be broken off; the number beside them is always the whole. */
#include "report_priv.h"

#include <math.h>
#include <stdio.h>

enum {
    WIDTH = 1000,
    LEFT = 230,
    NEAR = 12, /* LEFT where labels stand above their bars */
    RIGHT = 740,
    ROW = 24,
    LEGEND = 30,
    FOOT = 46,
    LABEL = 32, /* characters */
    ABOVE = 110,
    NOTE = 26,
};

/* Long labels get a line of their own. */
static bool above(const struct report_bars *c)
{
    for (int i = 0; i < c->nbars; i++)
        if (pdl_text_width(c->bars[i].label) > LABEL)
            return true;
    return false;
}

static double row_height(const struct report_bars *c)
{
    return above(c) ? 2 * ROW - 6 : ROW;
}

static double total(const struct report_bars *c, const struct report_bar *b)
{
    double sum = 0;

    for (int i = 0; i < c->nparts; i++)
        sum += b->parts[i] > 0 ? b->parts[i] : 0;
    return sum;
}

static void rect(struct pdl_sink *out, const char *class, int part, double x,
                 double y, double w, double h)
{
    pdl_printf(out, "<rect class=\"%s f%d\"", class, part % REPORT_COLOURS);
    report_attr(out, "x", x);
    report_attr(out, "y", y);
    report_attr(out, "width", fmax(w, 0));
    report_attr(out, "height", h);
    pdl_puts(out, ">");
}

static void text_at(struct pdl_sink *out, const char *attrs, double x, double y)
{
    pdl_puts(out, "<text");
    report_attr(out, "x", x);
    report_attr(out, "y", y);
    pdl_printf(out, "%s>", attrs);
}

static void legend(struct pdl_sink *out, const struct report_bars *c)
{
    double x = above(c) ? NEAR : LEFT;

    for (int i = 0; i < c->nparts && c->nparts > 1; i++) {
        rect(out, "key", i, x, 6, 12, 12);
        pdl_puts(out, "</rect>");
        text_at(out, "", x + 17, 16);
        report_text(out, c->parts[i]);
        pdl_puts(out, "</text>");
        x += 32 + 6.9 * pdl_text_width(c->parts[i]);
    }
    pdl_puts(out, "\n");
}

static void grid(struct pdl_sink *out, const struct report_bars *c,
                 const struct report_axis *ax, double bottom)
{
    char text[64];

    for (int i = 0; i < ax->nticks; i++) {
        double x = report_axis_at(ax, ax->ticks[i]);

        pdl_puts(out, "<line class=\"grid\"");
        report_attr(out, "x1", x);
        report_attr(out, "x2", x);
        report_attr(out, "y1", LEGEND);
        report_attr(out, "y2", bottom);
        pdl_puts(out, "/>");
        text_at(out, " text-anchor=\"middle\"", x, bottom + 16);
        report_text(out, report_axis_text(ax, ax->ticks[i], text, sizeof text));
        pdl_puts(out, "</text>");
    }
    text_at(out, " class=\"d\" text-anchor=\"middle\"",
            (ax->from + ax->to) / 2.0, bottom + 36);
    report_text(out, c->title);
    pdl_puts(out, "</text>\n");
}

static void parts(struct pdl_sink *out, const struct report_bars *c,
                  const struct report_bar *b, const struct report_axis *ax,
                  double y)
{
    double sum = 0;
    char text[64];

    for (int i = 0; i < c->nparts; i++) {
        double v = b->parts[i] > 0 ? b->parts[i] : 0;
        double from = fmin(report_axis_at(ax, sum), ax->to);
        double to = fmin(report_axis_at(ax, sum + v), ax->to);

        sum += v;
        if (v <= 0 || to <= from)
            continue;
        rect(out, b->grey ? "part grey" : "part", i, from, y + 3, to - from,
             ROW - 6);
        report_tip(out, "%s: %s %s", b->label, c->parts[i],
                   pdl_unit_format(v, c->unit, text, sizeof text));
        pdl_puts(out, "</rect>");
    }
}

/* Two slanted strokes where a bar is broken off. */
static void broken(struct pdl_sink *out, double x, double y)
{
    pdl_puts(out, "<path class=\"cut\" d=\"M");
    report_num(out, x - 16);
    pdl_puts(out, " ");
    report_num(out, y + ROW - 1);
    pdl_printf(out, "l6 -%d\"/>", ROW - 2);
}

static void label(struct pdl_sink *out, const struct report_bar *b, bool over,
                  double y)
{
    const char *anchor = over ? "" : " text-anchor=\"end\"";
    char attrs[64];

    snprintf(attrs, sizeof attrs, "%s%s", b->grey ? " class=\"d\"" : "",
             anchor);
    text_at(out, attrs, over ? NEAR : LEFT - 8,
            over ? y + ROW / 2.0 + 2 : y + ROW / 2.0 + 4);
    report_short(out, b->label, over ? ABOVE : LABEL);
    report_tip(out, "%s", b->label);
    pdl_puts(out, "</text>");
}

/* Where the bar lies in its row. */
static double lower(const struct report_bars *c, double y)
{
    return above(c) ? y + ROW - 6 : y;
}

static void bar(struct pdl_sink *out, const struct report_bars *c,
                const struct report_bar *b, const struct report_axis *ax,
                double y)
{
    double sum = total(c, b), end = fmin(report_axis_at(ax, sum), ax->to);

    parts(out, c, b, ax, lower(c, y));
    if (sum > ax->max)
        broken(out, end, lower(c, y));
    pdl_puts(out, "\n");
}

static void words(struct pdl_sink *out, const struct report_bars *c,
                  const struct report_bar *b, const struct report_axis *ax,
                  double y)
{
    double sum = total(c, b), end = fmin(report_axis_at(ax, sum), ax->to);
    char text[64];

    label(out, b, above(c), y);
    text_at(out, b->grey ? " class=\"d\"" : "", end + 6,
            lower(c, y) + ROW / 2.0 + 4);
    report_text(out, pdl_unit_format(sum, c->unit, text, sizeof text));
    if (b->note) {
        pdl_puts(out, " \xc2\xb7 ");
        report_short(out, b->note, NOTE);
        report_tip(out, "%s", b->note);
    }
    pdl_puts(out, "</text>\n");
}

static void limit(struct pdl_sink *out, const struct report_bars *c,
                  const struct report_axis *ax, double bottom)
{
    double x = report_axis_at(ax, c->limit);
    char text[64];

    pdl_puts(out, "<g><line class=\"limit\"");
    report_attr(out, "x1", x);
    report_attr(out, "x2", x);
    report_attr(out, "y1", LEGEND - 4);
    report_attr(out, "y2", bottom);
    pdl_puts(out, ">");
    report_tip(out, "%s %s", c->limit_name,
               pdl_unit_format(c->limit, c->unit, text, sizeof text));
    pdl_puts(out, "</line>");
    text_at(out, " class=\"d\" text-anchor=\"end\"", WIDTH - 4, 16);
    pdl_puts(out, "- - ");
    report_text(out, c->limit_name);
    pdl_puts(out, " ");
    report_text(out, pdl_unit_format(c->limit, c->unit, text, sizeof text));
    pdl_puts(out, "</text></g>\n");
}

static void table(struct pdl_sink *out, const struct report_bars *c)
{
    struct report_column columns[REPORT_MAX_PARTS + 3];
    struct report_table t;
    int n = 0;

    columns[n++] = (struct report_column){"", false};
    for (int i = 0; i < c->nparts; i++)
        columns[n++] = (struct report_column){c->parts[i], true};
    if (c->nparts > 1)
        columns[n++] = (struct report_column){"total", true};
    columns[n++] = (struct report_column){"note", false};
    report_details(out, "the numbers of this chart");
    report_table_begin(&t, out, columns, n);
    for (int i = 0; i < c->nbars; i++) {
        report_cell(&t, "%s", c->bars[i].label);
        for (int k = 0; k < c->nparts; k++)
            report_cell_unit(&t, c->bars[i].parts[k], c->unit);
        if (c->nparts > 1)
            report_cell_unit(&t, total(c, &c->bars[i]), c->unit);
        report_cell(&t, "%s", c->bars[i].note ? c->bars[i].note : "");
    }
    report_table_end(&t);
    report_details_end(out);
}

void report_bars(struct pdl_sink *out, const struct report_bars *c)
{
    struct report_axis ax = {
        .unit = c->unit, .from = above(c) ? NEAR : LEFT, .to = RIGHT};
    double row = row_height(c), bottom = LEGEND + row * c->nbars + 4;
    double max = c->limit;

    for (int i = 0; i < c->nbars; i++)
        max = fmax(max, total(c, &c->bars[i]));
    if (c->cut > 0 && max > c->cut)
        max = c->cut;
    report_axis_fit(&ax, 0, max);
    report_svg(out, c->id, "bars", c->label, WIDTH, (int)bottom + FOOT);
    legend(out, c);
    grid(out, c, &ax, bottom);
    for (int i = 0; i < c->nbars; i++)
        bar(out, c, &c->bars[i], &ax, LEGEND + 2 + row * i);
    if (c->limit > 0)
        limit(out, c, &ax, bottom);
    for (int i = 0; i < c->nbars; i++)
        words(out, c, &c->bars[i], &ax, LEGEND + 2 + row * i);
    report_svg_end(out);
    table(out, c);
}
