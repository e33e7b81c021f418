/* SPDX-License-Identifier: Apache-2.0
 *
 * The time of a collective from the times that were measured.
 *
 * Between two measured sizes the logarithm of the time is taken to be linear
 * in the logarithm of the size: a line alpha + bytes/rate cannot follow the
 * steps that caches, transports and algorithms make over five decades of
 * sizes, the measured points can. Beyond the largest size the time of a byte
 * stays that of the last stretch; below the smallest it is the smallest one's.
 * Between two measured numbers of ranks the time is linear, as the number of
 * steps is; beyond them it scales as the bytes that each rank of a ring
 * moves. */
#include "system_priv.h"

#include <math.h>
#include <string.h>

static double log_between(double x0, double y0, double x1, double y1, double x)
{
    double t = (log(x) - log(x0)) / (log(x1) - log(x0));

    return exp(log(y0) + t * (log(y1) - log(y0)));
}

/* Seconds of one row at a size; its times ascend. */
static double at_size(const struct pdl_collective_fit *f, double bytes)
{
    int64_t last = f->ntimes - 1, i = 0;
    double rate, x0, x1, y0, y1;

    if (f->ntimes == 0)
        return f->alpha_s + (f->bytes_per_s > 0 ? bytes / f->bytes_per_s : 0);
    while (i < last && (double)f->times[i + 1].v[0] < bytes)
        i++;
    y0 = 1e-9 * (double)f->times[i].v[1];
    x0 = (double)f->times[i].v[0];
    if (bytes <= x0 || last == 0)
        return y0;
    if (i == last) {
        x1 = x0;
        y1 = y0;
        x0 = (double)f->times[last - 1].v[0];
        y0 = 1e-9 * (double)f->times[last - 1].v[1];
        rate = (y1 - y0) / (x1 - x0);
        return y1 + (rate > 0 ? rate : 0) * (bytes - x1);
    }
    x1 = (double)f->times[i + 1].v[0];
    y1 = 1e-9 * (double)f->times[i + 1].v[1];
    if (x0 <= 0)
        return y0 + (y1 - y0) * bytes / x1;
    return log_between(x0, y0, x1, y1, bytes);
}

static bool ascending(const struct pdl_collective_fit *f)
{
    for (int64_t i = 1; i < f->ntimes; i++)
        if (f->times[i].v[0] <= f->times[i - 1].v[0])
            return false;
    return true;
}

static double ring_share(double pes)
{
    return (pes - 1) / pes;
}

bool pdl_collective_seconds(const struct pdl_system *sys, const char *op,
                            int64_t pes, int64_t bytes, double *out)
{
    const struct pdl_collective_fit *below = NULL, *above = NULL, *one;

    if (pes < 2 || bytes < 0)
        return false;
    for (int64_t i = 0; i < sys->ncollectives; i++) {
        const struct pdl_collective_fit *f = &sys->collectives[i];

        if (strcmp(f->op, op) != 0 || f->pes < 2 || !ascending(f))
            continue;
        if (f->pes <= pes && (!below || f->pes > below->pes))
            below = f;
        if (f->pes >= pes && (!above || f->pes < above->pes))
            above = f;
    }
    one = below ? below : above;
    if (!one)
        return false;
    if (!below || !above || below->pes == above->pes)
        *out = at_size(one, (double)bytes) * ring_share((double)pes) /
               ring_share((double)one->pes);
    else
        *out = at_size(below, (double)bytes) +
               (at_size(above, (double)bytes) - at_size(below, (double)bytes)) *
                   (double)(pes - below->pes) /
                   (double)(above->pes - below->pes);
    return true;
}
