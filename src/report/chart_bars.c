/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacked bars, one a row, with the total beside each and a line for a limit.
 * A few hopeless bars would make the good ones too short to read, so bars may
 * be broken off; the number beside them is always the whole. */
#include "report_priv.h"

#include <math.h>
#include <stdio.h>

enum {
    ROW = 24,
    FOOT = 46,
    KEYS = 20,   /* a line of the legend */
    LABEL = 32,  /* characters beside a bar at a desk */
    NEARBY = 12, /* and on a phone */
    NOTE = 26,
};

/* How a chart is laid out: long labels stand above their bars, on as many
 * lines as they need; on a phone notes do too. */
struct layout {
    struct report_frame f;
    bool above;
    int columns; /* of labels above */
};

static struct layout layout_of(const struct report_bars *c, bool narrow)
{
    struct layout l = {.f.narrow = narrow};
    bool notes = false;
    int most = 0;

    for (int i = 0; i < c->nbars; i++) {
        int n = pdl_text_width(c->bars[i].label);

        most = n > most ? n : most;
        notes = notes || c->bars[i].note;
    }
    l.above = most > (narrow ? NEARBY : LABEL);
    l.columns = narrow ? 50 : 110;
    l.f.left = l.above ? (narrow ? 2 : 12) : 20 + report_width(most);
    l.f.right = narrow ? REPORT_NARROW - 70 : notes ? 740 : 900;
    return l;
}

/* Lines of text above a bar. */
static int lines_over(const struct layout *l, const struct report_bar *b)
{
    int n =
        l->above ? report_svg_lines(NULL, "", 0, 0, b->label, l->columns) : 0;

    if (l->f.narrow && b->note)
        n += report_svg_lines(NULL, "", 0, 0, b->note, l->columns);
    return n;
}

static double row_height(const struct layout *l, const struct report_bar *b)
{
    int n = lines_over(l, b);

    return n > 0 ? ROW + REPORT_LINE * n + 3.0 : ROW;
}

static double total(const struct report_bars *c, const struct report_bar *b)
{
    double sum = 0;

    for (int i = 0; i < c->nparts; i++)
        sum += b->parts[i] > 0 ? b->parts[i] : 0;
    return sum;
}

/* Units of the axis for one of the bar. */
static double scale_of(const struct report_bars *c, const struct report_bar *b)
{
    double sum = total(c, b);

    return c->shares && sum > 0 ? 100 / sum : 1;
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

static bool any(const struct report_bars *c, int part)
{
    for (int i = 0; i < c->nbars; i++)
        if (c->bars[i].parts[part] > 0)
            return true;
    return false;
}

/* Names of the colours that are there and of the limit, in lines from edge to
 * edge; returns where they end. With out NULL it only measures. */
static double legend(struct pdl_sink *out, const struct report_bars *c,
                     const struct layout *l)
{
    double from = l->f.narrow ? 2 : l->f.left, x = from, y = 6;
    double edge = l->f.narrow ? REPORT_NARROW : REPORT_BROAD;
    char value[64], text[160];

    for (int i = 0; i < c->nparts + 1; i++) {
        bool last = i == c->nparts;
        double w;

        if (last ? !(c->limit > 0) : c->nparts < 2 || !any(c, i))
            continue;
        snprintf(text, sizeof text, "%.80s%s%s",
                 last ? c->limit_name : c->parts[i], last ? " " : "",
                 last ? pdl_unit_format(c->limit, c->unit, value, sizeof value)
                      : "");
        w = 20 + report_width(pdl_text_width(text));
        if (x + w > edge && x > from) {
            x = from;
            y += KEYS;
        }
        if (out && last)
            report_svg_line(out, "limit", x, y + 6, x + 14, y + 6);
        if (out && !last) {
            rect(out, "key", i, x, y, 12, 12);
            pdl_puts(out, "</rect>");
        }
        if (out)
            report_svg_text(out, last ? "class=\"b\"" : "", x + 18, y + 10,
                            text);
        x += w + 14;
    }
    return x > from || y > 6 ? y + 24 : 6;
}

static void grid(struct pdl_sink *out, const struct report_bars *c,
                 const struct report_axis *ax, const struct report_frame *f)
{
    int stride = report_axis_stride(ax);
    char text[64];

    for (int i = 0; i < ax->nticks; i++) {
        double x = report_axis_at(ax, ax->ticks[i]);
        bool first = i == 0 && x < 10;

        report_svg_line(out, "grid", x, f->top, x, f->bottom);
        if (i % stride == 0)
            report_svg_text(
                out, first ? "" : "text-anchor=\"middle\"", first ? 0 : x,
                f->bottom + 16,
                report_axis_text(ax, ax->ticks[i], text, sizeof text));
    }
    report_svg_text(out, "class=\"d\" text-anchor=\"middle\"",
                    (ax->from + ax->to) / 2, f->bottom + 36, c->title);
    pdl_puts(out, "\n");
}

static void parts(struct pdl_sink *out, const struct report_bars *c,
                  const struct report_bar *b, const struct report_axis *ax,
                  double y)
{
    double sum = 0, k = scale_of(c, b);
    char text[64];

    for (int i = 0; i < c->nparts; i++) {
        double v = b->parts[i] > 0 ? b->parts[i] : 0;
        double from = fmin(report_axis_at(ax, k * sum), ax->to);
        double to = fmin(report_axis_at(ax, k * (sum + v)), ax->to);

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

/* Where the bar lies in its row. */
static double lower(const struct layout *l, const struct report_bar *b,
                    double y)
{
    return y + REPORT_LINE * (double)lines_over(l, b);
}

static void label(struct pdl_sink *out, const struct report_bar *b,
                  const struct layout *l, double y)
{
    const char *plain = b->grey ? "class=\"d\"" : "";

    y += 13;
    if (l->above)
        y += (double)REPORT_LINE * report_svg_lines(out, plain,
                                                    l->f.narrow ? 2 : l->f.left,
                                                    y, b->label, l->columns);
    if (l->f.narrow && b->note)
        report_svg_lines(out, "class=\"d\"", 2, y, b->note, l->columns);
    if (l->above)
        return;
    text_at(
        out,
        b->grey ? " class=\"d\" text-anchor=\"end\"" : " text-anchor=\"end\"",
        l->f.left - 8, lower(l, b, y - 13) + ROW / 2.0 + 4);
    report_short(out, b->label, LABEL);
    pdl_puts(out, "</text>");
}

static void bar(struct pdl_sink *out, const struct report_bars *c,
                const struct report_bar *b, const struct report_axis *ax,
                double y)
{
    double sum = scale_of(c, b) * total(c, b);

    parts(out, c, b, ax, y);
    if (!c->shares && sum > ax->max)
        broken(out, fmin(report_axis_at(ax, sum), ax->to), y);
    pdl_puts(out, "\n");
}

/* The whole, behind the bar, and rather behind the line of the limit than
 * across it. */
static void words(struct pdl_sink *out, const struct report_bars *c,
                  const struct report_bar *b, const struct report_axis *ax,
                  double y, bool note)
{
    double sum = total(c, b);
    double x = fmin(report_axis_at(ax, scale_of(c, b) * sum), ax->to) + 6;
    double line = c->limit > 0 ? report_axis_at(ax, c->limit) : -1;
    char text[64];

    pdl_unit_format(sum, c->unit, text, sizeof text);
    if (line > x - 5 && line < x + report_width(pdl_text_width(text)))
        x = line + 6;
    text_at(out, b->grey ? " class=\"d\"" : "", x, y + ROW / 2.0 + 4);
    report_text(out, text);
    if (note && b->note) {
        pdl_puts(out, " \xc2\xb7 ");
        report_short(out, b->note, NOTE);
        report_tip(out, "%s", b->note);
    }
    pdl_puts(out, "</text>\n");
}

static void limit(struct pdl_sink *out, const struct report_bars *c,
                  const struct report_axis *ax, const struct report_frame *f)
{
    double x = report_axis_at(ax, c->limit);
    char text[64];

    pdl_puts(out, "<line class=\"limit\"");
    report_attr(out, "x1", x);
    report_attr(out, "x2", x);
    report_attr(out, "y1", f->top - 4);
    report_attr(out, "y2", f->bottom);
    pdl_puts(out, ">");
    report_tip(out, "%s %s", c->limit_name,
               pdl_unit_format(c->limit, c->unit, text, sizeof text));
    pdl_puts(out, "</line>\n");
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

static void draw(struct pdl_sink *out, const struct report_bars *c, bool narrow)
{
    struct layout l = layout_of(c, narrow);
    struct report_axis ax = {.unit = c->shares ? PDL_UNIT_NONE : c->unit,
                             .from = l.f.left,
                             .to = l.f.right};
    double max = c->limit, y;

    for (int i = 0; i < c->nbars; i++)
        max = fmax(max, total(c, &c->bars[i]));
    if (c->cut > 0 && max > c->cut)
        max = c->cut;
    report_axis_fit(&ax, 0, c->shares ? 100 : max);
    l.f.top = legend(NULL, c, &l);
    l.f.bottom = l.f.top + 6;
    for (int i = 0; i < c->nbars; i++)
        l.f.bottom += row_height(&l, &c->bars[i]);
    report_svg(out, c->id, "bars", c->label,
               narrow ? REPORT_NARROW : REPORT_BROAD, (int)l.f.bottom + FOOT);
    legend(out, c, &l);
    pdl_puts(out, "\n");
    grid(out, c, &ax, &l.f);
    y = l.f.top + 2;
    for (int i = 0; i < c->nbars; y += row_height(&l, &c->bars[i]), i++)
        bar(out, c, &c->bars[i], &ax, lower(&l, &c->bars[i], y));
    if (c->limit > 0)
        limit(out, c, &ax, &l.f);
    y = l.f.top + 2;
    for (int i = 0; i < c->nbars; y += row_height(&l, &c->bars[i]), i++) {
        label(out, &c->bars[i], &l, y);
        words(out, c, &c->bars[i], &ax, lower(&l, &c->bars[i], y), !narrow);
    }
    report_svg_end(out);
}

void report_bars(struct pdl_sink *out, const struct report_bars *c)
{
    draw(out, c, false);
    draw(out, c, true);
    table(out, c);
}
