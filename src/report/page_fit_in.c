/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of `paradl fit-in`: the sizes that fit, and where blocks were
 * decided on, which method trains how fast at which batch. */
#include "report_priv.h"

#include <string.h>

enum { METHODS = REPORT_COLOURS, BATCHES = 16 };

static const struct {
    const char *key, *name;
} questions[] = {
    {"as_asked", "as asked"},        {"largest_batch", "largest batch"},
    {"fewest_pes", "fewest PEs"},    {"longest_sequence", "longest sequence"},
    {"most_layers", "most layers"},  {"deadline", "in time"},
    {"budget", "within the budget"},
};

static const struct report_column columns[] = {
    {"", false},      {"PEs", true},       {"batch", true}, {"tokens", true},
    {"layers", true}, {"strategy", false}, {"step", true},  {"memory", true}};

static void count(struct report_page *p, struct report_table *t,
                  const struct pdl_doc *d, const char *key)
{
    if (pdl_doc_get(d, key))
        report_cell(t, "%lld", (long long)report_get_int(&p->rd, d, key));
    else
        report_cell(t, " ");
}

static void answers(struct report_page *p)
{
    struct report_table t;

    report_section(p->out, "sizes", "What fits?");
    report_table_begin(&t, p->out, columns, 8);
    for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++) {
        const struct pdl_doc *d = pdl_doc_get(p->doc, questions[i].key);
        bool fits;

        if (!d || d->kind != PDL_DOC_MAP)
            continue;
        fits = report_get_bool(&p->rd, d, "fits");
        report_cell(&t, "%s", questions[i].name);
        if (!fits) {
            for (int k = 0; k < 7; k++)
                report_cell(&t, k == 4 ? "none fits" : " ");
            continue;
        }
        count(p, &t, d, "pes");
        count(p, &t, d, "batch");
        count(p, &t, d, "tokens");
        count(p, &t, d, "layers");
        report_cell(&t, "%s", report_get_str(&p->rd, d, "strategy"));
        report_cell_unit(&t, report_get_num(&p->rd, d, "step_s"),
                         PDL_UNIT_SECONDS);
        report_cell_unit(&t, report_get_num(&p->rd, d, "peak_bytes"),
                         PDL_UNIT_BYTES);
    }
    report_table_end(&t);
    report_section_end(p->out);
}

struct curves {
    struct report_series series[METHODS];
    double x[METHODS][BATCHES], y[METHODS][BATCHES];
    int n;
};

/* Rows of one method follow each other. */
static void read_methods(struct report_page *p, const struct pdl_doc *list,
                         struct curves *c)
{
    for (const struct pdl_doc *d = list->child; d; d = d->next) {
        const char *name = report_get_str(&p->rd, d, "name");
        struct report_series *s = c->n > 0 ? &c->series[c->n - 1] : NULL;

        if (!s || strcmp(s->name, name) != 0) {
            if (c->n == METHODS)
                return;
            s = &c->series[c->n];
            *s = (struct report_series){
                .name = name, .colour = c->n, .x = c->x[c->n], .y = c->y[c->n]};
            c->n++;
        }
        if (!report_get_bool(&p->rd, d, "fits") || s->n == BATCHES)
            continue;
        s->x[s->n] = (double)report_get_int(&p->rd, d, "batch");
        s->y[s->n++] = report_get_num(&p->rd, d, "samples_per_s");
    }
}

static void methods(struct report_page *p)
{
    const struct pdl_doc *list = pdl_doc_get(p->doc, "methods");
    struct curves *c = list && list->kind == PDL_DOC_LIST && list->count > 0
                           ? PDL_NEW(p->arena, struct curves, 1)
                           : NULL;

    if (!c)
        return;
    read_methods(p, list, c);
    report_section(p->out, "methods", "Which method, at which batch?");
    report_para(p->out, "Each decides for the same blocks of the same network; "
                        "where it has no point, it does not fit.");
    report_lines(
        p->out, &(struct report_lines){
                    .id = "methods-chart",
                    .label = "samples per second against the batch",
                    .x = {.title = "batch",
                          .unit = PDL_UNIT_NONE,
                          .log = true,
                          .whole = true},
                    .y = {.title = "samples per second", .unit = PDL_UNIT_NONE},
                    .series = c->series,
                    .nseries = c->n});
    report_section_end(p->out);
}

static void write_page(struct report_page *p)
{
    const char *model = report_opt_str(p->doc, "model");
    const char *system = report_opt_str(p->doc, "system");
    char *title = pdl_arena_printf(p->arena, "What fits: %s on %s",
                                   model ? model : "a model",
                                   system ? system : "a system");

    report_head(p->out, title ? title : "What fits");
    answers(p);
    methods(p);
    report_assume(p);
}

const struct report_page_kind report_page_fit_in = {"fit-in", write_page};
