/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of several operands and their slopes, on pieces that lie in a line.
 * Of sums and differences the operands' values are not needed backward. */
#include "train/backends/cpu/simd.h"
#include "train/backends/cpu/simd_math.h"

#include <stddef.h>

static void copy(const float *x, float *y, int64_t n)
{
    if (x != y)
        memmove(y, x, (size_t)n * sizeof *y);
}

/* ---- sums ------------------------------------------------------------- */

static void add(const float *const *v, int nv, float *y, int64_t n)
{
    if (nv < 2)
        copy(v[0], y, n);
    else
        train_simd_add(v[0], v[1], y, n);
    for (int k = 2; k < nv; k++)
        train_simd_add(y, v[k], y, n);
}

static void add_back(const float *dy, const float *const *v, int nv, int k,
                     float *dx, int64_t n)
{
    (void)v;
    (void)nv;
    (void)k;
    copy(dy, dx, n);
}

static void mean(const float *const *v, int nv, float *y, int64_t n)
{
    add(v, nv, y, n);
    train_simd_scale(y, 1 / (float)nv, n);
}

static void mean_back(const float *dy, const float *const *v, int nv, int k,
                      float *dx, int64_t n)
{
    (void)v;
    (void)k;
    for (int64_t i = 0; i < n; i++)
        dx[i] = dy[i] * (1 / (float)nv);
}

static void sub(const float *const *v, int nv, float *y, int64_t n)
{
    if (nv < 2)
        copy(v[0], y, n);
    else
        train_simd_sub(v[0], v[1], y, n);
}

static void sub_back(const float *dy, const float *const *v, int nv, int k,
                     float *dx, int64_t n)
{
    (void)v;
    (void)nv;
    if (k == 0)
        copy(dy, dx, n);
    for (int64_t i = 0; k > 0 && i < n; i++)
        dx[i] = -dy[i];
}

/* ---- products --------------------------------------------------------- */

static void mul(const float *const *v, int nv, float *y, int64_t n)
{
    if (nv < 2)
        copy(v[0], y, n);
    else
        train_simd_mul(v[0], v[1], y, n);
    for (int k = 2; k < nv; k++)
        train_simd_mul(y, v[k], y, n);
}

static void mul_back(const float *dy, const float *const *v, int nv, int k,
                     float *dx, int64_t n)
{
    const float *so_far = dy;

    if (nv < 2)
        copy(dy, dx, n);
    for (int i = 0; i < nv; i++)
        if (i != k) {
            train_simd_mul(so_far, v[i], dx, n);
            so_far = dx;
        }
}

static void quotient(const float *const *v, int nv, float *y, int64_t n)
{
    if (nv < 2)
        copy(v[0], y, n);
    for (int64_t i = 0; nv > 1 && i < n; i++)
        y[i] = v[0][i] / v[1][i];
}

static void quotient_back(const float *dy, const float *const *v, int nv, int k,
                          float *dx, int64_t n)
{
    if (nv < 2)
        copy(dy, dx, n);
    else if (k == 0)
        for (int64_t i = 0; i < n; i++)
            dx[i] = dy[i] / v[1][i];
    else
        for (int64_t i = 0; i < n; i++)
            dx[i] = -dy[i] * v[0][i] / (v[1][i] * v[1][i]);
}

static void power(const float *const *v, int nv, float *y, int64_t n)
{
    if (nv < 2)
        copy(v[0], y, n);
    for (int64_t i = 0; nv > 1 && i < n; i++)
        y[i] = powf(v[0][i], v[1][i]);
}

static void power_back(const float *dy, const float *const *v, int nv, int k,
                       float *dx, int64_t n)
{
    if (nv < 2)
        copy(dy, dx, n);
    else if (k == 0)
        for (int64_t i = 0; i < n; i++)
            dx[i] = dy[i] * v[1][i] * powf(v[0][i], v[1][i] - 1);
    else
        for (int64_t i = 0; i < n; i++)
            dx[i] = dy[i] * powf(v[0][i], v[1][i]) * logf(v[0][i]);
}

/* ---- extremes: of equals the first has the gradient ------------------- */

static void extreme(const float *const *v, int nv, float sense, float *y,
                    int64_t n)
{
    copy(v[0], y, n);
    for (int k = 1; k < nv; k++)
        for (int64_t i = 0; i < n; i++)
            y[i] = sense * v[k][i] > sense * y[i] ? v[k][i] : y[i];
}

static void extreme_back(const float *dy, const float *const *v, int nv, int k,
                         float sense, float *dx, int64_t n)
{
    copy(dy, dx, n);
    for (int j = 0; j < nv; j++)
        for (int64_t i = 0; j < k && i < n; i++)
            dx[i] = sense * v[k][i] > sense * v[j][i] ? dx[i] : 0;
    for (int j = k + 1; j < nv; j++)
        for (int64_t i = 0; i < n; i++)
            dx[i] = sense * v[j][i] > sense * v[k][i] ? 0 : dx[i];
}

static void max(const float *const *v, int nv, float *y, int64_t n)
{
    extreme(v, nv, 1, y, n);
}
static void max_back(const float *dy, const float *const *v, int nv, int k,
                     float *dx, int64_t n)
{
    extreme_back(dy, v, nv, k, 1, dx, n);
}
static void min(const float *const *v, int nv, float *y, int64_t n)
{
    extreme(v, nv, -1, y, n);
}
static void min_back(const float *dy, const float *const *v, int nv, int k,
                     float *dx, int64_t n)
{
    extreme_back(dy, v, nv, k, -1, dx, n);
}

/* ---- true or false ---------------------------------------------------- */

#define COMPARE(name, holds)                                             \
    static void name(const float *const *v, int nv, float *y, int64_t n) \
    {                                                                    \
        (void)nv;                                                        \
        for (int64_t i = 0; i < n; i++) {                                \
            float a = v[0][i], b = v[1][i];                              \
                                                                         \
            y[i] = (holds) ? 1 : 0;                                      \
        }                                                                \
    }
COMPARE(equal, a == b)
COMPARE(less, a < b)
COMPARE(less_equal, a <= b)
COMPARE(greater, a > b)
COMPARE(greater_equal, a >= b)
COMPARE(both, (a != 0) & (b != 0))
COMPARE(either, (a != 0) | (b != 0))
COMPARE(one_of, (a != 0) != (b != 0))

static void flat(const float *dy, const float *const *v, int nv, int k,
                 float *dx, int64_t n)
{
    (void)dy;
    (void)v;
    (void)nv;
    (void)k;
    for (int64_t i = 0; i < n; i++)
        dx[i] = 0;
}

static void where(const float *const *v, int nv, float *y, int64_t n)
{
    (void)nv;
    for (int64_t i = 0; i < n; i++)
        y[i] = v[0][i] != 0 ? v[1][i] : v[2][i];
}

static void where_back(const float *dy, const float *const *v, int nv, int k,
                       float *dx, int64_t n)
{
    (void)nv;
    for (int64_t i = 0; i < n; i++)
        dx[i] = (v[0][i] != 0) == (k == 1) ? dy[i] : 0;
}

/* ---- a slope that is learned ------------------------------------------ */

static void prelu(const float *const *v, int nv, float *y, int64_t n)
{
    (void)nv;
    for (int64_t i = 0; i < n; i++)
        y[i] = v[0][i] > 0 ? v[0][i] : v[0][i] * v[1][i];
}

static void prelu_back(const float *dy, const float *const *v, int nv, int k,
                       float *dx, int64_t n)
{
    (void)nv;
    if (k == 0)
        for (int64_t i = 0; i < n; i++)
            dx[i] = v[0][i] > 0 ? dy[i] : dy[i] * v[1][i];
    else
        for (int64_t i = 0; i < n; i++)
            dx[i] = v[0][i] > 0 ? 0 : dy[i] * v[0][i];
}

const struct train_simd_nary *train_simd_nary(const char *op)
{
    static const struct train_simd_nary functions[] = {
        {"add", add, add_back},
        {"sub", sub, sub_back},
        {"mul", mul, mul_back},
        {"scale", mul, mul_back},
        {"div", quotient, quotient_back},
        {"max", max, max_back},
        {"min", min, min_back},
        {"mean", mean, mean_back},
        {"prelu", prelu, prelu_back},
        {"reduce_sum", add, add_back},
        {"reduce_mean", add, add_back},
        {"pow", power, power_back},
        {"where", where, where_back},
        {"equal", equal, flat},
        {"less", less, flat},
        {"less_equal", less_equal, flat},
        {"greater", greater, flat},
        {"greater_equal", greater_equal, flat},
        {"and", both, flat},
        {"or", either, flat},
        {"xor", one_of, flat},
        {"not", equal, flat},
    };

    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        if (strcmp(functions[i].op, op) == 0)
            return &functions[i];
    return NULL;
}
