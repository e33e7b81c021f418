/* SPDX-License-Identifier: Apache-2.0
 *
 * Recursive doubling: log2(P) exchanges of the whole vector at
 * distances 1, 2, 4 ...; ranks beyond a power of two fold into a neighbour
 * first (Thakur, Rabenseifner, Gropp, IJHPCA 2005). */
#include "coll_priv.h"

static struct coll_fold body(const struct pdl_coll_job *job)
{
    return (struct coll_fold){
        .b = {.rounds = coll_log2(job->nranks),
              .job = job,
              .partner = coll_xor_near,
              .bits = coll_bits_near},
    };
}

static enum pdl_status setup(struct pdl_coll_job *job, struct pdl_err *err)
{
    (void)err;
    coll_one_buffer(job, 1);
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

const struct pdl_alg coll_allreduce_recursive_doubling = {
    .collective = &coll_allreduce,
    .name = "recursive-doubling",
    .summary = "exchanges of the whole vector; fewest steps, short messages",
    .source = "Thakur, Rabenseifner and Gropp, IJHPCA 2005",
    .steps = "log2 P (+2 when folded)",
    .bytes = "N log2 P (+N when folded)",
    .limits = "",
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
    .cost = cost,
};
