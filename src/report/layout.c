/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the vertices of a network go: on a circle (what hangs on them
 * outside), at the points of a grid, or in rows by their distance from the
 * hosts. */
#include "report_priv.h"

#include <math.h>
#include <stdlib.h>

enum { WIDTH = 1000, MARGIN = 40 };

/* ---- what hangs on a vertex is put around it --------------------------- */

static int children_of(const struct report_graph *g, int parent)
{
    int n = 0;

    for (int i = 0; i < g->nv; i++)
        n += g->v[i].parent == parent;
    return n;
}

/* ---- circle ------------------------------------------------------------ */

/* Children spread over the angle of their parent, further out. */
static void fan(struct report_graph *g, int parent, double angle, double room,
                double radius, double step)
{
    int n = children_of(g, parent), k = 0;

    for (int i = 0; n > 0 && i < g->nv; i++) {
        double at;

        if (g->v[i].parent != parent)
            continue;
        at = angle + room * ((k++ + 0.5) / n - 0.5);
        g->v[i].x = g->w / 2 + (radius + step) * sin(at);
        g->v[i].y = g->h / 2 - (radius + step) * cos(at);
        if (g->v[i].level > 0)
            fan(g, i, at, room / n, radius + step, step);
    }
}

static void circle(struct report_graph *g)
{
    int core = 0, deep = 0, k = 0;
    double radius, step = 46;

    for (int i = 0; i < g->nv; i++) {
        core += g->v[i].parent < 0;
        if (g->v[i].level > deep)
            deep = g->v[i].level;
    }
    if (core == g->nv)
        deep = 0;
    g->w = WIDTH;
    g->h = 720;
    radius = g->h / 2 - MARGIN - (deep > 6 ? 6 : deep) * step;
    for (int i = 0; i < g->nv; i++) {
        double at = 2 * M_PI * k / (core > 0 ? core : 1);

        if (g->v[i].parent >= 0)
            continue;
        k++;
        g->v[i].x = g->w / 2 + radius * sin(at);
        g->v[i].y = g->h / 2 - radius * cos(at);
        fan(g, i, at, 2 * M_PI / core * 0.9, radius, step);
    }
}

/* ---- grid -------------------------------------------------------------- */

/* Even dimensions go across, odd ones down; the third and later are blocks of
 * blocks, with a gap between. */
static void grid_point(const struct report_graph *g, int64_t at, double *col,
                       double *row)
{
    double size[2] = {1, 1}, out[2] = {0, 0};

    for (int j = 0; j < g->ndims; j++) {
        out[j % 2] += (double)(at % g->dims[j]) * size[j % 2];
        size[j % 2] = size[j % 2] * (double)g->dims[j] + 0.8;
        at /= g->dims[j];
    }
    *col = out[0];
    *row = out[1];
}

/* Below and to the right, off the lines of the grid. */
static void around(struct report_graph *g, int parent, double radius)
{
    int n = children_of(g, parent), k = 0;

    for (int i = 0; n > 0 && i < g->nv; i++)
        if (g->v[i].parent == parent) {
            double at = M_PI / 2 * (k++ + 1.0) / (n + 1.0);

            g->v[i].x = g->v[parent].x + radius * cos(at);
            g->v[i].y = g->v[parent].y + radius * sin(at);
        }
}

static void grid(struct report_graph *g)
{
    double cols = 0, rows = 0, col, row, cell;
    int64_t at = 0;

    for (int i = 0; i < g->nv; i++)
        if (g->v[i].parent < 0) {
            grid_point(g, at++, &g->v[i].x, &g->v[i].y);
            cols = fmax(cols, g->v[i].x);
            rows = fmax(rows, g->v[i].y);
        }
    cell = fmin((WIDTH - 4.0 * MARGIN) / fmax(cols, 1), 110);
    cell = fmin(cell, 640 / fmax(rows, 1));
    g->w = WIDTH;
    g->h = rows * cell + 4 * MARGIN;
    g->pitch = cell;
    for (int i = 0; i < g->nv; i++)
        if (g->v[i].parent < 0) {
            col = g->v[i].x;
            row = g->v[i].y;
            g->v[i].x = (WIDTH - cols * cell) / 2 + col * cell;
            g->v[i].y = 2 * MARGIN + row * cell;
        }
    for (int i = 0; i < g->nv; i++)
        if (g->v[i].parent < 0)
            around(g, i, cell * 0.3);
}

/* ---- levels ------------------------------------------------------------ */

struct slot {
    int vertex;
    double wish; /* mean x of the neighbours below */
};

static int by_wish(const void *pa, const void *pb)
{
    const struct slot *a = pa, *b = pb;

    if (a->wish != b->wish)
        return a->wish < b->wish ? -1 : 1;
    return (a->vertex > b->vertex) - (a->vertex < b->vertex);
}

static double wish_of(const struct report_graph *g, int v, int fallback)
{
    double sum = 0;
    int n = 0;

    for (int i = 0; i < g->ne; i++) {
        int other = g->e[i].a == v   ? g->e[i].b
                    : g->e[i].b == v ? g->e[i].a
                                     : -1;

        if (other < 0 || g->v[other].level >= g->v[v].level)
            continue;
        sum += g->v[other].x;
        n++;
    }
    return n > 0 ? sum / n : fallback;
}

static void row_of(struct report_graph *g, struct slot *slots, int level,
                   double y)
{
    int n = 0;

    for (int i = 0; i < g->nv; i++)
        if (g->v[i].level == level) {
            slots[n] = (struct slot){i, wish_of(g, i, n)};
            slots[n].wish = floor(slots[n].wish * 8) / 8;
            n++;
        }
    qsort(slots, (size_t)n, sizeof *slots, by_wish);
    for (int i = 0; i < n; i++) {
        g->v[slots[i].vertex].x =
            MARGIN + (WIDTH - 2.0 * MARGIN) * (i + 0.5) / n;
        g->v[slots[i].vertex].y = y;
    }
}

static void levels(struct report_graph *g)
{
    enum { GAP = 130 };
    struct slot *slots = PDL_NEW(g->arena, struct slot, g->nv + 1);
    int low = INT32_MAX, high = 0;

    for (int i = 0; i < g->nv; i++) {
        low = g->v[i].level < low ? g->v[i].level : low;
        high = g->v[i].level > high ? g->v[i].level : high;
    }
    if (!slots || g->nv == 0 || high - low > 12) {
        circle(g);
        return;
    }
    g->w = WIDTH;
    g->h = 2 * MARGIN + (double)GAP * (high - low);
    for (int l = low; l <= high; l++)
        row_of(g, slots, l, g->h - MARGIN - (double)GAP * (l - low));
}

void report_layout(struct report_graph *g)
{
    static void (*const layouts[])(struct report_graph *) = {
        [REPORT_CIRCLE] = circle,
        [REPORT_GRID] = grid,
        [REPORT_LEVELS] = levels,
    };

    layouts[g->layout](g);
}
