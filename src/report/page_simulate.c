/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of `paradl simulate`: the time and its bound, flows on the busiest
 * link round by round, and the network with its heat (needs --links). */
#include "report_priv.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static void times(struct report_page *p)
{
    static const char *const part[] = {"time"};
    struct report_bar bars[2] = {{.label = "simulated"},
                                 {.label = "lower bound"}};

    bars[0].parts[0] = report_get_num(&p->rd, p->doc, "time_s");
    bars[1].parts[0] = report_get_num(&p->rd, p->doc, "lower_bound_s");
    report_section(p->out, "time", "How long?");
    report_bars(p->out, &(struct report_bars){.id = "time-chart",
                                              .label = "time and lower bound",
                                              .title = "time",
                                              .unit = PDL_UNIT_SECONDS,
                                              .parts = part,
                                              .nparts = 1,
                                              .bars = bars,
                                              .nbars = 2});
    report_section_end(p->out);
}

/* Long runs are drawn with the largest of each of at most MAX stretches. */
static void contention(struct report_page *p)
{
    enum { MAX = 500 };
    const struct pdl_doc *list = report_get_list(&p->rd, p->doc, "contention");
    double x[MAX], y[MAX];
    struct report_series s = {
        .name = "flows on the busiest link", .x = x, .y = y};
    struct report_lines c = {.id = "contention-chart",
                             .label = "flows on the busiest link by round",
                             .x = {.title = "round"},
                             .y = {.title = "flows"},
                             .series = &s,
                             .nseries = 1};
    double least = INFINITY, most = 0;
    int64_t v, i = 0, stretch;

    if (!list || list->count < 2)
        return;
    stretch = (list->count + MAX - 1) / MAX;
    for (const struct pdl_doc *d = list->child; d; d = d->next, i++) {
        int at = (int)(i / stretch);

        p->rd.st = pdl_doc_int(d, 0, INT64_MAX, &v, p->rd.err);
        if (p->rd.st != PDL_OK)
            return;
        if (i % stretch == 0) {
            x[at] = (double)i + 1;
            y[at] = 0;
            s.n = at + 1;
        }
        y[at] = fmax((double)v, y[at]);
        least = fmin(least, (double)v);
        most = fmax(most, (double)v);
    }
    report_section(p->out, "contention", "How do flows collide?");
    if (least == most)
        report_para(p->out,
                    "%.0f flow%s on the busiest link in each of %lld rounds.",
                    most, most == 1 ? "" : "s", (long long)list->count);
    else
        report_lines(p->out, &c);
    report_section_end(p->out);
}

static void heat(struct report_page *p, const char *algorithm)
{
    enum { MAX_LINKS = 1 << 20 };
    const struct pdl_doc *list = pdl_doc_get(p->doc, "links");
    struct report_heat h = {
        .topology = report_get_str(&p->rd, p->doc, "topology"),
        .what = algorithm,
        .time_s = report_get_num(&p->rd, p->doc, "time_s")};
    int64_t *bytes = NULL, last = -1;

    if (list && list->kind == PDL_DOC_LIST)
        for (const struct pdl_doc *d = list->child; d; d = d->next) {
            int64_t link = report_get_int(&p->rd, d, "link");

            if (link >= 0 && link < MAX_LINKS)
                last = link > last ? link : last;
        }
    if (last >= 0)
        bytes = PDL_NEW(p->arena, int64_t, MAX_LINKS);
    for (const struct pdl_doc *d = bytes ? list->child : NULL; d; d = d->next) {
        int64_t link = report_get_int(&p->rd, d, "link");

        if (link < MAX_LINKS)
            bytes[link] = report_get_int(&p->rd, d, "bytes");
    }
    h.bytes = bytes;
    h.nbytes = bytes ? MAX_LINKS : 0;
    report_section(p->out, "heat", "Where is the network hot?");
    if (!bytes)
        report_para(p->out, "Bytes of links are not in the result; 'paradl "
                            "simulate --links' has them.");
    report_network(p->out, "heat-chart", &h);
    report_section_end(p->out);
}

static void numbers(struct report_page *p)
{
    static const struct {
        const char *key, *name;
        enum pdl_unit unit;
    } facts[] = {
        {"ranks", "ranks", PDL_UNIT_NONE},
        {"size_bytes", "bytes of each rank", PDL_UNIT_BYTES},
        {"time_s", "time", PDL_UNIT_SECONDS},
        {"lower_bound_s", "lower bound", PDL_UNIT_SECONDS},
        {"messages", "messages", PDL_UNIT_NONE},
        {"bytes_on_wire", "bytes on all links", PDL_UNIT_BYTES},
        {"max_link_bytes", "bytes on the busiest link", PDL_UNIT_BYTES},
    };
    static const struct report_column columns[] = {{"what", false},
                                                   {"value", true}};
    struct report_table t;

    report_section(p->out, "numbers", "All numbers");
    report_table_begin(&t, p->out, columns, 2);
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++) {
        report_cell(&t, "%s", facts[i].name);
        report_cell_unit(&t, report_get_num(&p->rd, p->doc, facts[i].key),
                         facts[i].unit);
    }
    report_table_end(&t);
    report_section_end(p->out);
}

static const char *const assumptions[] = {
    "Every message is a flow; flows on a link share it max-min fairly.",
    "The lower bound is the largest of: latencies alone, every message alone "
    "on its links, the busiest link, the busiest host.",
    NULL};

static void write_page(struct report_page *p)
{
    const char *collective = report_get_str(&p->rd, p->doc, "collective");
    const char *algorithm = report_get_str(&p->rd, p->doc, "algorithm");
    const char *topology = report_get_str(&p->rd, p->doc, "topology");
    char title[300];

    p->assumptions = assumptions;
    snprintf(title, sizeof title, "%.60s by %.60s on %.150s", collective,
             algorithm, topology);
    report_head(p->out, title);
    if (p->rd.st == PDL_OK)
        times(p);
    if (p->rd.st == PDL_OK)
        contention(p);
    if (p->rd.st == PDL_OK)
        heat(p, algorithm);
    if (p->rd.st == PDL_OK)
        numbers(p);
}

const struct report_page_kind report_page_simulate = {"simulate", write_page};
