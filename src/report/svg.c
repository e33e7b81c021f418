/* SPDX-License-Identifier: Apache-2.0
 *
 * The few elements that every chart is made of. Text in a picture that is
 * shrunk to a phone cannot be read, and one that scrolls sideways hides half of
 * it: so a chart is drawn twice, at the width of a desk and of a phone, with
 * letters of one size. */
#include "report_priv.h"

#include <math.h>
#include <string.h>

void report_svg(struct pdl_sink *out, const char *id, const char *class,
                const char *label, int width, int height)
{
    bool narrow = width == REPORT_NARROW;

    pdl_printf(out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" id=\"%s%s\" "
               "class=\"chart %s%s\" viewBox=\"0 0 %d %d\" role=\"img\" "
               "aria-label=\"",
               id, narrow ? "-narrow" : "", class, narrow ? " narrow" : "",
               width, height);
    report_text(out, label);
    pdl_puts(out, "\">\n");
}

void report_svg_end(struct pdl_sink *out)
{
    pdl_puts(out, "</svg>\n");
}

void report_svg_line(struct pdl_sink *out, const char *class, double x1,
                     double y1, double x2, double y2)
{
    pdl_printf(out, "<line class=\"%s\"", class);
    report_attr(out, "x1", x1);
    report_attr(out, "y1", y1);
    report_attr(out, "x2", x2);
    report_attr(out, "y2", y2);
    pdl_puts(out, "/>");
}

void report_svg_text(struct pdl_sink *out, const char *attrs, double x,
                     double y, const char *text)
{
    pdl_puts(out, "<text");
    report_attr(out, "x", x);
    report_attr(out, "y", y);
    pdl_printf(out, "%s%s>", *attrs ? " " : "", attrs);
    report_text(out, text);
    pdl_puts(out, "</text>");
}

void report_svg_rect(struct pdl_sink *out, const char *class, double x,
                     double y, double w, double h)
{
    pdl_printf(out, "<rect class=\"%s\"", class);
    report_attr(out, "x", x);
    report_attr(out, "y", y);
    report_attr(out, "width", fmax(w, 0));
    report_attr(out, "height", h);
    pdl_puts(out, ">");
}

double report_width(int n)
{
    return 6.9 * n;
}

/* Bytes of the next line: all, or up to the last place to break in reach. */
static size_t next_line(const char *s, int columns)
{
    size_t n = strlen(s), best = 0;
    int at = 0;

    for (size_t i = 0; i < n; i++) {
        at += ((unsigned char)s[i] & 0xc0) != 0x80;
        if (at > columns)
            return best > 0 ? best : i;
        if (s[i] == ',' || s[i] == ' ')
            best = i + 1;
    }
    return n;
}

int report_svg_lines(struct pdl_sink *out, const char *attrs, double x,
                     double y, const char *text, int columns)
{
    char part[256];
    int lines = 0;

    do {
        size_t n = next_line(text, columns);

        n = n < sizeof part ? n : sizeof part - 1;
        memcpy(part, text, n);
        part[n] = '\0';
        if (out)
            report_svg_text(out, attrs, x, y + (double)REPORT_LINE * lines,
                            part);
        lines++;
        text += n;
    } while (*text);
    return lines;
}

/* ---- two axes ---------------------------------------------------------- */

double report_axes_left(const struct report_axis *y, bool narrow)
{
    char text[64];
    int most = 0;

    for (int i = 0; i < y->nticks; i++) {
        int n =
            pdl_text_width(report_axis_text(y, y->ticks[i], text, sizeof text));

        most = n > most ? n : most;
    }
    return report_width(most) + (narrow ? 12 : 32);
}

/* The title of y: upright beside it, or, where that costs too much, above. */
static void title_y(struct pdl_sink *out, const struct report_axis *y,
                    const struct report_frame *f)
{
    if (f->narrow) {
        report_svg_text(out, "class=\"d\"", 2, f->top - 12, y->title);
        return;
    }
    pdl_puts(out, "<text class=\"d\" text-anchor=\"middle\" "
                  "transform=\"translate(14 ");
    report_num(out, (f->top + f->bottom) / 2);
    pdl_puts(out, ") rotate(-90)\">");
    report_text(out, y->title);
    pdl_puts(out, "</text>");
}

void report_axes(struct pdl_sink *out, struct report_axis *x,
                 struct report_axis *y, const struct report_frame *f)
{
    char text[64];
    int stride;

    x->from = f->left;
    x->to = f->right;
    y->from = f->bottom;
    y->to = f->top;
    stride = report_axis_stride(x);
    for (int i = 0; i < x->nticks; i++) {
        double at = report_axis_at(x, x->ticks[i]);

        report_svg_line(out, "grid", at, f->top, at, f->bottom);
        if (i % stride == 0)
            report_svg_text(
                out, "text-anchor=\"middle\"", at, f->bottom + 17,
                report_axis_text(x, x->ticks[i], text, sizeof text));
    }
    for (int i = 0; i < y->nticks; i++) {
        double at = report_axis_at(y, y->ticks[i]);

        report_svg_line(out, "grid", f->left, at, f->right, at);
        report_svg_text(out, "text-anchor=\"end\"", f->left - 8, at + 4,
                        report_axis_text(y, y->ticks[i], text, sizeof text));
    }
    report_svg_line(out, "axis", f->left, f->bottom, f->right, f->bottom);
    report_svg_line(out, "axis", f->left, f->bottom, f->left, f->top);
    report_svg_text(out, "class=\"d\" text-anchor=\"middle\"",
                    (f->left + f->right) / 2, f->bottom + 38, x->title);
    title_y(out, y, f);
    pdl_puts(out, "\n");
}
