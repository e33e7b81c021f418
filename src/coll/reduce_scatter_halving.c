/* SPDX-License-Identifier: Apache-2.0
 *
 * Recursive halving, far first, so that rank r ends with block r (Thakur,
 * Rabenseifner and Gropp, IJHPCA 2005). */
#include "coll_priv.h"

static int64_t nsteps(const struct pdl_coll_job *job, int rank)
{
    (void)rank;
    return coll_log2(job->nranks);
}

static void step(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out)
{
    struct coll_butterfly b = {.rounds = coll_log2(job->nranks),
                               .job = job,
                               .partner = coll_xor_far,
                               .bits = coll_bits_far};
    struct coll_view v = {0, 0, 1};
    struct pdl_span keep, give;
    int peer = (int)coll_xor_far(&b, rank, (int)s);

    coll_halves(&b, &v, rank, (int)s, &keep, &give);
    out->act = PDL_ACT_REDUCE;
    coll_send(out, peer, give);
    coll_recv(out, peer, keep);
    coll_chain(out, s);
}

static void cost(const struct pdl_coll_job *job, struct pdl_coll_cost *out)
{
    double p = job->nranks, bytes = (double)job->count * job->elem_bytes;

    out->rounds = coll_log2(job->nranks);
    out->bytes = bytes * (p - 1) / p;
    out->reduced = bytes * (p - 1) / p;
}

const struct pdl_alg coll_reduce_scatter_halving = {
    .collective = &coll_reduce_scatter,
    .name = "halving",
    .summary = "exchange halves with ever nearer partners",
    .source = "Thakur, Rabenseifner and Gropp, IJHPCA 2005",
    .steps = "log2 P",
    .bytes = "N(P-1)/P",
    .limits = "powers of two",
    .setup = coll_pow2_setup,
    .nsteps = nsteps,
    .step = step,
    .cost = cost,
};
