/* SPDX-License-Identifier: Apache-2.0
 *
 * The step of one plan as a waterfall of its phases. */
#include "report_priv.h"

static bool has(const struct report_view *v)
{
    const struct pdl_doc *time = pdl_doc_get(v->plan, "time");

    return time && time->kind == PDL_DOC_MAP;
}

static void draw(const struct report_view *v)
{
    double parts[REPORT_TIMES];

    report_read_times(&v->p->rd, pdl_doc_get(v->plan, "time"), parts);
    report_waterfall(v->p->out, &(struct report_waterfall){
                                    .id = "phases-chart",
                                    .label = "the step, phase by phase",
                                    .title = "time of one step",
                                    .unit = PDL_UNIT_SECONDS,
                                    .names = report_time_names,
                                    .values = parts,
                                    .n = REPORT_TIMES,
                                });
}

const struct report_picture report_picture_phases = {
    "phases", "Where does the time go?", has, draw};
