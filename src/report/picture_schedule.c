/* SPDX-License-Identifier: Apache-2.0
 *
 * Who does what when in a step. */
#include "report_priv.h"

#include <string.h>

static const char *const kinds[] = {
    "forward",           "backward",         "update", "gradient exchange",
    "layer collectives", "weight gradients", "copies"};

/* As the tasks of the data call them, and the script. */
static const char *const keys[] = {"forward",  "backward",   "update",
                                   "exchange", "collective", "weights",
                                   "copy"};

enum { KINDS = sizeof keys / sizeof keys[0] };

static const struct pdl_doc *tasks(const struct report_view *v)
{
    const struct pdl_doc *d = pdl_doc_get(v->plan, "schedule");
    const struct pdl_doc *list =
        d && d->kind == PDL_DOC_MAP ? pdl_doc_get(d, "tasks") : NULL;

    return list && list->kind == PDL_DOC_LIST ? list : NULL;
}

static bool has(const struct report_view *v)
{
    return tasks(v) && tasks(v)->count > 0;
}

static void table(const struct report_view *v, const struct pdl_doc *rows)
{
    enum { MOST = 300 };
    static const struct report_column columns[] = {{"row", false},
                                                   {"task", false},
                                                   {"micro-batch", true},
                                                   {"start", true},
                                                   {"time", true}};
    struct report_reader *rd = &v->p->rd;
    struct report_table t;
    int n = 0;

    report_details(v->p->out, tasks(v)->count > MOST ? "the first 300 tasks"
                                                     : "all tasks");
    report_table_begin(&t, v->p->out, columns, 5);
    for (const struct pdl_doc *d = tasks(v)->child; d && n < MOST;
         d = d->next, n++) {
        int64_t row = report_get_int(rd, d, "row");
        const char *micro = report_opt_str(d, "micro"), *name = NULL;
        const struct pdl_doc *r = rows->child;

        for (int64_t i = 0; r && i < row; i++)
            r = r->next;
        name = r && r->kind == PDL_DOC_SCALAR ? r->text : "?";
        report_cell(&t, "%s", name);
        report_cell(&t, "%s", report_get_str(rd, d, "kind"));
        report_cell(&t, "%s", micro && *micro != '-' ? micro : "");
        report_cell_unit(&t, report_get_num(rd, d, "start_s"),
                         PDL_UNIT_SECONDS);
        report_cell_unit(&t, report_get_num(rd, d, "seconds"),
                         PDL_UNIT_SECONDS);
    }
    report_table_end(&t);
    report_details_end(v->p->out);
}

static unsigned used(const struct report_view *v)
{
    unsigned mask = 0;

    for (const struct pdl_doc *d = tasks(v)->child; d; d = d->next) {
        const char *kind = report_get_str(&v->p->rd, d, "kind");

        for (int i = 0; i < KINDS; i++)
            mask |= strcmp(kind, keys[i]) == 0 ? 1U << i : 0;
    }
    return mask;
}

static void draw(const struct report_view *v)
{
    const struct pdl_doc *d = report_get_map(&v->p->rd, v->plan, "schedule");
    const struct pdl_doc *rows =
        d ? report_get_list(&v->p->rd, d, "rows") : NULL;
    int64_t total = d ? report_get_int(&v->p->rd, d, "total") : 0;
    int64_t micro = d ? report_get_int(&v->p->rd, d, "micro_batches") : 0;
    const char *path = pdl_arena_printf(v->p->arena, "%sschedule", v->path);

    if (!rows || rows->count > 512 || !path)
        return;
    report_para(
        v->p->out, "One step: %lld micro-batch%s on %lld row%s.%s",
        (long long)micro, micro == 1 ? "" : "es", (long long)rows->count,
        rows->count == 1 ? "" : "s",
        total > tasks(v)->count ? " The beginning of it is shown." : "");
    report_gantt(v->p->out, &(struct report_gantt){
                                .id = "schedule-chart",
                                .label = "tasks of every stage against time",
                                .path = path,
                                .kinds = kinds,
                                .nkinds = KINDS,
                                .used = used(v),
                                .nrows = (int)rows->count,
                            });
    table(v, rows);
}

const struct report_picture report_picture_schedule = {
    "schedule", "Who does what when?", has, draw};
