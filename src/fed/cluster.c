/* SPDX-License-Identifier: Apache-2.0
 *
 * Clusters of CADIS. Similarities are cosines between updates of the last layer
 * by two clients in one round, a mean over the rounds that both were in. */
#include "fed/cluster.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* How sure a similarity by way of a third client must be. */
static const double MOST_DOUBT = 0.02;

static double mean_of(const struct fed_likeness *x, int64_t at)
{
    return x->sum[at] / x->count[at];
}

/* Clients that i met. */
static int64_t partners_of(const struct fed_likeness *x, int64_t i, double *out)
{
    int64_t m = 0;

    for (int64_t k = 0; k < x->n; k++)
        if (k != i && x->count[i * x->n + k] > 0)
            out[m++] = (double)k;
    return m;
}

/* Of two that never met, from a third client that both met, where that is
 * nearly sure: angles add up, so cos(a + b) lies within sin a sin b of
 * cos a cos b. 0: nothing is known. */
static double by_way_of(const struct fed_likeness *x, int64_t i, int64_t j,
                        const double *partner, int64_t m, double threshold)
{
    int64_t n = x->n;
    double best = 0;

    for (int64_t p = 0; p < m; p++) {
        int64_t k = (int64_t)partner[p];
        double a, b, s;

        if (k == j || x->count[j * n + k] == 0)
            continue;
        a = mean_of(x, i * n + k);
        b = mean_of(x, j * n + k);
        s = a * b;
        if (sqrt(fmax((1 - a * a) * (1 - b * b), 0)) < MOST_DOUBT &&
            s > threshold && s > best)
            best = s;
    }
    return best;
}

static bool is_met(const struct fed_likeness *x, int64_t i)
{
    return x->count[i * x->n + i] > 0;
}

static int descending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x < y) - (x > y);
}

/* The middle of the widest gap between similarities; all alike, where none is
 * wider than the doubt about one. */
static double widest_gap(const struct fed_likeness *x, double *list)
{
    int64_t n = x->n, m = 0;
    double gap = 0.1, at = -2;

    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i + 1; j < n; j++)
            if (x->count[i * n + j] > 0)
                list[m++] = mean_of(x, i * n + j);
    qsort(list, (size_t)m, sizeof list[0], descending);
    for (int64_t i = 0; i + 1 < m; i++)
        if (list[i] - list[i + 1] > gap) {
            gap = list[i] - list[i + 1];
            at = (list[i] + list[i + 1]) / 2;
        }
    return at;
}

/* What is above `above` is alike, after low and high became 0 and 1 (where
 * high is more than low). */
struct cut {
    double low, high, above;
};

static struct cut cut_at(const struct fed_likeness *x, double threshold)
{
    struct cut c = {INFINITY, -INFINITY, threshold};

    for (int64_t i = 0; i < x->n * x->n; i++) {
        double s = x->count[i] > 0 ? mean_of(x, i) : 0;

        if (s > 0) {
            c.low = fmin(c.low, s);
            c.high = fmax(c.high, s);
        }
    }
    return c;
}

static int64_t words_of(int64_t n)
{
    return (n + 63) / 64;
}

/* Who is alike by itself: bit j of row i. */
static void find_near(const struct fed_likeness *x, struct cut c,
                      double *partner, uint64_t *near)
{
    int64_t n = x->n;

    for (int64_t i = 0; i < n; i++) {
        int64_t m = partners_of(x, i, partner);

        for (int64_t j = 0; j < n; j++) {
            bool met = x->count[i * n + j] > 0;
            double s = met ? mean_of(x, i * n + j)
                           : by_way_of(x, i, j, partner, m, c.above);
            bool known = met || s > 0;

            s = c.high > c.low ? (s - c.low) / (c.high - c.low) : s;
            if (i == j || (known && s > c.above))
                near[i * words_of(n) + j / 64] |= UINT64_C(1) << j % 64;
        }
    }
}

void fed_likeness_join(const struct fed_likeness *x, double threshold,
                       void *room, uint8_t *a)
{
    int64_t n = x->n, words = words_of(n);
    uint64_t *near = room;
    struct cut c = threshold > 0 ? cut_at(x, threshold)
                                 : (struct cut){0, 0, widest_gap(x, room)};

    memset(near, 0, (size_t)(n * words) * sizeof near[0]);
    find_near(x, c, (double *)room + n * words, near);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) {
            uint64_t alike = 0;

            for (int64_t k = 0; k < words; k++)
                alike |= near[i * words + k] & near[j * words + k];
            a[i * n + j] = a[j * n + i] = alike > 0;
        }
}

int64_t fed_likeness_label(const struct fed_likeness *x, const uint8_t *a,
                           int32_t *label)
{
    int64_t n = x->n, clusters = 0;

    for (int64_t i = 0; i < n; i++) {
        label[i] = -1;
        for (int64_t j = 0; j < i && is_met(x, i) && label[i] < 0; j++)
            if (a[i * n + j] && label[j] >= 0)
                label[i] = label[j];
        if (is_met(x, i) && label[i] < 0)
            label[i] = (int32_t)clusters++;
    }
    return clusters;
}
