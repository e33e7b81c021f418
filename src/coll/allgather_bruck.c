/* SPDX-License-Identifier: Apache-2.0
 *
 * Bruck allgather (Bruck et al., TPDS 1997) for any number of ranks: in round
 * k a rank sends the 2^k blocks from its own on (fewer in the last round) to
 * the rank 2^k below and gets the next ones from the rank 2^k above. Blocks
 * are kept in their place and counted round the end, so no final rotation. */
#include "coll_priv.h"

static enum pdl_status setup(struct pdl_coll_job *job, struct pdl_err *err)
{
    (void)err;
    coll_one_buffer(job, job->nranks);
    return PDL_OK;
}

static int64_t nsteps(const struct pdl_coll_job *job, int rank)
{
    (void)rank;
    return coll_log2(2 * (int64_t)job->nranks - 1);
}

static void step(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out)
{
    int p = job->nranks, have = 1 << s;
    int more = have < p - have ? have : p - have;

    coll_send(out, (int)coll_mod(rank - have, p), coll_run(0, rank, more));
    coll_recv(out, (rank + have) % p, coll_run(0, (rank + have) % p, more));
    coll_chain(out, s);
}

static void cost(const struct pdl_coll_job *job, struct pdl_coll_cost *out)
{
    double p = job->nranks, bytes = (double)job->count * job->elem_bytes;

    out->rounds = (double)nsteps(job, 0);
    out->bytes = bytes * (p - 1) / p;
    out->reduced = 0;
}

const struct pdl_alg coll_allgather_bruck = {
    .collective = &coll_allgather,
    .name = "bruck",
    .summary = "doubling shifts for any number of ranks; short blocks",
    .source = "Bruck et al., TPDS 1997",
    .steps = "ceil(log2 P)",
    .bytes = "N(P-1)/P",
    .limits = "",
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
    .cost = cost,
};
