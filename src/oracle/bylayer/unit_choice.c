/* SPDX-License-Identifier: Apache-2.0
 *
 * One of k choices for each of n units, at the least sum of what units cost
 * and what neighbours cost each other: dynamic programming over a
 * series-parallel graph. A unit with one neighbour is a cost of that one's
 * choice, a unit between two becomes a cost of their pair (a min-plus product,
 * k^3), and two costs of one pair add up; chains and residual blocks, nested
 * to any depth, shrink to one unit (Valdes, Tarjan and Lawler, SIAM J. Comput.
 * 11, 1982, for the reductions). Choices are read off in reverse.
 *
 * A graph that is not series-parallel stops shrinking with three neighbours
 * everywhere. Then a unit of fewest neighbours is made to choose as its first
 * one does, and the answer is marked as not exact. */
#include "oracle/bylayer/bylayer.h"

#include <math.h>
#include <string.h>

struct edge {
    int u, v; /* u < v; u < 0: gone */
    double *cost;
};

/* How a unit that is gone chooses: best[a * k + b] for the choices of x and
 * y (-1: none). */
struct gone {
    int unit, x, y;
    int *best;
};

struct solver {
    pdl_arena *arena;
    int n, k, nedges, ngone;
    double *own;
    struct edge *edge;
    int *degree;
    struct gone *gone;
    bool failed;
};

double oracle_choice_cost(const struct oracle_choice *c, const int *pick)
{
    double sum = 0;

    for (int i = 0; i < c->n; i++)
        sum += c->own[(int64_t)i * c->k + pick[i]];
    for (int e = 0; e < c->npairs; e++)
        sum +=
            c->pair[e]
                .cost[(int64_t)pick[c->pair[e].u] * c->k + pick[c->pair[e].v]];
    return sum;
}

/* The cost of (choice a of unit u, choice b of the other end). */
static double cost_at(const struct solver *s, const struct edge *e, int u,
                      int a, int b)
{
    return e->u == u ? e->cost[(int64_t)a * s->k + b]
                     : e->cost[(int64_t)b * s->k + a];
}

static struct edge *find_edge(struct solver *s, int u, int v)
{
    int low = u < v ? u : v, high = u < v ? v : u;

    for (int e = 0; e < s->nedges; e++)
        if (s->edge[e].u == low && s->edge[e].v == high)
            return &s->edge[e];
    return NULL;
}

/* A pair's cost, [choice of u][choice of v], on top of what it has. */
static void add_edge(struct solver *s, int u, int v, const double *cost)
{
    struct edge *e = find_edge(s, u, v);
    int k = s->k;

    if (!e) {
        e = &s->edge[s->nedges++];
        *e = (struct edge){u < v ? u : v, u < v ? v : u,
                           PDL_NEW(s->arena, double, (int64_t)k *k)};
        s->failed = s->failed || !e->cost;
        s->degree[u]++;
        s->degree[v]++;
    }
    for (int a = 0; !s->failed && a < k; a++)
        for (int b = 0; b < k; b++)
            e->cost[u < v ? a * k + b : b * k + a] += cost[a * k + b];
}

static void drop_edge(struct solver *s, struct edge *e)
{
    s->degree[e->u]--;
    s->degree[e->v]--;
    *e = s->edge[--s->nedges];
}

/* The first edge of a unit, and the unit at its other end. */
static struct edge *edge_of(struct solver *s, int unit, int *other)
{
    for (int i = 0; i < s->nedges; i++)
        if (s->edge[i].u == unit || s->edge[i].v == unit) {
            *other = s->edge[i].u == unit ? s->edge[i].v : s->edge[i].u;
            return &s->edge[i];
        }
    return NULL;
}

static struct gone *leave(struct solver *s, int unit, int x, int y)
{
    int64_t n = (x >= 0 ? s->k : 1) * (int64_t)(y >= 0 ? s->k : 1);
    struct gone *g = &s->gone[s->ngone++];

    *g = (struct gone){unit, x, y, PDL_NEW(s->arena, int, n)};
    s->degree[unit] = -1;
    s->failed = s->failed || !g->best;
    return s->failed ? NULL : g;
}

/* No neighbour or one: what is left is a cost of the neighbour's choice. */
static void take_leaf(struct solver *s, int unit)
{
    int x = -1, k = s->k;
    struct edge *e = edge_of(s, unit, &x), kept = {0};
    struct gone *g;

    if (e) {
        kept = *e;
        drop_edge(s, e);
    }
    g = leave(s, unit, x, -1);
    for (int a = 0; g && a < (x >= 0 ? k : 1); a++) {
        double least = INFINITY;

        for (int c = 0; c < k; c++) {
            double t = s->own[(int64_t)unit * k + c] +
                       (x >= 0 ? cost_at(s, &kept, unit, c, a) : 0);

            if (t < least) {
                least = t;
                g->best[a] = c;
            }
        }
        if (x >= 0)
            s->own[(int64_t)x * k + a] += least;
    }
}

/* Between two: the cheapest way from each choice of one to each of the other.
 * One side's sums are laid out so that the inner loop runs along memory. */
static void take_middle(struct solver *s, int unit)
{
    int x, y, k = s->k;
    struct edge *e = edge_of(s, unit, &x), left, right;
    double *cost = PDL_NEW(s->arena, double, (int64_t)k *k);
    struct gone *g;

    left = *e;
    drop_edge(s, e);
    e = edge_of(s, unit, &y);
    right = *e;
    drop_edge(s, e);
    g = leave(s, unit, x, y);
    s->failed = s->failed || !cost;
    if (s->failed || !g)
        return;
    for (int i = 0; i < k * k; i++)
        cost[i] = INFINITY;
    for (int c = 0; c < k; c++)
        for (int a = 0; a < k; a++) {
            double first =
                s->own[(int64_t)unit * k + c] + cost_at(s, &left, unit, c, a);

            if (isinf(first))
                continue;
            for (int b = 0; b < k; b++) {
                double t = first + cost_at(s, &right, unit, c, b);

                if (t < cost[a * k + b]) {
                    cost[a * k + b] = t;
                    g->best[a * k + b] = c;
                }
            }
        }
    add_edge(s, x, y, cost);
}

/* Not series-parallel: choose as the first neighbour does. */
static void join_neighbour(struct solver *s, int unit)
{
    int x, y, k = s->k;
    struct edge *e = edge_of(s, unit, &x), kept = *e;
    double *cost = PDL_NEW(s->arena, double, (int64_t)k *k);
    struct gone *g;

    drop_edge(s, e);
    s->failed = s->failed || !cost;
    for (int a = 0; a < k; a++)
        s->own[(int64_t)x * k + a] +=
            s->own[(int64_t)unit * k + a] + cost_at(s, &kept, unit, a, a);
    while (!s->failed && (e = edge_of(s, unit, &y))) {
        kept = *e;
        drop_edge(s, e);
        for (int a = 0; a < k; a++)
            for (int b = 0; b < k; b++)
                cost[a * k + b] = cost_at(s, &kept, unit, a, b);
        add_edge(s, x, y, cost);
    }
    g = leave(s, unit, x, -1);
    for (int a = 0; g && a < k; a++)
        g->best[a] = a;
}

static bool start(struct solver *s, const struct oracle_choice *c)
{
    int64_t n = c->n + 1;

    s->n = c->n;
    s->k = c->k;
    s->own = PDL_NEW(s->arena, double, n * c->k);
    s->edge = PDL_NEW(s->arena, struct edge, c->npairs + n);
    s->degree = PDL_NEW(s->arena, int, n);
    s->gone = PDL_NEW(s->arena, struct gone, n);
    if (!s->own || !s->edge || !s->degree || !s->gone)
        return false;
    memcpy(s->own, c->own, (size_t)c->n * (size_t)c->k * sizeof *s->own);
    for (int e = 0; e < c->npairs && !s->failed; e++)
        add_edge(s, c->pair[e].u, c->pair[e].v, c->pair[e].cost);
    return !s->failed;
}

/* The first of the fewest neighbours, so that the order is the same always. */
static int fewest(const struct solver *s)
{
    int best = -1;

    for (int i = 0; i < s->n; i++)
        if (s->degree[i] >= 0 && (best < 0 || s->degree[i] < s->degree[best]))
            best = i;
    return best;
}

double oracle_choice_solve(pdl_arena *a, const struct oracle_choice *c,
                           int *pick, bool *exact)
{
    struct solver s = {.arena = a};

    *exact = true;
    if (c->k < 1 || !start(&s, c))
        return INFINITY;
    for (int i; !s.failed && (i = fewest(&s)) >= 0;)
        if (s.degree[i] <= 1) {
            take_leaf(&s, i);
        } else if (s.degree[i] == 2) {
            take_middle(&s, i);
        } else {
            *exact = false;
            join_neighbour(&s, i);
        }
    if (s.failed)
        return INFINITY;
    for (int i = s.ngone - 1; i >= 0; i--) {
        const struct gone *g = &s.gone[i];
        int at = g->x < 0   ? 0
                 : g->y < 0 ? pick[g->x]
                            : pick[g->x] * c->k + pick[g->y];

        pick[g->unit] = g->best[at];
    }
    return oracle_choice_cost(c, pick);
}
