/* SPDX-License-Identifier: Apache-2.0
 *
 * Recursive halving and doubling, near first: in round j partners at distance
 * 2^j exchange halves of what they still hold (largest messages to the nearest
 * partner), then the same way back. Rank r ends the first half owning the
 * chunk whose number is r with its bits reversed (Thakur, Rabenseifner, Gropp,
 * IJHPCA 2005; MPICH, SimGrid rab). */
#include "coll_halving.h"

static void step(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out)
{
    static const struct coll_pairing pairs = {coll_xor_near, coll_bits_near};

    coll_halving_step(job, &pairs, rank, s, out);
}

const struct pdl_alg coll_allreduce_halving_doubling = {
    .collective = &coll_allreduce,
    .name = "halving-doubling",
    .summary =
        "halves to the nearest partner first; long messages on a hierarchy",
    .source = "Thakur, Rabenseifner and Gropp, IJHPCA 2005",
    .steps = "2 log2 P",
    .bytes = "2N(P-1)/P",
    .limits = "powers of two",
    .setup = coll_halving_setup,
    .nsteps = coll_halving_nsteps,
    .step = step,
    .cost = coll_halving_cost,
};
