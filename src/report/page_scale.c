/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of `paradl scale`: how far a strategy scales, and what the step is
 * made of on the way. */
#include "report_priv.h"

#include <math.h>
#include <stdio.h>

enum { MOST = 32 };

/* So many times as long as the shortest, the longest leaves it no width. */
enum { STEEP = 8 };

static bool steep(const struct report_bar *bars, int n)
{
    double least = INFINITY, most = 0;

    for (int i = 0; i < n; i++) {
        double sum = 0;

        for (int k = 0; k < REPORT_TIMES; k++)
            sum += bars[i].parts[k];
        least = fmin(least, sum);
        most = fmax(most, sum);
    }
    return most > STEEP * least;
}

static void phases(struct report_page *p, const struct pdl_doc *points)
{
    struct report_bar bars[MOST] = {{.label = NULL}};
    char labels[MOST][32];
    bool shares;
    int n = 0;

    for (const struct pdl_doc *d = points->child; d && n < MOST; d = d->next) {
        const struct pdl_doc *time = pdl_doc_get(d, "time");
        int64_t pes;

        if (!time)
            continue;
        pes = report_get_int(&p->rd, d, "pes");
        snprintf(labels[n], sizeof labels[n], "%lld PE%s", (long long)pes,
                 pes == 1 ? "" : "s");
        bars[n].label = labels[n];
        bars[n].grey = !report_get_bool(&p->rd, d, "feasible");
        bars[n].note = bars[n].grey ? "does not fit" : NULL;
        report_read_times(&p->rd, time, bars[n++].parts);
    }
    if (n == 0)
        return;
    shares = steep(bars, n);
    report_section(p->out, "phases", "Where does the time go?");
    report_bars(p->out, &(struct report_bars){
                            .id = "phases-chart",
                            .label = "step time on each number of PEs, stacked",
                            .title = shares ? "% of the step; its time stands "
                                              "beside it"
                                            : "time of one step",
                            .unit = PDL_UNIT_SECONDS,
                            .parts = report_time_names,
                            .nparts = REPORT_TIMES,
                            .bars = bars,
                            .nbars = n,
                            .shares = shares,
                        });
    report_section_end(p->out);
}

static void write_page(struct report_page *p)
{
    const char *model = report_opt_str(p->doc, "model");
    const char *system = report_opt_str(p->doc, "system");
    const char *strategy = report_opt_str(p->doc, "strategy");
    const char *kind = report_get_str(&p->rd, p->doc, "scaling");
    const struct pdl_doc *points = report_get_list(&p->rd, p->doc, "points");
    char *title = pdl_arena_printf(p->arena, "%s on %s, %s scaling",
                                   model ? model : "A model",
                                   system ? system : "a system", kind);

    report_head(p->out, title ? title : "Scaling");
    if (points) {
        report_section(p->out, "scaling", "How far does it scale?");
        report_scaling(p, points, strategy ? strategy : "this strategy");
        report_section_end(p->out);
        phases(p, points);
    }
    report_assume(p);
}

const struct report_page_kind report_page_scale = {"scale", write_page};
