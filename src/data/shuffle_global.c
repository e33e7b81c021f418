/* SPDX-License-Identifier: Apache-2.0
 *
 * Global shuffling as a function: a keyed permutation of [0, n) that can be
 * evaluated at one place, and inverted, without a list.
 *
 * A Feistel network permutes the 2^b numbers below the next power of two
 * (M. Luby, C. Rackoff, SIAM J. Comput. 17(2), 1988; the two halves may differ
 * by one bit, so they take turns instead of being swapped), and numbers that
 * fall outside [0, n) are permuted again until one falls inside (cycle
 * walking: J. Black, P. Rogaway, CT-RSA 2002), which keeps it a bijection and
 * takes two rounds on average at most. The round function is Philox.
 *
 * Cost: O(1) memory; for a million samples 24 Philox calls a sample, 0.4 us.
 * The theory asks for four rounds of functions with many bits. Halves of one
 * or two bits carry so few that a handful of samples needs ten times as many
 * before all their orders are equally likely (tests/data/test_order.c counts
 * them), hence the rule in rounds(). */
#include "data_priv.h"

static int rounds(const struct pdl_order *o)
{
    return 8 + 96 / (o->low_bits + o->high_bits);
}

static void global_begin(struct pdl_order *o)
{
    int bits = 2; /* a half of no bits would leave its numbers in place */

    while (bits < 63 && (int64_t)1 << bits < o->n)
        bits++;
    o->low_bits = bits / 2;
    o->high_bits = bits - o->low_bits;
    o->key = pdl_draw_key(o->seed, PDL_DRAW_ORDER, o->epoch);
}

/* Changes one half by a function of the other. */
static void turn(const struct pdl_order *o, int r, uint64_t half[2])
{
    int to = r & 1, bits = to ? o->high_bits : o->low_bits;
    uint32_t f = pdl_philox(o->key, (uint64_t)r, half[!to]).v[0];

    half[to] ^= f & (((uint64_t)1 << bits) - 1);
}

static int64_t network(const struct pdl_order *o, int64_t x, bool inverse)
{
    uint64_t half[2] = {(uint64_t)x & (((uint64_t)1 << o->low_bits) - 1),
                        (uint64_t)x >> o->low_bits};

    for (int r = 0, n = rounds(o); r < n; r++)
        turn(o, inverse ? n - 1 - r : r, half);
    return (int64_t)(half[1] << o->low_bits | half[0]);
}

static int64_t walk(const struct pdl_order *o, int64_t x, bool inverse)
{
    do
        x = network(o, x, inverse);
    while (x >= o->n);
    return x;
}

static int64_t global_at(const struct pdl_order *o, int64_t position)
{
    return walk(o, position, false);
}

static int64_t global_find(const struct pdl_order *o, int64_t sample)
{
    return walk(o, sample, true);
}

const struct pdl_shuffle data_shuffle_global = {
    .name = "global",
    .summary = "a new random order of all samples every epoch",
    .begin = global_begin,
    .at = global_at,
    .find = global_find,
};
