/* SPDX-License-Identifier: Apache-2.0
 *
 * Ring allreduce (Patarasuk and Yuan, JPDC 2009): a reduce-scatter lap and an
 * allgather lap. For N bytes on P ranks 2(P-1) steps and 2N(P-1)/P bytes sent
 * by each rank, the least possible. */
#include "coll_priv.h"

static struct coll_levels levels(const struct pdl_coll_job *job)
{
    return (struct coll_levels){1, {job->nranks, 1, 1}};
}

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
    struct coll_levels l = levels(job);
    int phase;
    int64_t t;

    coll_levels_step(&l, rank, 0, s, out, &phase, &t);
    coll_chain(out, s);
}

static int64_t alike(const struct pdl_coll_job *job, int64_t s)
{
    return nsteps(job, 0) - s;
}

static void cost(const struct pdl_coll_job *job, struct pdl_coll_cost *out)
{
    struct coll_levels l = levels(job);

    coll_levels_cost(&l, (double)job->count * job->elem_bytes, out);
}

const struct pdl_alg coll_allreduce_ring = {
    .collective = &coll_allreduce,
    .name = "ring",
    .summary = "two laps of a ring; least traffic, for long messages",
    .source = "Patarasuk and Yuan, JPDC 2009",
    .steps = "2(P-1)",
    .bytes = "2N(P-1)/P",
    .limits = "",
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
    .alike = alike,
    .cost = cost,
};
