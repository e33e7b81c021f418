/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of `paradl compare`: two machines (or results) side by side. Which
 * is faster and by how much, what both steps are made of, and every number
 * that differs. */
#include "report_priv.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_ROWS = 600, LONGEST = 40 };

/* Of rows that both have; NULL: there is none. */
static const struct pdl_doc *row_of(const struct pdl_doc *rows, const char *key)
{
    for (const struct pdl_doc *d = rows->child; d; d = d->next) {
        const char *name = report_opt_str(d, "key");

        if (name && strcmp(name, key) == 0)
            return d;
    }
    return NULL;
}

static bool number(struct report_page *p, const struct pdl_doc *row,
                   const char *side, double *out)
{
    if (!row || !pdl_doc_get(row, "ratio"))
        return false;
    *out = report_get_num(&p->rd, row, side);
    return true;
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);

    return n >= k && strcmp(s + n - k, end) == 0;
}

/* By the name of the field. */
static void put_value(struct report_page *p, struct report_table *t,
                      const struct pdl_doc *row, const char *side)
{
    const char *key = report_get_str(&p->rd, row, "key");
    const char *text = report_opt_str(row, side);
    size_t n = strcspn(key, "[");
    char *end = NULL;
    double v = text ? pdl_strtod(text, &end) : 0;

    if (ends_with(key, "]"))
        key = pdl_arena_printf(p->arena, "%.*s", (int)n, key);
    if (!text || !key)
        report_cell(t, "%s", "");
    else if (end == text || *end || !isfinite(v))
        report_cell(t, "%s", text);
    else if (ends_with(key, "_bytes"))
        report_cell_unit(t, v, PDL_UNIT_BYTES);
    else if (ends_with(key, "bytes_per_s"))
        report_cell_unit(t, v, PDL_UNIT_BYTES_S);
    else if (ends_with(key, "_s") && !ends_with(key, "per_s"))
        report_cell_unit(t, v, PDL_UNIT_SECONDS);
    else
        report_cell_unit(t, v, PDL_UNIT_NONE);
}

/* ---- the answer -------------------------------------------------------- */

/* What is faster by how much, in the order that people ask. */
static void answer(struct report_page *p, const struct pdl_doc *rows)
{
    static const struct {
        const char *key, *name;
        enum pdl_unit unit;
    } asked[] = {{"step_s", "a step", PDL_UNIT_SECONDS},
                 {"samples_per_s", "samples a second", PDL_UNIT_NONE},
                 {"tokens_per_s", "tokens a second", PDL_UNIT_NONE},
                 {"mfu", "part of peak arithmetic", PDL_UNIT_NONE},
                 {"energy_j", "J a step", PDL_UNIT_NONE},
                 {"memory.peak_bytes", "memory of a PE in use", PDL_UNIT_BYTES},
                 {"memory.capacity_bytes", "memory of a PE", PDL_UNIT_BYTES}};
    static const struct report_column columns[] = {
        {"", false}, {"A", true}, {"B", true}, {"B/A", true}};
    struct report_table t;
    const struct pdl_doc *plan = row_of(rows, "plan");

    report_section(p->out, "answer", "Which is faster?");
    report_para(p->out, "A: %s. B: %s.", report_get_str(&p->rd, p->doc, "a"),
                report_get_str(&p->rd, p->doc, "b"));
    if (plan)
        report_para(p->out, "Plan of A: %s. Plan of B: %s.",
                    report_get_str(&p->rd, plan, "a"),
                    report_get_str(&p->rd, plan, "b"));
    report_table_begin(&t, p->out, columns, 4);
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        const struct pdl_doc *d = row_of(rows, asked[i].key);
        double a, b;

        if (!number(p, d, "a", &a) || !number(p, d, "b", &b))
            continue;
        report_cell(&t, "%s", asked[i].name);
        report_cell_unit(&t, a, asked[i].unit);
        report_cell_unit(&t, b, asked[i].unit);
        report_cell(&t, "%.3f", report_get_num(&p->rd, d, "ratio"));
    }
    report_table_end(&t);
    report_section_end(p->out);
}

/* What makes up a step. */
static void phases(struct report_page *p, const struct pdl_doc *rows)
{
    static const struct {
        const char *key;
        int part;
    } figures[] = {{"time.forward_s", 0},
                   {"time.backward_s", 1},
                   /* doing the forward pass again is part of going back */
                   {"time.recompute_s", 1},
                   {"time.update_s", 2},
                   {"time.exposed_comm_s", 3},
                   {"time.bubble_s", 4},
                   {"time.io_s", 5}};
    struct report_bar bars[2] = {{.label = "A"}, {.label = "B"}};
    bool any = false;

    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        const struct pdl_doc *d = row_of(rows, figures[i].key);

        for (int k = 0; k < 2 && d; k++) {
            const char *text = report_opt_str(d, k ? "b" : "a");

            double v = text ? pdl_strtod(text, NULL) : 0;

            bars[k].parts[figures[i].part] += v;
            any = any || v > 0;
        }
    }
    if (!any)
        return;
    report_section(p->out, "phases", "Where does the time go?");
    report_bars(p->out, &(struct report_bars){
                            .id = "phases-chart",
                            .label = "step time of both, stacked",
                            .title = "time of one step",
                            .unit = PDL_UNIT_SECONDS,
                            .parts = report_time_names,
                            .nparts = REPORT_TIMES,
                            .bars = bars,
                            .nbars = 2,
                        });
    report_section_end(p->out);
}

static bool differs(const struct pdl_doc *d)
{
    const char *a = report_opt_str(d, "a"), *b = report_opt_str(d, "b");

    return a && b ? strcmp(a, b) != 0 : a != b;
}

static bool is_long(const struct pdl_doc *d)
{
    const char *a = report_opt_str(d, "a"), *b = report_opt_str(d, "b");

    return (a && strlen(a) > LONGEST) || (b && strlen(b) > LONGEST);
}

/* Sentences, which a table has no room for. */
static void texts(struct report_page *p, const struct pdl_doc *rows)
{
    for (const struct pdl_doc *d = rows->child; d; d = d->next) {
        const char *a = report_opt_str(d, "a"), *b = report_opt_str(d, "b");

        if (differs(d) && is_long(d))
            report_para(p->out, "%s. A: %s. B: %s.",
                        report_get_str(&p->rd, d, "key"), a ? a : "nothing",
                        b ? b : "nothing");
    }
}

static void table(struct report_page *p, const struct pdl_doc *rows)
{
    static const struct report_column columns[] = {
        {"field", false}, {"A", true}, {"B", true}, {"B/A", true}};
    struct report_table t;
    int n = 0, equal = 0;

    report_section(p->out, "differences", "What differs?");
    report_table_begin(&t, p->out, columns, 4);
    for (const struct pdl_doc *d = rows->child; d; d = d->next) {
        equal += !differs(d);
        if (!differs(d) || is_long(d) || n++ >= MOST_ROWS)
            continue;
        report_cell(&t, "%s", report_get_str(&p->rd, d, "key"));
        put_value(p, &t, d, "a");
        put_value(p, &t, d, "b");
        if (pdl_doc_get(d, "ratio"))
            report_cell(&t, "%.3f", report_get_num(&p->rd, d, "ratio"));
        else
            report_cell(&t, "%s", "");
    }
    report_table_end(&t);
    if (n > MOST_ROWS)
        report_para(p->out, "%d more differ.", n - MOST_ROWS);
    texts(p, rows);
    report_para(p->out, "%d figures are equal.", equal);
    report_section_end(p->out);
}

static void write_page(struct report_page *p)
{
    const struct pdl_doc *rows = report_get_list(&p->rd, p->doc, "rows");
    char *title = pdl_arena_printf(p->arena, "%.80s against %.80s",
                                   report_get_str(&p->rd, p->doc, "a"),
                                   report_get_str(&p->rd, p->doc, "b"));

    report_head(p->out, title ? title : "Two side by side");
    if (!rows)
        return;
    if (row_of(rows, "step_s"))
        answer(p, rows);
    phases(p, rows);
    table(p, rows);
}

const struct report_page_kind report_page_sides = {"compare", write_page};
