/* SPDX-License-Identifier: Apache-2.0
 *
 * Recursive halving and doubling, near first: in round j partners at distance
 * 2^j exchange halves of what they still hold (largest messages to the nearest
 * partner), then the same way back. Rank r ends the first half owning the
 * chunk whose number is r with its bits reversed (Thakur, Rabenseifner, Gropp,
 * IJHPCA 2005; MPICH, SimGrid rab). */
#include "coll_priv.h"

static struct coll_fold body(const struct pdl_coll_job *job)
{
    return (struct coll_fold){
        .halve = true,
        .b = {.rounds = coll_log2(job->nranks),
              .job = job,
              .partner = coll_xor_near,
              .bit = coll_bit_near},
    };
}

static enum pdl_status setup(struct pdl_coll_job *job, struct pdl_err *err)
{
    enum pdl_status st = coll_need_pow2(job, err);

    if (st != PDL_OK)
        return st;
    coll_one_buffer(job, job->nranks);
    return PDL_OK;
}

static int64_t nsteps(const struct pdl_coll_job *job, int rank)
{
    struct coll_fold f = body(job);
    struct coll_group g = {0, 1, job->nranks, rank};

    return coll_fold_nsteps(&f, &g);
}

static void step(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out)
{
    struct coll_fold f = body(job);
    struct coll_group g = {0, 1, job->nranks, rank};
    struct coll_view v = {0, 0, 1};

    coll_fold_step(&f, &g, &v, s, out);
    coll_chain(out, s);
}

static void cost(const struct pdl_coll_job *job, struct pdl_coll_cost *out)
{
    struct coll_fold f = body(job);

    *out = (struct pdl_coll_cost){0, 0, 0};
    coll_fold_cost(&f, job->nranks, (double)job->count * job->elem_bytes, out);
}

const struct pdl_alg coll_allreduce_halving_doubling = {
    .collective = &coll_allreduce,
    .name = "halving-doubling",
    .summary =
        "halves to the nearest partner first; long messages on a hierarchy",
    .source = "Thakur, Rabenseifner and Gropp, IJHPCA 2005",
    .steps = "2 log2 P",
    .bytes = "2N(P-1)/P",
    .limits = "powers of two",
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
    .cost = cost,
};
