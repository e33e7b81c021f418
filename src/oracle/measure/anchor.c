/* SPDX-License-Identifier: Apache-2.0
 *
 * A projection anchored to one's own runs: what they took over what was
 * projected of them, its median, moves the step, and how they scatter around it
 * gives the interval. Runs that share all features count; where there are none,
 * those of the same framework and architecture; else all of them, with an
 * interval as wide as if nothing had been measured here. */
#include "oracle/measure/measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Repeats of one job differ by as much; few runs tell little of the scatter. */
static const double LEAST = .05;
enum { FEW = 4 };

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double at(const double *sorted, int n, double part)
{
    int i = (int)ceil(part * n) - 1;

    return sorted[i < 0 ? 0 : i];
}

/* Framework and architecture: the first two parts of a key. */
static bool same_machine(const char *a, const char *b)
{
    const char *x = strchr(a, '/'), *end = x ? strchr(x + 1, '/') : NULL;
    size_t n = end ? (size_t)(end - a) : strlen(a);

    return strncmp(a, b, n) == 0 && (b[n] == '/' || b[n] == '\0');
}

static int gather(const struct pdl_own_run *run, int n, const char *key,
                  int how, double *ratio)
{
    int k = 0;

    for (int i = 0; i < n; i++)
        if (run[i].projected_s > 0 && run[i].measured_s > 0 &&
            (how == 2 || (how == 1 && same_machine(key, run[i].key)) ||
             strcmp(key, run[i].key) == 0))
            ratio[k++] = log(run[i].measured_s / run[i].projected_s);
    return k;
}

enum pdl_status pdl_anchor_find(pdl_arena *a, const struct pdl_own_run *run,
                                int n, const char *key, double half_width,
                                struct pdl_anchor *out)
{
    double *ratio = PDL_NEW(a, double, n + 1), middle, wide;
    int how = 0, k = 0;

    *out = (struct pdl_anchor){.runs = 0};
    if (!ratio)
        return PDL_ENOMEM;
    while (how < 3 && (k = gather(run, n, key, how, ratio)) == 0)
        how++;
    if (k == 0)
        return PDL_OK;
    qsort(ratio, (size_t)k, sizeof *ratio, by_size);
    middle = k % 2 ? ratio[k / 2] : (ratio[k / 2 - 1] + ratio[k / 2]) / 2;
    for (int i = 0; i < k; i++)
        ratio[i] = fabs(ratio[i] - middle);
    qsort(ratio, (size_t)k, sizeof *ratio, by_size);
    wide = fmax(LEAST, at(ratio, k, .8)) * (k < FEW ? 2 : 1);
    out->runs = k;
    out->alike = how == 0;
    out->factor = exp(middle);
    out->half_width = how == 0   ? fmin(wide, half_width)
                      : how == 1 ? fmin(2 * wide, half_width)
                                 : half_width;
    return PDL_OK;
}

enum pdl_status pdl_anchor_to_own(pdl_arena *a, const struct pdl_plan *plan,
                                  const struct pdl_system *sys,
                                  const struct pdl_oracle_options *opt,
                                  const struct pdl_projection *x,
                                  struct pdl_anchor *out)
{
    struct pdl_projection bars = *x;
    char key[192];

    pdl_interval(plan, sys, opt, &bars);
    pdl_evidence_key(plan->model, plan->strategy, sys, opt, key, sizeof key);
    return pdl_anchor_find(a, opt->own, opt->nown, key,
                           bars.high_s > 0 ? log(bars.high_s / bars.step_s) : 0,
                           out);
}
