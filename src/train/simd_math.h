/* Elementary functions that compilers can vectorise: no branches, no calls.
 * exp: Cody and Waite reduction and a polynomial (Cephes); tanh: Cephes below
 * 0.625, else by exp; erf: Abramowitz and Stegun 7.1.26, |error| < 1.5e-7. */
#ifndef TRAIN_SIMD_MATH_H
#define TRAIN_SIMD_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

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

static inline float simd_sigmoid(float x)
{
    return 1.0f / (1.0f + simd_exp(-x));
}

static inline float simd_tanh(float x)
{
    float z = x * x, a, b;

    a = -5.70498872745e-3f;
    a = a * z + 2.06390887954e-2f;
    a = a * z - 5.37397155531e-2f;
    a = a * z + 1.33314422036e-1f;
    a = a * z - 3.33332819422e-1f;
    a = a * z * x + x;
    b = 1.0f - 2.0f / (simd_exp(2.0f * x) + 1.0f);
    return x > -0.625f && x < 0.625f ? a : b;
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
