/* SPDX-License-Identifier: Apache-2.0
 *
 * Ordered reduce-scatter: rank r adds up block r in the order of ranks. */
#include "coll_ordered.h"

static const struct coll_ordered variant = {.cut = true, .gather = false};

static enum pdl_status setup(struct pdl_coll_job *job, struct pdl_err *err)
{
    (void)err;
    return coll_ordered_setup(job, &variant);
}

static int64_t nsteps(const struct pdl_coll_job *job, int rank)
{
    (void)rank;
    return coll_ordered_nsteps(job, &variant);
}

static void step(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out)
{
    coll_ordered_step(job, &variant, rank, s, out);
}

/* The sends of the first round can last until the sum goes back. */
static int64_t window(const struct pdl_coll_job *job)
{
    return nsteps(job, 0);
}

static void cost(const struct pdl_coll_job *job, struct pdl_coll_cost *out)
{
    double p = job->nranks, bytes = (double)job->count * job->elem_bytes;

    out->rounds = p > 1 ? p - 1 : 0;
    out->bytes = bytes * (p - 1) / p;
    out->reduced = bytes * (p - 1) / p;
}

const struct pdl_alg coll_reduce_scatter_ordered = {
    .collective = &coll_reduce_scatter,
    .name = "ordered",
    .summary = "owners add in rank order: the same bits everywhere",
    .source = "folklore",
    .steps = "2P and joins",
    .bytes = "N(P-1)/P",
    .limits = "",
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
    .window = window,
    .cost = cost,
};
