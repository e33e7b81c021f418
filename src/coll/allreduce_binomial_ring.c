/* SPDX-License-Identifier: Apache-2.0
 *
 * Single leader: binomial reduce to the first rank of each node, a ring among
 * these leaders on the whole vector, binomial broadcast in the node
 * (ntt_binominal_lr of T. T. Nguyen et al., CCPE 2021). */
#include "coll_priv.h"

static enum pdl_status setup(struct pdl_coll_job *job, struct pdl_err *err)
{
    enum pdl_status st = coll_settle_k(job, err);

    if (st != PDL_OK)
        return st;
    coll_one_buffer(job, job->nranks / job->params.k);
    return PDL_OK;
}

static struct coll_group node_of(const struct pdl_coll_job *job, int rank)
{
    int k = (int)job->params.k;

    return (struct coll_group){rank - rank % k, 1, k, rank % k};
}

static int64_t ring_steps(const struct pdl_coll_job *job, int rank)
{
    if (rank % job->params.k != 0)
        return 0;
    return 2 * (job->nranks / job->params.k - 1);
}

static int64_t nsteps(const struct pdl_coll_job *job, int rank)
{
    struct coll_group node = node_of(job, rank);

    return 2 * coll_binomial_nsteps(&node) + ring_steps(job, rank);
}

static void step(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out)
{
    struct coll_group node = node_of(job, rank);
    int k = (int)job->params.k, n = job->nranks / k;
    struct coll_group leaders = {0, k, n, rank / k};
    int64_t up = coll_binomial_nsteps(&node), ring = ring_steps(job, rank);
    struct pdl_span all = coll_run(0, 0, n);
    struct coll_view v = {0, 0, 1};
    int64_t t = s - up;

    if (t < 0)
        coll_binomial_reduce(&node, all, s, out);
    else if (t < ring / 2)
        coll_ring_scatter(&leaders, &v, t, out);
    else if (t < ring)
        coll_ring_gather(&leaders, &v, t - ring / 2, out);
    else
        coll_binomial_bcast(&node, all, t - ring, out);
    coll_chain(out, s);
}

static void cost(const struct pdl_coll_job *job, struct pdl_coll_cost *out)
{
    struct coll_levels ring = {1, {job->nranks / job->params.k, 1, 1}};
    double depth = coll_log2(2 * job->params.k - 1);
    double bytes = (double)job->count * job->elem_bytes;

    coll_levels_cost(&ring, bytes, out);
    out->rounds += 2 * depth;
    out->bytes += 2 * depth * bytes;
    out->reduced += depth * bytes;
}

static const struct pdl_alg_key keys[] = {
    COLL_KEY(k, 1, 1 << 20, "ranks per node (4 where it divides)"),
};

const struct pdl_alg coll_allreduce_binomial_ring = {
    .collective = &coll_allreduce,
    .name = "binomial-ring",
    .summary = "one leader a node: trees inside, a ring between leaders",
    .source = "Nguyen et al., CCPE 2021 (ntt_binominal_lr)",
    .steps = "2 ceil(log2 k) + 2(P/k-1)",
    .bytes = "N ceil(log2 k) + 2N(P/k-1)/(P/k) at a leader",
    .limits = "k divides P",
    COLL_KEYS(keys),
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
    .cost = cost,
};
