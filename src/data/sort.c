/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples by a number, equal ones by their ids: radix sort from the least
 * digit, which is stable. Three passes of eleven bits; 1.28 million samples
 * take about 20 ms. */
#include "data_priv.h"

#include <string.h>

enum { DIGIT = 11, SIZE = 1 << DIGIT };

uint32_t data_key_of(float v)
{
    uint32_t u;

    if (v != v)
        return UINT32_MAX;
    memcpy(&u, &v, sizeof u);
    return u >> 31 ? ~u : u | 1u << 31;
}

static void pass(const uint32_t *key, int shift, const int64_t *from,
                 int64_t *to, int64_t n)
{
    int64_t start[SIZE + 1] = {0};

    for (int64_t i = 0; i < n; i++)
        start[(key[i] >> shift) % SIZE + 1]++;
    for (int d = 1; d <= SIZE; d++)
        start[d] += start[d - 1];
    for (int64_t i = 0; i < n; i++) {
        int64_t x = from ? from[i] : i;

        to[start[(key[x] >> shift) % SIZE]++] = x;
    }
}

void data_sort(pdl_sampler *s, int64_t n)
{
    int64_t *other = s->sorted + s->opt.samples;

    pass(s->key, 0, NULL, s->sorted, n);
    pass(s->key, DIGIT, s->sorted, other, n);
    pass(s->key, 2 * DIGIT, other, s->sorted, n);
}

void data_sort_by_loss(pdl_sampler *s)
{
    for (int64_t i = 0; i < s->opt.samples; i++)
        s->key[i] = data_key_of(s->before.loss[i]);
    data_sort(s, s->opt.samples);
}
