/* SPDX-License-Identifier: Apache-2.0
 *
 * Linear all-to-all: every rank begins all its messages at once, each block
 * straight to its rank; the network sorts them out. Partner s of rank r is
 * r+s, so that no rank is everybody's first. */
#include "coll_priv.h"

static int64_t window(const struct pdl_coll_job *job)
{
    return job->nranks;
}

static void cost(const struct pdl_coll_job *job, struct pdl_coll_cost *out)
{
    double p = job->nranks, bytes = (double)job->count * job->elem_bytes;

    out->rounds = 1;
    out->bytes = bytes * (p - 1) / p;
    out->reduced = 0;
}

const struct pdl_alg coll_alltoall_linear = {
    .collective = &coll_alltoall,
    .name = "linear",
    .summary = "all blocks at once, straight to their ranks; many ports",
    .source = "folklore; Open MPI (basic linear)",
    .steps = "1 round of P-1 ports",
    .bytes = "N(P-1)/P",
    .limits = "P divides the count",
    .setup = coll_shift_setup,
    .nsteps = coll_shift_nsteps,
    .step = coll_shift_step,
    .window = window,
    .turns = coll_turn_ring,
    .cost = cost,
};
