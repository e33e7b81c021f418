/* SPDX-License-Identifier: Apache-2.0
 *
 * Recursive halving and doubling, far first: round j pairs ranks at distance
 * P/2^(j+1), so that rank r ends the first half owning chunk r, and the
 * largest messages go to the farthest partner (van de Geijn, JPDC 1994). */
#include "coll_halving.h"

static void step(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out)
{
    static const struct coll_pairing pairs = {coll_xor_far, coll_bits_far};

    coll_halving_step(job, &pairs, rank, s, out);
}

const struct pdl_alg coll_allreduce_halving_doubling_far = {
    .collective = &coll_allreduce,
    .name = "halving-doubling-far",
    .summary = "halves to the farthest partner first; blocks stay in order",
    .source = "van de Geijn, JPDC 1994",
    .steps = "2 log2 P",
    .bytes = "2N(P-1)/P",
    .limits = "powers of two",
    .setup = coll_halving_setup,
    .nsteps = coll_halving_nsteps,
    .step = step,
    .cost = coll_halving_cost,
};
