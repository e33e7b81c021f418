/* SPDX-License-Identifier: Apache-2.0
 *
 * Binomial broadcast: the number of ranks that have the vector doubles in
 * every round. For short messages. */
#include "coll_priv.h"

static enum pdl_status setup(struct pdl_coll_job *job, struct pdl_err *err)
{
    (void)err;
    if (job->params.root >= job->nranks)
        return pdl_fail(err, PDL_EINVAL, "root %d of %d ranks",
                        (int)job->params.root, job->nranks);
    coll_one_buffer(job, 1);
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

static int64_t nsteps(const struct pdl_coll_job *job, int rank)
{
    struct coll_group g = from_root(job, rank);

    return coll_binomial_nsteps(&g);
}

static void step(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out)
{
    struct coll_group g = from_root(job, rank);

    coll_binomial_bcast(&g, coll_run(0, 0, 1), s, out);
    out->send_to = rank_of(job, out->send_to);
    out->recv_from = rank_of(job, out->recv_from);
    coll_chain(out, s);
}

static void cost(const struct pdl_coll_job *job, struct pdl_coll_cost *out)
{
    double depth = coll_log2(2 * (int64_t)job->nranks - 1);

    out->rounds = depth;
    out->bytes = depth * (double)job->count * job->elem_bytes;
    out->reduced = 0;
}

static const struct pdl_alg_key keys[] = {
    COLL_KEY(root, 0, 1 << 22, "the rank that has the vector (0)"),
};

const struct pdl_alg coll_broadcast_binomial = {
    .collective = &coll_broadcast,
    .name = "binomial",
    .summary = "a binomial tree from the root; short messages",
    .source = "folklore; MPICH",
    .steps = "ceil(log2 P)",
    .bytes = "N ceil(log2 P) at the root",
    .limits = "",
    COLL_KEYS(keys),
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
    .cost = cost,
};
