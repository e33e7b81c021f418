/* SPDX-License-Identifier: Apache-2.0
 *
 * Which designs keep the constraints, in which order, which are on the front
 * of time, cost and energy, and which win when everything that is uncertain is
 * drawn anew.
 *
 * A draw: every price between its low and its high, half of the time on either
 * side of its value; every step by its 80 % interval (a normal distribution of
 * the logarithm), half of the variance shared by all plans of a workload on
 * PEs of one architecture, the other half by all uses of one plan there: what
 * a projection gets wrong of a plan it gets wrong on machines alike too. */
#include "design_priv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEAR   1.05
#define SURE   0.8
#define BATCH  256 /* draws between two looks at an interruption */
#define SIGMAS 1.2815515655446004 /* of a normal distribution, in 80 % */

/* ---- order and front --------------------------------------------------- */

static double goal_of(const struct design_work *w, int i)
{
    const struct pdl_design_point *p = &w->d->point[i];
    struct design_totals t = {.time_s = p->time_s,
                              .cost = p->cost,
                              .kwh = p->kwh,
                              .co2_kg = p->co2_kg};

    return design_goal_of(w->q, &t);
}

/* 0: keeps all; 1: breaks a constraint; 2: lacks a plan. */
static int class_of(const struct pdl_design_point *p)
{
    return !p->complete ? 2 : p->excluded ? 1 : 0;
}

static bool before(const struct design_work *w, int a, int b)
{
    int x = class_of(&w->d->point[a]), y = class_of(&w->d->point[b]);
    double ga = x == 1 ? w->d->point[a].excess : goal_of(w, a);
    double gb = y == 1 ? w->d->point[b].excess : goal_of(w, b);

    if (x != y)
        return x < y;
    return x == 2 || ga == gb ? a < b : ga < gb;
}

/* A heap would do for very many; merges are stable and simple. */
static void sort(const struct design_work *w, int *v, int *tmp, int n)
{
    int half = n / 2, i = 0, k = half, m = 0;

    if (n < 2)
        return;
    sort(w, v, tmp, half);
    sort(w, v + half, tmp, n - half);
    while (i < half || k < n)
        tmp[m++] =
            k == n || (i < half && before(w, v[i], v[k])) ? v[i++] : v[k++];
    memcpy(v, tmp, (size_t)n * sizeof *v);
}

static bool beats(const struct pdl_design_point *a,
                  const struct pdl_design_point *b)
{
    return a->time_s <= b->time_s && a->cost <= b->cost && a->kwh <= b->kwh &&
           (a->time_s < b->time_s || a->cost < b->cost || a->kwh < b->kwh);
}

static void find_front(struct pdl_designs *d)
{
    for (int i = 0; i < d->nfit; i++) {
        struct pdl_design_point *p = &d->point[d->order[i]];

        p->front = true;
        for (int k = 0; k < d->nfit && p->front; k++)
            p->front = !beats(&d->point[d->order[k]], p);
    }
}

/* ---- draws ------------------------------------------------------------- */

static uint64_t mix(uint64_t h, const char *text)
{
    for (; text && *text; text++)
        h = (h ^ (unsigned char)*text) * 0x100000001b3u;
    return (h ^ 0xff) * 0x100000001b3u;
}

/* A standard normal number, a pure function of its place. */
static double normal(uint64_t seed, uint64_t stream, uint64_t draw)
{
    struct pdl_rng r = {.key = seed, .stream = stream, .next = draw << 3};
    double u = pdl_rng_unit(&r), v = pdl_rng_unit(&r);

    return sqrt(-2 * log(1 - u)) * cos(2 * 3.14159265358979323846 * v);
}

static void draw_prices(const struct pdl_prices *p, uint64_t seed, int draw,
                        double *value)
{
    for (int i = 0; i < p->n; i++) {
        const struct pdl_price_item *x = &p->item[i];
        struct pdl_rng r = {.key = seed,
                            .stream = mix(0xcbf29ce484222325u, x->item),
                            .next = (uint64_t)draw << 3};
        double u = pdl_rng_unit(&r);

        value[i] = u < 0.5 ? x->low + (x->value - x->low) * 2 * u
                           : x->value + (x->high - x->value) * (2 * u - 1);
    }
}

static void draw_steps(const struct design_work *w, int i, uint64_t seed,
                       int draw)
{
    const struct pdl_design_point *p = &w->d->point[i];
    double *step = &w->step[(size_t)i * (size_t)w->q->nworkloads];

    for (int k = 0; k < w->q->nworkloads; k++) {
        uint64_t kind = mix(mix(0x9e3779b97f4a7c15u, p->sys.pe.arch),
                            w->q->workload[k].name);
        double z =
            (normal(seed, kind, (uint64_t)draw) +
             normal(seed, mix(kind, p->run[k].strategy), (uint64_t)draw)) /
            sqrt(2);

        step[k] = exp(z * p->run[k].spread / SIGMAS);
    }
}

static enum pdl_status draw_all(struct design_work *w, struct pdl_err *err)
{
    struct pdl_designs *d = w->d;
    int n = d->nfit, draws = w->opt->draws > 0 ? w->opt->draws : 2000;
    uint64_t seed = w->opt->seed ? w->opt->seed : 24;
    double *goal = PDL_NEW(w->arena, double, n + 1);
    double *value = PDL_NEW(w->arena, double, d->prices.n + 1);

    w->step = PDL_NEW(w->arena, double, d->nmachines * w->q->nworkloads);
    if (!goal || !value || !w->step)
        return pdl_fail(err, PDL_ENOMEM, "design: out of memory");
    for (int k = 0; k < draws && n > 0; k++) {
        int best = 0;

        if (k % BATCH == BATCH - 1 && !d->stopped && w->opt->progress &&
            !w->opt->progress(w->opt->ctx, d->stats.runs, d->stats.runs))
            draws = k; /* of these, then */
        if (k == draws)
            break;
        draw_prices(&d->prices, seed, k, value);
        for (int i = 0; i < n; i++) {
            struct design_totals t;

            for (int m = d->order[i]; m >= 0; m = design_next(w, m))
                draw_steps(w, m, seed, k);
            t = design_total(w, d->order[i], value, false);
            goal[i] = design_goal_of(w->q, &t);
            d->point[d->order[i]].keeps += design_keeps(w, &t);
            best = goal[i] < goal[best] ? i : best;
        }
        for (int i = 0; i < n; i++)
            d->point[d->order[i]].near_best += goal[i] <= NEAR * goal[best];
        d->point[d->order[best]].wins += 1;
    }
    for (int i = 0; i < n; i++) {
        d->point[d->order[i]].wins /= draws;
        d->point[d->order[i]].near_best /= draws;
        d->point[d->order[i]].keeps /= draws;
    }
    w->step = NULL;
    d->tie = n > 1 && d->point[d->order[0]].near_best < SURE;
    return PDL_OK;
}

enum pdl_status design_rank(struct design_work *w, struct pdl_err *err)
{
    struct pdl_designs *d = w->d;
    int *tmp = PDL_NEW(w->arena, int, d->n + 1);
    enum pdl_status st = design_limits_open(w, err);

    if (st != PDL_OK)
        return st;
    d->order = PDL_NEW(w->arena, int, d->n + 1);
    if (!tmp || !d->order)
        return pdl_fail(err, PDL_ENOMEM, "design: out of memory");
    for (int i = 0; i < d->n; i++) {
        struct pdl_design_point *p = &d->point[i];
        struct design_totals t = design_total(w, i, w->value, true);

        for (int m = i; m >= 0; m = design_next(w, m))
            p->complete = p->complete && d->point[m].complete;

        p->time_s = t.time_s;
        p->cost = t.cost;
        p->kwh = t.kwh;
        p->co2_kg = t.co2_kg;
        design_compare_rent(w, i);
        design_limits(w, i, &t);
        d->order[i] = i;
    }
    sort(w, d->order, tmp, d->n);
    while (d->nfit < d->n && class_of(&d->point[d->order[d->nfit]]) == 0)
        d->nfit++;
    find_front(d);
    return draw_all(w, err);
}
