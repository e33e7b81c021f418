/* SPDX-License-Identifier: Apache-2.0
 *
 * What the plan's traffic does to the network: bytes of every link over a
 * step, and who shares adapters. */
#include "report_priv.h"

static const struct pdl_doc *links(const struct report_view *v)
{
    const struct pdl_doc *d = pdl_doc_get(v->plan, "network");
    const struct pdl_doc *list =
        d && d->kind == PDL_DOC_MAP ? pdl_doc_get(d, "link_bytes") : NULL;

    return list && list->kind == PDL_DOC_LIST ? list : NULL;
}

static bool has(const struct report_view *v)
{
    return links(v) != NULL;
}

static void groups(const struct report_view *v)
{
    static const struct report_column columns[] = {
        {"operation", false},    {"phase", false},   {"of ranks", true},
        {"crosses", false},      {"times", true},    {"busy in a step", true},
        {"groups a node", true}, {"slower by", true}};
    const struct pdl_doc *list = pdl_doc_get(v->plan, "contention");
    struct report_reader *rd = &v->p->rd;
    struct report_table t;

    if (!list || list->kind != PDL_DOC_LIST || list->count == 0)
        return;
    report_details(v->p->out, "the collectives behind it");
    report_table_begin(&t, v->p->out, columns, 8);
    for (const struct pdl_doc *d = list->child; d; d = d->next) {
        report_cell(&t, "%s", report_get_str(rd, d, "operation"));
        report_cell(&t, "%s", report_get_str(rd, d, "phase"));
        report_cell(&t, "%lld", (long long)report_get_int(rd, d, "members"));
        report_cell(&t, "%s", report_get_str(rd, d, "level"));
        report_cell(&t, "%lld", (long long)report_get_int(rd, d, "count"));
        report_cell_unit(&t, report_get_num(rd, d, "seconds"),
                         PDL_UNIT_SECONDS);
        report_cell(&t, "%.0f", report_get_num(rd, d, "groups"));
        report_cell(&t, "%.2g", report_get_num(rd, d, "phi"));
    }
    report_table_end(&t);
    report_details_end(v->p->out);
}

static void draw(const struct report_view *v)
{
    const struct pdl_doc *list = links(v);
    int64_t *bytes = PDL_NEW(v->p->arena, int64_t, list->count + 1);
    struct report_heat h = {
        .topology = report_get_str(&v->p->rd, pdl_doc_get(v->plan, "network"),
                                   "topology"),
        .what = "the share of each link's capacity that a step uses",
        .time_s = report_get_num(&v->p->rd, v->plan, "step_s"),
        .bytes = bytes};

    if (!bytes)
        return;
    for (const struct pdl_doc *d = list->child; d; d = d->next) {
        v->p->rd.st =
            pdl_doc_int(d, 0, INT64_MAX, &bytes[h.nbytes++], v->p->rd.err);
        if (v->p->rd.st != PDL_OK)
            return;
    }
    report_network(v->p->out, "links-chart", &h);
    groups(v);
}

const struct report_picture report_picture_links = {
    "links", "Where is the network hot?", has, draw};
