/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of `paradl plan`: which strategy is fastest and where its time
 * goes, what fits into memory, and all numbers. */
#include "report_priv.h"

#include "paradl/oracle.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_BARS = 20, NTIMES = REPORT_TIMES, NMEMORY = REPORT_MEMORY };

struct plan {
    const char *strategy, *reason; /* reason: NULL when it fits */
    double step_s, samples_per_s, mfu;
    double time[NTIMES], comm_s;
    double memory[NMEMORY], peak, capacity;
    bool ties; /* with the best */
};

struct plans {
    struct plan *list;
    int n;
};

static void read_plan(struct report_reader *rd, const struct pdl_doc *d,
                      struct plan *p)
{
    const struct pdl_doc *why, *time, *memory;

    const char *tie = report_opt_str(d, "tie");

    p->strategy = report_get_str(rd, d, "strategy");
    p->ties = tie && strcmp(tie, "1") == 0;
    why = report_get_list(rd, d, "reasons");
    p->step_s = report_get_num(rd, d, "step_s");
    p->samples_per_s = report_get_num(rd, d, "samples_per_s");
    p->mfu = report_get_num(rd, d, "mfu");
    p->comm_s = report_get_num(rd, d, "comm_s");
    time = report_get_map(rd, d, "time");
    if (time)
        report_read_times(rd, time, p->time);
    memory = report_get_map(rd, d, "memory");
    if (!memory)
        return;
    p->peak = report_read_memory(rd, memory, p->memory);
    p->capacity = report_get_num(rd, memory, "capacity_bytes");
    if (!report_get_bool(rd, d, "feasible"))
        p->reason = why && why->child && why->child->text ? why->child->text
                                                          : "does not fit";
}

static struct plans read_plans(struct report_page *p)
{
    const struct pdl_doc *list = report_get_list(&p->rd, p->doc, "plans");
    struct plans out = {.n = 0};

    if (!list)
        return out;
    out.list = PDL_NEW(p->arena, struct plan, list->count + 1);
    if (!out.list) {
        p->rd.st = pdl_fail(p->rd.err, PDL_ENOMEM, "no memory for the plans");
        return out;
    }
    for (const struct pdl_doc *d = list->child; d; d = d->next)
        read_plan(&p->rd, d, &out.list[out.n++]);
    return out;
}

/* ---- sections ---------------------------------------------------------- */

static void say_ties(struct report_page *p, const struct plans *all)
{
    int n = 0;

    while (n < all->n && all->list[n].ties)
        n++;
    if (n > 1)
        report_para(p->out,
                    "%d plans are ties: what 9 of 10 of their steps are "
                    "shorter than is less than %.0f %% apart, which "
                    "projections cannot tell from each other. The simplest is "
                    "first: %s.",
                    n, 100 * PDL_TIE, all->list[0].strategy);
}

/* --tokens */
static void say_training(struct report_page *p)
{
    const struct pdl_doc *d = pdl_doc_get(p->doc, "training");
    char cost[64] = "", n[32], h[32];

    if (!d || d->kind != PDL_DOC_MAP)
        return;
    if (pdl_doc_get(d, "cost"))
        snprintf(cost, sizeof cost, ", and costs %s",
                 pdl_unit_format(report_get_num(&p->rd, d, "cost"),
                                 PDL_UNIT_NONE, n, sizeof n));
    report_para(p->out,
                "Training on %s tokens takes %.3g days, %s PE hours without "
                "failures%s.",
                pdl_unit_format(report_get_num(&p->rd, d, "tokens"),
                                PDL_UNIT_NONE, n, sizeof n),
                report_get_num(&p->rd, d, "days"),
                pdl_unit_format(report_get_num(&p->rd, d, "pe_hours"),
                                PDL_UNIT_NONE, h, sizeof h),
                cost);
}

static void say_best(struct report_page *p, const struct plans *all)
{
    const struct plan *best = all->n > 0 ? &all->list[0] : NULL;
    char text[64], peak[64], cap[64];

    if (!best || best->reason) {
        report_para(p->out, "Nothing fits.");
        return;
    }
    report_para(
        p->out,
        "Best: %s, %s a step, %.0f samples/s, %.0f %% of the peak "
        "arithmetic; %s of %s memory. %.0f %% of the step is communication "
        "that nothing hides.",
        best->strategy,
        pdl_unit_format(best->step_s, PDL_UNIT_SECONDS, text, sizeof text),
        best->samples_per_s, best->mfu * 100,
        pdl_unit_format(best->peak, PDL_UNIT_BYTES, peak, sizeof peak),
        pdl_unit_format(best->capacity, PDL_UNIT_BYTES, cap, sizeof cap),
        best->step_s > 0 ? 100 * best->time[3] / best->step_s : 0);
    say_ties(p, all);
    say_training(p);
    for (int i = 1; i < all->n; i++)
        if (!all->list[i].reason && !all->list[i].ties && best->step_s > 0) {
            double ratio = all->list[i].step_s / best->step_s;

            if (ratio < 1.0005)
                report_para(p->out, "Next, and as fast: %s.",
                            all->list[i].strategy);
            else if (ratio < 1.995)
                report_para(p->out, "Next: %s, %.2g %% longer.",
                            all->list[i].strategy, 100 * (ratio - 1));
            else
                report_para(p->out, "Next: %s, %.2g times as long.",
                            all->list[i].strategy, ratio);
            break;
        }
}

static struct report_bar *make_bars(struct report_page *p,
                                    const struct plans *all, bool memory)
{
    struct report_bar *bars = PDL_NEW(p->arena, struct report_bar, all->n + 1);

    for (int i = 0; bars && i < all->n; i++) {
        const struct plan *x = &all->list[i];

        bars[i].label = x->strategy;
        bars[i].note = x->reason          ? x->reason
                       : x->ties && i > 0 ? "a tie"
                                          : NULL;
        bars[i].grey = x->reason != NULL;
        for (int k = 0; k < (memory ? NMEMORY : NTIMES); k++)
            bars[i].parts[k] = memory ? x->memory[k] : x->time[k];
    }
    return bars;
}

static void chart(struct report_page *p, const struct plans *all, bool memory)
{
    struct report_bar *bars = make_bars(p, all, memory);
    struct report_bars c = {
        .id = memory ? "memory-chart" : "time-chart",
        .label = memory ? "memory of each strategy, stacked"
                        : "step time of each strategy, stacked",
        .title = memory ? "memory of the fullest PE" : "time of one step",
        .unit = memory ? PDL_UNIT_BYTES : PDL_UNIT_SECONDS,
        .parts = memory ? report_memory_names : report_time_names,
        .nparts = memory ? NMEMORY : NTIMES,
        .bars = bars,
        .nbars = all->n < MAX_BARS ? all->n : MAX_BARS,
        .limit = memory && all->n > 0 ? all->list[0].capacity : 0,
        .limit_name = "capacity",
    };

    if (!bars || all->n == 0)
        return;
    c.cut = memory ? 3 * c.limit : 10 * all->list[0].step_s;
    report_bars(p->out, &c);
    if (all->n > MAX_BARS)
        report_para(p->out, "The first %d of %d; the table has all.", MAX_BARS,
                    all->n);
}

static void numbers(struct report_page *p, const struct plans *all)
{
    static const struct report_column columns[] = {
        {"#", true},        {"strategy", false},
        {"step", true},     {"forward", true},
        {"backward", true}, {"update", true},
        {"exposed", true},  {"bubble", true},
        {"I/O", true},      {"communication", true},
        {"memory", true},   {"samples/s", true},
        {"MFU", true},      {"", false}};
    struct report_table t;

    report_table_begin(&t, p->out, columns, 14);
    for (int i = 0; i < all->n; i++) {
        const struct plan *x = &all->list[i];

        report_cell(&t, "%d", i + 1);
        report_cell(&t, "%s", x->strategy);
        report_cell_unit(&t, x->step_s, PDL_UNIT_SECONDS);
        for (int k = 0; k < NTIMES; k++)
            report_cell_unit(&t, x->time[k], PDL_UNIT_SECONDS);
        report_cell_unit(&t, x->comm_s, PDL_UNIT_SECONDS);
        report_cell_unit(&t, x->peak, PDL_UNIT_BYTES);
        report_cell(&t, "%.0f", x->samples_per_s);
        report_cell(&t, "%.1f %%", 100 * x->mfu);
        report_cell(&t, "%s", x->reason ? x->reason : "");
    }
    report_table_end(&t);
}

static void excluded(struct report_page *p)
{
    static const struct report_column columns[] = {{"strategy", false},
                                                   {"reason", false}};
    const struct pdl_doc *list = pdl_doc_get(p->doc, "excluded");
    struct report_table t;

    if (!list || list->kind != PDL_DOC_LIST || list->count == 0)
        return;
    report_section(p->out, "excluded", "What a limit forbids");
    report_table_begin(&t, p->out, columns, 2);
    for (const struct pdl_doc *d = list->child; d; d = d->next) {
        report_cell(&t, "%s", report_get_str(&p->rd, d, "strategy"));
        report_cell(&t, "%s", report_get_str(&p->rd, d, "reason"));
    }
    report_table_end(&t);
    report_section_end(p->out);
}

/* The list of a key that may be absent, if it has something. */
static const struct pdl_doc *some(const struct report_page *p, const char *key)
{
    const struct pdl_doc *list = pdl_doc_get(p->doc, key);

    return list && list->kind == PDL_DOC_LIST && list->count > 0 ? list : NULL;
}

static void around(struct report_page *p, const struct plans *all)
{
    const struct pdl_doc *front = some(p, "front"), *points;

    if (front && front->count > 0 && all->n > 1) {
        report_section(p->out, "front", "Time or memory?");
        report_para(p->out, "Numbered plans are beaten by no other in both "
                            "time and memory.");
        report_front(p, front, pdl_doc_get(p->doc, "plans"));
        report_section_end(p->out);
    }
    points = some(p, "scaling");
    if (points) {
        report_section(p->out, "scaling", "On fewer or more PEs?");
        report_para(p->out, "The best one with another data axis, the same "
                            "work for each data rank.");
        report_scaling(p, points, "the best strategy");
        report_section_end(p->out);
    }
}

static void strategies(struct report_page *p, const struct plans *all)
{
    report_section(p->out, "strategy", "Which strategy?");
    say_best(p, all);
    chart(p, all, false);
    report_section_end(p->out);
}

static void write_page(struct report_page *p)
{
    const char *model = report_opt_str(p->doc, "model");
    const char *system = report_opt_str(p->doc, "system");
    const char *pes = report_opt_str(p->doc, "pes");
    const char *batch = report_opt_str(p->doc, "batch");
    struct plans all = read_plans(p);
    struct report_view v = {.p = p, .path = "plans.0."};
    char *title = pdl_arena_printf(
        p->arena, "%s, batch %s%s, on %s PEs of %s%s",
        model ? model : "A model", batch ? batch : "?", report_how(p),
        pes ? pes : "?", system ? system : "a system", report_whose(p));

    report_head(p->out, model && title ? title : "Strategies, ranked");
    if (p->rd.st != PDL_OK)
        return;
    if (all.n > 0)
        v.plan = pdl_doc_get(p->doc, "plans")->child;
    if (v.plan)
        report_tiles(&v);
    strategies(p, &all);
    if (v.plan)
        report_pictures(&v);
    around(p, &all);
    report_section(p->out, "fit", "Memory of all");
    chart(p, &all, true);
    report_section_end(p->out);
    report_section(p->out, "numbers", "All numbers");
    numbers(p, &all);
    report_section_end(p->out);
    excluded(p);
    report_assume(p);
}

const struct report_page_kind report_page_plan = {"plan", write_page};
