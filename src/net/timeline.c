/* SPDX-License-Identifier: Apache-2.0
 *
 * Load over time in a fixed number of buckets. Nobody knows the end
 * beforehand, so the buckets start short and double in length, two becoming
 * one, whenever time runs out of them; the memory stays the same. */
#include "sim_priv.h"

#include <math.h>

enum pdl_status net_timeline_init(struct net_timeline *t, pdl_arena *a, int n,
                                  struct pdl_err *err)
{
    *t = (struct net_timeline){.n = n > 0 ? 2 * n : 0, .width = 1e-9};
    if (n <= 0)
        return PDL_OK;
    t->bytes = PDL_NEW(a, double, t->n);
    if (!t->bytes)
        return pdl_fail(err, PDL_ENOMEM, "no memory for %d buckets", n);
    return PDL_OK;
}

static void double_width(struct net_timeline *t)
{
    for (int i = 0; i < t->n / 2; i++)
        t->bytes[i] = t->bytes[i + i] + t->bytes[i + i + 1];
    for (int i = t->n / 2; i < t->n; i++)
        t->bytes[i] = 0;
    t->width *= 2;
}

void net_timeline_add(struct net_timeline *t, double from, double to,
                      double bytes)
{
    double per_s;
    int first, last;

    if (t->n == 0 || !(to > from) || !isfinite(to))
        return;
    while (to >= t->n * t->width)
        double_width(t);
    per_s = bytes / (to - from);
    first = (int)(from / t->width);
    last = (int)(to / t->width);
    if (first == last) {
        t->bytes[first] += bytes;
        return;
    }
    t->bytes[first] += per_s * ((first + 1) * t->width - from);
    for (int i = first + 1; i < last; i++)
        t->bytes[i] += per_s * t->width;
    t->bytes[last] += per_s * (to - last * t->width);
}
