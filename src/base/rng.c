/* SPDX-License-Identifier: Apache-2.0
 *
 * Philox 4x32-10: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random
 * numbers: as easy as 1, 2, 3", SC 2011. Ten rounds of multiply, swap and
 * xor over a 128-bit counter with a 64-bit key. The known answers of the
 * paper's library are in tests/base/test_rng.c. */
#include "paradl/base.h"

#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { ROUNDS = 10 };
static const uint32_t MUL0 = 0xD2511F53u, MUL1 = 0xCD9E8D57u;
static const uint32_t WEYL0 = 0x9E3779B9u, WEYL1 = 0xBB67AE85u;

struct pdl_rng4 pdl_philox(uint64_t key, uint64_t hi, uint64_t lo)
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c0 = (uint32_t)lo, c1 = (uint32_t)(lo >> 32);
    uint32_t c2 = (uint32_t)hi, c3 = (uint32_t)(hi >> 32);

    for (int r = 0; r < ROUNDS; r++) {
        uint64_t p0 = (uint64_t)MUL0 * c0, p1 = (uint64_t)MUL1 * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        uint32_t n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;

        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += WEYL0;
        k1 += WEYL1;
    }
    return (struct pdl_rng4){{c0, c1, c2, c3}};
}

enum { SIDE = 4 }; /* counters computed side by side */

/* Counters lo .. lo + SIDE - 1, words in order. */
#ifdef __SSE2__

/* Two counters in the low halves of 64-bit lanes: what a product leaves in the
 * high halves never matters, multiplication reads low halves only and xor
 * keeps halves apart. */
struct two {
    __m128i c0, c1, c2, c3;
};

static inline struct two two_from(uint64_t hi, uint64_t lo)
{
    __m128i c0 = _mm_set_epi64x((int64_t)(lo + 1), (int64_t)lo);
    __m128i c2 = _mm_set1_epi64x((int64_t)hi);

    return (struct two){c0, _mm_srli_epi64(c0, 32), c2, _mm_srli_epi64(c2, 32)};
}

static inline struct two two_round(struct two x, __m128i k0, __m128i k1)
{
    __m128i p0 = _mm_mul_epu32(x.c0, _mm_set1_epi64x(MUL0));
    __m128i p1 = _mm_mul_epu32(x.c2, _mm_set1_epi64x(MUL1));

    return (struct two){
        _mm_xor_si128(_mm_xor_si128(_mm_srli_epi64(p1, 32), x.c1), k0), p1,
        _mm_xor_si128(_mm_xor_si128(_mm_srli_epi64(p0, 32), x.c3), k1), p0};
}

static inline void two_store(struct two x, uint32_t *out)
{
    __m128i a = _mm_unpacklo_epi32(x.c0, x.c1);
    __m128i b = _mm_unpacklo_epi32(x.c2, x.c3);
    __m128i c = _mm_unpackhi_epi32(x.c0, x.c1);
    __m128i d = _mm_unpackhi_epi32(x.c2, x.c3);

    _mm_storeu_si128((__m128i *)(void *)out, _mm_unpacklo_epi64(a, b));
    _mm_storeu_si128((__m128i *)(void *)(out + 4), _mm_unpacklo_epi64(c, d));
}

static void side_by_side(uint64_t key, uint64_t hi, uint64_t lo, uint32_t *out)
{
    const __m128i step0 = _mm_set1_epi64x(WEYL0);
    const __m128i step1 = _mm_set1_epi64x(WEYL1);
    __m128i k0 = _mm_set1_epi64x((int64_t)key);
    __m128i k1 = _mm_set1_epi64x((int64_t)(key >> 32));
    struct two a = two_from(hi, lo), b = two_from(hi, lo + 2);

    for (int r = 0; r < ROUNDS; r++) {
        a = two_round(a, k0, k1);
        b = two_round(b, k0, k1);
        k0 = _mm_add_epi64(k0, step0);
        k1 = _mm_add_epi64(k1, step1);
    }
    two_store(a, out);
    two_store(b, out + 8);
}

#else

static void side_by_side(uint64_t key, uint64_t hi, uint64_t lo, uint32_t *out)
{
    for (unsigned i = 0; i < SIDE; i++) {
        struct pdl_rng4 x = pdl_philox(key, hi, lo + i);

        memcpy(out + 4 * (size_t)i, x.v, sizeof x.v);
    }
}

#endif

void pdl_philox_words(uint64_t key, uint64_t hi, uint64_t first, int64_t n,
                      uint32_t *out)
{
    uint32_t block[4 * SIDE];

    while (n > 0) {
        int64_t skip = (int64_t)(first % 4), m = (int64_t)4 * SIDE - skip;

        if (m == (int64_t)4 * SIDE && m <= n) {
            side_by_side(key, hi, first / 4, out);
        } else {
            m = m < n ? m : n;
            side_by_side(key, hi, first / 4, block);
            memcpy(out, block + skip, (size_t)m * sizeof *out);
        }
        first += (uint64_t)m;
        out += m;
        n -= m;
    }
}

uint64_t pdl_rng_u64(struct pdl_rng *r)
{
    struct pdl_rng4 x = pdl_philox(r->key, r->stream, r->next++);

    return (uint64_t)x.v[1] << 32 | x.v[0];
}

uint64_t pdl_rng_below(struct pdl_rng *r, uint64_t n)
{
    uint64_t reject = (0 - n) % n, x; /* 2^64 mod n */

    do
        x = pdl_rng_u64(r);
    while (x < reject);
    return x % n;
}

double pdl_rng_unit(struct pdl_rng *r)
{
    return (double)(pdl_rng_u64(r) >> 11) * 0x1p-53;
}
