/* SPDX-License-Identifier: Apache-2.0
 *
 * KAKURENBO (Nguyen et al., "Adaptively hiding samples in deep neural network
 * training", NeurIPS 2023). Of the f_e N samples of the lowest loss in the
 * epoch before, those are hidden that were predicted correctly and with a
 * confidence of at least tau; the others are moved back, and their places are
 * not given to anybody. Hidden samples are looked at again (forward only) at
 * the end of the epoch. The learning rate grows by 1 / (1 - f_e).
 *
 * f_e falls from f by steps at 1/3, 2/3 and 8/9 of the epochs, as the
 * learning rate's milestones do in the paper. The confidence is exp(-loss),
 * which is what softmax over classes gives the right class. The authors'
 * scripts normalise over the batch instead, so that a confidence depends on
 * its neighbours: conf_axis=batch, for comparisons with them, takes what it is
 * told. */
#include "data_priv.h"

#include <math.h>

enum { F, TAU, LR, AXIS };
enum { LR_CAP, LR_REALISED, LR_NONE };
static const char *const lr_words[] = {"cap", "realised", "none", NULL};
enum { AXIS_CLASS, AXIS_BATCH };
static const char *const axis_words[] = {"class", "batch", NULL};

static bool told(const pdl_sampler *s)
{
    return s->hide_with.value[AXIS] == AXIS_BATCH;
}

static double cap(const pdl_sampler *s)
{
    static const struct {
        double until, part;
    } steps[] = {{1. / 3, 1}, {2. / 3, 0.8}, {8. / 9, 0.6}, {HUGE_VAL, 0.4}};
    double done = (double)s->epoch / (double)s->opt.epochs;
    int i = 0;

    while (done >= steps[i].until)
        i++;
    return s->hide_with.value[F] * steps[i].part;
}

/* Predicted right, and confidently. */
static bool is_sure(const pdl_sampler *s, int64_t i, double most)
{
    if (!(s->before.flags[i] & DATA_CORRECT))
        return false;
    return s->before.conf ? (double)s->before.conf[i] >= s->hide_with.value[TAU]
                          : (double)s->before.loss[i] <= most;
}

static void choose(pdl_sampler *s)
{
    double f = cap(s), most = -log(s->hide_with.value[TAU]), h;
    int64_t candidates = (int64_t)(f * (double)s->opt.samples + 1e-9);
    int64_t hidden = 0, equal = 0;
    uint32_t limit =
        candidates > 0 ? data_lowest_losses(s, candidates, &equal) : 0;

    for (int64_t i = 0; candidates > 0 && i < s->opt.samples; i++) {
        bool low = s->key[i] < limit || (s->key[i] == limit && equal-- > 0);
        bool hide = low && is_sure(s, i, most);

        s->hides[i] = hide;
        hidden += hide;
    }
    h = (double)hidden / (double)s->opt.samples;
    if ((double)s->epoch >= s->opt.warmup_epochs &&
        s->hide_with.value[LR] != LR_NONE)
        s->rate = 1 / (1 - (s->hide_with.value[LR] == LR_CAP ? f : h));
}

const struct data_hide data_hide_kakurenbo = {
    .is = {.name = "kakurenbo",
           .summary = "samples of low loss, predicted right and surely",
           .keys = {{"f", "the part that may be hidden", 0.3, 0, 0.9, NULL},
                    {"tau", "how sure", 0.7, 1e-9, 1, NULL},
                    {"lr", "the rate grows by f, by what is hidden, or not",
                     LR_CAP, 0, 2, lr_words},
                    {"conf_axis", "confidences are over classes, or told",
                     AXIS_CLASS, 0, 1, axis_words}}},
    .choose = choose,
    .told = told,
    .refreshes = true,
};
