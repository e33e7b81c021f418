/* SPDX-License-Identifier: Apache-2.0
 *
 * Ring-ring on sparse vectors (T. T. Nguyen, Wahib, Takano, IPCCC 2019): the
 * steps of ring-ring, but a message holds index and value pairs until that
 * would be longer than the dense chunk. `terms` of a step is the number of
 * ranks whose non-zeros the message unites, from which its expected length
 * follows (pdl_coll_sparse_bytes). */
#include "coll_priv.h"

static struct coll_levels levels(const struct pdl_coll_job *job)
{
    return (struct coll_levels){
        2, {job->params.k, job->nranks / job->params.k, 1}};
}

static enum pdl_status setup(struct pdl_coll_job *job, struct pdl_err *err)
{
    enum pdl_status st = coll_settle_k(job, err);

    if (st != PDL_OK)
        return st;
    coll_one_buffer(job, job->nranks);
    return PDL_OK;
}

static int64_t nsteps(const struct pdl_coll_job *job, int rank)
{
    struct coll_levels l = levels(job);

    (void)rank;
    return coll_levels_nsteps(&l);
}

static void step(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out)
{
    struct coll_levels l = levels(job);
    int phase, k = (int)job->params.k;
    int64_t t;

    coll_levels_step(&l, rank, 0, s, out, &phase, &t);
    coll_chain(out, s);
    if (phase >= 2)
        out->send_terms = job->nranks;
    else
        out->send_terms = (phase == 0 ? 1 : k) * (int)(t + 1);
    out->recv_terms = out->send_terms;
}

static const struct pdl_alg_key keys[] = {
    COLL_KEY(k, 1, 1 << 20, "ranks per node (4 where it divides)"),
};

const struct pdl_alg coll_allreduce_sparse_ring_ring = {
    .collective = &coll_allreduce,
    .name = "sparse-ring-ring",
    .summary = "ring-ring on sparse vectors, dense once that is shorter",
    .source = "Nguyen et al., IPCCC 2019",
    .steps = "2(k-1) + 2(P/k-1)",
    .bytes = "by density; at most 2N(P-1)/P",
    .limits = "k divides P",
    COLL_KEYS(keys),
    .sparse = true,
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
};
