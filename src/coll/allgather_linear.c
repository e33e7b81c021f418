/* SPDX-License-Identifier: Apache-2.0
 *
 * Linear allgather: every rank sends its block straight to every other, all at
 * once. Partner s of rank r is r+1+s, so that no rank is everybody's first. */
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
    return job->nranks - 1;
}

static void step(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out)
{
    int p = job->nranks, from = (int)coll_mod(rank - 1 - s, p);

    coll_send(out, (int)((rank + 1 + s) % p), coll_run(0, rank, 1));
    coll_recv(out, from, coll_run(0, from, 1));
}

static int64_t window(const struct pdl_coll_job *job)
{
    return job->nranks;
}

static void cost(const struct pdl_coll_job *job, struct pdl_coll_cost *out)
{
    double p = job->nranks, bytes = (double)job->count * job->elem_bytes;

    out->rounds = p > 1 ? 1 : 0;
    out->bytes = bytes * (p - 1) / p;
    out->reduced = 0;
}

const struct pdl_alg coll_allgather_linear = {
    .collective = &coll_allgather,
    .name = "linear",
    .summary = "blocks straight to all ranks, all at once; inside a node",
    .source = "folklore; Open MPI (basic linear)",
    .steps = "1 round of P-1 ports",
    .bytes = "N(P-1)/P",
    .limits = "",
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
    .window = window,
    .turns = coll_turn_ring,
    .cost = cost,
};
