/* SPDX-License-Identifier: Apache-2.0
 *
 * Normalisations. Long sums go by blocks: float32 within a block of rows,
 * float64 across blocks. Moments are taken around the first row of the array,
 * so that a large mean does not eat the variance. */
#include "train/backends/cpu/simd.h"

#include <math.h>

enum { COLUMNS = 64, BLOCK = 64 };

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- batch norm ------------------------------------------------------- */

/* Sums of (x - s) and its square over rows, n <= COLUMNS channels. */
static void moments(const float *x, const float *s, int64_t rows, int64_t c,
                    int64_t n, double *sum, double *squares)
{
    for (int64_t i = 0; i < n; i++)
        sum[i] = squares[i] = 0;
    for (int64_t r0 = 0; r0 < rows; r0 += BLOCK) {
        int64_t end = least(r0 + BLOCK, rows);
        float a[COLUMNS] = {0}, b[COLUMNS] = {0};

        for (int64_t r = r0; r < end; r++)
            for (int64_t i = 0; i < n; i++) {
                float v = x[r * c + i] - s[i];

                a[i] += v;
                b[i] += v * v;
            }
        for (int64_t i = 0; i < n; i++) {
            sum[i] += (double)a[i];
            squares[i] += (double)b[i];
        }
    }
}

void train_simd_bn_moments(const float *x, int64_t rows, int64_t width,
                           int64_t c, float *mean, float *var)
{
    double sum[COLUMNS], squares[COLUMNS];

    for (int64_t c0 = 0; c0 < c; c0 += COLUMNS) {
        int64_t n = least(COLUMNS, c - c0);

        moments(x + c0, x + c0, rows, width, n, sum, squares);
        for (int64_t i = 0; i < n; i++) {
            double m = sum[i] / (double)rows;
            double v = squares[i] / (double)rows - m * m;

            mean[c0 + i] = (float)(m + (double)x[c0 + i]);
            var[c0 + i] = (float)(v > 0 ? v : 0);
        }
    }
}

/* Ranks add these up, so they are around zero; float64 from the start. */
void train_simd_bn_sums(const float *x, int64_t rows, int64_t width, int64_t c,
                        double *sum, double *squares)
{
    for (int64_t i = 0; i < c; i++)
        sum[i] = squares[i] = 0;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < c; i++) {
            double v = (double)x[r * width + i];

            sum[i] += v;
            squares[i] += v * v;
        }
}

void train_simd_bn_apply(const float *x, const float *a, const float *b,
                         float *y, int64_t rows, int64_t c)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < c; i++)
            y[r * c + i] = x[r * c + i] * a[i] + b[i];
}

static void back_sums(const float *dy, const float *x, const float *mean,
                      int64_t rows, int64_t c, int64_t n, double *sum,
                      double *dot)
{
    for (int64_t i = 0; i < n; i++)
        sum[i] = dot[i] = 0;
    for (int64_t r0 = 0; r0 < rows; r0 += BLOCK) {
        int64_t end = least(r0 + BLOCK, rows);
        float a[COLUMNS] = {0}, b[COLUMNS] = {0};

        for (int64_t r = r0; r < end; r++)
            for (int64_t i = 0; i < n; i++) {
                float d = dy[r * c + i];

                a[i] += d;
                b[i] += d * (x[r * c + i] - mean[i]);
            }
        for (int64_t i = 0; i < n; i++) {
            sum[i] += (double)a[i];
            dot[i] += (double)b[i];
        }
    }
}

void train_simd_bn_back_sums(const float *dy, const float *x, const float *mean,
                             const float *rstd, int64_t rows, int64_t width,
                             int64_t c, double *sum, double *dot)
{
    for (int64_t c0 = 0; c0 < c; c0 += COLUMNS) {
        int64_t n = least(COLUMNS, c - c0);

        back_sums(dy + c0, x + c0, mean + c0, rows, width, n, sum + c0,
                  dot + c0);
        for (int64_t i = c0; i < c0 + n; i++)
            dot[i] *= (double)rstd[i];
    }
}

void train_simd_bn_back(const float *dy, const float *x, const float *a,
                        const float *b, const float *k, float *dx, int64_t rows,
                        int64_t c)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < c; i++)
            dx[r * c + i] = a[i] * dy[r * c + i] + (b[i] * x[r * c + i] + k[i]);
}

/* ---- over rows -------------------------------------------------------- */

enum { LANES = 16 };

static float total(const float *lane)
{
    double s = 0;

    for (int i = 0; i < LANES; i++)
        s += (double)lane[i];
    return (float)s;
}

static float row_sum(const float *x, int64_t n)
{
    float lane[LANES] = {0};
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++)
            lane[k] += x[i + k];
    for (int k = 0; i + k < n; k++)
        lane[k] += x[i + k];
    return total(lane);
}

static float row_squares(const float *x, float mean, int64_t n)
{
    float lane[LANES] = {0};
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++)
            lane[k] += (x[i + k] - mean) * (x[i + k] - mean);
    for (int k = 0; i + k < n; k++)
        lane[k] += (x[i + k] - mean) * (x[i + k] - mean);
    return total(lane);
}

void train_simd_ln_stats(const struct train_simd_ln *l, const float *x,
                         float *mean, float *rstd)
{
    for (int64_t r = 0; r < l->rows; r++) {
        const float *p = x + r * l->n;
        float m = l->centre ? row_sum(p, l->n) / (float)l->n : 0;

        mean[r] = m;
        rstd[r] = 1 / sqrtf(row_squares(p, m, l->n) / (float)l->n + l->eps);
    }
}

void train_simd_ln(const struct train_simd_ln *l, const float *x,
                   const float *w, const float *b, float *y, float *mean,
                   float *rstd)
{
    train_simd_ln_stats(l, x, mean, rstd);
    for (int64_t r = 0; r < l->rows; r++) {
        const float *p = x + r * l->n;
        float *q = y + r * l->n, m = mean[r], s = rstd[r];

        if (w && b)
            for (int64_t i = 0; i < l->n; i++)
                q[i] = (p[i] - m) * s * w[i] + b[i];
        else if (w)
            for (int64_t i = 0; i < l->n; i++)
                q[i] = (p[i] - m) * s * w[i];
        else
            for (int64_t i = 0; i < l->n; i++)
                q[i] = (p[i] - m) * s;
    }
}

/* Sums over one row of dy w and of dy w xhat. */
static void row_back(const float *dy, const float *x, const float *w, float m,
                     float s, int64_t n, float *sum, float *dot)
{
    float a[LANES] = {0}, b[LANES] = {0};
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) {
            float d = dy[i + k] * w[i + k];

            a[k] += d;
            b[k] += d * (x[i + k] - m);
        }
    for (int k = 0; i + k < n; k++) {
        float d = dy[i + k] * w[i + k];

        a[k] += d;
        b[k] += d * (x[i + k] - m);
    }
    *sum = total(a);
    *dot = total(b) * s;
}

void train_simd_ln_back(const struct train_simd_ln *l, const float *dy,
                        const float *x, const float *w, const float *mean,
                        const float *rstd, float *dx)
{
    for (int64_t r = 0; r < l->rows; r++) {
        const float *d = dy + r * l->n, *p = x + r * l->n;
        float *q = dx + r * l->n, m = mean[r], s = rstd[r], a, b;

        row_back(d, p, w, m, s, l->n, &a, &b);
        a = l->centre ? a / (float)l->n : 0;
        b = b / (float)l->n * s;
        for (int64_t i = 0; i < l->n; i++)
            q[i] = s * (d[i] * w[i] - a - (p[i] - m) * b);
    }
}

static void weight_block(const struct train_simd_ln *l, const float *x,
                         const float *dy, const float *mean, const float *rstd,
                         int64_t c0, int64_t n, float *dw, float *db)
{
    double tw[COLUMNS] = {0}, tb[COLUMNS] = {0};

    for (int64_t r0 = 0; r0 < l->rows; r0 += BLOCK) {
        int64_t end = least(r0 + BLOCK, l->rows);
        float sw[COLUMNS] = {0}, sb[COLUMNS] = {0};

        for (int64_t r = r0; r < end; r++) {
            const float *p = x + r * l->n + c0, *d = dy + r * l->n + c0;
            float m = mean[r], s = rstd[r];

            for (int64_t i = 0; i < n; i++) {
                sw[i] += d[i] * ((p[i] - m) * s);
                sb[i] += d[i];
            }
        }
        for (int64_t i = 0; i < n; i++) {
            tw[i] += (double)sw[i];
            tb[i] += (double)sb[i];
        }
    }
    for (int64_t i = 0; i < n; i++) {
        dw[c0 + i] = (float)tw[i];
        if (db)
            db[c0 + i] = (float)tb[i];
    }
}

void train_simd_ln_weights(const struct train_simd_ln *l, const float *x,
                           const float *dy, const float *mean,
                           const float *rstd, float *dw, float *db)
{
    for (int64_t c = 0; c < l->n; c += COLUMNS)
        weight_block(l, x, dy, mean, rstd, c, least(COLUMNS, l->n - c), dw, db);
}
