/* SPDX-License-Identifier: Apache-2.0
 *
 * Broadcasts down a binomial tree, which is rooted where the vector is. */
#include "coll_priv.h"

static enum pdl_status settle(struct pdl_coll_job *job, int64_t chunks,
                              struct pdl_err *err)
{
    if (job->params.root >= job->nranks)
        return pdl_fail(err, PDL_EINVAL, "root %d of %d ranks",
                        (int)job->params.root, job->nranks);
    coll_one_buffer(job, chunks);
    return PDL_OK;
}

static struct coll_group from_root(const struct pdl_coll_job *job, int rank)
{
    int p = job->nranks;

    return (struct coll_group){0, 1, p,
                               (int)coll_mod(rank - job->params.root, p)};
}

/* Member numbers count from the root; ranks do not. */
static int rank_of(const struct pdl_coll_job *job, int member)
{
    if (member < 0)
        return member;
    return (int)coll_mod(member + job->params.root, job->nranks);
}

static void by_ranks(const struct pdl_coll_job *job, int64_t s,
                     struct pdl_step *out)
{
    out->send_to = rank_of(job, out->send_to);
    out->recv_from = rank_of(job, out->recv_from);
    coll_chain(out, s);
}

static const struct pdl_alg_key keys[] = {
    COLL_KEY(root, 0, 1 << 22, "the rank that has the vector (0)"),
};

/* Binomial broadcast: the number of ranks that have the vector doubles in
 * every round. For short messages. */
static enum pdl_status setup_whole(struct pdl_coll_job *job,
                                   struct pdl_err *err)
{
    return settle(job, 1, err);
}

static int64_t nsteps_whole(const struct pdl_coll_job *job, int rank)
{
    struct coll_group g = from_root(job, rank);

    return coll_binomial_nsteps(&g);
}

static void step_whole(const struct pdl_coll_job *job, int rank, int64_t s,
                       struct pdl_step *out)
{
    struct coll_group g = from_root(job, rank);

    coll_binomial_bcast(&g, coll_run(0, 0, 1), s, out);
    by_ranks(job, s, out);
}

static void cost_whole(const struct pdl_coll_job *job,
                       struct pdl_coll_cost *out)
{
    double depth = coll_log2(2 * (int64_t)job->nranks - 1);

    out->rounds = depth;
    out->bytes = depth * (double)job->count * job->elem_bytes;
    out->reduced = 0;
}

const struct pdl_alg coll_broadcast_binomial = {
    .collective = &coll_broadcast,
    .name = "binomial",
    .summary = "a binomial tree from the root; short messages",
    .source = "folklore; MPICH",
    .steps = "ceil(log2 P)",
    .bytes = "N ceil(log2 P) at the root",
    .limits = "",
    COLL_KEYS(keys),
    .setup = setup_whole,
    .nsteps = nsteps_whole,
    .step = step_whole,
    .cost = cost_whole,
};

/* Scatter and allgather (van de Geijn; Barnett et al., 1994): the root hands
 * out blocks down a binomial tree, then a ring gathers them. For long
 * messages. Block i is the block of the i-th rank from the root. */
static enum pdl_status setup_blocks(struct pdl_coll_job *job,
                                    struct pdl_err *err)
{
    return settle(job, job->nranks, err);
}

static int64_t nsteps_blocks(const struct pdl_coll_job *job, int rank)
{
    struct coll_group g = from_root(job, rank);

    return coll_binomial_nsteps(&g) + job->nranks - 1;
}

static void step_blocks(const struct pdl_coll_job *job, int rank, int64_t s,
                        struct pdl_step *out)
{
    struct coll_group g = from_root(job, rank);
    int64_t tree = coll_binomial_nsteps(&g), low = g.me & -g.me, j, end;
    struct coll_view v = {0, 0, 1};

    if (s >= tree) {
        coll_ring_gather(&g, &v, s - tree, out);
    } else if (g.me != 0 && s == 0) {
        end = g.me + low < g.n ? g.me + low : g.n;
        coll_recv(out, g.me - (int)low, coll_run(0, g.me, end - g.me));
    } else {
        j = (int64_t)1 << (tree - 1 - s);
        end = g.me + 2 * j < g.n ? g.me + 2 * j : g.n;
        coll_send(out, (int)(g.me + j), coll_run(0, g.me + j, end - g.me - j));
    }
    by_ranks(job, s, out);
}

static void cost_blocks(const struct pdl_coll_job *job,
                        struct pdl_coll_cost *out)
{
    double p = job->nranks, bytes = (double)job->count * job->elem_bytes;

    out->rounds = coll_log2(2 * (int64_t)job->nranks - 1) + p - 1;
    out->bytes = 2 * bytes * (p - 1) / p;
    out->reduced = 0;
}

const struct pdl_alg coll_broadcast_scatter_allgather = {
    .collective = &coll_broadcast,
    .name = "scatter-allgather",
    .summary = "blocks down a tree, then a ring; long messages",
    .source = "Barnett et al., SHPCC 1994",
    .steps = "ceil(log2 P) + P-1",
    .bytes = "2N(P-1)/P at the root",
    .limits = "",
    COLL_KEYS(keys),
    .setup = setup_blocks,
    .nsteps = nsteps_blocks,
    .step = step_blocks,
    .cost = cost_blocks,
};
