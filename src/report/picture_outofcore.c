/* SPDX-License-Identifier: Apache-2.0
 *
 * What stays, is made again or waits on the host, and what other methods would
 * take for the same blocks. When copies run is in the schedule. */
#include "report_priv.h"

static const struct pdl_doc *decided(const struct report_view *v)
{
    const struct pdl_doc *d = pdl_doc_get(v->plan, "out_of_core");

    /* of a result of before, less is known */
    return d && d->kind == PDL_DOC_MAP && pdl_doc_get(d, "wait_s") ? d : NULL;
}

static bool has(const struct report_view *v)
{
    return decided(v) != NULL;
}

static void say(struct report_page *p, const struct pdl_doc *d, double step)
{
    struct report_reader *rd = &p->rd;
    double bound = report_get_num(rd, d, "bound_s");

    report_para(
        p->out,
        "%.1f %% of the speed in core, which %s. Links are busy %.0f %% "
        "of the time there is (out) and %.0f %% (in), computing waits "
        "%.1f %% of the step.",
        100 * report_get_num(rd, d, "in_core_s") / step,
        report_get_bool(rd, d, "in_core_fits") ? "fits" : "does not fit",
        100 * report_get_num(rd, d, "out_busy"),
        100 * report_get_num(rd, d, "in_busy"),
        100 * report_get_num(rd, d, "wait_s") / step);
    if (bound > 0)
        report_para(p->out,
                    "Proved: no decisions are more than %.2f %% faster.",
                    100 * (1 - bound / report_get_num(rd, d, "planned_s")));
}

static void blocks(struct report_page *p, const struct pdl_doc *list)
{
    static const struct report_column columns[] = {{"layers", false},
                                                   {"what they leave", false},
                                                   {"why", false},
                                                   {"again", true},
                                                   {"a copy", true}};
    struct report_reader *rd = &p->rd;
    struct report_table t;

    report_table_begin(&t, p->out, columns, 5);
    for (const struct pdl_doc *b = list->child; b; b = b->next) {
        report_cell(&t, "%s..%s", report_get_str(rd, b, "first"),
                    report_get_str(rd, b, "last"));
        report_cell(&t, "%s", report_get_str(rd, b, "what"));
        report_cell(&t, "%s", report_get_str(rd, b, "why"));
        report_cell_unit(&t, report_get_num(rd, b, "again_s"),
                         PDL_UNIT_SECONDS);
        report_cell_unit(&t, report_get_num(rd, b, "copy_s"), PDL_UNIT_SECONDS);
    }
    report_table_end(&t);
}

static void methods(struct report_page *p, const struct pdl_doc *list,
                    double step)
{
    static const struct report_column columns[] = {
        {"method", false}, {"step", true}, {"times the step decided on", true}};
    struct report_reader *rd = &p->rd;
    struct report_table t;

    report_para(p->out, "Other methods, as decisions for the same blocks:");
    report_table_begin(&t, p->out, columns, 3);
    for (const struct pdl_doc *m = list->child; m; m = m->next) {
        double s = report_get_num(rd, m, "step_s");
        bool fits = report_get_bool(rd, m, "fits");

        report_cell(&t, "%s", report_get_str(rd, m, "name"));
        report_cell_unit(&t, s, PDL_UNIT_SECONDS);
        report_cell(&t, fits ? "%.2f" : "%.2f, does not fit", s / step);
    }
    report_table_end(&t);
}

static void draw(const struct report_view *v)
{
    const struct pdl_doc *d = decided(v);
    struct report_reader *rd = &v->p->rd;
    const struct pdl_doc *list = report_get_list(rd, d, "blocks");
    const struct pdl_doc *others = report_get_list(rd, d, "policies");
    double step = report_get_num(rd, v->plan, "step_s");

    if (!list || !others)
        return;
    say(v->p, d, step);
    blocks(v->p, list);
    methods(v->p, others, step);
}

const struct report_picture report_picture_outofcore = {
    "outofcore", "What stays, is made again, waits on the host?", has, draw};
