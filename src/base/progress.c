/* SPDX-License-Identifier: Apache-2.0
 *
 * Clocks, and the one line on a terminal that says how far we are. */
#include "paradl/base.h"

#include <stdio.h>
#include <time.h>

static double clock_of(clockid_t id)
{
    struct timespec ts;

    clock_gettime(id, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

double pdl_clock_s(void)
{
    return clock_of(CLOCK_MONOTONIC);
}

double pdl_cpu_s(void)
{
    return clock_of(CLOCK_PROCESS_CPUTIME_ID);
}

void pdl_progress_start(struct pdl_progress *p, struct pdl_sink *out,
                        bool enabled, const char *what, int64_t total)
{
    *p = (struct pdl_progress){.out = out,
                               .enabled = enabled,
                               .what = what,
                               .total = total,
                               .start_s = pdl_clock_s()};
}

/* What is left, where what was done says: as long as that for as much. */
static void put_left(const struct pdl_progress *p, int64_t done, double now)
{
    static const double soon = 5;
    double spent = now - p->start_s, left;

    if (spent < soon || done <= 0 || done >= p->total)
        return;
    left = spent * (double)(p->total - done) / (double)done;
    if (left < 120)
        pdl_printf(p->out, ", about %.0f s left", left);
    else
        pdl_printf(p->out, ", about %.0f min left", left / 60);
}

void pdl_progress_step(struct pdl_progress *p, int64_t done)
{
    double now;

    if (!p->enabled)
        return;
    now = pdl_clock_s();
    if (now - p->start_s < 0.5 || now - p->last_s < 0.1)
        return;
    p->last_s = now;
    p->shown = true;
    if (p->total > 0) {
        pdl_printf(p->out, "\r\x1b[K%s %lld/%lld (%.0f %%)", p->what,
                   (long long)done, (long long)p->total,
                   100.0 * (double)done / (double)p->total);
        put_left(p, done, now);
    } else {
        pdl_printf(p->out, "\r\x1b[K%s %lld", p->what, (long long)done);
    }
}

void pdl_progress_end(struct pdl_progress *p)
{
    if (p->shown)
        pdl_puts(p->out, "\r\x1b[K");
    p->shown = false;
}
