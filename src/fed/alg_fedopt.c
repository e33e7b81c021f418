/* SPDX-License-Identifier: Apache-2.0
 *
 * FedAdam and FedYogi (Reddi et al., ICLR 2021): the mean of what clients
 * changed is a gradient, and the server follows it with Adam or Yogi, without
 * a correction of the first steps. Running statistics are no weights: they are
 * the mean, as in FedAvg. */
#include "fed/fed_priv.h"

#include <math.h>

enum { ETA, BETA1, BETA2, TAU };
enum { FIRST, SECOND }; /* moments, on the shelf */

static enum pdl_status begin(struct fed *f, struct pdl_err *err)
{
    enum pdl_status st = fed_shelf_open(f, 0, "moment", 2, err);
    double tau = fed_value(f, TAU);

    if (st == PDL_OK && f->rank == 0)
        for (int64_t i = 0; i < f->n; i++)
            fed_slot(f, 0, SECOND)[i] = (float)(tau * tau);
    return st;
}

static void step(struct fed *f, int64_t i, bool yogi)
{
    float *m = fed_slot(f, 0, FIRST), *v = fed_slot(f, 0, SECOND);
    double d = f->sum[i] / f->weight - (double)f->model[i];
    double b1 = fed_value(f, BETA1), b2 = fed_value(f, BETA2);
    double sign = (double)v[i] > d * d ? 1 : (double)v[i] < d * d ? -1 : 0;

    m[i] = (float)(b1 * (double)m[i] + (1 - b1) * d);
    v[i] = (float)(yogi ? (double)v[i] - (1 - b2) * d * d * sign
                        : b2 * (double)v[i] + (1 - b2) * d * d);
    f->model[i] = (float)((double)f->model[i] +
                          fed_value(f, ETA) * (double)m[i] /
                              (sqrt((double)v[i]) + fed_value(f, TAU)));
}

static void end(struct fed *f, bool yogi)
{
    const struct pdl_train_state *s;
    int64_t at;

    for (int t = 0;
         f->weight > 0 && (s = fed_learner_tensor(f->learner, t, &at)); t++)
        for (int64_t i = at; i < at + pdl_box_volume(&s->part.box); i++)
            if (s->learned)
                step(f, i, yogi);
            else
                f->model[i] = (float)(f->sum[i] / f->weight);
}

static void end_adam(struct fed *f)
{
    end(f, false);
}

static void end_yogi(struct fed *f)
{
    end(f, true);
}

// clang-format off
#define KEYS                                                                  \
    {{"eta", "rate of the server", 0.01, 1e-9, 1e3, NULL},                    \
     {"beta1", "of the mean", 0.9, 0, 1, NULL},                               \
     {"beta2", "of the mean square", 0.99, 0, 1, NULL},                       \
     {"tau", "what it is more than", 1e-3, 1e-12, 1e3, NULL}}
// clang-format on

const struct fed_alg fed_alg_fedadam = {
    .is = {.name = "fedadam",
           .summary = "the server follows the mean change by Adam",
           .keys = KEYS},
    .open = begin,
    .end = end_adam,
};

const struct fed_alg fed_alg_fedyogi = {
    .is = {.name = "fedyogi",
           .summary = "the server follows the mean change by Yogi",
           .keys = KEYS},
    .open = begin,
    .end = end_yogi,
};
