/* SPDX-License-Identifier: Apache-2.0
 *
 * Adam (Kingma and Ba, ICLR 2015): weight decay is added to the gradient.
 * AdamW (Loshchilov and Hutter, ICLR 2019): it shrinks the weight apart from
 * the gradient. */
#include "train/optim/optim.h"

#include <math.h>

struct rates {
    double beta1, beta2, eps, coupled, shrink, lr, root;
};

TRAIN_TARGETS
static void update_chunk(const struct rates *r, struct train_chunk *c)
{
    const struct rates k = *r;

    for (int64_t i = 0; i < c->n; i++) {
        double g = c->g[i] + k.coupled * c->w[i];
        double m = k.beta1 * c->s[0][i] + (1 - k.beta1) * g;
        double v = k.beta2 * c->s[1][i] + (1 - k.beta2) * g * g;
        double w = c->w[i] - k.shrink * c->w[i];

        c->s[0][i] = m;
        c->s[1][i] = v;
        c->w[i] = w - k.lr * m / (sqrt(v) / k.root + k.eps);
    }
}

static void update(const struct train_hyper *h, const struct train_step *s,
                   const struct train_shard *x, double coupled,
                   double decoupled)
{
    struct rates r = {h->beta1,
                      h->beta2,
                      h->eps,
                      coupled,
                      s->lr * decoupled,
                      s->lr / (1 - pow(h->beta1, (double)s->t)),
                      sqrt(1 - pow(h->beta2, (double)s->t))};
    struct train_chunk c;

    for (c.at = 0; c.at < x->n; c.at += TRAIN_CHUNK) {
        train_chunk_load(x, s, 2, &c);
        update_chunk(&r, &c);
        train_chunk_store(x, 2, &c);
    }
}

static void adam(const struct train_hyper *h, const struct train_step *s,
                 const struct train_shard *x, const double *sums)
{
    (void)sums;
    update(h, s, x, x->no_decay ? 0 : h->weight_decay, 0);
}

static void adamw(const struct train_hyper *h, const struct train_step *s,
                  const struct train_shard *x, const double *sums)
{
    (void)sums;
    update(h, s, x, 0, x->no_decay ? 0 : h->weight_decay);
}

const struct train_optimizer train_optim_adam = {
    .name = "adam",
    .summary = "adaptive moments, weight decay in the gradient",
    .nstates = 2,
    .defaults = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8},
    .apply = adam,
};

const struct train_optimizer train_optim_adamw = {
    .name = "adamw",
    .summary = "adaptive moments, weight decay apart from the gradient",
    .nstates = 2,
    .defaults = {.beta1 = 0.9,
                 .beta2 = 0.999,
                 .eps = 1e-8,
                 .weight_decay = 0.01},
    .apply = adamw,
};
