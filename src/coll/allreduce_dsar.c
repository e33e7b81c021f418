/* SPDX-License-Identifier: Apache-2.0
 *
 * DSAR_Split_allgather of SparCML (Renggli et al., SC 2019): every rank sends
 * each part of its sparse vector straight to the part's owner, then every
 * owner sends its sum, dense, straight to all others. Both exchanges are
 * begun all at once, as the runs of T. T. Nguyen et al. (IPCCC 2019) did. */
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
    return coll_split_nsteps(job->nranks) + job->nranks - 1;
}

static void step(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out)
{
    int64_t split = coll_split_nsteps(job->nranks), t = s - split + 1;
    int p = job->nranks, to, from;

    if (s < split) {
        coll_split_step(p, rank, s, out);
        return;
    }
    to = (int)((rank + t) % p);
    from = (int)coll_mod(rank - t, p);
    coll_send(out, to, coll_run(0, rank, 1));
    coll_recv(out, from, coll_run(0, from, 1));
    coll_after(out, split - 1);
}

/* Each exchange is one round. */
static int64_t window(const struct pdl_coll_job *job)
{
    return coll_split_nsteps(job->nranks) + 1;
}

const struct pdl_alg coll_allreduce_dsar = {
    .collective = &coll_allreduce,
    .name = "dsar",
    .summary = "split to owners, dense allgather; sums that fill up",
    .source = "Renggli et al., SC 2019 (DSAR_Split_allgather)",
    .steps = "2 rounds of P-1 ports",
    .bytes = "by density, then N(P-1)/P",
    .limits = "",
    .sparse = true,
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
    .window = window,
};
