/* SPDX-License-Identifier: Apache-2.0
 *
 * One lap of a ring. */
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
    return job->nranks - 1;
}

static int64_t alike(const struct pdl_coll_job *job, int64_t s)
{
    return job->nranks - 1 - s;
}

/* Ring allgather: every block goes once round the ring. */
static void gather(const struct pdl_coll_job *job, int rank, int64_t s,
                   struct pdl_step *out)
{
    struct coll_group g = {0, 1, job->nranks, rank};
    struct coll_view v = {0, 0, 1};

    coll_ring_gather(&g, &v, s, out);
    coll_chain(out, s);
}

static void cost_gather(const struct pdl_coll_job *job,
                        struct pdl_coll_cost *out)
{
    double p = job->nranks, bytes = (double)job->count * job->elem_bytes;

    out->rounds = p - 1;
    out->bytes = bytes * (p - 1) / p;
    out->reduced = 0;
}

const struct pdl_alg coll_allgather_ring = {
    .collective = &coll_allgather,
    .name = "ring",
    .summary = "one lap of a ring; neighbours only, for long blocks",
    .source = "folklore; MPICH",
    .steps = "P-1",
    .bytes = "N(P-1)/P",
    .limits = "",
    .setup = setup,
    .nsteps = nsteps,
    .step = gather,
    .alike = alike,
    .turns = coll_turn_ring,
    .cost = cost_gather,
};

/* Ring reduce-scatter: the first lap of the ring allreduce; rank r ends with
 * block r. */
static void scatter(const struct pdl_coll_job *job, int rank, int64_t s,
                    struct pdl_step *out)
{
    struct coll_group g = {0, 1, job->nranks, rank};
    struct coll_view v = {0, 0, 1};

    coll_ring_scatter(&g, &v, s, out);
    coll_chain(out, s);
}

static void cost_scatter(const struct pdl_coll_job *job,
                         struct pdl_coll_cost *out)
{
    double p = job->nranks, bytes = (double)job->count * job->elem_bytes;

    out->rounds = p - 1;
    out->bytes = bytes * (p - 1) / p;
    out->reduced = bytes * (p - 1) / p;
}

const struct pdl_alg coll_reduce_scatter_ring = {
    .collective = &coll_reduce_scatter,
    .name = "ring",
    .summary = "one lap of a ring; least traffic, for long messages",
    .source = "Patarasuk and Yuan, JPDC 2009",
    .steps = "P-1",
    .bytes = "N(P-1)/P",
    .limits = "",
    .setup = setup,
    .nsteps = nsteps,
    .step = scatter,
    .alike = alike,
    .turns = coll_turn_ring,
    .cost = cost_scatter,
};
