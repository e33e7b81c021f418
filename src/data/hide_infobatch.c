/* SPDX-License-Identifier: Apache-2.0
 *
 * InfoBatch (Qin et al., ICLR 2024). Of the samples whose loss was below the
 * mean, each is left out with probability r; those that stay weigh
 * 1 / (1 - r), so that the expected gradient is that of all samples. The first
 * epoch knows no losses and the last ones, 1 - delta of all, leave nothing
 * out. */
#include "data_priv.h"

enum { R, DELTA };

static double mean_loss(const pdl_sampler *s)
{
    double sum = 0, n = 0;

    for (int64_t i = 0; i < s->opt.samples; i++)
        if (s->before.flags[i] & DATA_SEEN) {
            sum += (double)s->before.loss[i];
            n++;
        }
    return n > 0 ? sum / n : 0;
}

static void choose(pdl_sampler *s)
{
    double mean = mean_loss(s), r = s->hide_with.value[R];
    double last = s->hide_with.value[DELTA] * (double)s->opt.epochs;

    if (s->epoch == 0 || (double)s->epoch >= last)
        return;
    for (int64_t i = 0; i < s->opt.samples; i++) {
        if (!(s->before.flags[i] & DATA_SEEN) ||
            !((double)s->before.loss[i] < mean))
            continue;
        s->hides[i] = data_draw(s, PDL_DRAW_HIDE, i) < r;
        if (!s->hides[i])
            s->weight[i] = (float)(1 / (1 - r));
    }
}

const struct data_hide data_hide_infobatch = {
    .is = {.name = "infobatch",
           .summary = "a random part of the losses below the mean, reweighted",
           .keys = {{"r", "the part", 0.5, 0, 0.99, NULL},
                    {"delta", "of the epochs; then all", 0.875, 0, 1, NULL}}},
    .choose = choose,
    .weighs = true,
};
