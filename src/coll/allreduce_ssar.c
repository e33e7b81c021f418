/* SPDX-License-Identifier: Apache-2.0
 *
 * SSAR_Split_allgather of SparCML (Renggli et al., SC 2019): every rank sends
 * each part of its sparse vector straight to the part's owner, then the owned
 * sums, still pairs, are gathered by recursive doubling. For vectors so sparse
 * that the result is sparse too: the form is settled before, also where the
 * sums fill up and dense ones would be shorter (as in the logs of T. T. Nguyen
 * et al., IPCCC 2019). */
#include "coll_priv.h"

static int64_t nsteps(const struct pdl_coll_job *job, int rank)
{
    (void)rank;
    return coll_split_nsteps(job->nranks) + coll_log2(job->nranks);
}

static void step(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out)
{
    int64_t split = coll_split_nsteps(job->nranks);
    int have;

    if (s < split) {
        coll_split_step(job->nranks, rank, s, out);
        return;
    }
    have = 1 << (s - split);
    coll_send(out, rank ^ have, coll_run(0, rank & -have, have));
    coll_recv(out, rank ^ have, coll_run(0, (rank ^ have) & -have, have));
    out->send_terms = out->recv_terms = job->nranks;
    coll_chain(out, s);
}

/* The split exchange is one round. */
static int64_t window(const struct pdl_coll_job *job)
{
    return coll_split_nsteps(job->nranks) + 1;
}

const struct pdl_alg coll_allreduce_ssar = {
    .collective = &coll_allreduce,
    .name = "ssar",
    .summary = "split to owners, sparse allgather; very sparse vectors",
    .source = "Renggli et al., SC 2019 (SSAR_Split_allgather)",
    .steps = "1 round of P-1 ports + log2 P",
    .bytes = "by density, in pairs",
    .limits = "powers of two",
    .sparse = true,
    .pairs = true,
    .setup = coll_pow2_setup,
    .nsteps = nsteps,
    .step = step,
    .window = window,
};
