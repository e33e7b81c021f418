/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples by a number, equal ones by their ids: radix sort from the least
 * digit, which is stable, in three passes of eleven bits. A number travels
 * with its id in one word, so that every pass reads memory in order. Where only
 * the lowest are asked for, their limit is found without sorting. */
#include "data_priv.h"

#include <string.h>

enum { DIGIT = 11, SIZE = 1 << DIGIT, DIGITS = 3, FEW = 48 };

uint32_t data_key_of(float v)
{
    uint32_t u;

    if (v != v)
        return UINT32_MAX;
    memcpy(&u, &v, sizeof u);
    return u >> 31 ? ~u : u | 1u << 31;
}

static uint32_t digit(uint32_t key, int d)
{
    return key >> d * DIGIT & (SIZE - 1);
}

/* Where the words of each value of a digit begin. */
static void count(const uint32_t *key, int64_t n, int64_t start[][SIZE])
{
    memset(start, 0, sizeof start[0] * DIGITS);
    for (int64_t i = 0; i < n; i++)
        for (int d = 0; d < DIGITS; d++)
            start[d][digit(key[i], d)]++;
    for (int d = 0; d < DIGITS; d++) {
        int64_t sum = 0;

        for (int v = 0; v < SIZE; v++) {
            int64_t here = start[d][v];

            start[d][v] = sum;
            sum += here;
        }
    }
}

/* So few that counting digits would take longer. */
static void insert(const uint32_t *key, int64_t n, int64_t *sorted)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t at = i;

        for (; at > 0 && key[sorted[at - 1]] > key[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = i;
    }
}

/* Ids take 32 bits of a word: DATA_MOST. */
void data_sort(pdl_sampler *s, int64_t n)
{
    int64_t start[DIGITS][SIZE], *one = s->sorted;
    int64_t *two = one + s->opt.samples;

    if (n <= FEW) {
        insert(s->key, n, s->sorted);
        return;
    }
    count(s->key, n, start);
    for (int64_t i = 0; i < n; i++)
        one[start[0][digit(s->key[i], 0)]++] =
            (int64_t)((uint64_t)s->key[i] << 32 | (uint64_t)i);
    for (int64_t i = 0; i < n; i++)
        two[start[1][digit((uint32_t)((uint64_t)one[i] >> 32), 1)]++] = one[i];
    for (int64_t i = 0; i < n; i++)
        one[start[2][digit((uint32_t)((uint64_t)two[i] >> 32), 2)]++] =
            two[i] & UINT32_MAX;
}

static void keys_of_losses(pdl_sampler *s)
{
    for (int64_t i = 0; i < s->opt.samples; i++)
        s->key[i] = data_key_of(s->before.loss[i]);
}

void data_sort_by_loss(pdl_sampler *s)
{
    keys_of_losses(s);
    data_sort(s, s->opt.samples);
}

/* The k-th key is found digit by digit, the largest first: `above` keeps the
 * digits that are known, k what is left to count. */
uint32_t data_lowest_losses(pdl_sampler *s, int64_t k, int64_t *equal)
{
    uint32_t found = 0, known = 0;

    keys_of_losses(s);
    for (int d = DIGITS - 1; d >= 0; d--) {
        int64_t many[SIZE] = {0};
        uint32_t v = 0;

        for (int64_t i = 0; i < s->opt.samples; i++)
            many[digit(s->key[i], d)] += (s->key[i] & known) == found;
        while (k > many[v])
            k -= many[v++];
        found |= v << d * DIGIT;
        known |= (uint32_t)(SIZE - 1) << d * DIGIT;
    }
    *equal = k;
    return found;
}
