/* SPDX-License-Identifier: Apache-2.0
 *
 * Butterflies among the largest power of two of the ranks, near first; each
 * rank beyond it hands its vector to a neighbour first and gets the result
 * last. */
#include "coll_priv.h"

static struct coll_fold body(const struct pdl_coll_job *job)
{
    const bool *halve = job->alg->family;

    return (struct coll_fold){
        .halve = *halve,
        .b = {.rounds = coll_log2(job->nranks),
              .job = job,
              .partner = coll_xor_near,
              .bits = coll_bits_near},
    };
}

static enum pdl_status setup(struct pdl_coll_job *job, struct pdl_err *err)
{
    struct coll_fold f = body(job);

    (void)err;
    coll_one_buffer(job, coll_fold_pieces(&f));
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

/* Rabenseifner (ICCS 2004): halving and doubling, near first, among the
 * largest power of two; each rank beyond it hands its vector to a neighbour
 * first and gets the result last. */
static const bool halves = true;

const struct pdl_alg coll_allreduce_rabenseifner = {
    .collective = &coll_allreduce,
    .name = "rabenseifner",
    .summary = "halving and doubling for any number of ranks, folding the rest",
    .source = "Rabenseifner, ICCS 2004",
    .steps = "2 log2 P (+2 when folded)",
    .bytes = "2N(P-1)/P (+N when folded)",
    .limits = "",
    .family = &halves,
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
    .cost = cost,
};

/* Recursive doubling: log2(P) exchanges of the whole vector at
 * distances 1, 2, 4 ...; ranks beyond a power of two fold into a neighbour
 * first (Thakur, Rabenseifner, Gropp, IJHPCA 2005). */
static const bool whole = false;

const struct pdl_alg coll_allreduce_recursive_doubling = {
    .collective = &coll_allreduce,
    .name = "recursive-doubling",
    .summary = "exchanges of the whole vector; fewest steps, short messages",
    .source = "Thakur, Rabenseifner and Gropp, IJHPCA 2005",
    .steps = "log2 P (+2 when folded)",
    .bytes = "N log2 P (+N when folded)",
    .limits = "",
    .family = &whole,
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
    .cost = cost,
};
