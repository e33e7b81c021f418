/* SPDX-License-Identifier: Apache-2.0
 *
 * seconds = alpha + bytes/rate through measured times. Relative errors, so
 * that 8 B counts as much as 8 GiB, and their absolute values, not squares,
 * so that one row of a cold cache does not bend the line: the least-squares
 * solution is reweighted by 1/|error| until it settles (iteratively
 * reweighted least squares). Real curves are not lines (protocols change with
 * size), therefore the largest error is part of the answer. */
#include "system_priv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 60 };
#define FLOOR 0.01 /* errors below 1 % weigh the same */

struct line {
    double alpha, beta;
};

/* Weighted least squares of alpha + beta x = t with alpha, beta >= 0. */
static struct line solve(const double *x, const double *t, const double *w,
                         int n)
{
    double s = 0, sx = 0, st = 0, sxx = 0, sxt = 0, det;
    struct line l;

    for (int i = 0; i < n; i++) {
        s += w[i];
        sx += w[i] * x[i];
        st += w[i] * t[i];
        sxx += w[i] * x[i] * x[i];
        sxt += w[i] * x[i] * t[i];
    }
    det = s * sxx - sx * sx;
    l.beta = det > 0 ? (s * sxt - sx * st) / det : 0;
    l.alpha = (st - l.beta * sx) / s;
    if (l.alpha < 0 && sxx > 0)
        l = (struct line){0, sxt / sxx};
    if (l.beta < 0)
        l = (struct line){st / s, 0};
    return l;
}

static double error_at(struct line l, double x, double t)
{
    return fabs(l.alpha + l.beta * x - t) / t;
}

static double total_error(struct line l, const double *x, const double *t,
                          int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += error_at(l, x[i], t[i]);
    return sum;
}

static struct line settle(const double *x, const double *t, double *w, int n)
{
    struct line best, l;
    double least;

    for (int i = 0; i < n; i++)
        w[i] = 1 / (t[i] * t[i]);
    best = l = solve(x, t, w, n);
    least = total_error(l, x, t, n);
    for (int round = 0; round < ROUNDS; round++) {
        double sum;

        for (int i = 0; i < n; i++)
            w[i] = 1 / (t[i] * t[i] * fmax(error_at(l, x[i], t[i]), FLOOR));
        l = solve(x, t, w, n);
        sum = total_error(l, x, t, n);
        if (sum < least) {
            least = sum;
            best = l;
        }
    }
    return best;
}

enum { MAX_POINTS = 4096 };

enum pdl_status pdl_fit_line(const double *bytes, const double *seconds, int n,
                             struct pdl_fit *out, struct pdl_err *err)
{
    double w[MAX_POINTS], max = 0, sum = 0;
    struct line l;
    bool two = false;

    if (n > MAX_POINTS)
        return pdl_fail(err, PDL_EINVAL, "more than %d measured sizes",
                        MAX_POINTS);
    for (int i = 0; i < n; i++) {
        if (!(seconds[i] > 0 && seconds[i] <= 1e4 && bytes[i] >= 0 &&
              bytes[i] < 1e18))
            return pdl_fail(err, PDL_EINVAL,
                            "%g bytes in %g s is not a measurement", bytes[i],
                            seconds[i]);
        two = two || bytes[i] != bytes[0];
    }
    if (!two) {
        pdl_fail(err, PDL_EINVAL, "one size only, a line needs two");
        pdl_hint(err, "run it from 8 B to 1 GiB");
        return PDL_EINVAL;
    }
    l = settle(bytes, seconds, w, n);
    for (int i = 0; i < n; i++) {
        double e = error_at(l, bytes[i], seconds[i]);

        sum += e;
        max = e > max ? e : max;
    }
    *out = (struct pdl_fit){.alpha_s = l.alpha,
                            .bytes_per_s = l.beta > 0 ? 1 / l.beta : 0,
                            .max_error = max,
                            .mean_error = sum / n,
                            .points = n};
    return PDL_OK;
}

/* Benchmarks print three or four digits; more would only look exact. */
double system_round(double v)
{
    char digits[32];

    snprintf(digits, sizeof digits, "%.3e", v);
    return strtod(digits, NULL);
}

/* ---- measured times on their way into a system ------------------------- */

void system_times_add(struct system_times *t, double bytes, double seconds)
{
    if (t->status != PDL_OK)
        return;
    if (t->count == t->cap) {
        int cap = t->cap ? 2 * t->cap : 32;
        double *b = pdl_arena_grow(t->arena, t->bytes, (size_t)t->count,
                                   (size_t)cap, sizeof *b);
        double *s = pdl_arena_grow(t->arena, t->seconds, (size_t)t->count,
                                   (size_t)cap, sizeof *s);

        if (!b || !s) {
            t->status = PDL_ENOMEM;
            return;
        }
        t->bytes = b;
        t->seconds = s;
        t->cap = cap;
    }
    t->bytes[t->count] = bytes;
    t->seconds[t->count++] = seconds;
}

static enum pdl_status rows_of(const struct system_times *t,
                               struct pdl_collective_fit *c,
                               struct pdl_err *err)
{
    struct pdl_ints *rows = PDL_NEW(t->arena, struct pdl_ints, t->count);
    int64_t *v = PDL_NEW(t->arena, int64_t, 2 * t->count);

    if (!rows || !v)
        return system_no_memory(err, "the measured times");
    c->min_bytes = t->bytes[0];
    for (int i = 0; i < t->count; i++, v += 2) {
        v[0] = (int64_t)t->bytes[i];
        v[1] = (int64_t)llround(t->seconds[i] * 1e9);
        v[1] = v[1] > 0 ? v[1] : 1;
        rows[i] = (struct pdl_ints){v, 2};
        c->min_bytes = fmin(c->min_bytes, t->bytes[i]);
        c->max_bytes = fmax(c->max_bytes, t->bytes[i]);
    }
    c->times = rows;
    c->ntimes = t->count;
    return PDL_OK;
}

enum pdl_status system_times_finish(struct system_times *t, const char *source,
                                    struct pdl_system *sys, struct pdl_err *err)
{
    struct pdl_collective_fit c = {.op = t->op,
                                   .library = t->library,
                                   .source = source,
                                   .pes = t->pes,
                                   .nodes = t->nodes,
                                   .bus_bytes_per_s = t->bus_bytes_per_s};
    struct pdl_collective_fit *grown;
    struct pdl_fit fit = {.alpha_s = 0};
    enum pdl_status st = t->status;

    if (st != PDL_OK)
        return system_no_memory(err, "the measured times");
    if (t->count == 1 && t->bytes[0] == 0)
        fit.alpha_s = t->seconds[0]; /* a barrier */
    else
        st = pdl_fit_line(t->bytes, t->seconds, t->count, &fit, err);
    if (st == PDL_OK)
        st = rows_of(t, &c, err);
    if (st != PDL_OK)
        return st;
    c.alpha_s = system_round(fit.alpha_s);
    c.bytes_per_s = fmin(system_round(fit.bytes_per_s), 1e16);
    c.max_error = system_round(fit.max_error);
    c.bus_bytes_per_s = system_round(c.bus_bytes_per_s);
    grown =
        pdl_arena_grow(t->arena, sys->collectives, (size_t)sys->ncollectives,
                       (size_t)sys->ncollectives + 1, sizeof *grown);
    if (!grown)
        return system_no_memory(err, "the measured times");
    grown[sys->ncollectives++] = c;
    sys->collectives = grown;
    return PDL_OK;
}
