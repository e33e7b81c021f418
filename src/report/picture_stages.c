/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory stage by stage: first stages hold the most activations, last ones the
 * logits. */
#include "report_priv.h"

#include <stdio.h>

enum { MOST = 64 };

static const struct pdl_doc *stages(const struct report_view *v)
{
    const struct pdl_doc *list = pdl_doc_get(v->plan, "stages");

    return list && list->kind == PDL_DOC_LIST ? list : NULL;
}

static bool has(const struct report_view *v)
{
    return stages(v) && stages(v)->count > 1;
}

static void draw(const struct report_view *v)
{
    const struct pdl_doc *memory = report_get_map(&v->p->rd, v->plan, "memory");
    struct report_bar bars[MOST] = {{.label = NULL}};
    char labels[MOST][48];
    int n = 0;

    for (const struct pdl_doc *d = stages(v)->child; d && n < MOST;
         d = d->next, n++) {
        snprintf(labels[n], sizeof labels[n], "stage %lld",
                 (long long)report_get_int(&v->p->rd, d, "stage"));
        bars[n].label = labels[n];
        report_read_memory(&v->p->rd, d, bars[n].parts);
    }
    report_bars(v->p->out,
                &(struct report_bars){
                    .id = "stages-chart",
                    .label = "memory of the fullest PE of each stage, and the "
                             "capacity",
                    .title = "memory of the fullest PE of the stage",
                    .unit = PDL_UNIT_BYTES,
                    .parts = report_memory_names,
                    .nparts = REPORT_MEMORY,
                    .bars = bars,
                    .nbars = n,
                    .limit = memory ? report_get_num(&v->p->rd, memory,
                                                     "capacity_bytes")
                                    : 0,
                    .limit_name = "capacity",
                });
    if (n < stages(v)->count)
        report_para(v->p->out, "The first %d of %lld stages.", n,
                    (long long)stages(v)->count);
}

const struct report_picture report_picture_stages = {
    "stages", "Which stage is full?", has, draw};
