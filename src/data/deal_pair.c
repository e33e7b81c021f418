/* SPDX-License-Identifier: Apache-2.0
 *
 * Pair-wise exchange by importance (HPCAsia 2024): the importance of a sample
 * is its loss in the epoch before, that of a worker the largest of its
 * samples'. The most important worker exchanges with the least, the next with
 * the next, and the one in the middle of an odd number keeps what it has.
 * Samples leave in a random order weighted by their loss, drawn without
 * replacement (the exponential clocks of Efraimidis and Spirakis, IPL 2006). */
#include "data_priv.h"

static float importance(const pdl_sampler *s, int64_t w)
{
    int64_t n = pdl_sampler_slots(s, w);
    float most = 0;

    for (int64_t i = 0; i < n; i++) {
        float loss = s->before.loss[pdl_sampler_slot(s, w, i)];

        most = loss > most ? loss : most;
    }
    return most;
}

static void find_partners(pdl_sampler *s)
{
    for (int64_t w = 0; w < s->workers; w++)
        s->key[w] = data_key_of(importance(s, w));
    data_sort(s, s->workers);
    for (int64_t i = 0; i < s->workers; i++)
        s->partner[s->sorted[i]] = s->sorted[s->workers - 1 - i];
}

/* -log2((u + 1/2) / 2^32) in 2^24ths. By integers, a bit for each squaring:
 * all ranks must find the same, and logarithms of C libraries differ. */
static uint32_t minus_log(uint32_t u)
{
    enum { BITS = 24 };
    uint64_t x = 2 * (uint64_t)u + 1;
    int lead = 63 - __builtin_clzll(x);
    uint32_t part = 0;

    x = lead < 32 ? x << (31 - lead) : x >> 1; /* 1 <= x < 2, times 2^31 */
    for (int i = 0; i < BITS; i++) {
        uint32_t bit;

        x = x * x >> 31;
        bit = (uint32_t)(x >> 32);
        part = part << 1 | bit;
        x >>= bit;
    }
    return (uint32_t)(33 - lead) * (1u << BITS) - part;
}

static void leave_by_loss(pdl_sampler *s)
{
    const float least = 1e-8f; /* also a sample without a loss may go */
    uint64_t key = pdl_draw_key(s->opt.seed, PDL_DRAW_EXCHANGE, s->epoch);

    find_partners(s);
    for (int64_t w = 0; w < s->workers; w++) {
        int64_t n = pdl_sampler_slots(s, w);

        pdl_philox_words(key, (uint64_t)w + 1, 0, n, s->key);
        for (int64_t i = 0; i < n; i++) {
            float loss = s->before.loss[pdl_sampler_slot(s, w, i)] + least;
            double clock = (double)minus_log(s->key[i]) / (double)loss;

            s->key[i] = data_key_of((float)clock);
        }
        data_leave_in_order(s, w);
    }
}

const struct data_deal data_deal_pair = {
    .is = {.name = "pair",
           .summary = "workers exchange in pairs, the largest losses first",
           .keys = {{"q", "the part that goes, 0 to 1", 0.3, 0, 1, NULL},
                    DATA_WORKERS}},
    .leave = leave_by_loss,
    .by_loss = true,
};
