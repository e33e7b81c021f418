/* SPDX-License-Identifier: Apache-2.0
 *
 * The highest rate of float32 arithmetic: multiply-adds that wait neither for
 * memory nor for each other, on every thread of every rank. */
#include "calibrate.h"

#include <stdlib.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { ROUNDS = 200000, CHAINS = 12, LANES = 16 };

/* Sums of CHAINS independent chains of ROUNDS multiply-adds in all lanes. */
static float chains_plain(void)
{
    float x[CHAINS][LANES] = {{1}}, sum = 0;

    for (int i = 0; i < ROUNDS; i++)
        for (int c = 0; c < CHAINS; c++)
            for (int l = 0; l < LANES; l++)
                x[c][l] = x[c][l] * 0.5F + 1.0F;
    for (int c = 0; c < CHAINS; c++)
        sum += x[c][0];
    return sum;
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static float chains_avx2(void)
{
    __m256 x[CHAINS], half = _mm256_set1_ps(0.5F), one = _mm256_set1_ps(1);
    __m256 sum = _mm256_setzero_ps();

    for (int c = 0; c < CHAINS; c++)
        x[c] = _mm256_set1_ps((float)c);
    for (int i = 0; i < ROUNDS * LANES / 8; i++)
#pragma GCC unroll 12
        for (int c = 0; c < CHAINS; c++)
            x[c] = _mm256_fmadd_ps(x[c], half, one);
    for (int c = 0; c < CHAINS; c++)
        sum = _mm256_add_ps(sum, x[c]);
    return _mm256_cvtss_f32(sum);
}

__attribute__((target("avx512f"))) static float chains_avx512(void)
{
    __m512 x[CHAINS], half = _mm512_set1_ps(0.5F), one = _mm512_set1_ps(1);
    __m512 sum = _mm512_setzero_ps();

    for (int c = 0; c < CHAINS; c++)
        x[c] = _mm512_set1_ps((float)c);
    for (int i = 0; i < ROUNDS; i++)
#pragma GCC unroll 12
        for (int c = 0; c < CHAINS; c++)
            x[c] = _mm512_fmadd_ps(x[c], half, one);
    for (int c = 0; c < CHAINS; c++)
        sum = _mm512_add_ps(sum, x[c]);
    return _mm512_cvtss_f32(sum);
}
#endif

static float chains(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        return chains_avx512();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return chains_avx2();
#endif
    return chains_plain();
}

static void on_threads(void *ctx)
{
    volatile float *out = ctx;

#pragma omp parallel
    {
        float sum = chains();

#pragma omp critical
        *out = sum;
    }
}

enum pdl_status run_calibrate_peak(const struct calibration *c,
                                   struct pdl_err *err)
{
    double flops = 2.0 * ROUNDS * CHAINS * LANES * (double)c->threads, seconds;
    volatile float out = 0;
    enum pdl_status st =
        run_time_all(c, on_threads, (void *)(uintptr_t)&out, &seconds, err);

    if (st == PDL_OK)
        run_fact(c, "peak_fp32", flops / seconds, "FLOP/s");
    return st;
}
