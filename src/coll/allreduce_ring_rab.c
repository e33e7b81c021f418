/* SPDX-License-Identifier: Apache-2.0
 *
 * Ring inside the nodes, Rabenseifner between them (ntt_lr_rab of T. T. Nguyen
 * et al., CCPE 2021): k butterflies at once, one per local index, on 1/k of
 * the vector. Fewer steps than ring-ring, the same bytes. */
#include "coll_priv.h"
#include "coll_hier.h"

static enum pdl_status setup(struct pdl_coll_job *job, struct pdl_err *err)
{
    return coll_hier_setup(job, true, err);
}

static int64_t nsteps(const struct pdl_coll_job *job, int rank)
{
    return coll_hier_nsteps(job, true, rank);
}

static void step(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out)
{
    coll_hier_step(job, true, rank, s, out);
}

static void cost(const struct pdl_coll_job *job, struct pdl_coll_cost *out)
{
    coll_hier_cost(job, true, out);
}

static const struct pdl_alg_key keys[] = {
    COLL_KEY(k, 1, 1 << 20, "ranks per node (4 where it divides)"),
};

const struct pdl_alg coll_allreduce_ring_rab = {
    .collective = &coll_allreduce,
    .name = "ring-rab",
    .summary = "rings inside nodes, halving-doubling between them",
    .source = "Nguyen et al., CCPE 2021 (ntt_lr_rab)",
    .steps = "2(k-1) + 2 log2(P/k)",
    .bytes = "2N(P-1)/P",
    .limits = "k divides P",
    COLL_KEYS(keys),
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
    .cost = cost,
};
