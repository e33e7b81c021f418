/* SPDX-License-Identifier: Apache-2.0
 *
 * Ring inside the nodes, recursive doubling between them (ntt_lr_rdb of T. T.
 * Nguyen et al., CCPE 2021): log2(P/k) exchanges of a whole 1/k of the vector
 * at every local index. */
#include "coll_priv.h"
#include "coll_hier.h"

static enum pdl_status setup(struct pdl_coll_job *job, struct pdl_err *err)
{
    return coll_hier_setup(job, false, err);
}

static int64_t nsteps(const struct pdl_coll_job *job, int rank)
{
    return coll_hier_nsteps(job, false, rank);
}

static void step(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out)
{
    coll_hier_step(job, false, rank, s, out);
}

static void cost(const struct pdl_coll_job *job, struct pdl_coll_cost *out)
{
    coll_hier_cost(job, false, out);
}

static const struct pdl_alg_key keys[] = {
    COLL_KEY(k, 1, 1 << 20, "ranks per node (4 where it divides)"),
};

const struct pdl_alg coll_allreduce_ring_rdb = {
    .collective = &coll_allreduce,
    .name = "ring-rdb",
    .summary = "rings inside nodes, recursive doubling between them",
    .source = "Nguyen et al., CCPE 2021 (ntt_lr_rdb)",
    .steps = "2(k-1) + log2(P/k)",
    .bytes = "2N(k-1)/k + N/k log2(P/k)",
    .limits = "k divides P",
    COLL_KEYS(keys),
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
    .cost = cost,
};
