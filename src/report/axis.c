/* SPDX-License-Identifier: Apache-2.0
 *
 * Axes: where round values are, and where a value is drawn. Linear axes step
 * by 1, 2 or 5 times a power of ten (bytes: by powers of two). Logarithmic
 * ones step by powers of two, or for times by decades, and by 1-2-5 where
 * there are few decades. */
#include "report_priv.h"

#include <math.h>
#include <stdio.h>

enum { WANTED = 7 };

static void add_tick(struct report_axis *ax, double v)
{
    if (ax->nticks < REPORT_MAX_TICKS)
        ax->ticks[ax->nticks++] = v;
}

static double nice_step(double raw, enum pdl_unit unit)
{
    double power, m;

    if (unit == PDL_UNIT_BYTES)
        return fmax(1, exp2(ceil(log2(raw) - 1e-9)));
    if (unit == PDL_UNIT_NONE && raw < 1)
        return 1; /* counts */
    power = pow(10, floor(log10(raw)));
    m = raw / power;
    return power * (m <= 1 + 1e-9 ? 1 : m <= 2 + 1e-9 ? 2 : m <= 5 ? 5 : 10);
}

static void fit_linear(struct report_axis *ax, double max)
{
    double step = nice_step((max > 0 ? max : 1) / WANTED, ax->unit);
    int n = (int)ceil(max / step - 1e-9);

    ax->min = 0;
    ax->max = step * (n > 0 ? n : 1);
    for (int i = 0; i <= n; i++)
        add_tick(ax, i * step);
}

/* From min, not from 0. */
static void fit_near(struct report_axis *ax, double min, double max)
{
    double step = nice_step((max - min) / WANTED, ax->unit);

    ax->min = step * floor(min / step + 1e-9);
    ax->max = step * ceil(max / step - 1e-9);
    for (int i = 0; i <= (int)lround((ax->max - ax->min) / step); i++)
        add_tick(ax, ax->min + i * step);
}

static void fit_log2(struct report_axis *ax, double min, double max)
{
    int lo = (int)floor(log2(min) + 1e-9), hi = (int)ceil(log2(max) - 1e-9);
    int step = 1;

    if (hi <= lo)
        hi = lo + 1;
    while ((hi - lo) / step > WANTED)
        step++;
    ax->min = exp2(lo);
    ax->max = exp2(hi);
    for (int k = lo; k <= hi; k += step)
        add_tick(ax, exp2(k));
}

/* The k-th of ..., 0.5, 1, 2, 5, 10, ...: k = 3 * decade + which. */
static double one_two_five(int k)
{
    static const double m[] = {1, 2, 5};
    int which = (k % 3 + 3) % 3, decade = (k - which) / 3;

    return m[which] * pow(10, decade);
}

static void fit_log10(struct report_axis *ax, double min, double max)
{
    int lo = 3 * (int)floor(log10(min)), hi, decades, step = 1;

    while (one_two_five(lo + 1) <= min * (1 + 1e-9))
        lo++;
    hi = lo + 1;
    while (one_two_five(hi) < max * (1 - 1e-9))
        hi++;
    ax->min = one_two_five(lo);
    ax->max = one_two_five(hi);
    decades = (hi - lo + 2) / 3;
    while (decades / step > WANTED + 2)
        step++;
    for (int k = lo, n = 0; k <= hi; k++)
        if (decades <= 3 || (k % 3 == 0 && n++ % step == 0))
            add_tick(ax, one_two_five(k));
}

void report_axis_fit(struct report_axis *ax, double min, double max)
{
    double tiny = 1e-15, huge = 1e24;

    ax->nticks = 0;
    if (!(max < huge))
        max = huge;
    if (ax->tight && min > tiny && max > 1.0001 * min && max < 5 * min) {
        ax->log = false;
        fit_near(ax, min, max);
        return;
    }
    if (!ax->log) {
        fit_linear(ax, max > tiny ? max : 0);
        return;
    }
    if (!(min > tiny))
        min = tiny;
    if (min > huge)
        min = huge;
    if (!(max > min))
        max = min;
    if (ax->unit == PDL_UNIT_SECONDS || ax->tens)
        fit_log10(ax, min, max);
    else
        fit_log2(ax, min, max);
}

double report_axis_at(const struct report_axis *ax, double v)
{
    double t;

    if (ax->log)
        t = log(fmax(v, ax->min * 1e-9) / ax->min) / log(ax->max / ax->min);
    else
        t = (v - ax->min) / (ax->max - ax->min);
    if (isnan(t))
        t = 0;
    return ax->from + fmax(-0.05, fmin(1.05, t)) * (ax->to - ax->from);
}

const char *report_axis_text(const struct report_axis *ax, double v, char *buf,
                             size_t size)
{
    if (ax->whole && v < 1e15) {
        snprintf(buf, size, "%lld", (long long)llround(v));
        return buf;
    }
    return pdl_unit_format(v, v == 0 ? PDL_UNIT_NONE : ax->unit, buf, size);
}

static double half_text(const struct report_axis *ax, int i)
{
    char text[64];

    return report_width(pdl_text_width(
               report_axis_text(ax, ax->ticks[i], text, sizeof text))) /
           2;
}

int report_axis_stride(const struct report_axis *ax)
{
    int stride = 1;

    for (int i = stride; i < ax->nticks; i += stride) {
        double room = fabs(report_axis_at(ax, ax->ticks[i]) -
                           report_axis_at(ax, ax->ticks[i - stride]));

        if (room < half_text(ax, i) + half_text(ax, i - stride) + 4)
            i = 0, stride++; /* from the beginning, with fewer */
    }
    return stride;
}
