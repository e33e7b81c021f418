/* SPDX-License-Identifier: Apache-2.0
 *
 * Local and partial shuffling (Nguyen, Trahay, Domke, Drozd, Vatai, Liao,
 * Wahib, Gerofi: "Why globally re-shuffle? Revisiting data shuffling in large
 * scale deep learning", IPDPS 2022). Each of M workers stores N/M samples; in
 * an epoch it sends the fraction q of them to others, its j-th to the worker
 * that the j-th random permutation says. Which of its samples is random; those
 * that are hidden in this epoch go last. */
#include "data_priv.h"

static void leave_at_random(pdl_sampler *s)
{
    uint64_t key = pdl_draw_key(s->opt.seed, PDL_DRAW_EXCHANGE, s->epoch);

    for (int64_t w = 0; w < s->workers; w++) {
        pdl_philox_words(key, (uint64_t)w + 1, 0, pdl_sampler_slots(s, w),
                         s->key);
        data_leave_in_order(s, w);
    }
    data_draw_receivers(s);
}

const struct data_deal data_deal_local = {
    .is = {.name = "local",
           .summary = "workers keep their samples and shuffle those",
           .keys = {{"q", "nothing is exchanged", 0, 0, 0, NULL},
                    DATA_WORKERS}},
};

const struct data_deal data_deal_partial = {
    .is = {.name = "partial",
           .summary = "workers keep their samples and exchange a part of them",
           .keys = {{"q", "the part, 0 to 1", 0.3, 0, 1, NULL}, DATA_WORKERS}},
    .leave = leave_at_random,
};
