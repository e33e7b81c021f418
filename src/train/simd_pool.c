/* SPDX-License-Identifier: Apache-2.0
 *
 * One window of a pool, all channels side by side. */
#include "simd.h"

#include <math.h>

enum { COLUMNS = 64 };

void train_simd_max(const float *const *x, const int32_t *position, int n,
                    int64_t c, float *y, uint8_t *where8, int32_t *where32)
{
    for (int64_t c0 = 0; c0 < c; c0 += COLUMNS) {
        int64_t m = c - c0 < COLUMNS ? c - c0 : COLUMNS;
        float best[COLUMNS];
        int32_t at[COLUMNS];

        for (int64_t i = 0; i < m; i++) {
            best[i] = -INFINITY;
            at[i] = 0;
        }
        for (int k = 0; k < n; k++) {
            const float *p = x[k] + c0;
            int32_t here = position[k];

            for (int64_t i = 0; i < m; i++) {
                bool more = !(p[i] <= best[i]); /* not a number wins */

                best[i] = more ? p[i] : best[i];
                at[i] = more ? here : at[i];
            }
        }
        for (int64_t i = 0; i < m; i++)
            y[c0 + i] = best[i];
        for (int64_t i = 0; where8 && i < m; i++)
            where8[c0 + i] = (uint8_t)at[i];
        for (int64_t i = 0; where32 && i < m; i++)
            where32[c0 + i] = at[i];
    }
}

void train_simd_mean(const float *const *x, int n, float scale, int64_t c,
                     float *y)
{
    for (int64_t c0 = 0; c0 < c; c0 += COLUMNS) {
        int64_t m = c - c0 < COLUMNS ? c - c0 : COLUMNS;
        float sum[COLUMNS] = {0};

        for (int k = 0; k < n; k++)
            for (int64_t i = 0; i < m; i++)
                sum[i] += x[k][c0 + i];
        for (int64_t i = 0; i < m; i++)
            y[c0 + i] = sum[i] * scale;
    }
}

void train_simd_max_back(const float *dy, const uint8_t *where8,
                         const int32_t *where32, int32_t p, int64_t c,
                         float *dx)
{
    if (where8)
        for (int64_t i = 0; i < c; i++)
            dx[i] += where8[i] == p ? dy[i] : 0;
    else
        for (int64_t i = 0; i < c; i++)
            dx[i] += where32[i] == p ? dy[i] : 0;
}
