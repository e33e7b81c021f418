/* SPDX-License-Identifier: Apache-2.0
 *
 * The explanation in words: what holds the step back, the largest first, and
 * what would help. */
#include "report_priv.h"

static const struct pdl_doc *limits(const struct report_view *v)
{
    const struct pdl_doc *list = pdl_doc_get(v->plan, "limits");

    return list && list->kind == PDL_DOC_LIST ? list : NULL;
}

static bool has(const struct report_view *v)
{
    return limits(v) != NULL;
}

/* The resource that helps most. */
static void best_gain(const struct report_view *v)
{
    const struct pdl_doc *list = pdl_doc_get(v->plan, "gains");
    double step = report_get_num(&v->p->rd, v->plan, "step_s"), best = step;
    const char *name = NULL;

    for (const struct pdl_doc *d =
             list && list->kind == PDL_DOC_LIST ? list->child : NULL;
         d; d = d->next) {
        double t = report_get_num(&v->p->rd, d, "step_s");

        if (t < best) {
            best = t;
            name = report_opt_str(d, "resource");
        }
    }
    if (name && step > 0)
        report_para(v->p->out,
                    "Of all resources, 10 %% more of %s would help most: the "
                    "step would be %.1f %% shorter.",
                    report_resource(v->p->arena, name),
                    100 * (1 - best / step));
}

/* Where the step goes, in one sentence. */
static void shares(const struct report_view *v)
{
    static const char *const rest[] = {"communication that nothing hides",
                                       "waiting in the pipeline",
                                       "reading data"};
    double parts[REPORT_TIMES], step;
    const struct pdl_doc *time = report_get_map(&v->p->rd, v->plan, "time");

    if (!time)
        return;
    report_read_times(&v->p->rd, time, parts);
    step = report_get_num(&v->p->rd, v->plan, "step_s");
    if (!(step > 0))
        return;
    pdl_printf(v->p->out, "<p>Of the step, %.0f %% is computation",
               100 * (parts[0] + parts[1] + parts[2]) / step);
    for (int i = 0; i < 3; i++)
        if (parts[3 + i] / step >= 0.005)
            pdl_printf(v->p->out, ", %.0f %% %s", 100 * parts[3 + i] / step,
                       rest[i]);
    pdl_puts(v->p->out, ".</p>\n");
}

static void draw(const struct report_view *v)
{
    static const struct report_column columns[] = {
        {"id", false}, {"kind", false}, {"phase", false}, {"share", true}};
    struct report_reader *rd = &v->p->rd;
    struct report_table t;

    shares(v);
    best_gain(v);
    if (limits(v)->count == 0)
        return;
    pdl_puts(v->p->out, "<ul>\n");
    for (const struct pdl_doc *d = limits(v)->child; d; d = d->next) {
        pdl_puts(v->p->out, "<li>");
        report_text(v->p->out, report_get_str(rd, d, "text"));
        pdl_puts(v->p->out, "</li>\n");
    }
    pdl_puts(v->p->out, "</ul>\n");
    report_details(v->p->out, "as a table");
    report_table_begin(&t, v->p->out, columns, 4);
    for (const struct pdl_doc *d = limits(v)->child; d; d = d->next) {
        report_cell(&t, "%s", report_get_str(rd, d, "id"));
        report_cell(&t, "%s", report_get_str(rd, d, "kind"));
        report_cell(&t, "%s", report_get_str(rd, d, "phase"));
        report_cell(&t, "%.1f %%", 100 * report_get_num(rd, d, "share"));
    }
    report_table_end(&t);
    report_details_end(v->p->out);
}

const struct report_picture report_picture_words = {"why", "What limits it?",
                                                    has, draw};
