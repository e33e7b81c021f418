/* SPDX-License-Identifier: Apache-2.0
 *
 * Pairwise all-to-all: in step t rank r sends to r+t and receives from r-t.
 * One message at a time from each rank, no block travels twice. */
#include "coll_priv.h"

static enum pdl_status setup(struct pdl_coll_job *job, struct pdl_err *err)
{
    enum pdl_status st = coll_need_multiple(job, job->nranks, err);

    if (st != PDL_OK)
        return st;
    job->nbufs = 2;
    job->buf[0] = job->buf[1] = (struct pdl_coll_buf){job->count, job->nranks};
    return PDL_OK;
}

static int64_t nsteps(const struct pdl_coll_job *job, int rank)
{
    (void)rank;
    return job->nranks;
}

static void step(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out)
{
    int p = job->nranks, to = (int)((rank + s) % p);
    int from = (int)coll_mod(rank - s, p);

    coll_send(out, to, coll_run(0, to, 1));
    coll_recv(out, from, coll_run(1, from, 1));
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
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
    .cost = cost,
};
