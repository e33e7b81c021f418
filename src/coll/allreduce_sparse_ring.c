/* SPDX-License-Identifier: Apache-2.0
 *
 * Flat ring on sparse vectors (baseline of T. T. Nguyen et al., IPCCC 2019):
 * in the first lap a message unites one more rank's non-zeros at every hop. */
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
    struct coll_levels l = {1, {job->nranks, 1, 1}};
    int phase;
    int64_t t;

    coll_levels_step(&l, rank, 0, s, out, &phase, &t);
    coll_chain(out, s);
    out->send_terms = phase == 0 ? (int)t + 1 : job->nranks;
    out->recv_terms = out->send_terms;
}

const struct pdl_alg coll_allreduce_sparse_ring = {
    .collective = &coll_allreduce,
    .name = "sparse-ring",
    .summary = "a ring on sparse vectors, dense once that is shorter",
    .source = "Nguyen et al., IPCCC 2019 (baseline)",
    .steps = "2(P-1)",
    .bytes = "by density; at most 2N(P-1)/P",
    .limits = "",
    .sparse = true,
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
};
