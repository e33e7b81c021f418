/* SPDX-License-Identifier: Apache-2.0
 *
 * Single leader with binomial trees on both levels (ntt_smp_binominal of T. T.
 * Nguyen et al., CCPE 2021): up inside the node, up between the leaders, down
 * between the leaders, down inside the node. */
#include "coll_priv.h"

static enum pdl_status setup(struct pdl_coll_job *job, struct pdl_err *err)
{
    enum pdl_status st = coll_settle_k(job, err);

    if (st != PDL_OK)
        return st;
    coll_one_buffer(job, 1);
    return PDL_OK;
}

static struct coll_group node_of(const struct pdl_coll_job *job, int rank)
{
    int k = (int)job->params.k;

    return (struct coll_group){rank - rank % k, 1, k, rank % k};
}

static struct coll_group leaders_of(const struct pdl_coll_job *job, int rank)
{
    int k = (int)job->params.k;

    return (struct coll_group){0, k, job->nranks / k, rank / k};
}

static int64_t leader_steps(const struct pdl_coll_job *job, int rank)
{
    struct coll_group leaders = leaders_of(job, rank);

    return rank % job->params.k ? 0 : coll_binomial_nsteps(&leaders);
}

static int64_t nsteps(const struct pdl_coll_job *job, int rank)
{
    struct coll_group node = node_of(job, rank);

    return 2 * coll_binomial_nsteps(&node) + 2 * leader_steps(job, rank);
}

static void step(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out)
{
    struct coll_group node = node_of(job, rank);
    struct coll_group leaders = leaders_of(job, rank);
    int64_t in = coll_binomial_nsteps(&node), top = leader_steps(job, rank);
    struct pdl_span all = coll_run(0, 0, 1);

    if (s < in)
        coll_binomial_reduce(&node, all, s, out);
    else if (s < in + top)
        coll_binomial_reduce(&leaders, all, s - in, out);
    else if (s < in + 2 * top)
        coll_binomial_bcast(&leaders, all, s - in - top, out);
    else
        coll_binomial_bcast(&node, all, s - in - 2 * top, out);
    coll_chain(out, s);
}

static void cost(const struct pdl_coll_job *job, struct pdl_coll_cost *out)
{
    int64_t n = job->nranks / job->params.k;
    double depth = coll_log2(2 * job->params.k - 1) + coll_log2(2 * n - 1);
    double bytes = (double)job->count * job->elem_bytes;

    *out = (struct pdl_coll_cost){2 * depth, 2 * depth * bytes, depth * bytes};
}

static const struct pdl_alg_key keys[] = {
    COLL_KEY(k, 1, 1 << 20, "ranks per node (4 where it divides)"),
};

const struct pdl_alg coll_allreduce_binomial_binomial = {
    .collective = &coll_allreduce,
    .name = "binomial-binomial",
    .summary = "one leader a node: trees inside and between; a baseline",
    .source = "Nguyen et al., CCPE 2021 (ntt_smp_binominal)",
    .steps = "2 ceil(log2 k) + 2 ceil(log2(P/k))",
    .bytes = "N (ceil(log2 k) + ceil(log2(P/k))) at rank 0",
    .limits = "k divides P",
    COLL_KEYS(keys),
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
    .cost = cost,
};
