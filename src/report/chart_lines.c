/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines with markers, axes and a legend. Eight lines have colours; more are
 * drawn grey behind them, each with its name as tooltip and in the table:
 * nobody can tell twenty colours apart. */
#include "report_priv.h"

#include <math.h>
#include <stdio.h>

enum { HEIGHT = 430, TOP = 16, FOOT = 48, ENTRY = 19 };

struct style {
    char stroke[4], fill[4];
    int marker;
};

static bool is_grey(const struct report_series *s)
{
    return s->colour >= REPORT_COLOURS;
}

static struct style style_of(const struct report_series *s)
{
    struct style st = {"sm", "fm", 0};

    if (!is_grey(s)) {
        snprintf(st.stroke, sizeof st.stroke, "s%d", s->colour & 7);
        snprintf(st.fill, sizeof st.fill, "f%d", s->colour & 7);
        st.marker = s->colour % 4;
    }
    return st;
}

static void marker(struct pdl_sink *out, const struct style *st, double x,
                   double y)
{
    static const double shapes[][8] = {
        {0, 0, 0, 0, 0, 0, 0, 0},          /* circle */
        {-4, -4, 4, -4, 4, 4, -4, 4},      /* square */
        {0, -5, 4.5, 4, -4.5, 4, 0, -5},   /* triangle */
        {0, -5.5, 5.5, 0, 0, 5.5, -5.5, 0} /* diamond */
    };

    if (st->marker == 0) {
        pdl_printf(out, "<circle class=\"%s\"", st->fill);
        report_attr(out, "cx", x);
        report_attr(out, "cy", y);
        report_attr(out, "r", st->fill[1] == 'm' ? 2.5 : 4.5);
        pdl_puts(out, ">");
        return;
    }
    pdl_printf(out, "<polygon class=\"%s\" points=\"", st->fill);
    for (int i = 0; i < 8; i += 2) {
        report_num(out, x + shapes[st->marker][i]);
        pdl_puts(out, ",");
        report_num(out, y + shapes[st->marker][i + 1]);
        pdl_puts(out, i < 6 ? " " : "\">");
    }
}

static void marker_end(struct pdl_sink *out, const struct style *st)
{
    pdl_puts(out, st->marker == 0 ? "</circle>" : "</polygon>");
}

static void corner(struct pdl_sink *out, const struct report_lines *c, double x,
                   double y)
{
    report_num(out, report_axis_at(&c->x, x));
    pdl_puts(out, ",");
    report_num(out, report_axis_at(&c->y, y));
    pdl_puts(out, " ");
}

static void band(struct pdl_sink *out, const struct report_lines *c,
                 const struct report_series *s, const struct style *st)
{
    pdl_printf(out, "<polygon class=\"band %s\" points=\"", st->stroke);
    for (int i = 0; i < s->n; i++)
        corner(out, c, s->x[i], s->low[i]);
    for (int i = s->n - 1; i >= 0; i--)
        corner(out, c, s->x[i], s->high[i]);
    pdl_puts(out, "\">");
    report_tip(out, "%s: 80 %% interval", s->name);
    pdl_puts(out, "</polygon>\n");
}

static void draw(struct pdl_sink *out, const struct report_lines *c,
                 const struct report_series *s, const struct style *st)
{
    char x[64], y[64];

    if (s->low && s->high)
        band(out, c, s, st);
    pdl_printf(out, "<g><polyline class=\"line %s%s\" points=\"", st->stroke,
               s->dashed ? " dash" : "");
    for (int i = 0; i < s->n; i++) {
        pdl_puts(out, i ? " " : "");
        report_num(out, report_axis_at(&c->x, s->x[i]));
        pdl_puts(out, ",");
        report_num(out, report_axis_at(&c->y, s->y[i]));
    }
    pdl_puts(out, "\">");
    report_tip(out, "%s", s->name);
    pdl_puts(out, "</polyline>");
    for (int i = 0; i < s->n && s->n <= 64 && !s->dashed; i++) {
        marker(out, st, report_axis_at(&c->x, s->x[i]),
               report_axis_at(&c->y, s->y[i]));
        report_tip(out, "%s: %s at %s", s->name,
                   report_axis_text(&c->y, s->y[i], y, sizeof y),
                   report_axis_text(&c->x, s->x[i], x, sizeof x));
        marker_end(out, st);
    }
    pdl_puts(out, "</g>\n");
}

/* Entry `at` of the legend: beside the chart, or two a row below it. */
static void legend(struct pdl_sink *out, const struct report_series *s,
                   const struct style *st, const struct report_frame *f, int at)
{
    int row = f->narrow ? at / 2 : at;
    double x = f->narrow ? 2 + (at % 2) * 180.0 : f->right + 24;
    double y = f->narrow ? f->bottom + FOOT + 10 : f->top + 8;

    y += row * (double)ENTRY;
    pdl_puts(out, "<g>");
    pdl_printf(out, "<line class=\"line %s%s\"", st->stroke,
               s->dashed ? " dash" : "");
    report_attr(out, "x1", x);
    report_attr(out, "x2", x + 24);
    report_attr(out, "y1", y);
    report_attr(out, "y2", y);
    pdl_puts(out, "/>");
    if (!s->dashed) {
        marker(out, st, x + 12, y);
        marker_end(out, st);
    }
    pdl_puts(out, is_grey(s) ? "<text class=\"d\"" : "<text");
    report_attr(out, "x", x + 30);
    report_attr(out, "y", y + 4);
    pdl_puts(out, ">");
    report_short(out, s->name, f->narrow ? 20 : 26);
    report_tip(out, "%s", s->name);
    pdl_puts(out, "</text></g>\n");
}

static void fit(struct report_lines *c)
{
    double x0 = INFINITY, x1 = 0, y0 = INFINITY, y1 = 0;

    for (int i = 0; i < c->nseries; i++)
        for (int k = 0; k < c->series[i].n; k++) {
            x0 = fmin(x0, c->series[i].x[k]);
            x1 = fmax(x1, c->series[i].x[k]);
            y0 = fmin(y0, c->series[i].y[k]);
            y1 = fmax(y1, c->series[i].y[k]);
            if (c->series[i].low)
                y0 = fmin(y0, c->series[i].low[k]);
            if (c->series[i].high)
                y1 = fmax(y1, c->series[i].high[k]);
        }
    report_axis_fit(&c->x, x0, x1);
    report_axis_fit(&c->y, y0, y1);
}

static void table(struct pdl_sink *out, const struct report_lines *c)
{
    struct report_column columns[] = {{"line", false},
                                      {c->x.title, true},
                                      {c->y.title, true},
                                      {"from", true},
                                      {"to", true}};
    struct report_table t;
    char text[64];
    int n = 3;

    for (int i = 0; i < c->nseries; i++)
        n = c->series[i].low ? 5 : n;
    report_details(out, "the numbers of this chart");
    report_table_begin(&t, out, columns, n);
    for (int i = 0; i < c->nseries; i++)
        for (int k = 0; k < c->series[i].n; k++) {
            const struct report_series *s = &c->series[i];

            report_cell(&t, "%s", s->name);
            report_cell(&t, "%s",
                        report_axis_text(&c->x, s->x[k], text, sizeof text));
            report_cell_unit(&t, s->y[k], c->y.unit);
            if (n == 5 && s->low) {
                report_cell_unit(&t, s->low[k], c->y.unit);
                report_cell_unit(&t, s->high[k], c->y.unit);
            } else if (n == 5) {
                report_cell(&t, " ");
                report_cell(&t, " ");
            }
        }
    report_table_end(&t);
    report_details_end(out);
}

/* Grey lines lie behind the others and come last in the legend. */
static void draw_all(struct pdl_sink *out, const struct report_lines *c,
                     const struct report_frame *f)
{
    int at = 0;

    for (int pass = 0; pass < 4; pass++) {
        bool grey = pass == 0 || pass == 3;

        for (int i = 0; i < c->nseries; i++) {
            struct style st = style_of(&c->series[i]);

            if (is_grey(&c->series[i]) != grey)
                continue;
            if (pass < 2)
                draw(out, c, &c->series[i], &st);
            else if (f->narrow || f->top + 8 + at * ENTRY < HEIGHT)
                legend(out, &c->series[i], &st, f, at++);
        }
    }
}

static void draw_for(struct pdl_sink *out, struct report_lines *c, bool narrow)
{
    struct report_frame f = {.narrow = narrow,
                             .left = report_axes_left(&c->y, narrow),
                             .right = narrow ? REPORT_NARROW - 24 : 770,
                             .top = narrow ? 28 : TOP,
                             .bottom = narrow ? 270 : HEIGHT - FOOT};
    double height =
        f.bottom + FOOT + (narrow ? ENTRY * ((c->nseries + 1) / 2) : 0);

    report_svg(out, c->id, "lines", c->label,
               narrow ? REPORT_NARROW : REPORT_BROAD, (int)height);
    report_axes(out, &c->x, &c->y, &f);
    draw_all(out, c, &f);
    report_svg_end(out);
}

void report_lines(struct pdl_sink *out, struct report_lines *c)
{
    fit(c);
    draw_for(out, c, false);
    draw_for(out, c, true);
    table(out, c);
}
