/* SPDX-License-Identifier: Apache-2.0
 *
 * Linear broadcast: the root sends the vector to every other rank, all at
 * once. */
#include "coll_priv.h"

static enum pdl_status setup(struct pdl_coll_job *job, struct pdl_err *err)
{
    if (job->params.root >= job->nranks)
        return pdl_fail(err, PDL_EINVAL, "root %d of %d ranks",
                        (int)job->params.root, job->nranks);
    coll_one_buffer(job, 1);
    return PDL_OK;
}

static int64_t nsteps(const struct pdl_coll_job *job, int rank)
{
    int p = job->nranks;

    return p == 1 ? 0 : rank == job->params.root ? p - 1 : 1;
}

static void step(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out)
{
    int root = (int)job->params.root;

    if (rank == root)
        coll_send(out, (int)((root + 1 + s) % job->nranks), coll_run(0, 0, 1));
    else
        coll_recv(out, root, coll_run(0, 0, 1));
}

static int64_t window(const struct pdl_coll_job *job)
{
    return job->nranks;
}

static void cost(const struct pdl_coll_job *job, struct pdl_coll_cost *out)
{
    double p = job->nranks, bytes = (double)job->count * job->elem_bytes;

    out->rounds = p > 1 ? 1 : 0;
    out->bytes = bytes * (p - 1);
    out->reduced = 0;
}

static const struct pdl_alg_key keys[] = {
    COLL_KEY(root, 0, 1 << 22, "the rank that has the vector (0)"),
};

const struct pdl_alg coll_broadcast_linear = {
    .collective = &coll_broadcast,
    .name = "linear",
    .summary = "from the root straight to all, all at once; inside a node",
    .source = "folklore; Open MPI (basic linear)",
    .steps = "1 round of P-1 ports",
    .bytes = "N(P-1)",
    .limits = "",
    COLL_KEYS(keys),
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
    .window = window,
    .cost = cost,
};
