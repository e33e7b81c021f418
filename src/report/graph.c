/* SPDX-License-Identifier: Apache-2.0
 *
 * A network as a graph that can be drawn: links of one pair of vertices are
 * one edge, with the bytes each way and the heat of the hottest. A graph too
 * large to be drawn is made coarser: first hosts disappear into their switch,
 * then neighbouring numbers are taken together. */
#include "report_priv.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- edges ------------------------------------------------------------- */

static int by_ends(const void *pa, const void *pb)
{
    const struct report_edge *a = pa, *b = pb;

    return a->a != b->a ? (a->a > b->a) - (a->a < b->a)
                        : (a->b > b->b) - (a->b < b->b);
}

static int64_t saturating(int64_t x, int64_t y)
{
    int64_t sum;

    return pdl_add64(x, y, &sum) ? sum : INT64_MAX;
}

/* One edge a pair, none from a vertex to itself. */
static void unite(struct report_graph *g)
{
    int n = 0;

    for (int i = 0; i < g->ne; i++) {
        struct report_edge e = g->e[i];

        if (e.a > e.b)
            e = (struct report_edge){
                e.b, e.a, {e.bytes[1], e.bytes[0]}, e.heat, e.bytes_per_s};
        g->e[i] = e;
    }
    qsort(g->e, (size_t)g->ne, sizeof *g->e, by_ends);
    for (int i = 0; i < g->ne; i++) {
        struct report_edge *last = n > 0 ? &g->e[n - 1] : NULL;

        if (g->e[i].a == g->e[i].b)
            continue;
        if (!last || by_ends(last, &g->e[i]) != 0) {
            g->e[n++] = g->e[i];
            continue;
        }
        for (int k = 0; k < 2; k++)
            last->bytes[k] = saturating(last->bytes[k], g->e[i].bytes[k]);
        if (g->e[i].heat > last->heat)
            last->heat = g->e[i].heat;
        if (g->e[i].bytes_per_s > last->bytes_per_s)
            last->bytes_per_s = g->e[i].bytes_per_s;
    }
    g->ne = n;
}

static void read_links(struct report_graph *g, const struct pdl_net *net,
                       const int64_t *bytes, double time_s)
{
    for (int i = 0; i < net->nlinks; i++) {
        const struct pdl_link *k = &net->links[i];
        int64_t sent = bytes ? bytes[i] : 0;

        g->e[g->ne++] = (struct report_edge){
            .a = k->from,
            .b = k->to,
            .bytes = {sent, 0},
            .bytes_per_s = k->bytes_per_s,
            .heat = time_s > 0 && k->bytes_per_s > 0
                        ? (double)sent / k->bytes_per_s / time_s
                        : 0};
    }
    unite(g);
}

/* ---- levels: how far from the hosts ------------------------------------ */

/* From the vertices that have the lowest level; the others have -1. */
static void spread_levels(struct report_graph *g, int lowest)
{
    bool more = true;

    for (int level = lowest; more && level < g->nv + lowest; level++) {
        more = false;
        for (int i = 0; i < g->ne; i++)
            for (int k = 0; k < 2; k++) {
                int from = k ? g->e[i].b : g->e[i].a;
                int to = k ? g->e[i].a : g->e[i].b;

                if (g->v[from].level != level || g->v[to].level >= 0)
                    continue;
                g->v[to].level = level + 1;
                more = true;
            }
    }
    for (int i = 0; i < g->nv; i++)
        if (g->v[i].level < 0)
            g->v[i].level = 1;
}

static void set_levels(struct report_graph *g, int nhosts)
{
    for (int i = 0; i < g->nv; i++)
        g->v[i].level = i < nhosts ? 0 : -1;
    spread_levels(g, 0);
}

static void set_parents(struct report_graph *g)
{
    for (int i = 0; i < g->nv; i++)
        g->v[i].parent = -1;
    for (int i = 0; i < g->ne; i++) {
        struct report_edge e = g->e[i];

        for (int k = 0; k < 2; k++) {
            int low = k ? e.b : e.a, high = k ? e.a : e.b;

            if (g->v[high].level == g->v[low].level + 1 && g->v[low].parent < 0)
                g->v[low].parent = high;
        }
    }
}

/* ---- coarser ----------------------------------------------------------- */

/* map[v] is the new number of vertex v; n new vertices. */
static void apply(struct report_graph *g, const int *map, int n)
{
    for (int i = 0; i < g->ne; i++) {
        g->e[i].a = map[g->e[i].a];
        g->e[i].b = map[g->e[i].b];
    }
    g->nv = n;
    unite(g);
    set_parents(g);
}

/* Switches that stand for hosts now (those inside nodes, where PEs have
 * adapters of their own too) are the lowest row. */
static void stand_for_hosts(struct report_graph *g)
{
    for (int i = 0; i < g->nv; i++)
        g->v[i].level = g->v[i].many > 1 ? 1 : -1;
    spread_levels(g, 1);
    set_parents(g);
}

static void hosts_into_switches(struct report_graph *g, int *map)
{
    int n = 0;

    for (int i = 0; i < g->nv; i++)
        map[i] = g->v[i].level == 0 && g->v[i].parent >= 0 ? -1 : n++;
    for (int i = 0; i < g->nv; i++)
        if (map[i] < 0) {
            g->v[g->v[i].parent].many += g->v[i].many;
            map[i] = -2 - g->v[i].parent;
        }
    for (int i = 0; i < g->nv; i++)
        if (map[i] < -1)
            map[i] = map[-2 - map[i]];
        else
            g->v[map[i]] = g->v[i]; /* never to the right of what is read */
    apply(g, map, n);
    if (g->layout == REPORT_LEVELS)
        stand_for_hosts(g);
}

static void blocks(struct report_graph *g, int *map)
{
    enum { BLOCKS = 64 };
    int size = (g->nv + BLOCKS - 1) / BLOCKS, n = 0;

    for (int i = 0; i < g->nv; i++) {
        struct report_vertex v = g->v[i];

        map[i] = i / size;
        if (map[i] == n) {
            g->v[n] = v;
            n++;
        } else {
            g->v[n - 1].many += v.many;
        }
    }
    for (int i = 0; i < n; i++) {
        g->v[i].level = 1;
        snprintf(g->v[i].name, sizeof g->v[i].name, "block %d", i);
    }
    g->layout = REPORT_CIRCLE;
    apply(g, map, n);
}

static bool too_large(const struct report_graph *g)
{
    return g->nv > REPORT_MAX_VERTICES || g->ne > REPORT_MAX_EDGES;
}

static enum pdl_status make_coarser(struct report_graph *g,
                                    const struct pdl_net *net,
                                    struct pdl_err *err)
{
    int *map;

    if (!too_large(g))
        return PDL_OK;
    map = PDL_NEW(g->arena, int, g->nv + 1);
    if (!map)
        return pdl_fail(err, PDL_ENOMEM, "no memory to draw the network");
    if (net->nswitches > 0)
        hosts_into_switches(g, map);
    if (too_large(g))
        blocks(g, map);
    return PDL_OK;
}

/* ---- how to lay it out ------------------------------------------------- */

static const struct {
    const char *prefix; /* of the name */
    enum report_layout layout;
} families[] = {
    {"torus", REPORT_GRID},       {"mesh", REPORT_GRID},
    {"full2d", REPORT_GRID},      {"hyperx", REPORT_GRID},
    {"dln", REPORT_CIRCLE},       {"kautz", REPORT_CIRCLE},
    {"dragonfly", REPORT_CIRCLE}, {"random", REPORT_CIRCLE},
};

/* The extents in "torus:4x4x2,..." or "full2d:dims=4x4". */
static void read_dims(struct report_graph *g, const char *spec)
{
    const char *p = strchr(spec, ':');
    char *end;

    g->ndims = 0;
    if (!p)
        return;
    p++;
    if (strncmp(p, "dims=", 5) == 0)
        p += 5;
    while (g->ndims < 8 && *p >= '0' && *p <= '9') {
        g->dims[g->ndims++] = strtoll(p, &end, 10);
        p = *end == 'x' ? end + 1 : "";
    }
}

static void choose_layout(struct report_graph *g, const struct pdl_net *net)
{
    int64_t points = 1;

    g->layout = net->nswitches > 0 ? REPORT_LEVELS : REPORT_CIRCLE;
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
        if (strncmp(net->spec, families[i].prefix,
                    strlen(families[i].prefix)) == 0)
            g->layout = families[i].layout;
    if (g->layout != REPORT_GRID)
        return;
    read_dims(g, net->spec);
    if (!pdl_prod64(g->dims, g->ndims, &points) ||
        points != (net->nswitches > 0 ? net->nswitches : net->nhosts))
        g->layout = REPORT_CIRCLE;
}

enum pdl_status report_graph_make(pdl_arena *a, const struct pdl_net *net,
                                  const int64_t *bytes, double time_s,
                                  struct report_graph *g, struct pdl_err *err)
{
    *g = (struct report_graph){
        .arena = a, .nv = net->nhosts + net->nswitches, .used = bytes != NULL};
    g->of = g->nv;
    g->v = PDL_NEW(a, struct report_vertex, g->nv + 1);
    g->e = PDL_NEW(a, struct report_edge, net->nlinks + 1);
    if (!g->v || !g->e)
        return pdl_fail(err, PDL_ENOMEM, "no memory to draw the network");
    for (int i = 0; i < g->nv; i++) {
        bool host = i < net->nhosts;

        g->v[i].many = 1;
        snprintf(g->v[i].name, sizeof g->v[i].name, "%c%d", host ? 'h' : 's',
                 host ? i : i - net->nhosts);
    }
    read_links(g, net, bytes, time_s);
    set_levels(g, net->nhosts);
    set_parents(g);
    choose_layout(g, net);
    return make_coarser(g, net, err);
}
