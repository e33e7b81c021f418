/* SPDX-License-Identifier: Apache-2.0
 *
 * Points with names. Rings are the ones that count: large, numbered, joined by
 * a staircase if asked (a front of two goals). A band around x = y shows how
 * near two measures of one thing are. */
#include "report_priv.h"

#include <math.h>
#include <stdio.h>

enum { HEIGHT = 430, TOP = 20, FOOT = 48, LEGEND = 19 };

static void fit(struct report_scatter *c)
{
    double x0 = INFINITY, x1 = 0, y0 = INFINITY, y1 = 0;

    for (int i = 0; i < c->n; i++) {
        x0 = fmin(x0, c->points[i].x);
        x1 = fmax(x1, c->points[i].x);
        y0 = fmin(y0, c->points[i].y);
        y1 = fmax(y1, c->points[i].y);
    }
    if (c->limit > 0) {
        y0 = fmin(y0, c->limit);
        y1 = fmax(y1, c->limit);
    }
    if (c->band > 0) { /* the diagonal is one only on equal axes */
        x0 = y0 = fmin(x0, y0);
        x1 = y1 = fmax(x1, y1);
    }
    report_axis_fit(&c->x, x0, x1);
    report_axis_fit(&c->y, y0, y1);
}

static void corner(struct pdl_sink *out, const struct report_scatter *c,
                   double x, double y)
{
    report_num(out, report_axis_at(&c->x, x));
    pdl_puts(out, ",");
    report_num(out, report_axis_at(&c->y, y));
    pdl_puts(out, " ");
}

static void band(struct pdl_sink *out, const struct report_scatter *c)
{
    double a = c->x.min, b = c->x.max, m = 1 - c->band, p = 1 + c->band;

    pdl_puts(out, "<polygon class=\"band s0\" points=\"");
    corner(out, c, a, a); /* cut at the edges of the plot */
    corner(out, c, a / m, a);
    corner(out, c, b, b * m);
    corner(out, c, b, b);
    corner(out, c, b / p, b);
    corner(out, c, a, a * p);
    pdl_puts(out, "\">");
    report_tip(out, "within %.0f %%", 100 * c->band);
    pdl_puts(out, "</polygon>");
    report_svg_line(out, "axis", report_axis_at(&c->x, a),
                    report_axis_at(&c->y, a), report_axis_at(&c->x, b),
                    report_axis_at(&c->y, b));
    pdl_puts(out, "\n");
}

static void limit(struct pdl_sink *out, const struct report_scatter *c)
{
    double y = report_axis_at(&c->y, c->limit);
    char value[64], text[160];

    pdl_unit_format(c->limit, c->y.unit, value, sizeof value);
    snprintf(text, sizeof text, "%.60s %s", c->limit_name, value);
    report_svg_line(out, "limit", c->x.from, y, c->x.to, y);
    report_svg_text(out, "class=\"b\" text-anchor=\"end\"", c->x.to - 4,
                    y - 6 < c->y.to - 6 ? y + 15 : y - 6, text);
}

/* Is the label of a ring where that of an earlier one is? */
static bool crowded(const struct report_scatter *c, int at)
{
    double x = report_axis_at(&c->x, c->points[at].x);
    double y = report_axis_at(&c->y, c->points[at].y);

    for (int i = 0; i < at; i++)
        if (c->points[i].ring &&
            fabs(report_axis_at(&c->x, c->points[i].x) - x) < 18 &&
            fabs(report_axis_at(&c->y, c->points[i].y) - y) < 14)
            return true;
    return false;
}

static void point(struct pdl_sink *out, const struct report_scatter *c,
                  const struct report_point *p, int number)
{
    double x = report_axis_at(&c->x, p->x), y = report_axis_at(&c->y, p->y);
    char a[64], b[64], text[16];

    pdl_printf(out, "<circle class=\"%s%c\"", p->ring ? "dot big f" : "dot f",
               p->grey ? 'm' : '0' + p->colour % REPORT_COLOURS);
    report_attr(out, "cx", x);
    report_attr(out, "cy", y);
    report_attr(out, "r", p->ring ? 6 : 4);
    pdl_puts(out, ">");
    report_tip(out, "%s: %s, %s", p->name,
               report_axis_text(&c->x, p->x, a, sizeof a),
               report_axis_text(&c->y, p->y, b, sizeof b));
    pdl_puts(out, "</circle>");
    if (number > 0) {
        snprintf(text, sizeof text, "%d", number);
        report_svg_text(out, "", x + 9, y - 6, text);
    }
    pdl_puts(out, "\n");
}

static void stairs(struct pdl_sink *out, const struct report_scatter *c)
{
    double last = 0;
    bool any = false;

    pdl_puts(out, "<polyline class=\"line s0\" points=\"");
    for (int i = 0; i < c->n; i++) {
        if (!c->points[i].ring)
            continue;
        if (any)
            corner(out, c, c->points[i].x, last);
        corner(out, c, c->points[i].x, c->points[i].y);
        last = c->points[i].y;
        any = true;
    }
    pdl_puts(out, "\"/>\n");
}

/* What the colours are: beside the chart, or below it. */
static void legend(struct pdl_sink *out, const struct report_scatter *c,
                   const struct report_frame *f)
{
    double x = f->narrow ? 4 : f->right + 20;
    double y = f->narrow ? f->bottom + FOOT + 8 : f->top + 10;

    for (int i = 0; i < c->nnames; i++, y += LEGEND) {
        pdl_printf(out, "<circle class=\"dot f%d\"", i % REPORT_COLOURS);
        report_attr(out, "cx", x + 6);
        report_attr(out, "cy", y);
        report_attr(out, "r", 5);
        pdl_puts(out, "/>");
        pdl_puts(out, "<text");
        report_attr(out, "x", x + 18);
        report_attr(out, "y", y + 4);
        pdl_puts(out, ">");
        report_short(out, c->names[i], f->narrow ? 48 : 27);
        pdl_puts(out, "</text>");
    }
}

static void table(struct pdl_sink *out, const struct report_scatter *c)
{
    struct report_column columns[] = {
        {"", false}, {c->x.title, true}, {c->y.title, true}};
    struct report_table t;

    report_details(out, "the numbers of this chart");
    report_table_begin(&t, out, columns, 3);
    for (int i = 0; i < c->n; i++) {
        report_cell(&t, "%s", c->points[i].name);
        report_cell_unit(&t, c->points[i].x, c->x.unit);
        report_cell_unit(&t, c->points[i].y, c->y.unit);
    }
    report_table_end(&t);
    report_details_end(out);
}

static void draw(struct pdl_sink *out, struct report_scatter *c, bool narrow)
{
    bool legends = c->nnames > 0;
    struct report_frame f = {.narrow = narrow,
                             .left = report_axes_left(&c->y, narrow),
                             .right = narrow    ? REPORT_NARROW - 24
                                      : legends ? 770
                                                : 940,
                             .top = narrow ? 28 : TOP,
                             .bottom = narrow ? 270 : HEIGHT - FOOT};
    double height = f.bottom + FOOT + (narrow ? LEGEND * c->nnames : 0);
    int number = 0;

    report_svg(out, c->id, "scatter", c->label,
               narrow ? REPORT_NARROW : REPORT_BROAD, (int)height);
    report_axes(out, &c->x, &c->y, &f);
    if (c->band > 0)
        band(out, c);
    if (c->joined)
        stairs(out, c);
    for (int pass = 0; pass < 2; pass++) /* rings on top */
        for (int i = 0; i < c->n; i++)
            if (c->points[i].ring == (pass == 1)) {
                number = pass == 0             ? 0
                         : c->points[i].number ? c->points[i].number
                                               : number + c->joined;
                point(out, c, &c->points[i],
                      number > 0 && !crowded(c, i) ? number : 0);
            }
    if (c->limit > 0)
        limit(out, c);
    legend(out, c, &f);
    report_svg_end(out);
}

void report_scatter(struct pdl_sink *out, struct report_scatter *c)
{
    fit(c);
    draw(out, c, false);
    draw(out, c, true);
    table(out, c);
}
