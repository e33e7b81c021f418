/* SPDX-License-Identifier: Apache-2.0
 *
 * Pipelined chain: the vector moves in S segments from rank to rank; a rank
 * forwards one segment while it receives the next. */
#include "coll_priv.h"

static enum pdl_status setup(struct pdl_coll_job *job, struct pdl_err *err)
{
    (void)err;
    if (job->params.root >= job->nranks)
        return pdl_fail(err, PDL_EINVAL, "root %d of %d ranks",
                        (int)job->params.root, job->nranks);
    coll_settle_segments(job, 8);
    coll_one_buffer(job, job->params.segments);
    return PDL_OK;
}

static int64_t nsteps(const struct pdl_coll_job *job, int rank)
{
    int64_t at = coll_mod(rank - job->params.root, job->nranks);
    bool between = at > 0 && at < job->nranks - 1;

    return job->nranks == 1 ? 0 : job->params.segments + between;
}

static void step(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out)
{
    int p = job->nranks;
    int64_t at = coll_mod(rank - job->params.root, p), parts;

    parts = job->params.segments;
    if (at > 0 && s < parts)
        coll_recv(out, (rank + p - 1) % p, coll_run(0, s, 1));
    if (at == 0)
        coll_send(out, (rank + 1) % p, coll_run(0, s, 1));
    else if (at < p - 1 && s > 0)
        coll_send(out, (rank + 1) % p, coll_run(0, s - 1, 1));
    coll_chain(out, s);
}

static void cost(const struct pdl_coll_job *job, struct pdl_coll_cost *out)
{
    double p = job->nranks, parts = (double)job->params.segments;
    double rounds = p > 1 ? parts + p - 2 : 0;

    out->rounds = rounds;
    out->bytes = rounds * (double)job->count * job->elem_bytes / parts;
    out->reduced = 0;
}

static const struct pdl_alg_key keys[] = {
    COLL_KEY(root, 0, 1 << 22, "the rank that has the vector (0)"),
    COLL_KEY(segments, 1, 4096, "segments of the vector (8)"),
};

const struct pdl_alg coll_broadcast_chain = {
    .collective = &coll_broadcast,
    .name = "chain",
    .summary = "a pipelined chain of ranks; very long messages",
    .source = "folklore; Open MPI",
    .steps = "S + P-2 rounds",
    .bytes = "N",
    .limits = "",
    COLL_KEYS(keys),
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
    .cost = cost,
};
