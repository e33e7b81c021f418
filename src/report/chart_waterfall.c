/* SPDX-License-Identifier: Apache-2.0
 *
 * A waterfall: every part begins where the one before it ends, the last row
 * is the whole, and a line shows what there is room for. Parts of nothing are
 * left out. */
#include "report_priv.h"

#include <math.h>
#include <stdio.h>

enum { ROW = 30, FOOT = 46, MOST = 32 };

static void axis(struct pdl_sink *out, const struct report_waterfall *c,
                 const struct report_axis *ax, const struct report_frame *f)
{
    int stride = report_axis_stride(ax);
    char text[64];

    for (int i = 0; i < ax->nticks; i++) {
        double x = report_axis_at(ax, ax->ticks[i]);

        report_svg_line(out, "grid", x, f->top, x, f->bottom);
        if (i % stride == 0)
            report_svg_text(
                out, i == 0 && f->narrow ? "" : "text-anchor=\"middle\"",
                i == 0 && f->narrow ? 0 : x, f->bottom + 16,
                report_axis_text(ax, ax->ticks[i], text, sizeof text));
    }
    report_svg_text(out, "class=\"d\" text-anchor=\"middle\"",
                    (f->left + f->right) / 2, f->bottom + 36, c->title);
}

static void limit(struct pdl_sink *out, const struct report_waterfall *c,
                  const struct report_axis *ax, const struct report_frame *f)
{
    double x = report_axis_at(ax, c->limit);
    bool end = x > (f->left + f->right) / 2;
    char value[64], text[160];

    pdl_unit_format(c->limit, c->unit, value, sizeof value);
    snprintf(text, sizeof text, "%.80s %s", c->limit_name, value);
    report_svg_line(out, "limit", x, f->top - 8, x, f->bottom);
    report_svg_text(out,
                    end ? "class=\"b\" text-anchor=\"end\"" : "class=\"b\"",
                    end ? x + 4 : x - 4, f->top - 14, text);
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

/* The name beside the box, or above it where there is little room; the value
 * behind it, and behind the line of the limit rather than across. */
static void words(struct pdl_sink *out, const struct report_waterfall *c,
                  const struct report_axis *ax, const struct step *s, double y,
                  bool narrow)
{
    double x = report_axis_at(ax, s->from + s->value) + 6, line;
    char text[64];

    pdl_unit_format(s->value, c->unit, text, sizeof text);
    line = c->limit > 0 ? report_axis_at(ax, c->limit) : -1;
    if (line > x - 5 && line < x + report_width(pdl_text_width(text)))
        x = line + 6;
    if (narrow)
        report_svg_text(out, "", 2, y + 1, s->name);
    else
        report_svg_text(out, "text-anchor=\"end\"", ax->from - 8,
                        y + ROW / 2.0 + 4, s->name);
    report_svg_text(out, "", x, y + ROW / 2.0 + 4, text);
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

static void draw(struct pdl_sink *out, const struct report_waterfall *c,
                 const struct step *steps, int n, bool narrow)
{
    double row = narrow ? ROW + 14 : ROW, over = narrow ? 16 : 0;
    struct report_frame f = {.narrow = narrow,
                             .left = narrow ? 2 : 180,
                             .right = narrow ? REPORT_NARROW - 66 : 860,
                             .top = c->limit > 0 ? 30 : 8};
    struct report_axis ax = {.unit = c->unit, .from = f.left, .to = f.right};

    f.bottom = f.top + n * row + 4;
    report_axis_fit(&ax, 0, fmax(steps[n - 1].value, c->limit));
    report_svg(out, c->id, "waterfall", c->label,
               narrow ? REPORT_NARROW : REPORT_BROAD, (int)f.bottom + FOOT);
    axis(out, c, &ax, &f);
    for (int i = 0; i < n; i++)
        box(out, c, &ax, &steps[i], f.top + i * row + over);
    if (c->limit > 0)
        limit(out, c, &ax, &f);
    for (int i = 0; i < n; i++)
        words(out, c, &ax, &steps[i], f.top + i * row + over, narrow);
    report_svg_end(out);
}

void report_waterfall(struct pdl_sink *out, const struct report_waterfall *c)
{
    struct step steps[MOST + 1];
    int n = make_steps(c, steps);

    draw(out, c, steps, n, false);
    draw(out, c, steps, n, true);
    table(out, c, steps[n - 1].value);
}
