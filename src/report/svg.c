/* SPDX-License-Identifier: Apache-2.0
 *
 * The few elements that every chart is made of. A chart lies in a box that
 * scrolls sideways on narrow screens, where its text would be too small, and
 * that the keyboard can reach for this. */
#include "report_priv.h"

#include <math.h>

void report_svg(struct pdl_sink *out, const char *id, const char *class,
                const char *label, int width, int height)
{
    pdl_puts(out, "<div class=\"wide\" tabindex=\"0\" role=\"group\" "
                  "aria-label=\"");
    report_text(out, label);
    pdl_printf(out,
               "\"><svg xmlns=\"http://www.w3.org/2000/svg\" id=\"%s\" "
               "class=\"chart %s\" viewBox=\"0 0 %d %d\" role=\"img\" "
               "aria-label=\"",
               id, class, width, height);
    report_text(out, label);
    pdl_puts(out, "\">\n");
}

void report_svg_end(struct pdl_sink *out)
{
    pdl_puts(out, "</svg>\n</div>\n");
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
