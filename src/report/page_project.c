/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of `paradl project`: one strategy, all about it. */
#include "report_priv.h"

static void write_page(struct report_page *p)
{
    const char *model = report_opt_str(p->doc, "model");
    const char *system = report_opt_str(p->doc, "system");
    const char *strategy = report_opt_str(p->doc, "strategy");
    struct report_view v = {.p = p, .plan = p->doc, .path = ""};
    char *title = pdl_arena_printf(
        p->arena, "%s, batch %lld%s, on %lld PEs of %s%s",
        model ? model : "A model",
        (long long)report_get_int(&p->rd, p->doc, "batch"), report_how(p),
        (long long)report_get_int(&p->rd, p->doc, "pes"),
        system ? system : "a system", report_whose(p));

    report_head(p->out, title ? title : "A projection");
    if (strategy) {
        pdl_puts(p->out, "<p>Strategy <code>");
        report_text(p->out, strategy);
        pdl_puts(p->out, "</code></p>\n");
    }
    report_tiles(&v);
    report_pictures(&v);
    report_assume(p);
}

const struct report_page_kind report_page_project = {"project", write_page};
