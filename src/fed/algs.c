/* SPDX-License-Identifier: Apache-2.0
 *
 * Every algorithm. To add one: write its file, declare its descriptor in
 * fed_priv.h, add one line here. The program and the tests walk this table. */
#include "fed/fed_priv.h"

static const struct fed_alg *const algs[] = {
    &fed_alg_fedavg,   &fed_alg_fedprox, &fed_alg_fedadam, &fed_alg_fedyogi,
    &fed_alg_scaffold, &fed_alg_fedbuff, &fed_alg_cadis,   &fed_alg_sem,
    &fed_alg_safa,     &fed_alg_feddct,  &fed_alg_central, &fed_alg_local,
};
enum { NALGS = sizeof algs / sizeof algs[0] };

const struct fed_alg *fed_alg_at(int i)
{
    return i >= 0 && i < NALGS ? algs[i] : NULL;
}

const struct pdl_sampling *pdl_fed_algorithm_at(int i)
{
    return fed_alg_at(i) ? &fed_alg_at(i)->is : NULL;
}
