/* SPDX-License-Identifier: Apache-2.0
 *
 * Instance-dependent early stopping (Yuan et al., ICLR 2025): a sample is
 * mastered, and its backward pass left out, when the second difference of its
 * loss over the last three epochs is small. Its loss is looked at in every
 * epoch, so it comes back when it is forgotten. */
#include "data_priv.h"

#include <math.h>

static void choose(pdl_sampler *s)
{
    double most = s->hide_with.value[0];

    if (s->epoch < 3)
        return;
    for (int64_t i = 0; i < s->opt.samples; i++) {
        double a = (double)s->history[1].loss[i];
        double b = (double)s->history[0].loss[i];
        double c = (double)s->before.loss[i];

        s->hides[i] = fabs(c - 2 * b + a) < most;
    }
}

const struct data_hide data_hide_ies = {
    .is = {.name = "ies",
           .summary = "samples whose loss has stopped to change",
           .keys = {{"delta", "its second difference", 1e-3, 0, 1e9, NULL}}},
    .choose = choose,
    .refreshes = true,
    .history = 2,
};
