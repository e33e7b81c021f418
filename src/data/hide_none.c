/* SPDX-License-Identifier: Apache-2.0
 *
 * Every sample in every epoch; and, to be in every comparison, a new random
 * part of them each epoch. */
#include "data_priv.h"

static void choose_all(pdl_sampler *s)
{
    (void)s;
}

static void choose_at_random(pdl_sampler *s)
{
    double r = s->hide_with.value[0];

    for (int64_t i = 0; i < s->opt.samples; i++)
        s->hides[i] = data_draw(s, PDL_DRAW_HIDE, i) < r;
}

const struct data_hide data_hide_none = {
    .is = {.name = "none", .summary = "every sample is trained in every epoch"},
    .choose = choose_all,
};

const struct data_hide data_hide_random = {
    .is = {.name = "random",
           .summary = "a random part is left out, another each epoch",
           .keys = {{"r", "the part", 0.3, 0, 0.99, NULL}}},
    .choose = choose_at_random,
};
