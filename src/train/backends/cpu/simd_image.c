/* SPDX-License-Identifier: Apache-2.0
 *
 * Channels of one position of an image: maxima, weighted sums, and local
 * response normalisation. */
#include "train/backends/cpu/simd.h"
#include "train/backends/cpu/simd_math.h"

void train_simd_take_larger(const float *x, int32_t at, float *best,
                            int32_t *where, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        bool larger = x[i] > best[i];

        best[i] = larger ? x[i] : best[i];
        where[i] = larger ? at : where[i];
    }
}

void train_simd_add_scaled(const float *x, float s, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] += x[i] * s;
}

/* out[i] = sum of v over [i - before, i + after], inside [0, n). */
static void window_sums(const float *v, int64_t n, int64_t before,
                        int64_t after, float *out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = 0;
    for (int64_t d = -before; d <= after; d++) {
        int64_t from = d < 0 ? -d : 0, to = d > 0 ? n - d : n;

        for (int64_t i = from; i < to; i++)
            out[i] += v[i + d];
    }
}

/* s and s^-beta; v: room. */
static void responses(const struct train_simd_lrn *l, const float *x, float *v,
                      float *s, float *power)
{
    for (int64_t i = 0; i < l->c; i++)
        v[i] = x[i] * x[i];
    window_sums(v, l->c, l->before, l->after, s);
    for (int64_t i = 0; i < l->c; i++) {
        s[i] = l->offset + l->alpha * s[i];
        power[i] = simd_exp(-l->beta * simd_log(s[i]));
    }
}

void train_simd_lrn(const struct train_simd_lrn *l, const float *x, float *y,
                    float *space)
{
    float *s = space + l->c, *power = s + l->c;

    responses(l, x, space, s, power);
    for (int64_t i = 0; i < l->c; i++)
        y[i] = x[i] * power[i];
}

void train_simd_lrn_back(const struct train_simd_lrn *l, const float *dy,
                         const float *x, float *dx, float *space)
{
    float *s = space + l->c, *power = s + l->c, *sums = power + l->c;
    float slope = 2 * l->alpha * l->beta;

    responses(l, x, space, s, power);
    for (int64_t i = 0; i < l->c; i++)
        space[i] = dy[i] * x[i] * power[i] / s[i];
    window_sums(space, l->c, l->after, l->before, sums);
    for (int64_t i = 0; i < l->c; i++)
        dx[i] = dy[i] * power[i] - slope * x[i] * sums[i];
}
