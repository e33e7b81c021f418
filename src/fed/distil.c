/* SPDX-License-Identifier: Apache-2.0
 *
 * Distillation of CADIS (CCGrid 2023): a model in training shall keep the
 * distances that the samples of a batch have from each other in the model that
 * the round began with. Features z (the last layer's input) have distances
 * D_ab = |z_a - z_b|, a, b different; with their mean m and variance v,
 * K_ab = exp(-(D_ab - m)^2 / (2 (v + 0.001))), rows normalised to sum 1, are
 * probabilities, T of the teacher and S of the student, and the loss is
 * sum T log(T/S). Its gradient goes through distances, mean and variance:
 * with u = D - m, s = v + 0.001, G = S - T and M distances,
 *   dL/dD = -G u/s + (1/M) sum(G u/s) + u/(M - 1) sum(G u^2/s^2). */
#include "fed/fed_priv.h"

#include <math.h>

/* Distances, probabilities, and what the gradient needs of them. */
struct kernel {
    double *distance, *p;
    double mean, spread; /* m; s */
};

static double between(const float *x, const float *y, int64_t c)
{
    double sum = 0;

    for (int64_t i = 0; i < c; i++)
        sum += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
    return sqrt(sum);
}

static void measure(struct kernel *k, int64_t n, int64_t c, const float *z)
{
    double pairs = (double)(n * (n - 1)), sum = 0, squares = 0;

    for (int64_t i = 0; i < n * n; i++)
        k->distance[i] =
            i / n == i % n ? 0 : between(z + i / n * c, z + i % n * c, c);
    for (int64_t i = 0; i < n * n; i++)
        sum += k->distance[i];
    k->mean = sum / pairs;
    for (int64_t i = 0; i < n * n; i++)
        if (i / n != i % n)
            squares += (k->distance[i] - k->mean) * (k->distance[i] - k->mean);
    k->spread = squares / (pairs - 1) + 0.001;
    for (int64_t a = 0; a < n; a++) {
        double row = 0;

        for (int64_t b = 0; b < n; b++) {
            double u = k->distance[a * n + b] - k->mean;

            k->p[a * n + b] = a == b ? 0 : exp(-u * u / (2 * k->spread));
            row += k->p[a * n + b];
        }
        for (int64_t b = 0; b < n && row > 0; b++)
            k->p[a * n + b] /= row;
    }
}

/* dL/dD, in the place of the teacher's probabilities. */
static void back(const struct kernel *s, double *t, int64_t n)
{
    double pairs = (double)(n * (n - 1)), first = 0, second = 0;

    for (int64_t i = 0; i < n * n; i++) {
        double u = s->distance[i] - s->mean, g = s->p[i] - t[i];

        if (i / n == i % n)
            continue;
        first += g * u / s->spread;
        second += g * u * u / (s->spread * s->spread);
    }
    for (int64_t i = 0; i < n * n; i++) {
        double u = s->distance[i] - s->mean, g = s->p[i] - t[i];

        t[i] = -g * u / s->spread + first / pairs + u / (pairs - 1) * second;
    }
}

double fed_distil(int64_t n, int64_t c, const float *teacher,
                  const float *student, double weight, double *room, float *dz)
{
    struct kernel t = {room, room + n * n, 0, 1};
    struct kernel s = {room + 2 * n * n, room + 3 * n * n, 0, 1};
    double loss = 0;

    if (n < 3) /* two samples have one distance */
        return 0;
    measure(&t, n, c, teacher);
    measure(&s, n, c, student);
    for (int64_t i = 0; i < n * n; i++)
        if (t.p[i] > 0 && s.p[i] > 0)
            loss += t.p[i] * log(t.p[i] / s.p[i]);
    back(&s, t.p, n);
    for (int64_t i = 0; i < n * n; i++) {
        const float *x = student + i / n * c, *y = student + i % n * c;
        double k = s.distance[i] > 1e-12 ? weight * t.p[i] / s.distance[i] : 0;

        for (int64_t j = 0; j < c && k != 0; j++) {
            double d = k * ((double)x[j] - (double)y[j]);

            dz[i / n * c + j] += (float)d;
            dz[i % n * c + j] -= (float)d;
        }
    }
    return loss;
}
