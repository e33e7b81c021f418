/* Elementary functions that compilers can vectorise: no branches, no calls.
 * exp and log: Cody and Waite reduction and a polynomial (Cephes); tanh: the
 * quotient of polynomials in x*x that Eigen uses; erf: Abramowitz and Stegun
 * 7.1.26, |error| < 1.5e-7. */
#ifndef TRAIN_SIMD_MATH_H
#define TRAIN_SIMD_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Threaded jumps would compute what is beyond a function's range for every
 * element, and multiply by numbers so small that Intel's processors take a
 * hundred times as long (silu: 12 times as long). */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-thread-jumps")
#endif

static inline float simd_exp(float x)
{
    static const float magic = 12582912.0f; /* 1.5 * 2^23: rounds to whole */
    float t, n, r, p;
    uint32_t bits, e;

    x = x < -87.0f ? -87.0f : x;
    x = x > 88.0f ? 88.0f : x;
    t = x * 1.44269504f + magic;
    n = t - magic;
    r = x - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    memcpy(&e, &t, sizeof e);
    memcpy(&bits, &p, sizeof bits);
    bits += e << 23;
    memcpy(&p, &bits, sizeof p);
    return p;
}

/* exp(x) - 1; near 0 the polynomial without its first term. */
static inline float simd_expm1(float x)
{
    float p = 1.9875691500e-4f;

    p = p * x + 1.3981999507e-3f;
    p = p * x + 8.3334519073e-3f;
    p = p * x + 4.1665795894e-2f;
    p = p * x + 1.6666665459e-1f;
    p = p * x + 5.0000001201e-1f;
    p = p * x * x + x;
    return x > -0.34f && x < 0.34f ? p : simd_exp(x) - 1;
}

/* Of a subnormal number as of the smallest normal one; of 0 -infinity, of less
 * not a number. */
static inline float simd_log(float x)
{
    float v = x < 1.17549435e-38f ? 1.17549435e-38f : x, m, z, y, e;
    uint32_t bits;

    memcpy(&bits, &v, sizeof bits);
    e = (float)((int32_t)(bits >> 23) - 126);
    bits = (bits & 0x007fffff) | 0x3f000000;
    memcpy(&m, &bits, sizeof m); /* in [0.5, 1) */
    e = m < 0.70710678f ? e - 1 : e;
    m = m < 0.70710678f ? m + m - 1 : m - 1;
    z = m * m;
    y = 7.0376836292e-2f;
    y = y * m - 1.1514610310e-1f;
    y = y * m + 1.1676998740e-1f;
    y = y * m - 1.2420140846e-1f;
    y = y * m + 1.4249322787e-1f;
    y = y * m - 1.6668057665e-1f;
    y = y * m + 2.0000714765e-1f;
    y = y * m - 2.4999993993e-1f;
    y = y * m + 3.3333331174e-1f;
    y = y * m * z - 2.12194440e-4f * e - 0.5f * z;
    y = m + y + 0.693359375f * e;
    y = x == INFINITY ? x : y;
    y = x == 0 ? -INFINITY : y;
    return x < 0 || x != x ? NAN : y;
}

/* log(1 + t) for t in [0, 1], to the last digits of small t too. */
static inline float simd_log1p(float t)
{
    float u = 1 + t, d = u - 1;

    return d == 0 ? t : simd_log(u) * (t / d);
}

static inline float simd_sigmoid(float x)
{
    return 1.0f / (1.0f + simd_exp(-x));
}

/* A quotient of polynomials, |error| below 4 units in the last place; beyond
 * 7.9 the result is one in float32. */
static inline float simd_tanh(float x)
{
    float z, p, q;

    x = x < -7.90531110763549805f ? -7.90531110763549805f : x;
    x = x > 7.90531110763549805f ? 7.90531110763549805f : x;
    z = x * x;
    p = -2.76076847742355e-16f;
    p = p * z + 2.00018790482477e-13f;
    p = p * z - 8.60467152213735e-11f;
    p = p * z + 5.12229709037114e-08f;
    p = p * z + 1.48572235717979e-05f;
    p = p * z + 6.37261928875436e-04f;
    p = p * z + 4.89352455891786e-03f;
    q = 1.19825839466702e-06f;
    q = q * z + 1.18534705686654e-04f;
    q = q * z + 2.26843463243900e-03f;
    q = q * z + 4.89352518554385e-03f;
    return x * p / q;
}

/* erf(x), and exp(-x*x) on the way. */
static inline float simd_erf(float x, float *gauss)
{
    float y = x < 0 ? -x : x;
    float t = 1.0f / (1.0f + 0.3275911f * y), g = simd_exp(-y * y), p;

    p = 1.061405429f;
    p = p * t - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    p = 1.0f - p * t * g;
    *gauss = g;
    return x < 0 ? -p : p;
}

#endif
