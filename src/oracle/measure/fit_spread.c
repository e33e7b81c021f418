/* SPDX-License-Identifier: Apache-2.0
 *
 * How well a fit knows its parameters, all of them together: near its maximum
 * the posterior of their logarithms is taken as normal (Laplace), so that half
 * the second differences of -2 log density are the inverse of the covariance.
 * Its factor gives as many independent moves as there are parameters; in each
 * several of them move together, as far as 80 % of cases go. Moving one at a
 * time, the others held, would forget that runs which tell two of them apart
 * badly leave both uncertain.
 *
 * Limits: the tails are normal; a maximum at a bound is taken as one inside. */
#include "oracle/measure/measure.h"

#include <math.h>
#include <string.h>

static const double DELTA = .05; /* of a logarithm */

struct bend {
    struct pdl_system *sys;
    const struct pdl_fit_param *param;
    int n;
    pdl_fit_cost cost;
    void *ctx;
    int rows;
    double v[PDL_FIT_MAX];
    double h[PDL_FIT_MAX][PDL_FIT_MAX];
};

static double *at(const struct bend *b, int i)
{
    return (double *)(void *)((char *)b->sys + b->param[i].offset);
}

/* -2 log density with two parameters moved by so many steps. */
static double moved(struct bend *b, int i, double di, int k, double dk)
{
    double f;

    *at(b, i) = b->v[i] * exp(di * DELTA);
    *at(b, k) *= exp(dk * DELTA);
    f = oracle_misfit(b->sys, b->param, b->n, b->cost, b->ctx, b->rows);
    *at(b, i) = b->v[i];
    *at(b, k) = b->v[k];
    return f;
}

/* No row can make a parameter less certain than it was. */
static double least(const struct bend *b, int i)
{
    double s = b->param[i].spread;

    return s > 0 ? 1 / (s * s) : 1e-6;
}

static void second_differences(struct bend *b)
{
    double f = oracle_misfit(b->sys, b->param, b->n, b->cost, b->ctx, b->rows);
    double unit = 2 * DELTA * DELTA;

    for (int i = 0; i < b->n; i++) {
        double up = moved(b, i, 1, i, 0), down = moved(b, i, -1, i, 0);

        b->h[i][i] = fmax((up + down - 2 * f) / unit, least(b, i));
        for (int k = 0; k < i; k++)
            b->h[i][k] = b->h[k][i] =
                (moved(b, i, 1, k, 1) - moved(b, i, 1, k, -1) -
                 moved(b, i, -1, k, 1) + moved(b, i, -1, k, -1)) /
                (4 * unit);
    }
}

/* h = l l'; l in the lower half. */
static void factorise(struct bend *b)
{
    for (int k = 0; k < b->n; k++) {
        for (int j = 0; j < k; j++)
            b->h[k][k] -= b->h[k][j] * b->h[k][j];
        b->h[k][k] = sqrt(fmax(b->h[k][k], least(b, k)));
        for (int i = k + 1; i < b->n; i++) {
            for (int j = 0; j < k; j++)
                b->h[i][k] -= b->h[i][j] * b->h[k][j];
            b->h[i][k] /= b->h[k][k];
        }
    }
}

void pdl_fit_moves(struct pdl_system *sys, const struct pdl_fit_param *param,
                   int n, pdl_fit_cost cost, void *ctx, int rows,
                   struct pdl_fit_moves *out)
{
    struct bend b = {.sys = sys,
                     .param = param,
                     .n = n < PDL_FIT_MAX ? n : PDL_FIT_MAX,
                     .cost = cost,
                     .ctx = ctx,
                     .rows = rows};

    memset(out, 0, sizeof *out);
    for (int i = 0; i < b.n; i++)
        b.v[i] = *at(&b, i);
    second_differences(&b);
    factorise(&b);
    for (int k = 0; k < b.n; k++) /* l' x = e_k, from below */
        for (int i = k; i >= 0; i--) {
            double x = i == k ? PDL_IN_80_PERCENT : 0;

            for (int j = i + 1; j <= k; j++)
                x -= b.h[j][i] * out->move[k][j];
            out->move[k][i] = x / b.h[i][i];
        }
    for (int i = 0; i < b.n; i++) {
        for (int k = 0; k < b.n; k++)
            out->spread[i] += out->move[k][i] * out->move[k][i];
        out->spread[i] = sqrt(out->spread[i]);
    }
}
