/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention with T5's table of distances: a score depends on the distance of
 * key and query through a row of the table, so for one head the additions are
 * a vector over distances, of which every query's row of scores takes a piece;
 * backward adds up pieces into such a vector and then, by rows, the table.
 * And with ALiBi's slopes, which need no table. */
#include "train/backends/cpu/cpu_attention.h"
#include "train/backends/cpu/simd.h"

int64_t train_attention_nearest(const struct attention_kernel *k)
{
    return k->s0 - (k->t1 - 1);
}

int64_t train_attention_distances(const struct attention_kernel *k)
{
    return k->s1 - k->s0 + k->t1 - k->t0;
}

void train_attention_shifts(const struct attention_kernel *k, int64_t head,
                            const float *table, float *shift)
{
    int64_t first = train_attention_nearest(k);

    for (int64_t i = 0; i < train_attention_distances(k); i++)
        shift[i] = table[train_distance_row(k->rows, k->causal, first + i) *
                             k->columns +
                         head - k->w0];
}

void train_attention_unshift(const struct attention_kernel *k, int64_t head,
                             const float *by, float *dtable)
{
    int64_t first = train_attention_nearest(k);

    for (int64_t i = 0; i < train_attention_distances(k); i++)
        dtable[train_distance_row(k->rows, k->causal, first + i) * k->columns +
               head - k->w0] += by[i];
}

void train_attention_distance(const struct attention_kernel *k, int64_t head,
                              int64_t t, int64_t lo, float *row, int64_t n)
{
    if (k->key_at)
        train_simd_minus_distance(
            k->key_at + (lo - k->s0), (float)train_position(&k->call, t),
            (float)train_slope(&k->call.node->attr, head), row, n);
}
