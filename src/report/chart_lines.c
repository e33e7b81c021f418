/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines with markers, axes and a legend. Eight lines have colours; more are
 * drawn grey behind them, each with its name as tooltip and in the table:
 * nobody can tell twenty colours apart. */
#include "report_priv.h"

#include <math.h>
#include <stdio.h>

enum {
    WIDTH = 1000,
    HEIGHT = 430,
    LEFT = 80,
    RIGHT = 770,
    TOP = 16,
    FOOT = 48
};

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

static void line(struct pdl_sink *out, const char *class, double x1, double y1,
                 double x2, double y2)
{
    pdl_printf(out, "<line class=\"%s\"", class);
    report_attr(out, "x1", x1);
    report_attr(out, "y1", y1);
    report_attr(out, "x2", x2);
    report_attr(out, "y2", y2);
    pdl_puts(out, "/>");
}

static void label(struct pdl_sink *out, double x, double y, const char *anchor,
                  const char *text)
{
    pdl_puts(out, "<text");
    report_attr(out, "x", x);
    report_attr(out, "y", y);
    pdl_printf(out, " text-anchor=\"%s\">", anchor);
    report_text(out, text);
    pdl_puts(out, "</text>");
}

static void axes(struct pdl_sink *out, const struct report_lines *c)
{
    char text[64];

    for (int i = 0; i < c->x.nticks; i++) {
        double x = report_axis_at(&c->x, c->x.ticks[i]);

        line(out, "grid", x, c->y.to, x, c->y.from);
        label(out, x, c->y.from + 17, "middle",
              report_axis_text(&c->x, c->x.ticks[i], text, sizeof text));
    }
    for (int i = 0; i < c->y.nticks; i++) {
        double y = report_axis_at(&c->y, c->y.ticks[i]);

        line(out, "grid", c->x.from, y, c->x.to, y);
        label(out, c->x.from - 8, y + 4, "end",
              report_axis_text(&c->y, c->y.ticks[i], text, sizeof text));
    }
    line(out, "axis", c->x.from, c->y.from, c->x.to, c->y.from);
    line(out, "axis", c->x.from, c->y.from, c->x.from, c->y.to);
    label(out, (c->x.from + c->x.to) / 2, c->y.from + 38, "middle", c->x.title);
    pdl_printf(out,
               "<text class=\"d\" text-anchor=\"middle\" "
               "transform=\"translate(14 %d) rotate(-90)\">",
               (TOP + HEIGHT - FOOT) / 2);
    report_text(out, c->y.title);
    pdl_puts(out, "</text>\n");
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

static double legend(struct pdl_sink *out, const struct report_series *s,
                     const struct style *st, double y)
{
    pdl_puts(out, "<g>");
    pdl_printf(out, "<line class=\"line %s%s\"", st->stroke,
               s->dashed ? " dash" : "");
    report_attr(out, "x1", RIGHT + 24);
    report_attr(out, "x2", RIGHT + 48);
    report_attr(out, "y1", y);
    report_attr(out, "y2", y);
    pdl_puts(out, "/>");
    if (!s->dashed) {
        marker(out, st, RIGHT + 36, y);
        marker_end(out, st);
    }
    pdl_puts(out, is_grey(s) ? "<text class=\"d\"" : "<text");
    report_attr(out, "x", RIGHT + 56);
    report_attr(out, "y", y + 4);
    pdl_puts(out, ">");
    report_short(out, s->name, 26);
    report_tip(out, "%s", s->name);
    pdl_puts(out, "</text></g>\n");
    return y + 19;
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
    c->x.from = LEFT;
    c->x.to = RIGHT;
    c->y.from = HEIGHT - FOOT;
    c->y.to = TOP;
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
static void draw_all(struct pdl_sink *out, const struct report_lines *c)
{
    double y = TOP + 8;

    for (int pass = 0; pass < 4; pass++) {
        bool grey = pass == 0 || pass == 3;

        for (int i = 0; i < c->nseries; i++) {
            struct style st = style_of(&c->series[i]);

            if (is_grey(&c->series[i]) != grey)
                continue;
            if (pass < 2)
                draw(out, c, &c->series[i], &st);
            else if (y < HEIGHT)
                y = legend(out, &c->series[i], &st, y);
        }
    }
}

void report_lines(struct pdl_sink *out, struct report_lines *c)
{
    fit(c);
    report_svg(out, c->id, "lines", c->label, WIDTH, HEIGHT);
    axes(out, c);
    draw_all(out, c);
    report_svg_end(out);
    table(out, c);
}
