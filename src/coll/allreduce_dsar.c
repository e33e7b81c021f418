/* SPDX-License-Identifier: Apache-2.0
 *
 * DSAR_Split_allgather of SparCML (Renggli et al., SC 2019): every rank sends
 * each part of its sparse vector straight to the part's owner, then the owned
 * sums are gathered dense, round a ring. */
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
    return 2 * ((int64_t)job->nranks - 1);
}

static void step(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out)
{
    int p = job->nranks, t = (int)s + 1;
    struct coll_group g = {0, 1, p, rank};
    struct coll_view v = {0, 0, 1};

    if (t < p) {
        out->act = PDL_ACT_REDUCE;
        coll_send(out, (rank + t) % p, coll_run(0, (rank + t) % p, 1));
        coll_recv(out, (rank + p - t) % p, coll_run(0, rank, 1));
        out->send_terms = out->recv_terms = 1;
    } else {
        coll_ring_gather(&g, &v, t - p, out);
    }
    coll_chain(out, s);
}

const struct pdl_alg coll_allreduce_dsar = {
    .collective = &coll_allreduce,
    .name = "dsar",
    .summary = "split to owners, dense allgather; sums that fill up",
    .source = "Renggli et al., SC 2019 (DSAR_Split_allgather)",
    .steps = "2(P-1)",
    .bytes = "by density, then N(P-1)/P",
    .limits = "",
    .sparse = true,
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
};
