/* SPDX-License-Identifier: Apache-2.0
 *
 * Time against memory: what was priced, and those that no other beats in
 * both. */
#include "report_priv.h"

enum { MOST = 400 };

static void add(struct report_page *p, const struct pdl_doc *d, bool front,
                const struct pdl_doc *memory, struct report_scatter *c,
                struct report_point *points)
{
    struct report_point x = {
        .name = report_get_str(&p->rd, d, "strategy"),
        .x = report_get_num(&p->rd, d, "step_s"),
        .y = report_get_num(&p->rd, memory, "peak_bytes"),
        .ring = front,
        .grey = !front || !report_get_bool(&p->rd, d, "feasible")};

    if (c->n < MOST && x.x > 0 && x.y > 0)
        points[c->n++] = x;
}

/* A plan of the front, by its number in the chart. */
static void item(struct report_page *p, const struct report_point *x)
{
    char step[64], memory[64];

    pdl_puts(p->out, "<li><code>");
    report_loose(p->out, x->name);
    pdl_printf(p->out, "</code>: %s, %s</li>\n",
               pdl_unit_format(x->x, PDL_UNIT_SECONDS, step, sizeof step),
               pdl_unit_format(x->y, PDL_UNIT_BYTES, memory, sizeof memory));
}

void report_front(struct report_page *p, const struct pdl_doc *front,
                  const struct pdl_doc *plans)
{
    struct report_point *points = PDL_NEW(p->arena, struct report_point, MOST);
    struct report_scatter c = {
        .id = "front-chart",
        .label = "step time against memory of all plans; the front is joined",
        .x = {.title = "time of one step",
              .unit = PDL_UNIT_SECONDS,
              .log = true,
              .tight = true},
        .y = {.title = "memory of the fullest PE",
              .unit = PDL_UNIT_BYTES,
              .log = true,
              .tight = true},
        .points = points,
        .joined = true,
        .limit_name = "capacity"};

    for (const struct pdl_doc *d = points ? front->child : NULL; d; d = d->next)
        add(p, d, true, d, &c, points);
    for (const struct pdl_doc *d = points ? plans->child : NULL; d;
         d = d->next) {
        const struct pdl_doc *memory = report_get_map(&p->rd, d, "memory");

        if (!memory)
            return;
        c.limit = report_get_num(&p->rd, memory, "capacity_bytes");
        add(p, d, false, memory, &c, points);
    }
    if (p->rd.st != PDL_OK || c.n < 2)
        return;
    report_scatter(p->out, &c);
    pdl_puts(p->out, "<ol>\n");
    for (int i = 0; i < c.n && points[i].ring; i++)
        item(p, &points[i]);
    pdl_puts(p->out, "</ol>\n");
}
