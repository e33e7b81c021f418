/* SPDX-License-Identifier: Apache-2.0
 *
 * Swing (De Sensi et al., NSDI 2024; the Bine butterfly): in round s an even
 * rank pairs with r + rho(s), an odd one with r - rho(s), where rho(s) =
 * (1-(-2)^(s+1))/3 = 1, -1, 3, -5, 11 ... On a torus the distances are about a
 * third shorter than 2^s.
 *
 * Which half a rank keeps: rho(s) is the number written with s+1 ones in base
 * -2, so the rounds that lead from rank 0 to rank r are where the digits of r
 * (of -r when r is even) in base -2 change. These marks are the bits. */
#include "coll_halving.h"

static int64_t swing_partner(const struct coll_butterfly *b, int64_t i, int j)
{
    int64_t power = (int64_t)1 << (j + 1);
    int64_t rho = (1 - (j % 2 ? power : -power)) / 3;

    return coll_mod(i % 2 ? i - rho : i + rho, (int64_t)1 << b->rounds);
}

static uint32_t swing_bits(const struct coll_butterfly *b, int64_t i)
{
    const uint64_t odd = UINT64_C(0xaaaaaaaaaaaaaaaa); /* weights below 0 */
    uint64_t mask = ((uint64_t)1 << b->rounds) - 1;
    uint64_t v = (uint64_t)(i % 2 ? i : -i);
    uint64_t digits = ((v + odd) ^ odd) & mask;

    return (uint32_t)(digits ^ (digits >> 1));
}

static void step(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out)
{
    static const struct coll_pairing pairs = {swing_partner, swing_bits};

    coll_halving_step(job, &pairs, rank, s, out);
}

const struct pdl_alg coll_allreduce_swing = {
    .collective = &coll_allreduce,
    .name = "swing",
    .summary = "butterfly with short distances on rings and tori",
    .source = "De Sensi et al., NSDI 2024",
    .steps = "2 log2 P",
    .bytes = "2N(P-1)/P",
    .limits = "powers of two",
    .setup = coll_halving_setup,
    .nsteps = coll_halving_nsteps,
    .step = step,
    .cost = coll_halving_cost,
};
