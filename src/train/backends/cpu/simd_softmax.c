/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax along rows, for attention and for the loss. */
#include "train/backends/cpu/simd.h"
#include "train/backends/cpu/simd_math.h"

enum { LANES = 16 };

static float largest(const float *x, int64_t n)
{
    float lane[LANES];
    int64_t i = 0;

    for (int k = 0; k < LANES; k++)
        lane[k] = -INFINITY;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++)
            lane[k] = x[i + k] > lane[k] ? x[i + k] : lane[k];
    for (int k = 0; i + k < n; k++)
        lane[k] = x[i + k] > lane[k] ? x[i + k] : lane[k];
    for (int k = 1; k < LANES; k++)
        lane[0] = lane[k] > lane[0] ? lane[k] : lane[0];
    return lane[0];
}

static float total(const float *lane)
{
    double s = 0;

    for (int k = 0; k < LANES; k++)
        s += (double)lane[k];
    return (float)s;
}

/* y = exp(x - top); their sum. */
static float exponentials(const float *x, float top, float *y, int64_t n)
{
    float lane[LANES] = {0};
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) {
            y[i + k] = simd_exp(x[i + k] - top);
            lane[k] += y[i + k];
        }
    for (int k = 0; i + k < n; k++) {
        y[i + k] = simd_exp(x[i + k] - top);
        lane[k] += y[i + k];
    }
    return total(lane);
}

float train_simd_softmax(float *x, int64_t n)
{
    float top = largest(x, n), sum = exponentials(x, top, x, n);
    float share = 1 / sum;

    for (int64_t i = 0; i < n; i++)
        x[i] *= share;
    return top + logf(sum);
}

void train_simd_exp_minus(float *x, float lse, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = simd_exp(x[i] - lse);
}

void train_simd_softmax_back(const float *p, float *dp, float d, float scale,
                             int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dp[i] = p[i] * (dp[i] - d) * scale;
}

float train_simd_dot(const float *a, const float *b, int64_t n)
{
    float lane[LANES] = {0};
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++)
            lane[k] += a[i + k] * b[i + k];
    for (int k = 0; i + k < n; k++)
        lane[k] += a[i + k] * b[i + k];
    return total(lane);
}

float train_simd_sum(const float *a, int64_t n)
{
    float lane[LANES] = {0};
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++)
            lane[k] += a[i + k];
    for (int k = 0; i + k < n; k++)
        lane[k] += a[i + k];
    return total(lane);
}

float train_simd_largest(const float *x, int64_t n)
{
    return largest(x, n);
}

float train_simd_sum_exp(const float *x, float top, int64_t n)
{
    float lane[LANES] = {0};
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++)
            lane[k] += simd_exp(x[i + k] - top);
    for (int k = 0; i + k < n; k++)
        lane[k] += simd_exp(x[i + k] - top);
    return total(lane);
}

void train_simd_exp_scaled(const float *x, float top, float scale, float *y,
                           int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = simd_exp(x[i] - top) * scale;
}

float train_simd_cross_entropy(const float *y, int64_t n, int64_t label,
                               float smooth, float share, float *dy,
                               float *right)
{
    float top, sum, scale, part, all = 0;

    *right = 0;
    if (label < 0) {
        for (int64_t i = 0; i < n; i++)
            dy[i] = 0;
        return 0;
    }
    if (label >= n)
        return NAN; /* no such class: seen by who watches the loss */
    top = largest(y, n);
    for (int64_t i = 0; smooth > 0 && i < n; i++)
        all += y[i] - top;
    *right = y[label] >= top;
    sum = exponentials(y, top, dy, n);
    scale = share / sum;
    part = smooth / (float)n * share;
    for (int64_t i = 0; i < n; i++)
        dy[i] = dy[i] * scale - part;
    dy[label] -= (1 - smooth) * share;
    return logf(sum) - (1 - smooth) * (y[label] - top) -
           smooth * all / (float)n;
}

void train_simd_log_softmax_back(const float *dy, const float *y, float sum,
                                 float *dx, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dx[i] = dy[i] - simd_exp(y[i]) * sum;
}

/* ---- columns: x [n][width] along n ------------------------------------ */

enum { COLUMNS = 64 };

static void softmax_some(const float *x, float *y, int64_t n, int64_t width,
                         int64_t c, bool log_)
{
    float top[COLUMNS], sum[COLUMNS] = {0};

    for (int64_t k = 0; k < c; k++)
        top[k] = x[k];
    for (int64_t i = 1; i < n; i++)
        for (int64_t k = 0; k < c; k++)
            top[k] = x[i * width + k] > top[k] ? x[i * width + k] : top[k];
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < c; k++)
            sum[k] += simd_exp(x[i * width + k] - top[k]);
    for (int64_t k = 0; k < c; k++)
        sum[k] = log_ ? simd_log(sum[k]) : 1 / sum[k];
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < c; k++) {
            float v = x[i * width + k] - top[k];

            y[i * width + k] = log_ ? v - sum[k] : simd_exp(v) * sum[k];
        }
}

static void softmax_back_some(const float *dy, const float *y, float *dx,
                              int64_t n, int64_t width, int64_t c, bool log_)
{
    float sum[COLUMNS] = {0};

    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < c; k++)
            sum[k] += dy[i * width + k] * (log_ ? 1 : y[i * width + k]);
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < c; k++) {
            float d = dy[i * width + k], v = y[i * width + k];

            dx[i * width + k] =
                log_ ? d - simd_exp(v) * sum[k] : v * (d - sum[k]);
        }
}

void train_simd_softmax_columns(const float *x, float *y, int64_t n,
                                int64_t width, bool log_)
{
    for (int64_t c = 0; c < width; c += COLUMNS)
        softmax_some(x + c, y + c, n, width,
                     width - c < COLUMNS ? width - c : COLUMNS, log_);
}

void train_simd_softmax_columns_back(const float *dy, const float *y, float *dx,
                                     int64_t n, int64_t width, bool log_)
{
    for (int64_t c = 0; c < width; c += COLUMNS)
        softmax_back_some(dy + c, y + c, dx + c, n, width,
                          width - c < COLUMNS ? width - c : COLUMNS, log_);
}
