/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows and columns: biases, scales, their gradients, and types. */
#include "train/backends/cpu/simd.h"

#include <math.h>
#include <string.h>

enum { COLUMNS = 64, BLOCK = 64 };

void train_simd_add_bias(const float *x, const float *b, float *y, int64_t rows,
                         int64_t width)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < width; c++)
            y[r * width + c] = x[r * width + c] + b[c];
}

void train_simd_scale_rows(const float *x, const float *s, float *y,
                           int64_t rows, int64_t width)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < width; c++)
            y[r * width + c] = x[r * width + c] * s[c];
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Blocks of rows are summed in float32, blocks in float64: a long sum of
 * float32 loses digits. */
static void sum_columns(const float *a, const float *b, float *out,
                        int64_t rows, int64_t width, int64_t n)
{
    double total[COLUMNS] = {0};

    for (int64_t r0 = 0; r0 < rows; r0 += BLOCK) {
        int64_t end = least(r0 + BLOCK, rows);
        float sum[COLUMNS] = {0};

        for (int64_t r = r0; r < end; r++)
            if (b)
                for (int64_t c = 0; c < n; c++)
                    sum[c] += a[r * width + c] * b[r * width + c];
            else
                for (int64_t c = 0; c < n; c++)
                    sum[c] += a[r * width + c];
        for (int64_t c = 0; c < n; c++)
            total[c] += (double)sum[c];
    }
    for (int64_t c = 0; c < n; c++)
        out[c] = (float)total[c];
}

/* Few columns: several rows side by side make one that fills vectors. */
static void sum_narrow(const float *x, float *out, int64_t rows, int64_t width)
{
    int64_t fold = COLUMNS / width;
    float wide[COLUMNS], rest[COLUMNS];

    sum_columns(x, NULL, wide, rows / fold, fold * width, fold * width);
    sum_columns(x + rows / fold * fold * width, NULL, rest, rows % fold, width,
                width);
    for (int64_t c = 0; c < width; c++) {
        double total = (double)rest[c];

        for (int64_t k = 0; k < fold; k++)
            total += (double)wide[k * width + c];
        out[c] = (float)total;
    }
}

void train_simd_sum_rows(const float *x, float *out, int64_t rows,
                         int64_t width)
{
    if (width < COLUMNS / 2 && width > 0) {
        sum_narrow(x, out, rows, width);
        return;
    }
    for (int64_t c = 0; c < width; c += COLUMNS)
        sum_columns(x + c, NULL, out + c, rows, width,
                    least(COLUMNS, width - c));
}

void train_simd_sum_rows_bf16(const uint16_t *x, float *out, int64_t rows,
                              int64_t width)
{
    for (int64_t c0 = 0; c0 < width; c0 += COLUMNS) {
        int64_t n = least(COLUMNS, width - c0);
        double total[COLUMNS] = {0};

        for (int64_t r0 = 0; r0 < rows; r0 += BLOCK) {
            int64_t end = least(r0 + BLOCK, rows);
            float sum[COLUMNS] = {0};

            for (int64_t r = r0; r < end; r++)
                for (int64_t c = 0; c < n; c++) {
                    uint32_t u = (uint32_t)x[r * width + c0 + c] << 16;
                    float f;

                    memcpy(&f, &u, sizeof f);
                    sum[c] += f;
                }
            for (int64_t c = 0; c < n; c++)
                total[c] += (double)sum[c];
        }
        for (int64_t c = 0; c < n; c++)
            out[c0 + c] = (float)total[c];
    }
}

void train_simd_dot_rows(const float *a, const float *b, float *out,
                         int64_t rows, int64_t width)
{
    for (int64_t c = 0; c < width; c += COLUMNS)
        sum_columns(a + c, b + c, out + c, rows, width,
                    least(COLUMNS, width - c));
}

void train_simd_add(const float *a, const float *b, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = a[i] + b[i];
}

void train_simd_sub(const float *a, const float *b, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = a[i] - b[i];
}

void train_simd_mul(const float *a, const float *b, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = a[i] * b[i];
}

void train_simd_scale(float *y, float s, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] *= s;
}

void train_simd_minus_distance(const float *at, float here, float slope,
                               float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] -= slope * fabsf(at[i] - here);
}

void train_simd_fill(float *y, float v, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = v;
}

void train_simd_from_bf16(const uint16_t *x, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t u = (uint32_t)x[i] << 16;

        memcpy(&y[i], &u, sizeof u);
    }
}

/* To the nearest, ties to even; what is not a number stays so. */
void train_simd_to_bf16(const float *x, uint16_t *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t u, r;

        memcpy(&u, &x[i], sizeof u);
        r = (u + 0x7fff + (u >> 16 & 1)) >> 16;
        y[i] = (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? u >> 16 | 0x40 : r);
    }
}
