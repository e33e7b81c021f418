/* SPDX-License-Identifier: Apache-2.0
 *
 * Ring-ring, the multi-leader hierarchical ring (T. T. Nguyen, Wahib, Takano,
 * CANDAR 2018 and CCPE 2021; ntt_lr_lr): reduce-scatter inside each node, a
 * ring allreduce among the ranks of equal local index on their 1/k of the
 * vector, allgather inside the node. Every rank of a node is a leader. */
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
    int phase;
    int64_t t;

    coll_levels_step(&l, rank, 0, s, out, &phase, &t);
    coll_chain(out, s);
}

static int64_t alike(const struct pdl_coll_job *job, int64_t s)
{
    struct coll_levels l = levels(job);

    return coll_levels_alike(&l, s);
}

static void cost(const struct pdl_coll_job *job, struct pdl_coll_cost *out)
{
    struct coll_levels l = levels(job);

    coll_levels_cost(&l, (double)job->count * job->elem_bytes, out);
}

static const struct pdl_alg_key keys[] = {
    COLL_KEY(k, 1, 1 << 20, "ranks per node (4 where it divides)"),
};

const struct pdl_alg coll_allreduce_ring_ring = {
    .collective = &coll_allreduce,
    .name = "ring-ring",
    .summary = "rings inside nodes, then k rings between them at once",
    .source = "Nguyen et al., CCPE 2021 (ntt_lr_lr)",
    .steps = "2(k-1) + 2(P/k-1)",
    .bytes = "2N(P-1)/P",
    .limits = "k divides P",
    COLL_KEYS(keys),
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
    .alike = alike,
    .cost = cost,
};
