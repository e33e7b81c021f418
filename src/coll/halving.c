/* SPDX-License-Identifier: Apache-2.0
 *
 * Allreduce on a power of two of ranks by a butterfly that halves the vector
 * and then doubles it: what halving-doubling (near and far first), swing and
 * shd share. They differ in who pairs with whom. */
#include "coll_halving.h"

static struct coll_fold body(const struct pdl_coll_job *job,
                             const struct coll_pairing *pairs)
{
    return (struct coll_fold){
        .halve = true,
        .b = {.rounds = coll_log2(job->nranks),
              .job = job,
              .partner = pairs->partner,
              .bits = pairs->bits},
    };
}

enum pdl_status coll_halving_setup(struct pdl_coll_job *job,
                                   struct pdl_err *err)
{
    enum pdl_status st = coll_need_pow2(job, err);

    if (st != PDL_OK)
        return st;
    coll_one_buffer(job, job->nranks);
    return PDL_OK;
}

int64_t coll_halving_nsteps(const struct pdl_coll_job *job, int rank)
{
    (void)rank;
    return 2 * (int64_t)coll_log2(job->nranks);
}

void coll_halving_step(const struct pdl_coll_job *job,
                       const struct coll_pairing *pairs, int rank, int64_t s,
                       struct pdl_step *out)
{
    struct coll_fold f = body(job, pairs);
    struct coll_group g = {0, 1, job->nranks, rank};
    struct coll_view v = {0, 0, 1};

    coll_fold_step(&f, &g, &v, s, out);
    coll_chain(out, s);
}

void coll_halving_cost(const struct pdl_coll_job *job,
                       struct pdl_coll_cost *out)
{
    struct coll_pairing any = {coll_xor_near, coll_bits_near};
    struct coll_fold f = body(job, &any);

    *out = (struct pdl_coll_cost){0, 0, 0};
    coll_fold_cost(&f, job->nranks, (double)job->count * job->elem_bytes, out);
}
