/* SPDX-License-Identifier: Apache-2.0
 *
 * Clusters of CADIS. Similarities are cosines between updates of the last layer
 * by two clients in one round, a mean over the rounds that both were in. */
#include "fed/cluster.h"

#include <math.h>
#include <stdlib.h>

/* How sure a similarity by way of a third client must be. */
static const double MOST_DOUBT = 0.02;

double fed_likeness_of(const struct fed_likeness *x, int64_t i, int64_t j,
                       double threshold, bool *known)
{
    int64_t n = x->n;
    double best = 0;

    *known = true;
    if (i == j)
        return 1;
    if (x->count[i * n + j] > 0)
        return x->sum[i * n + j] / x->count[i * n + j];
    *known = false;
    for (int64_t k = 0; k < n; k++) {
        double a, b, s;

        if (k == i || k == j || x->count[i * n + k] == 0 ||
            x->count[j * n + k] == 0)
            continue;
        a = x->sum[i * n + k] / x->count[i * n + k];
        b = x->sum[j * n + k] / x->count[j * n + k];
        s = a * b;
        if (sqrt(fmax((1 - a * a) * (1 - b * b), 0)) < MOST_DOUBT &&
            s > threshold && s > best) {
            best = s;
            *known = true;
        }
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
                list[m++] = x->sum[i * n + j] / x->count[i * n + j];
    qsort(list, (size_t)m, sizeof list[0], descending);
    for (int64_t i = 0; i + 1 < m; i++)
        if (list[i] - list[i + 1] > gap) {
            gap = list[i] - list[i + 1];
            at = (list[i] + list[i + 1]) / 2;
        }
    return at;
}

static void bounds(const struct fed_likeness *x, double *low, double *high)
{
    int64_t n = x->n;

    *low = INFINITY;
    *high = -INFINITY;
    for (int64_t i = 0; i < n * n; i++) {
        double s = x->count[i] > 0 ? x->sum[i] / x->count[i] : 0;

        if (s > 0) {
            *low = fmin(*low, s);
            *high = fmax(*high, s);
        }
    }
}

void fed_likeness_join(const struct fed_likeness *x, double threshold,
                       double *room, uint8_t *a)
{
    int64_t n = x->n;
    double low = 0, high = 1, above = threshold;

    if (threshold <= 0)
        above = widest_gap(x, room);
    else
        bounds(x, &low, &high);
    for (int64_t i = 0; i < n * n; i++) {
        bool known;
        double s = fed_likeness_of(x, i / n, i % n, above, &known);

        s = threshold > 0 && high > low ? (s - low) / (high - low) : s;
        room[i] = i / n == i % n || (known && s > above);
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            bool alike = false;

            for (int64_t k = 0; k < n && !alike; k++)
                alike = room[i * n + k] > 0 && room[j * n + k] > 0;
            a[i * n + j] = alike;
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
