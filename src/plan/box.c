/* SPDX-License-Identifier: Apache-2.0
 *
 * Splits and windows: with base's boxes the arithmetic under halos,
 * resharding, checkpoints, data loading and byte counts. Written once; the
 * tests compare each function with an item-by-item count. */
#include "paradl/plan.h"

_Static_assert(PDL_BOX_DIMS == PDL_MAX_RANK + 1, "a box holds any tensor");

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* floor(a / b) and ceil(a / b) for b > 0 and any a. */
static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return -floor_div(-a, b);
}

/* floor(i * m / p) without overflow: m = q*p + r, r mostly 0. */
static int64_t part_start(int64_t q, int64_t r, int64_t p, int64_t i)
{
    return q * i + (r ? r * i / p : 0);
}

void pdl_split(int64_t n, int64_t unit, int64_t parts, int64_t i, int64_t *lo,
               int64_t *hi)
{
    int64_t m, q, r;

    if (parts == 1) { /* most dimensions are whole */
        *lo = 0;
        *hi = n;
        return;
    }
    m = unit == 1 ? n : ceil_div(n, unit);
    q = m / parts;
    r = m - q * parts;
    *lo = min64(n, unit * part_start(q, r, parts, i));
    *hi = min64(n, unit * part_start(q, r, parts, i + 1));
}

void pdl_window_reads(const struct pdl_window *w, int64_t lo, int64_t hi,
                      int64_t *first, int64_t *last)
{
    int64_t reach = (w->kernel - 1) * w->dilation + 1;

    if (hi <= lo) {
        *first = *last = 0;
        return;
    }
    *first = max64(0, lo * w->stride - w->pad);
    *last = max64(*first, min64(w->in, (hi - 1) * w->stride - w->pad + reach));
    *first = min64(*first, *last);
}

void pdl_window_readers(const struct pdl_window *w, int64_t lo, int64_t hi,
                        int64_t *first, int64_t *last)
{
    int64_t reach = (w->kernel - 1) * w->dilation;

    if (hi <= lo) {
        *first = *last = 0;
        return;
    }
    *first = max64(0, ceil_div(lo + w->pad - reach, w->stride));
    *last = min64(w->out, floor_div(hi - 1 + w->pad, w->stride) + 1);
    *last = max64(*first, *last);
}
