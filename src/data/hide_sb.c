/* SPDX-License-Identifier: Apache-2.0
 *
 * By the loss, at random. Selective backprop (Jiang et al., 2019): a sample
 * stays with the probability CDF(loss)^beta, by the losses of the epoch before;
 * hidden ones are looked at again. Importance sampling with replacement: as
 * many draws as there are samples, each in proportion to its loss. */
#include "data_priv.h"

#include <math.h>

static void choose_by_rank(pdl_sampler *s)
{
    double beta = s->hide_with.value[0], n = (double)s->opt.samples;

    if (s->epoch == 0)
        return;
    data_sort_by_loss(s);
    for (int64_t i = 0; i < s->opt.samples; i++) {
        int64_t x = s->sorted[i];

        s->hides[x] =
            data_draw(s, PDL_DRAW_HIDE, x) >= pow((double)(i + 1) / n, beta);
    }
}

const struct data_hide data_hide_sb = {
    .is = {.name = "sb",
           .summary = "the lower the loss the likelier (selective backprop)",
           .keys = {{"beta", "how much likelier", 1, 0, 100, NULL}}},
    .choose = choose_by_rank,
    .refreshes = true,
};

/* One pass over losses and draws, both ascending: the i-th of n ordered
 * draws is taken from the i-th of n equal parts of the sum (systematic
 * resampling), so that no sample is drawn by more than one too often. */
static void draw_by_loss(pdl_sampler *s)
{
    const double least = 1e-8;
    int64_t n = s->opt.samples, x = 0;
    double sum = 0, upto;

    for (int64_t i = 0; i < n; i++)
        sum += fmax((double)s->before.loss[i], 0) + least;
    upto = fmax((double)s->before.loss[0], 0) + least;
    for (int64_t i = 0; i < n; i++) {
        double at = ((double)i + data_draw(s, PDL_DRAW_HIDE, i)) / (double)n;

        while (x + 1 < n && upto < at * sum) {
            x++;
            upto += fmax((double)s->before.loss[x], 0) + least;
        }
        s->list[s->nlist++] = x;
    }
    for (int64_t i = 0; i < n; i++)
        s->hides[i] = 1;
    for (int64_t i = 0; i < n; i++)
        s->hides[s->list[i]] = 0;
}

const struct data_hide data_hide_iswr = {
    .is = {.name = "iswr",
           .summary = "importance sampling with replacement, by the loss"},
    .choose = draw_by_loss,
    .refreshes = true,
    .lists = true,
};
