/* SPDX-License-Identifier: Apache-2.0
 *
 * What 10 % more of each resource would give. */
#include "report_priv.h"

enum { MOST = 32 };

static const struct pdl_doc *gains(const struct report_view *v)
{
    const struct pdl_doc *list = pdl_doc_get(v->plan, "gains");

    return list && list->kind == PDL_DOC_LIST ? list : NULL;
}

static bool has(const struct report_view *v)
{
    return gains(v) && gains(v)->count > 0;
}

/* "link:spine" as people say it. */
const char *report_resource(pdl_arena *a, const char *resource)
{
    static const struct {
        const char *key, *name;
        size_t n;
    } names[] = {
        {"link:", "bandwidth, ", 5},      {"latency:", "latency, ", 8},
        {"flops", "arithmetic", 6},       {"memory_bw", "memory bandwidth", 10},
        {"memory", "memory capacity", 7}, {"io", "storage", 3}};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t k = 0;

        while (k < names[i].n && resource[k] == names[i].key[k])
            k++;
        if (k == names[i].n)
            return i < 2 ? pdl_arena_printf(a, "%s%s", names[i].name,
                                            resource + k)
                         : names[i].name;
    }
    return resource;
}

static void draw(const struct report_view *v)
{
    struct report_effect effects[MOST];
    struct report_tornado c = {
        .id = "gains-chart",
        .label = "step time with ten percent more of each resource",
        .title = "step with 10 % more of one resource, all else equal",
        .unit = PDL_UNIT_SECONDS,
        .today = report_get_num(&v->p->rd, v->plan, "step_s"),
        .effects = effects};

    for (const struct pdl_doc *d = gains(v)->child; d && c.n < MOST;
         d = d->next) {
        const char *name = report_resource(
            v->p->arena, report_get_str(&v->p->rd, d, "resource"));

        effects[c.n++] = (struct report_effect){
            name ? name : "", report_get_num(&v->p->rd, d, "step_s")};
    }
    if (v->p->rd.st == PDL_OK)
        report_tornado(v->p->out, &c);
}

const struct report_picture report_picture_gains = {
    "gains", "What would make it faster?", has, draw};
