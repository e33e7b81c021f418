/* SPDX-License-Identifier: Apache-2.0
 *
 * Pairwise all-to-all: in step t rank r sends to r+t and receives from r-t.
 * One message at a time from each rank, no block travels twice. */
#include "coll_priv.h"

static void step(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out)
{
    coll_shift_step(job, rank, s, out);
    coll_chain(out, s);
}

static void cost(const struct pdl_coll_job *job, struct pdl_coll_cost *out)
{
    double p = job->nranks, bytes = (double)job->count * job->elem_bytes;

    out->rounds = p - 1;
    out->bytes = bytes * (p - 1) / p;
    out->reduced = 0;
}

const struct pdl_alg coll_alltoall_pairwise = {
    .collective = &coll_alltoall,
    .name = "pairwise",
    .summary = "one partner after the other; long blocks",
    .source = "folklore; MPICH",
    .steps = "P-1",
    .bytes = "N(P-1)/P",
    .limits = "P divides the count",
    .setup = coll_shift_setup,
    .nsteps = coll_shift_nsteps,
    .step = step,
    .turns = coll_turn_ring,
    .cost = cost,
};
