/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of the fullest PE, part by part, up to what it has. */
#include "report_priv.h"

static bool has(const struct report_view *v)
{
    const struct pdl_doc *memory = pdl_doc_get(v->plan, "memory");

    return memory && memory->kind == PDL_DOC_MAP;
}

static void draw(const struct report_view *v)
{
    const struct pdl_doc *memory = pdl_doc_get(v->plan, "memory");
    double parts[REPORT_MEMORY];
    double peak = report_read_memory(&v->p->rd, memory, parts);
    double capacity = report_get_num(&v->p->rd, memory, "capacity_bytes");
    char a[64], b[64];

    report_para(v->p->out, "%s, with %s of %s.",
                peak <= capacity ? "It fits" : "It does not fit",
                pdl_unit_format(peak, PDL_UNIT_BYTES, a, sizeof a),
                pdl_unit_format(capacity, PDL_UNIT_BYTES, b, sizeof b));
    report_waterfall(v->p->out, &(struct report_waterfall){
                                    .id = "memory-waterfall",
                                    .label = "memory of the fullest PE, part "
                                             "by part, and its capacity",
                                    .title = "memory of the fullest PE",
                                    .unit = PDL_UNIT_BYTES,
                                    .names = report_memory_names,
                                    .values = parts,
                                    .n = REPORT_MEMORY,
                                    .limit = capacity,
                                    .limit_name = "capacity",
                                });
}

const struct report_picture report_picture_waterfall = {
    "memory", "Does it fit?", has, draw};
