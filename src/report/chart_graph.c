/* SPDX-License-Identifier: Apache-2.0
 *
 * A network drawn with the heat of its links: five steps of the share of a
 * link's capacity that was used, by colour and by width. Links that pass over
 * other vertices (the way round of a torus, lines of a full mesh) are bent. */
#include "report_priv.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum { STEPS = 5 };

static int step_of(double heat)
{
    return heat <= 0     ? 0
           : heat < 0.25 ? 1
           : heat < 0.5  ? 2
           : heat < 0.75 ? 3
                         : 4;
}

static void point(struct pdl_sink *out, const char *letter, double x, double y)
{
    pdl_puts(out, letter);
    report_num(out, x);
    pdl_puts(out, " ");
    report_num(out, y);
}

/* A grid's long links are bent, the longest almost to the next row, and so
 * are those within one row of levels. */
static double bend_of(const struct report_graph *g, double dx, double dy)
{
    double length = hypot(dx, dy);

    if (g->layout == REPORT_GRID)
        return length > 1.5 * g->pitch ? fmin(0.9 * g->pitch, 0.22 * length)
                                       : 0;
    if (g->layout == REPORT_LEVELS && fabs(dy) < 1)
        return length * 0.2;
    return 0;
}

static void edge(struct pdl_sink *out, const struct report_graph *g,
                 const struct report_edge *e)
{
    const struct report_vertex *a = &g->v[e->a], *b = &g->v[e->b];
    double dx = b->x - a->x, dy = b->y - a->y, bend = bend_of(g, dx, dy);
    double length = fmax(hypot(dx, dy), 1e-6);
    char there[64], back[64];

    pdl_printf(out, "<path class=\"e e%d\" d=\"", step_of(e->heat));
    point(out, "M", a->x, a->y);
    if (bend > 0) {
        point(out, "Q", (a->x + b->x) / 2 + bend * dy / length,
              (a->y + b->y) / 2 - bend * dx / length);
        pdl_puts(out, " ");
    }
    point(out, bend > 0 ? "" : "L", b->x, b->y);
    pdl_puts(out, "\">");
    if (g->used)
        report_tip(out, "%s to %s: %s, back %s; %d %% used", a->name, b->name,
                   pdl_unit_format((double)e->bytes[0], PDL_UNIT_BYTES, there,
                                   sizeof there),
                   pdl_unit_format((double)e->bytes[1], PDL_UNIT_BYTES, back,
                                   sizeof back),
                   (int)lround(fmin(e->heat, 10) * 100));
    else
        report_tip(out, "%s - %s", a->name, b->name);
    pdl_puts(out, "</path>\n");
}

static void vertex(struct pdl_sink *out, const struct report_graph *g,
                   const struct report_vertex *v)
{
    double r = g->nv > 300 ? 2.5 : g->nv > 100 ? 3.5 : 5;
    bool square = v->level > 0;

    if (square) {
        r *= v->many > 1 ? 1.6 : 1.2;
        pdl_puts(out, "<rect class=\"switch\"");
        report_attr(out, "x", v->x - r);
        report_attr(out, "y", v->y - r);
        report_attr(out, "width", 2 * r);
        report_attr(out, "height", 2 * r);
    } else {
        pdl_puts(out, "<circle class=\"host\"");
        report_attr(out, "cx", v->x);
        report_attr(out, "cy", v->y);
        report_attr(out, "r", r);
    }
    pdl_puts(out, ">");
    if (v->many > 1)
        report_tip(out, "%s and %" PRId64 " more", v->name, v->many - 1);
    else
        report_tip(out, "%s", v->name);
    pdl_puts(out, square ? "</rect>\n" : "</circle>\n");
}

/* ---- rows of levels ------------------------------------------------------ */

enum { RATES = 3 };

/* Rates of the links from a level to lower ones, the quickest first; how many
 * (the slowest that are too many are left out). */
static int rates_of(const struct report_graph *g, int level, double *rate)
{
    int n = 0;

    for (int i = 0; i < g->ne; i++) {
        int a = g->v[g->e[i].a].level, b = g->v[g->e[i].b].level, k = 0;
        double r = g->e[i].bytes_per_s;

        if (a == b || (a > b ? a : b) != level || !(r > 0))
            continue;
        while (k < n && rate[k] > r)
            k++;
        if (k == RATES || (k < n && rate[k] == r))
            continue;
        n += n < RATES;
        for (int m = n - 1; m > k; m--)
            rate[m] = rate[m - 1];
        rate[k] = r;
    }
    return n;
}

/* What stands in a row, and how quick the links below it are. */
static void level_label(struct pdl_sink *out, const struct report_graph *g,
                        int level)
{
    double rate[RATES], y = 0;
    int count = 0, n = level > 0 ? rates_of(g, level, rate) : 0;
    char text[32];

    for (int i = 0; i < g->nv; i++)
        if (g->v[i].level == level) {
            count++;
            y = g->v[i].y;
        }
    if (count == 0)
        return;
    pdl_puts(out, "<text class=\"level\"");
    report_attr(out, "x", 4);
    report_attr(out, "y", level > 0 ? y - 12 : y + 24);
    pdl_printf(out, ">%d %s%s", count, level > 0 ? "switch" : "host",
               count == 1  ? ""
               : level > 0 ? "es"
                           : "s");
    for (int i = 0; i < n; i++)
        pdl_printf(
            out, "%s%s", i == 0 ? ", links down of " : " and ",
            pdl_unit_format(rate[i], PDL_UNIT_BYTES_S, text, sizeof text));
    pdl_puts(out, "</text>\n");
}

static void level_labels(struct pdl_sink *out, const struct report_graph *g)
{
    int most = 0;

    for (int i = 0; i < g->nv; i++)
        most = g->v[i].level > most ? g->v[i].level : most;
    for (int level = 0; g->layout == REPORT_LEVELS && level <= most; level++)
        level_label(out, g, level);
}

static bool any(const struct report_graph *g, bool switches)
{
    for (int i = 0; i < g->nv; i++)
        if ((g->v[i].level > 0) == switches)
            return true;
    return false;
}

static void legend(struct pdl_sink *out, const struct report_graph *g)
{
    static const char *const names[STEPS] = {"not used", "below 25 %",
                                             "25 to 50 %", "50 to 75 %",
                                             "75 % and more of the capacity"};

    pdl_puts(out, "<p class=\"keys\">");
    for (int i = 0; g->used && i < STEPS; i++)
        pdl_printf(out, "<span><span class=\"key h%d\"></span> %s</span> ", i,
                   names[i]);
    if (any(g, false))
        pdl_puts(out, "<span><span class=\"key kh\"></span> host</span> ");
    if (any(g, true))
        pdl_puts(out, "<span><span class=\"key k0\"></span> switch</span>");
    pdl_puts(out, "</p>\n");
}

struct place {
    const struct report_edge *e;
};

/* The hottest last: they are drawn on top. */
static int by_heat(const void *pa, const void *pb)
{
    const struct report_edge *a = ((const struct place *)pa)->e;
    const struct report_edge *b = ((const struct place *)pb)->e;

    if (a->heat != b->heat)
        return a->heat < b->heat ? -1 : 1;
    return (a < b) - (a > b);
}

static void table(struct pdl_sink *out, const struct report_graph *g,
                  const struct place *order)
{
    enum { HOTTEST = 100 };
    static const struct report_column columns[] = {{"between", false},
                                                   {"and", false},
                                                   {"bytes there", true},
                                                   {"bytes back", true},
                                                   {"used", true}};
    int n = g->ne < HOTTEST ? g->ne : HOTTEST;
    struct report_table t;

    report_details(out, n < g->ne ? "the 100 hottest links" : "all links");
    report_table_begin(&t, out, columns, 5);
    for (int i = g->ne - 1, k = 0; k < n; i--, k++) {
        report_cell(&t, "%s", g->v[order[i].e->a].name);
        report_cell(&t, "%s", g->v[order[i].e->b].name);
        report_cell_unit(&t, (double)order[i].e->bytes[0], PDL_UNIT_BYTES);
        report_cell_unit(&t, (double)order[i].e->bytes[1], PDL_UNIT_BYTES);
        report_cell(&t, "%d %%", (int)lround(fmin(order[i].e->heat, 10) * 100));
    }
    report_table_end(&t);
    report_details_end(out);
}

void report_graph_draw(struct pdl_sink *out, const char *id, const char *label,
                       const struct report_graph *g)
{
    struct place *order = PDL_NEW(g->arena, struct place, g->ne + 1);

    if (!order) {
        out->failed = true;
        return;
    }
    for (int i = 0; i < g->ne; i++)
        order[i].e = &g->e[i];
    qsort(order, (size_t)g->ne, sizeof *order, by_heat);
    report_svg(out, id, "graph", label, (int)g->w, (int)g->h);
    for (int i = 0; i < g->ne; i++)
        edge(out, g, order[i].e);
    for (int i = 0; i < g->nv; i++)
        vertex(out, g, &g->v[i]);
    level_labels(out, g);
    report_svg_end(out);
    legend(out, g);
    if (g->used)
        table(out, g, order);
}
