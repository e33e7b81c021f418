/* SPDX-License-Identifier: Apache-2.0
 *
 * The best points so far, of a mesh or of all: a heap with the worst of them on
 * top, which the next one takes the place of; or what nothing beats in time and
 * memory. Ties are settled by the points' numbers, so that no order of asking
 * changes them. */
#include "oracle/search/best.h"
#include "oracle/search/space.h"

#include <math.h>
#include <stdlib.h>

static int by_rank(const void *pa, const void *pb)
{
    const struct oracle_kept *a = pa, *b = pb;

    if (a->x.feasible != b->x.feasible)
        return b->x.feasible - a->x.feasible;
    if (!a->x.feasible && a->x.peak_bytes != b->x.peak_bytes)
        return a->x.peak_bytes < b->x.peak_bytes ? -1 : 1;
    if (a->goal != b->goal)
        return a->goal < b->goal ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

static void sink(struct oracle_best *b, int64_t at)
{
    for (;;) {
        int64_t worst = at;
        struct oracle_kept t;

        for (int64_t k = 2 * at + 1; k <= 2 * at + 2 && k < b->n; k++)
            if (by_rank(&b->list[k], &b->list[worst]) > 0)
                worst = k;
        if (worst == at)
            return;
        t = b->list[at];
        b->list[at] = b->list[worst];
        b->list[worst] = t;
        at = worst;
    }
}

/* Of equal ones the first. What does not fit is on no front; a front with more
 * members than there is room for loses the last. */
static void keep_front(struct oracle_best *b, const struct oracle_kept *x)
{
    int64_t n = 0;

    for (int64_t i = 0; i < b->n; i++)
        if (oracle_dominates(&b->list[i].x, &x->x) &&
            (!oracle_dominates(&x->x, &b->list[i].x) ||
             b->list[i].index < x->index))
            return;
    for (int64_t i = 0; i < b->n; i++)
        if (!oracle_dominates(&x->x, &b->list[i].x))
            b->list[n++] = b->list[i];
    b->n = n;
    if (x->x.feasible && b->n < b->cap)
        b->list[b->n++] = *x;
}

void oracle_best_keep(struct oracle_best *b, const struct oracle_kept *x)
{
    if (b->front) {
        keep_front(b, x);
        return;
    }
    if (b->n < b->cap) {
        b->list[b->n++] = *x;
        for (int64_t i = b->n / 2; b->n == b->cap && i >= 0; i--)
            sink(b, i);
        return;
    }
    if (by_rank(x, &b->list[0]) < 0) {
        b->list[0] = *x;
        sink(b, 0);
    }
}

double oracle_best_bar(const struct oracle_best *b)
{
    return b->n == b->cap && b->list[0].x.feasible ? b->list[0].goal : INFINITY;
}

bool oracle_best_beats(const struct oracle_best *b,
                       const struct pdl_projection *x, double least)
{
    for (int64_t i = 0; b->front && i < b->n; i++)
        if (b->list[i].x.step_s < least * (1 - 1e-9) &&
            b->list[i].x.peak_bytes <= x->peak_bytes)
            return true;
    return false;
}

void oracle_best_sort(struct oracle_best *b)
{
    qsort(b->list, (size_t)b->n, sizeof b->list[0], by_rank);
}
