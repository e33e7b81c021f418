/* SPDX-License-Identifier: Apache-2.0
 *
 * Tasks against time, thousands of them: a canvas that the page's script
 * paints from the page's own data (script.c). Without scripts the table below
 * says the same. */
#include "report_priv.h"

void report_gantt(struct pdl_sink *out, const struct report_gantt *c)
{
    pdl_puts(out, "<p class=\"keys\">");
    for (int i = 0; i < c->nkinds; i++) {
        if (!(c->used >> i & 1))
            continue;
        pdl_printf(out, "<span><span class=\"key k%d\"></span> ", i);
        report_text(out, c->kinds[i]);
        pdl_puts(out, "</span> ");
    }
    pdl_puts(out, "</p>\n<div class=\"wide\">");
    pdl_printf(out,
               "<canvas id=\"%s\" class=\"gantt\" data-path=\"%s\" "
               "data-rows=\"%d\" height=\"%d\" role=\"img\" tabindex=\"0\" "
               "aria-label=\"",
               c->id, c->path, c->nrows, 22 * c->nrows + 30);
    report_text(out, c->label);
    pdl_puts(out, "\">The table below has the tasks.</canvas></div>\n"
                  "<p class=\"dim\" id=\"");
    pdl_printf(out, "%s-tip\" aria-live=\"polite\">", c->id);
    pdl_puts(out, "Point at a task, or choose one with the arrow keys. + and - "
                  "zoom, 0 shows all; drag, or Shift and an arrow, moves."
                  "</p>\n");
}
