/* SPDX-License-Identifier: Apache-2.0
 *
 * Pair-wise exchange by importance (HPCAsia 2024): the importance of a sample
 * is its loss in the epoch before, that of a worker the largest of its
 * samples'. The most important worker exchanges with the least, the next with
 * the next, and the one in the middle of an odd number keeps what it has.
 * Samples leave in a random order weighted by their loss, drawn without
 * replacement (the exponential clocks of Efraimidis and Spirakis, IPL 2006). */
#include "data_priv.h"

#include <math.h>

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

static void leave_by_loss(pdl_sampler *s)
{
    const double least = 1e-8; /* also a sample without a loss may go */

    find_partners(s);
    for (int64_t w = 0; w < s->workers; w++) {
        int64_t n = pdl_sampler_slots(s, w);

        for (int64_t i = 0; i < n; i++) {
            int64_t x = pdl_sampler_slot(s, w, i);
            double u = data_draw(s, PDL_DRAW_EXCHANGE, x);
            double loss = (double)s->before.loss[x] + least;

            s->key[i] = data_key_of((float)(-log1p(-u) / loss));
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
