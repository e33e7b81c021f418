/* SPDX-License-Identifier: Apache-2.0
 *
 * The one pass over the whole array that a selection makes: which elements
 * reach a magnitude, in order. Sixteen are compared at a time to sixteen bits
 * of a mask, which are mostly all zero; that takes an instruction that no
 * compiler finds in plain C, hence the copies. */
#include "comm_topk.h"
#include "comm_simd.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { BLOCK = COMM_TOPK_BLOCK };

typedef int64_t collect_fn(const struct comm_collect *c);

INLINE uint32_t mask_plain(const float *x, uint32_t m)
{
    uint32_t mask = 0;

    for (int j = 0; j < BLOCK; j++)
        mask |= (uint32_t)(comm_magnitude(x[j]) >= m) << j;
    return mask;
}

/* With sum, x == sum. Once they do not fit no more are looked for, but the
 * sum goes on to the end. */
#define COLLECT(name, target, mask_of)                              \
    target static int64_t name(const struct comm_collect *c)        \
    {                                                               \
        const float *x = c->x, *add = c->add;                       \
        float *sum = c->sum, *value = c->value;                     \
        uint32_t *index = c->index, m = c->magnitude;               \
        int64_t got = 0, i = 0;                                     \
                                                                    \
        for (; i + BLOCK <= c->n; i += BLOCK) {                     \
            uint32_t mask;                                          \
                                                                    \
            if (add)                                                \
                _Pragma("omp simd") for (int j = 0; j < BLOCK; j++) \
                    sum[i + j] += add[i + j];                       \
            mask = mask_of(x + i, m);                               \
            if (mask && got > c->cap) {                             \
                m = UINT32_MAX;                                     \
                mask = 0;                                           \
            }                                                       \
            for (; mask; mask &= mask - 1) {                        \
                int64_t at = i + __builtin_ctz(mask);               \
                                                                    \
                index[got] = (uint32_t)at;                          \
                value[got++] = x[at];                               \
            }                                                       \
        }                                                           \
        for (; i < c->n; i++) {                                     \
            if (add)                                                \
                sum[i] += add[i];                                   \
            if (comm_magnitude(x[i]) < m)                           \
                continue;                                           \
            index[got] = (uint32_t)i;                               \
            value[got++] = x[i];                                    \
        }                                                           \
        return m == UINT32_MAX ? -1 : got;                          \
    }

COLLECT(collect_plain, , mask_plain)

#if defined(__x86_64__)
#define AVX2   __attribute__((target("avx2")))
#define AVX512 __attribute__((target("avx512f")))

AVX2 INLINE uint32_t mask_8(const float *x, uint32_t m)
{
    __m256i most = _mm256_set1_epi32((int)m - 1);
    __m256i bits = _mm256_loadu_si256((const __m256i *)(const void *)x);

    bits = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff));
    bits = _mm256_cmpgt_epi32(bits, most);
    return (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(bits));
}

AVX2 INLINE uint32_t mask_avx2(const float *x, uint32_t m)
{
    return mask_8(x, m) | mask_8(x + 8, m) << 8;
}

AVX512 INLINE uint32_t mask_avx512(const float *x, uint32_t m)
{
    __m512i bits = _mm512_loadu_si512(x);

    bits = _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffffff));
    return _mm512_cmpge_epu32_mask(bits, _mm512_set1_epi32((int)m));
}

COLLECT(collect_avx2, AVX2, mask_avx2)
COLLECT(collect_avx512, AVX512, mask_avx512)
#endif

static collect_fn *best(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        return collect_avx512;
    if (__builtin_cpu_supports("avx2"))
        return collect_avx2;
#endif
    return collect_plain;
}

int64_t comm_collect(const struct comm_collect *c)
{
    return best()(c);
}
