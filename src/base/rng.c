/* SPDX-License-Identifier: Apache-2.0
 *
 * Philox 4x32-10: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random
 * numbers: as easy as 1, 2, 3", SC 2011. Ten rounds of multiply, swap and
 * xor over a 128-bit counter with a 64-bit key. The known answers of the
 * paper's library are in tests/base/test_rng.c. */
#include "paradl/base.h"

#include <string.h>

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

enum { SIDE = 8 }; /* counters computed side by side: vectors */

/* Counters lo .. lo + SIDE - 1, words in order. */
static void side_by_side(uint64_t key, uint64_t hi, uint64_t lo, uint32_t *out)
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c[4][SIDE];

    for (unsigned i = 0; i < SIDE; i++) {
        c[0][i] = (uint32_t)(lo + i);
        c[1][i] = (uint32_t)((lo + i) >> 32);
        c[2][i] = (uint32_t)hi;
        c[3][i] = (uint32_t)(hi >> 32);
    }
    for (int r = 0; r < ROUNDS; r++, k0 += WEYL0, k1 += WEYL1)
        for (int i = 0; i < SIDE; i++) {
            uint64_t p0 = (uint64_t)MUL0 * c[0][i];
            uint64_t p1 = (uint64_t)MUL1 * c[2][i];

            c[0][i] = (uint32_t)(p1 >> 32) ^ c[1][i] ^ k0;
            c[2][i] = (uint32_t)(p0 >> 32) ^ c[3][i] ^ k1;
            c[1][i] = (uint32_t)p1;
            c[3][i] = (uint32_t)p0;
        }
    for (int i = 0; i < SIDE; i++)
        for (int w = 0; w < 4; w++)
            out[4 * i + w] = c[w][i];
}

void pdl_philox_words(uint64_t key, uint64_t hi, uint64_t first, int64_t n,
                      uint32_t *out)
{
    uint32_t block[4 * SIDE];

    while (n > 0) {
        int64_t skip = (int64_t)(first % 4), m = (int64_t)4 * SIDE - skip;

        m = m < n ? m : n;
        side_by_side(key, hi, first / 4, block);
        memcpy(out, block + skip, (size_t)m * sizeof *out);
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
