/* SPDX-License-Identifier: Apache-2.0
 *
 * Shifted halving-doubling by pairs, for DLN(q,p) networks (after T. T.
 * Nguyen et al., CCGrid 2021; reconstruction). Halving-doubling, near first,
 * uses of the shortcuts of length 2^k only those that start at switches whose
 * bit k is 0. Here half of the ranks of every switch go the other way round:
 * their partner is at s+2^k when bit k of s is 1 and at s-2^k when it is 0.
 * Lower bits are untouched by the carry, so partners hold the same interval;
 * that is why the order must be near first. */
#include "coll_halving.h"
#include "coll_shd.h"

static int64_t shd_partner(const struct coll_butterfly *b, int64_t i, int j)
{
    struct coll_shd n = coll_shd_shape(b->job);
    int64_t sw = i >> n.local, local = i & (((int64_t)1 << n.local) - 1);
    int k = j - n.local;

    if (k < 0 || !coll_shd_shifted(&n, i))
        return i ^ ((int64_t)1 << j);
    sw = coll_shd_hop(&n, sw, k, sw >> k & 1 ? 1 : -1);
    return sw << n.local | local;
}

static void step(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out)
{
    static const struct coll_pairing pairs = {shd_partner, coll_bits_near};

    coll_halving_step(job, &pairs, rank, s, out);
}

static const struct pdl_alg_key keys[] = {COLL_SHD_KEYS};

const struct pdl_alg coll_allreduce_shd = {
    .collective = &coll_allreduce,
    .name = "shd",
    .summary = "shifted halving-doubling: uses every shortcut of a DLN",
    .source = "Nguyen et al., CCGrid 2021 (reconstruction)",
    .steps = "2 log2 P",
    .bytes = "2N(P-1)/P",
    .limits = "powers of two",
    COLL_KEYS(keys),
    .setup = coll_shd_settle,
    .nsteps = coll_halving_nsteps,
    .step = step,
    .cost = coll_halving_cost,
};
