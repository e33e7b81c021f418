/* SPDX-License-Identifier: Apache-2.0
 *
 * Throughput against PEs, with the 80 % interval as a band and the line of
 * perfect scaling from the first point. */
#include "report_priv.h"

enum { MOST = 64 };

struct curve {
    double pes[MOST], rate[MOST], low[MOST], high[MOST], ideal[MOST];
    int n;
    bool band;
};

/* Samples per second at the slow and the fast end of a step's interval. */
static bool interval(const struct pdl_doc *d, double batch, double *low,
                     double *high)
{
    const struct pdl_doc *r = pdl_doc_get(d, "interval_s");
    double a = 0, b = 0;

    if (!r || r->kind != PDL_DOC_LIST || r->count != 2 ||
        pdl_doc_num(r->child, PDL_UNIT_NONE, 0, 1e30, &a, NULL) != PDL_OK ||
        pdl_doc_num(r->child->next, PDL_UNIT_NONE, 0, 1e30, &b, NULL) !=
            PDL_OK ||
        a <= 0 || b <= 0)
        return false;
    *low = batch / b;
    *high = batch / a;
    return true;
}

static void read_points(struct report_page *p, const struct pdl_doc *points,
                        struct curve *c)
{
    c->band = true;
    for (const struct pdl_doc *d = points->child; d && c->n < MOST;
         d = d->next) {
        double pes, batch;
        int i = c->n;

        if (d->kind != PDL_DOC_MAP || !pdl_doc_get(d, "samples_per_s"))
            continue; /* a limit forbids it */
        pes = (double)report_get_int(&p->rd, d, "pes");
        batch = (double)report_get_int(&p->rd, d, "batch");
        c->pes[i] = pes;
        c->rate[i] = report_get_num(&p->rd, d, "samples_per_s");
        c->ideal[i] = c->n > 0 ? c->rate[0] / c->pes[0] * pes : c->rate[0];
        c->band = interval(d, batch, &c->low[i], &c->high[i]) && c->band;
        c->n += pes > 0 && c->rate[i] > 0;
    }
}

static void table(struct report_page *p, const struct pdl_doc *points)
{
    static const struct report_column columns[] = {
        {"PEs", true},     {"strategy", false}, {"batch", true},
        {"step", true},    {"samples/s", true}, {"efficiency", true},
        {"exposed", true}, {"memory", true},    {"", false}};
    double first = 0;
    struct report_table t;

    report_details(p->out, "these points, with step and memory");
    report_table_begin(&t, p->out, columns, 9);
    for (const struct pdl_doc *d = points->child; d; d = d->next) {
        const struct pdl_doc *why = report_get_list(&p->rd, d, "reasons");
        const struct pdl_doc *time = pdl_doc_get(d, "time");
        const struct pdl_doc *memory = pdl_doc_get(d, "memory");
        double pes = report_get_num(&p->rd, d, "pes"), rate = 0;

        report_cell(&t, "%.0f", pes);
        report_cell(&t, "%s", report_get_str(&p->rd, d, "strategy"));
        report_cell(&t, "%.0f", report_get_num(&p->rd, d, "batch"));
        if (!time || !memory) {
            for (int i = 0; i < 5; i++)
                report_cell(&t, " ");
        } else {
            rate = report_get_num(&p->rd, d, "samples_per_s");
            first = first > 0 || pes <= 0 ? first : rate / pes;
            report_cell_unit(&t, report_get_num(&p->rd, d, "step_s"),
                             PDL_UNIT_SECONDS);
            report_cell(&t, "%.1f", rate);
            report_cell(&t, "%.1f %%",
                        first > 0 && pes > 0 ? 100 * rate / pes / first : 0);
            report_cell_unit(&t, report_get_num(&p->rd, time, "exposed_comm_s"),
                             PDL_UNIT_SECONDS);
            report_cell_unit(&t, report_get_num(&p->rd, memory, "peak_bytes"),
                             PDL_UNIT_BYTES);
        }
        report_cell(
            &t, "%s",
            why && why->child && why->child->text ? why->child->text : "");
    }
    report_table_end(&t);
    report_details_end(p->out);
}

void report_scaling(struct report_page *p, const struct pdl_doc *points,
                    const char *what)
{
    struct curve c = {.n = 0};
    struct report_series series[2] = {
        {.name = "perfect scaling", .colour = REPORT_COLOURS, .dashed = true},
        {.name = what, .colour = 0}};
    struct report_lines lines = {
        .id = "scaling-chart",
        .label = "samples per second against PEs, with the 80 % interval",
        .x = {.title = "PEs",
              .unit = PDL_UNIT_NONE,
              .log = true,
              .whole = true},
        .y = {.title = "samples per second",
              .unit = PDL_UNIT_NONE,
              .log = true,
              .tens = true},
        .series = series,
        .nseries = 2};

    read_points(p, points, &c);
    if (p->rd.st != PDL_OK)
        return;
    if (c.n < 2) {
        report_para(p->out, "Too few points to draw.");
    } else {
        series[0].x = series[1].x = c.pes;
        series[0].y = c.ideal;
        series[1].y = c.rate;
        series[0].n = series[1].n = c.n;
        series[1].low = c.band ? c.low : NULL;
        series[1].high = c.band ? c.high : NULL;
        report_lines(p->out, &lines);
    }
    table(p, points);
}
