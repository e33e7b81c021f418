/* SPDX-License-Identifier: Apache-2.0
 *
 * Stochastic gradient descent with momentum: Polyak 1964; Nesterov's form as
 * in Sutskever et al., ICML 2013. Weight decay is added to the gradient. The
 * first step starts the momentum with the gradient itself. */
#include "optim.h"

static void apply(const struct train_hyper *h, const struct train_step *s,
                  const struct train_shard *x, const double *sums)
{
    struct train_chunk c;
    double decay = x->no_decay ? 0 : h->weight_decay;
    double fresh = s->t == 1 ? 1 : 1 - h->dampening;
    int states = h->momentum != 0 ? 1 : 0;

    (void)sums;
    for (c.at = 0; c.at < x->n; c.at += TRAIN_CHUNK) {
        train_chunk_load(x, s, states, &c);
        for (int64_t i = 0; i < c.n; i++) {
            double g = c.g[i] + decay * c.w[i];

            if (states) {
                double v = h->momentum * c.s[0][i] + fresh * g;

                c.s[0][i] = v;
                g = h->nesterov ? g + h->momentum * v : v;
            }
            c.w[i] -= s->lr * g;
        }
        train_chunk_store(x, states, &c);
    }
}

const struct train_optimizer train_optim_sgd = {
    .name = "sgd",
    .summary = "gradient descent with momentum, plain or Nesterov's",
    .nstates = 1,
    .defaults = {.momentum = 0.9},
    .apply = apply,
};
