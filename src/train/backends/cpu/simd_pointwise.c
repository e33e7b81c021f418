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
static inline float leaky_relu(float x, float a, float b)
{
    (void)b;
    return x > 0 ? x : a * x;
}
static inline float leaky_relu_slope(float y, float a, float b)
{
    (void)b;
    return y > 0 ? 1 : a;
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
static inline float mish(float x)
{
    float w = simd_exp(x < 20 ? x : 20), n = w * (w + 2);

    return x * (n / (n + 2)); /* tanh(log(1 + w)) */
}
static inline float mish_slope(float x)
{
    float w = simd_exp(x < 20 ? x : 20), n = w * (w + 2), q = 1 / (n + 2);

    return n * q + x * (4 * (n + 1) * q * q) * simd_sigmoid(x);
}
static inline float hard_sigmoid(float x, float a, float b)
{
    float y = x * a + b;

    y = y > 0 ? y : 0;
    return y < 1 ? y : 1;
}
static inline float hard_sigmoid_slope(float y, float a, float b)
{
    (void)b;
    return y > 0 && y < 1 ? a : 0;
}
static inline float hard_swish(float x)
{
    return x * hard_sigmoid(x, 1.0f / 6, 0.5f);
}
static inline float hard_swish_slope(float x)
{
    float s = x * (1.0f / 3) + 0.5f;

    s = x <= -3 ? 0 : s;
    return x >= 3 ? 1 : s;
}
static inline float elu(float x, float a, float b)
{
    (void)b;
    return x > 0 ? x : a * simd_expm1(x);
}
static inline float elu_slope(float y, float a, float b)
{
    (void)b;
    return y > 0 ? 1 : y + a;
}
static inline float affine(float x, float a, float b)
{
    return a * x + b;
}
static inline float affine_slope(float none, float a, float b)
{
    (void)none;
    (void)b;
    return a;
}
static inline float clip(float x, float a, float b)
{
    x = x > a ? x : a;
    return x < b ? x : b;
}
static inline float clip_slope(float y, float a, float b)
{
    return y > a && y < b ? 1 : 0;
}
/* The library's: an exponent may be any number, x below 0 where it is whole. */
static inline float power(float x, float a, float b)
{
    (void)b;
    return powf(x, a);
}
static inline float power_slope(float x, float a, float b)
{
    (void)b;
    return a * powf(x, a - 1);
}
static inline float selu(float x)
{
    return 1.05070099f * (x > 0 ? x : 1.67326324f * simd_expm1(x));
}
static inline float selu_slope(float y)
{
    return y > 0 ? 1.05070099f : y + 1.05070099f * 1.67326324f;
}
static inline float softplus(float x)
{
    return (x > 0 ? x : 0) + simd_log1p(simd_exp(x > 0 ? -x : x));
}
static inline float softplus_slope(float x)
{
    return simd_sigmoid(x);
}
static inline float softsign(float x)
{
    return x / (1 + fabsf(x));
}
static inline float softsign_slope(float x)
{
    float s = 1 / (1 + fabsf(x));

    return s * s;
}
static inline float log_(float x)
{
    return simd_log(x);
}
static inline float log__slope(float x)
{
    return 1 / x;
}
static inline float sqrt_(float x)
{
    return sqrtf(x);
}
static inline float sqrt__slope(float y)
{
    return 0.5f / y;
}
static inline float reciprocal(float x)
{
    return 1 / x;
}
static inline float reciprocal_slope(float y)
{
    return -y * y;
}
static inline float erf_(float x)
{
    float g;

    return simd_erf(x, &g);
}
static inline float erf__slope(float x)
{
    return 1.12837917f * simd_exp(-x * x);
}
/* The library's: angles may be of any size. */
static inline float sin_(float x)
{
    return sinf(x);
}
static inline float sin__slope(float x)
{
    return cosf(x);
}
static inline float cos_(float x)
{
    return cosf(x);
}
static inline float cos__slope(float x)
{
    return -sinf(x);
}
static inline float abs_(float x)
{
    return fabsf(x);
}
static inline float abs__slope(float x)
{
    return x > 0 ? 1 : x < 0 ? -1 : 0;
}
static inline float neg(float x)
{
    return -x;
}
static inline float neg_slope(float none)
{
    (void)none;
    return -1;
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
    static void name##_f(const float *x, float *y, int64_t n, float a,  \
                         float b)                                       \
    {                                                                   \
        (void)a;                                                        \
        (void)b;                                                        \
        for (int64_t i = 0; i < n; i++)                                 \
            y[i] = name(x[i]);                                          \
    }                                                                   \
    static void name##_back(const float *dy, const float *s, float *dx, \
                            int64_t n, float a, float b)                \
    {                                                                   \
        (void)a;                                                        \
        (void)b;                                                        \
        for (int64_t i = 0; i < n; i++)                                 \
            dx[i] = dy[i] * name##_slope(s[i]);                         \
    }
#define NUMBERED(name)                                                  \
    static void name##_f(const float *x, float *y, int64_t n, float a,  \
                         float b)                                       \
    {                                                                   \
        for (int64_t i = 0; i < n; i++)                                 \
            y[i] = name(x[i], a, b);                                    \
    }                                                                   \
    static void name##_back(const float *dy, const float *s, float *dx, \
                            int64_t n, float a, float b)                \
    {                                                                   \
        for (int64_t i = 0; i < n; i++)                                 \
            dx[i] = dy[i] * name##_slope(s[i], a, b);                   \
    }
LOOPS(relu)
LOOPS(relu6)
NUMBERED(leaky_relu)
LOOPS(sigmoid)
LOOPS(tanh_)
LOOPS(silu)
LOOPS(gelu)
LOOPS(gelu_tanh)
LOOPS(exp_)
LOOPS(mish)
NUMBERED(hard_sigmoid)
LOOPS(hard_swish)
NUMBERED(elu)
LOOPS(selu)
LOOPS(softplus)
LOOPS(softsign)
LOOPS(log_)
LOOPS(sqrt_)
LOOPS(reciprocal)
LOOPS(erf_)
LOOPS(sin_)
LOOPS(cos_)
LOOPS(abs_)
LOOPS(neg)
NUMBERED(affine)
NUMBERED(clip)
NUMBERED(power)

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
        {"mish", mish_f, mish_back},
        {"hard_sigmoid", hard_sigmoid_f, hard_sigmoid_back},
        {"hard_swish", hard_swish_f, hard_swish_back},
        {"elu", elu_f, elu_back},
        {"selu", selu_f, selu_back},
        {"softplus", softplus_f, softplus_back},
        {"softsign", softsign_f, softsign_back},
        {"log", log__f, log__back},
        {"sqrt", sqrt__f, sqrt__back},
        {"reciprocal", reciprocal_f, reciprocal_back},
        {"erf", erf__f, erf__back},
        {"sin", sin__f, sin__back},
        {"cos", cos__f, cos__back},
        {"abs", abs__f, abs__back},
        {"neg", neg_f, neg_back},
        {"affine", affine_f, affine_back},
        {"clip", clip_f, clip_back},
        {"power", power_f, power_back},
    };

    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        if (strcmp(functions[i].op, op) == 0)
            return &functions[i];
    return NULL;
}
