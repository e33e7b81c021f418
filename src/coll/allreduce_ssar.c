/* SPDX-License-Identifier: Apache-2.0
 *
 * SSAR_Split_allgather of SparCML (Renggli et al., SC 2019): every rank sends
 * each part of its sparse vector straight to the part's owner, then the owned
 * sums, still sparse, are gathered by recursive doubling. For vectors so
 * sparse that the result is sparse too. */
#include "coll_priv.h"

static enum pdl_status setup(struct pdl_coll_job *job, struct pdl_err *err)
{
    enum pdl_status st = coll_need_pow2(job, err);

    if (st != PDL_OK)
        return st;
    coll_one_buffer(job, job->nranks);
    return PDL_OK;
}

static int64_t nsteps(const struct pdl_coll_job *job, int rank)
{
    (void)rank;
    return job->nranks - 1 + coll_log2(job->nranks);
}

static void step(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out)
{
    int p = job->nranks, t = (int)s + 1, have = 1;

    if (t < p) {
        out->act = PDL_ACT_REDUCE;
        coll_send(out, (rank + t) % p, coll_run(0, (rank + t) % p, 1));
        coll_recv(out, (rank + p - t) % p, coll_run(0, rank, 1));
        out->send_terms = out->recv_terms = 1;
    } else {
        have <<= t - p;
        coll_send(out, rank ^ have, coll_run(0, rank & -have, have));
        coll_recv(out, rank ^ have, coll_run(0, (rank ^ have) & -have, have));
        out->send_terms = out->recv_terms = p;
    }
    coll_chain(out, s);
}

const struct pdl_alg coll_allreduce_ssar = {
    .collective = &coll_allreduce,
    .name = "ssar",
    .summary = "split to owners, sparse allgather; very sparse vectors",
    .source = "Renggli et al., SC 2019 (SSAR_Split_allgather)",
    .steps = "P-1 + log2 P",
    .bytes = "by density; at most 2N(P-1)/P",
    .limits = "powers of two",
    .sparse = true,
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
};
