/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of one operand and their slopes. */
#include "train/backends/cpu/simd.h"
#include "train/backends/cpu/simd_math.h"

static inline float relu(float x)
{
    return x > 0 ? x : 0;
}
static inline float relu_slope(float y)
{
    return y > 0 ? 1 : 0;
}
static inline float relu6(float x)
{
    x = x > 0 ? x : 0;
    return x < 6 ? x : 6;
}
static inline float relu6_slope(float y)
{
    return y > 0 && y < 6 ? 1 : 0;
}
static inline float leaky_relu(float x)
{
    return x > 0 ? x : 0.01f * x;
}
static inline float leaky_relu_slope(float y)
{
    return y > 0 ? 1 : 0.01f;
}
static inline float sigmoid(float x)
{
    return simd_sigmoid(x);
}
static inline float sigmoid_slope(float y)
{
    return y * (1 - y);
}
static inline float tanh_(float x)
{
    return simd_tanh(x);
}
static inline float tanh__slope(float y)
{
    return 1 - y * y;
}
static inline float silu(float x)
{
    return x * simd_sigmoid(x);
}
static inline float silu_slope(float x)
{
    float s = simd_sigmoid(x);

    return s * (1 + x * (1 - s));
}
static inline float gelu(float x)
{
    float g;

    return 0.5f * x * (1 + simd_erf(x * 0.70710678f, &g));
}
static inline float gelu_slope(float x)
{
    float g, e = simd_erf(x * 0.70710678f, &g);

    return 0.5f * (1 + e) + x * g * 0.39894228f;
}
static inline float gelu_tanh(float x)
{
    return 0.5f * x *
           (1 + simd_tanh(0.79788456f * (x + 0.044715f * x * x * x)));
}
static inline float gelu_tanh_slope(float x)
{
    float t = simd_tanh(0.79788456f * (x + 0.044715f * x * x * x));

    return 0.5f * (1 + t) +
           0.5f * x * (1 - t * t) * 0.79788456f * (1 + 0.134145f * x * x);
}
static inline float exp_(float x)
{
    return simd_exp(x);
}
static inline float exp__slope(float y)
{
    return y;
}

#define LOOPS(name)                                                     \
    static void name##_f(const float *x, float *y, int64_t n)           \
    {                                                                   \
        for (int64_t i = 0; i < n; i++)                                 \
            y[i] = name(x[i]);                                          \
    }                                                                   \
    static void name##_back(const float *dy, const float *s, float *dx, \
                            int64_t n)                                  \
    {                                                                   \
        for (int64_t i = 0; i < n; i++)                                 \
            dx[i] = dy[i] * name##_slope(s[i]);                         \
    }
LOOPS(relu)
LOOPS(relu6)
LOOPS(leaky_relu)
LOOPS(sigmoid)
LOOPS(tanh_)
LOOPS(silu)
LOOPS(gelu)
LOOPS(gelu_tanh)
LOOPS(exp_)

void train_simd_gated(const float *restrict a, const float *restrict u,
                      float *restrict y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = silu(a[i]) * u[i];
}

void train_simd_gated_back(const float *restrict dy, float scale,
                           float *restrict a, float *restrict u, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float s = simd_sigmoid(a[i]), d = dy[i] * scale, of_a = d * u[i];

        u[i] = a[i] * s * d;
        a[i] = of_a * (s * (1 + a[i] * (1 - s)));
    }
}

const struct train_simd_function *train_simd_find(const char *op)
{
    static const struct train_simd_function functions[] = {
        {"relu", relu_f, relu_back},
        {"relu6", relu6_f, relu6_back},
        {"leaky_relu", leaky_relu_f, leaky_relu_back},
        {"sigmoid", sigmoid_f, sigmoid_back},
        {"tanh", tanh__f, tanh__back},
        {"silu", silu_f, silu_back},
        {"gelu", gelu_f, gelu_back},
        {"gelu_tanh", gelu_tanh_f, gelu_tanh_back},
        {"exp", exp__f, exp__back},
    };

    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        if (strcmp(functions[i].op, op) == 0)
            return &functions[i];
    return NULL;
}
