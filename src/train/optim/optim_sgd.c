/* SPDX-License-Identifier: Apache-2.0
 *
 * Stochastic gradient descent with momentum: Polyak 1964; Nesterov's form as
 * in Sutskever et al., ICML 2013. Weight decay is added to the gradient. The
 * first step starts the momentum with the gradient itself. */
#include "train/optim/optim.h"

struct rates {
    double lr, momentum, fresh, decay, scale; /* scale: of the gradient */
    bool nesterov;
};

/* float32 with momentum, the usual case: the same arithmetic in one pass. */
TRAIN_TARGETS
static void apply_f32(const struct rates *r, int64_t n, const float *restrict g,
                      float *restrict w, float *restrict m)
{
    const struct rates k = *r;

    for (int64_t i = 0; i < n; i++) {
        double d = (double)g[i] * k.scale + k.decay * (double)w[i];
        double v = k.momentum * (double)m[i] + k.fresh * d;

        m[i] = (float)v;
        d = k.nesterov ? d + k.momentum * v : v;
        w[i] = (float)((double)w[i] - k.lr * d);
    }
}

static void apply(const struct train_hyper *h, const struct train_step *s,
                  const struct train_shard *x, const double *sums)
{
    struct train_chunk c;
    struct rates r = {s->lr,
                      h->momentum,
                      s->t == 1 ? 1 : 1 - h->dampening,
                      x->no_decay ? 0 : h->weight_decay,
                      s->grad_scale,
                      h->nesterov};
    int states = h->momentum != 0 ? 1 : 0;

    (void)sums;
    if (states && x->dtype == PDL_F32 && x->grad_dtype == PDL_F32 && !x->copy) {
        apply_f32(&r, x->n, x->g, x->w, x->state[0]);
        return;
    }
    for (c.at = 0; c.at < x->n; c.at += TRAIN_CHUNK) {
        train_chunk_load(x, s, states, &c);
        for (int64_t i = 0; i < c.n; i++) {
            double g = c.g[i] + r.decay * c.w[i];

            if (states) {
                double v = r.momentum * c.s[0][i] + r.fresh * g;

                c.s[0][i] = v;
                g = r.nesterov ? g + r.momentum * v : v;
            }
            c.w[i] -= r.lr * g;
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
