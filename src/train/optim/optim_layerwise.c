/* SPDX-License-Identifier: Apache-2.0
 *
 * Large batches: a learning rate for each tensor, from norms of the tensor.
 *
 * LARS (You, Gitman, Ginsburg 2017), with decay b and trust eta:
 *   local = eta |w| / (|g| + b |w|)
 *   v = momentum v + lr local (g + b w);  w -= v
 * LAMB (You et al., ICLR 2020), algorithm 2:
 *   r = m / (sqrt(v) + eps) + b w  (m, v as in Adam, bias corrected)
 *   w -= lr |w| / |r| r
 * Where a norm is zero the ratio is one. Tensors without decay (biases and
 * norms) get the ratio one too, as both papers' code has it. */
#include "train/optim/optim.h"

#include <math.h>

static double ratio(const struct train_shard *x, double top, double bottom)
{
    return x->no_decay || !(top > 0) || !(bottom > 0) ? 1 : top / bottom;
}

/* ---- LARS ------------------------------------------------------------- */

static void lars_norms(const struct train_hyper *h, const struct train_step *s,
                       const struct train_shard *x, double *sums)
{
    struct train_chunk c;

    (void)h;
    for (c.at = 0; c.at < x->n; c.at += TRAIN_CHUNK) {
        train_chunk_load(x, s, 0, &c);
        for (int64_t i = 0; i < c.n; i++) {
            sums[0] += c.w[i] * c.w[i];
            sums[1] += c.g[i] * c.g[i];
        }
    }
}

static void lars(const struct train_hyper *h, const struct train_step *s,
                 const struct train_shard *x, const double *sums)
{
    double decay = x->no_decay ? 0 : h->weight_decay;
    double w = sqrt(sums[0]), g = sqrt(sums[1]);
    double local = ratio(x, h->trust * w, w > 0 && g > 0 ? g + decay * w : 0);
    struct train_chunk c;

    for (c.at = 0; c.at < x->n; c.at += TRAIN_CHUNK) {
        train_chunk_load(x, s, 1, &c);
        for (int64_t i = 0; i < c.n; i++) {
            double d = s->lr * local * (c.g[i] + decay * c.w[i]);

            c.s[0][i] = h->momentum * c.s[0][i] + d;
            c.w[i] -= c.s[0][i];
        }
        train_chunk_store(x, 1, &c);
    }
}

/* ---- LAMB ------------------------------------------------------------- */

struct correction {
    double c1, c2, decay;
};

static struct correction correction(const struct train_hyper *h,
                                    const struct train_step *s,
                                    const struct train_shard *x)
{
    return (struct correction){1 - pow(h->beta1, (double)s->t),
                               1 - pow(h->beta2, (double)s->t),
                               x->no_decay ? 0 : h->weight_decay};
}

static double direction(const struct train_hyper *h, const struct correction *k,
                        const struct train_chunk *c, int64_t i)
{
    return c->s[0][i] / k->c1 / (sqrt(c->s[1][i] / k->c2) + h->eps) +
           k->decay * c->w[i];
}

/* The first phase moves the moments on: apply must follow it once. */
static void lamb_norms(const struct train_hyper *h, const struct train_step *s,
                       const struct train_shard *x, double *sums)
{
    struct correction k = correction(h, s, x);
    struct train_chunk c;

    for (c.at = 0; c.at < x->n; c.at += TRAIN_CHUNK) {
        train_chunk_load(x, s, 2, &c);
        for (int64_t i = 0; i < c.n; i++) {
            double g = c.g[i], r;

            c.s[0][i] = h->beta1 * c.s[0][i] + (1 - h->beta1) * g;
            c.s[1][i] = h->beta2 * c.s[1][i] + (1 - h->beta2) * g * g;
            r = direction(h, &k, &c, i);
            sums[0] += c.w[i] * c.w[i];
            sums[1] += r * r;
        }
        train_chunk_store_states(x, 2, &c);
    }
}

static void lamb(const struct train_hyper *h, const struct train_step *s,
                 const struct train_shard *x, const double *sums)
{
    struct correction k = correction(h, s, x);
    double rate = s->lr * ratio(x, sqrt(sums[0]), sqrt(sums[1]));
    struct train_chunk c;

    for (c.at = 0; c.at < x->n; c.at += TRAIN_CHUNK) {
        train_chunk_load(x, s, 2, &c);
        for (int64_t i = 0; i < c.n; i++)
            c.w[i] -= rate * direction(h, &k, &c, i);
        train_chunk_store(x, 0, &c);
    }
}

const struct train_optimizer train_optim_lars = {
    .name = "lars",
    .summary = "momentum with a rate by layer, for large batches of CNNs",
    .nstates = 1,
    .defaults = {.momentum = 0.9, .weight_decay = 1e-4, .trust = 0.001},
    .norms = lars_norms,
    .apply = lars,
};

const struct train_optimizer train_optim_lamb = {
    .name = "lamb",
    .summary = "adaptive moments with a rate by layer, for large batches",
    .nstates = 2,
    .defaults = {.beta1 = 0.9,
                 .beta2 = 0.999,
                 .eps = 1e-6,
                 .weight_decay = 0.01},
    .norms = lamb_norms,
    .apply = lamb,
};
