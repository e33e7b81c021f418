/* SPDX-License-Identifier: Apache-2.0
 *
 * Binomial reduce to rank 0 and binomial broadcast from it: the plain tree,
 * for short messages and as a baseline. */
#include "coll_priv.h"

static enum pdl_status setup(struct pdl_coll_job *job, struct pdl_err *err)
{
    (void)err;
    coll_one_buffer(job, 1);
    return PDL_OK;
}

static int64_t nsteps(const struct pdl_coll_job *job, int rank)
{
    struct coll_group g = {0, 1, job->nranks, rank};

    return 2 * coll_binomial_nsteps(&g);
}

static void step(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out)
{
    struct coll_group g = {0, 1, job->nranks, rank};
    int64_t half = coll_binomial_nsteps(&g);
    struct pdl_span all = coll_run(0, 0, 1);

    if (s < half)
        coll_binomial_reduce(&g, all, s, out);
    else
        coll_binomial_bcast(&g, all, s - half, out);
    coll_chain(out, s);
}

static void cost(const struct pdl_coll_job *job, struct pdl_coll_cost *out)
{
    double depth = coll_log2(2 * (int64_t)job->nranks - 1);
    double bytes = (double)job->count * job->elem_bytes;

    *out = (struct pdl_coll_cost){2 * depth, 2 * depth * bytes, depth * bytes};
}

const struct pdl_alg coll_allreduce_binomial = {
    .collective = &coll_allreduce,
    .name = "binomial",
    .summary = "reduce up a binomial tree, broadcast down; short messages",
    .source = "folklore; MPICH",
    .steps = "2 ceil(log2 P)",
    .bytes = "N ceil(log2 P) at rank 0",
    .limits = "",
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
    .cost = cost,
};
