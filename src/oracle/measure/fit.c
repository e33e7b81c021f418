/* SPDX-License-Identifier: Apache-2.0
 *
 * Fits named parameters of a system to measurements, and says how well they
 * match. The caller gives the error to make small. The search goes
 * along one parameter after the other with steps that grow when they help and
 * halve when they do not; it is deterministic and needs no gradient, which
 * ceilings and minima over tiles do not have. */
#include "oracle/measure/measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 40, LEAST_ROUNDS = 12, RESTARTS = 4 };
static const double FIRST_STEP = .3, GROW = 1.3, SHRINK = .5, GAIN = 1e-9;
static const double PROBE = 1.25;
/* Parts of the error: a round, a fresh start that gains less is the last. A
 * posterior has one smooth valley. */
static const double ENOUGH = 1e-4, LITTLE = 1e-5, ENOUGH_SMOOTH = 1e-3;
/* Of a measured step: figures are digitised to 1 to 3 %, and campaigns differ
 * by as much. */
static const double NOISE = .02;

struct search {
    struct pdl_system *sys;
    const struct pdl_fit_param *param;
    int n;
    pdl_fit_cost cost;
    void *ctx;
    int evaluations;
    double rows, little, enough;
    bool posterior;
    bool fixed[PDL_FIT_MAX];
};

static double *at(const struct search *s, int i)
{
    return (double *)(void *)((char *)s->sys + s->param[i].offset);
}

/* What is known of a parameter without the rows: as a weight beside the error,
 * or, for the largest posterior, as a normal distribution of the logarithm, as
 * that of measured steps is; then the root of a mean of squares over rows. */
static double evaluate(struct search *s)
{
    double c = s->cost(s->sys, s->ctx), sum = c * c;

    s->evaluations++;
    for (int i = 0; i < s->n; i++)
        if (s->param[i].prior > 0 && *at(s, i) > 0) {
            double x = log(*at(s, i) / s->param[i].start);
            double deviations = x / s->param[i].spread;

            c += s->param[i].prior * x * x;
            sum += deviations * deviations * NOISE * NOISE / s->rows;
        }
    c = s->posterior ? sqrt(sum) : c;
    return isnan(c) ? INFINITY : c;
}

double oracle_misfit(struct pdl_system *sys, const struct pdl_fit_param *param,
                     int n, pdl_fit_cost cost, void *ctx, int rows)
{
    struct search s = {.sys = sys,
                       .param = param,
                       .n = n,
                       .cost = cost,
                       .ctx = ctx,
                       .rows = rows > 0 ? rows : 1,
                       .posterior = true};

    return s.rows * pow(evaluate(&s) / NOISE, 2);
}

static double clamp(const struct pdl_fit_param *p, double v)
{
    return v < p->low ? p->low : v > p->high ? p->high : v;
}

/* Tries one parameter a step down and a step up. */
static bool try_step(struct search *s, int i, double step, double *best)
{
    double old = *at(s, i);

    for (int sign = -1; sign <= 1; sign += 2) {
        double v = clamp(&s->param[i], old * exp(sign * step)), c;

        if (v == old)
            continue;
        *at(s, i) = v;
        c = evaluate(s);
        if (c < *best - GAIN) {
            *best = c;
            return true;
        }
        *at(s, i) = old;
    }
    return false;
}

static double descend(struct search *s, double best)
{
    double step[PDL_FIT_MAX];

    for (int i = 0; i < s->n; i++)
        step[i] = FIRST_STEP;
    for (int round = 0; round < ROUNDS; round++) {
        double before = best;

        for (int i = 0; i < s->n; i++) {
            bool better = !s->fixed[i] && try_step(s, i, step[i], &best);

            step[i] *= better ? GROW : SHRINK;
        }
        if (round >= LEAST_ROUNDS && before - best <= s->little * best)
            break;
    }
    return best;
}

/* What the error on the rows, the prior apart, gains when one parameter alone
 * is off. */
static double sensitivity(struct search *s, int i, double best)
{
    double old = *at(s, i), least = INFINITY;

    for (int k = 0; k < 2; k++) {
        double c;

        *at(s, i) = k ? old * PROBE : old / PROBE;
        c = s->cost(s->sys, s->ctx) - best;
        s->evaluations++;
        least = c < least ? c : least;
    }
    *at(s, i) = old;
    return least;
}

static double descend_again(struct search *s)
{
    double best = evaluate(s);

    for (int i = 0; i < RESTARTS; i++) { /* fresh steps leave narrow valleys */
        double found = descend(s, best);

        if (best - found < s->enough * best)
            return found;
        best = found;
    }
    return best;
}

/* One standard error: the sum of squares of n rows grows by its own mean, so
 * the root of their mean by 1 / 2n of itself. */
static void find_identified(struct search *s, double least,
                            struct pdl_fit_result *out)
{
    double error = s->cost(s->sys, s->ctx);

    for (int i = 0; i < s->n; i++) {
        out->sensitivity[i] = sensitivity(s, i, error);
        out->identified[i] = out->sensitivity[i] > least;
    }
}

/* Parameters that could be off by a quarter within one standard error go back
 * to where they started. */
static bool forget_unidentified(struct search *s,
                                const struct pdl_fit_result *out)
{
    bool any = false;

    for (int i = 0; i < s->n; i++)
        if (!out->identified[i]) {
            *at(s, i) = s->param[i].start;
            s->fixed[i] = true;
            any = true;
        }
    return any;
}

void pdl_fit_reset(struct pdl_system *sys, const struct pdl_fit_param *param,
                   int n)
{
    struct search s = {.sys = sys, .param = param, .n = n};

    for (int i = 0; i < n; i++)
        *at(&s, i) = param[i].start;
}

void pdl_fit_system(struct pdl_system *sys, const struct pdl_fit_param *param,
                    int n, pdl_fit_cost cost, void *ctx, int rows,
                    bool posterior, struct pdl_fit_result *out)
{
    struct search s = {.sys = sys,
                       .param = param,
                       .n = n < PDL_FIT_MAX ? n : PDL_FIT_MAX,
                       .cost = cost,
                       .ctx = ctx,
                       .rows = rows > 0 ? rows : 1,
                       .little = posterior ? LITTLE : 0,
                       .enough = posterior ? ENOUGH_SMOOTH : ENOUGH,
                       .posterior = posterior};
    double least;

    *out = (struct pdl_fit_result){.before = 0};
    out->before = cost(sys, ctx);
    for (int i = 0; i < s.n; i++)
        if (!(*at(&s, i) > 0))
            *at(&s, i) = param[i].start;
    descend_again(&s);
    least = cost(sys, ctx) / (2 * s.rows);
    find_identified(&s, least, out);
    if (!posterior && forget_unidentified(&s, out))
        descend_again(&s);
    if (posterior)
        out->misfit = oracle_misfit(sys, param, s.n, cost, ctx, rows);
    for (int i = 0; i < s.n; i++)
        out->value[i] = *at(&s, i);
    out->after = cost(sys, ctx);
    out->evaluations = s.evaluations;
}

/* ---- how well --------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* Mean rank of v[i] among all. */
static double rank(const double *v, int n, int i)
{
    double r = .5;

    for (int k = 0; k < n; k++)
        r += v[k] < v[i] ? 1 : v[k] == v[i] ? .5 : 0;
    return r;
}

static double spearman(const double *p, const double *m, int n)
{
    double mean = (n + 1) / 2.0, pm = 0, pp = 0, mm = 0;

    for (int i = 0; i < n; i++) {
        double a = rank(p, n, i) - mean, b = rank(m, n, i) - mean;

        pm += a * b;
        pp += a * a;
        mm += b * b;
    }
    return pp > 0 && mm > 0 ? pm / sqrt(pp * mm) : 0;
}

enum pdl_status pdl_match_times(pdl_arena *a, const double *projected,
                                const double *measured, int n,
                                struct pdl_time_match *out)
{
    double *size = PDL_NEW(a, double, n + 1), *off = PDL_NEW(a, double, n + 1);

    *out = (struct pdl_time_match){.n = n};
    if (!size || !off)
        return PDL_ENOMEM;
    for (int i = 0; i < n; i++) {
        off[i] = projected[i] / measured[i] - 1;
        size[i] = fabs(off[i]);
        out->mape += size[i] / n;
    }
    out->accuracy = n > 0 ? 1 - out->mape : 0;
    if (n == 0)
        return PDL_OK;
    out->median = median(size, n);
    out->bias = median(off, n);
    out->spearman = spearman(projected, measured, n);
    return PDL_OK;
}
