/* SPDX-License-Identifier: Apache-2.0
 *
 * FedAvg (McMahan et al., AISTATS 2017): every chosen client trains the model
 * on its samples, and the new model is the mean, weighed by their number. With
 * one step on all samples of all clients it is a step of data-parallel SGD.
 * FedProx (Li et al., MLSys 2020) is the same with a spring of strength mu
 * between a client's weights and those that it began with. */
#include "fed/fed_priv.h"

const struct fed_alg fed_alg_fedavg = {
    .is = {.name = "fedavg", .summary = "the mean, weighed by samples"},
};

static void teach(struct fed *f, int64_t task, const float *down,
                  struct fed_pull *pull)
{
    (void)task;
    (void)down;
    pull->anchor = f->model;
    pull->strength = fed_value(f, 0);
}

const struct fed_alg fed_alg_fedprox = {
    .is = {.name = "fedprox",
           .summary = "fedavg, with a spring to where a client began",
           .keys = {{"mu", "strength of the spring", 0.01, 0, 1e6, NULL}}},
    .teach = teach,
};
