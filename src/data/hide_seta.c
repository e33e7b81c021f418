/* SPDX-License-Identifier: Apache-2.0
 *
 * SeTa (Zhou et al., CVPR 2025): a random part is left out as redundant; the
 * others are grouped by their loss (k-means on one number), and a window over
 * the groups goes from the easy to the hard, again and again; the last epochs
 * train on what the random part leaves.
 *
 * The paper's code moves the window by its own rule; here it covers the part
 * `window` of the groups, begins at the easiest and goes on by one group an
 * epoch, so the result is a method of that kind, not a copy of its runs. */
#include "data_priv.h"

#include <math.h>

enum { R, GROUPS, WINDOW, ANNEAL, MOST = 64, ROUNDS = 20 };

/* Where groups begin in the ascending losses: Lloyd's algorithm, which keeps
 * groups of one number side by side. */
static void cut_groups(const pdl_sampler *s, int k, int64_t *from)
{
    const float *loss = s->before.loss;
    int64_t n = s->opt.samples;
    double mean[MOST];

    for (int g = 0; g <= k; g++)
        from[g] = n * g / k;
    for (int round = 0; round < ROUNDS; round++) {
        for (int g = 0; g < k; g++) {
            double sum = 0;

            for (int64_t i = from[g]; i < from[g + 1]; i++)
                sum += (double)loss[s->sorted[i]];
            mean[g] =
                from[g + 1] > from[g]
                    ? sum / (double)(from[g + 1] - from[g])
                    : (double)loss[s->sorted[from[g] < n ? from[g] : n - 1]];
        }
        for (int g = 1; g < k; g++) {
            int64_t i = from[g - 1];
            double middle = (mean[g - 1] + mean[g]) / 2;

            while (i < n && (double)loss[s->sorted[i]] <= middle)
                i++;
            from[g] = i;
        }
    }
}

static void choose(pdl_sampler *s)
{
    const double *v = s->hide_with.value;
    int k = (int)v[GROUPS], width = (int)ceil(v[WINDOW] * k), first;
    int64_t from[MOST + 1];

    if (s->epoch == 0)
        return;
    for (int64_t i = 0; i < s->opt.samples; i++)
        s->hides[i] = data_draw(s, PDL_DRAW_HIDE, i) < v[R];
    if ((double)s->epoch >= (1 - v[ANNEAL]) * (double)s->opt.epochs)
        return;
    data_sort_by_loss(s);
    cut_groups(s, k, from);
    first = (int)((s->epoch - 1) % (k - width + 1));
    for (int64_t i = 0; i < s->opt.samples; i++)
        if (i < from[first] || i >= from[first + width])
            s->hides[s->sorted[i]] = 1;
}

const struct data_hide data_hide_seta = {
    .is = {.name = "seta",
           .summary = "a random part, then groups of losses from easy to hard",
           .keys = {{"r", "the random part", 0.1, 0, 0.9, NULL},
                    {"groups", "of similar losses", 10, 2, MOST,
                     pdl_sampling_whole},
                    {"window", "of the groups", 0.8, 0.05, 1, NULL},
                    {"anneal", "of the epochs, without a window", 0.1, 0, 1,
                     NULL}}},
    .choose = choose,
};
