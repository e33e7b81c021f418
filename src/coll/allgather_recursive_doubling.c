/* SPDX-License-Identifier: Apache-2.0
 *
 * Recursive doubling: partners at distance 1, 2, 4 ... exchange all the
 * blocks they have (Thakur, Rabenseifner and Gropp, IJHPCA 2005). */
#include "coll_priv.h"

static int64_t nsteps(const struct pdl_coll_job *job, int rank)
{
    (void)rank;
    return coll_log2(job->nranks);
}

static void step(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out)
{
    int have = 1 << s, peer = rank ^ have;

    (void)job;
    coll_send(out, peer, coll_run(0, rank & -have, have));
    coll_recv(out, peer, coll_run(0, peer & -have, have));
    coll_chain(out, s);
}

static void cost(const struct pdl_coll_job *job, struct pdl_coll_cost *out)
{
    double p = job->nranks, bytes = (double)job->count * job->elem_bytes;

    out->rounds = coll_log2(job->nranks);
    out->bytes = bytes * (p - 1) / p;
    out->reduced = 0;
}

const struct pdl_alg coll_allgather_recursive_doubling = {
    .collective = &coll_allgather,
    .name = "recursive-doubling",
    .summary = "exchange all one has with ever farther partners",
    .source = "Thakur, Rabenseifner and Gropp, IJHPCA 2005",
    .steps = "log2 P",
    .bytes = "N(P-1)/P",
    .limits = "powers of two",
    .setup = coll_pow2_setup,
    .nsteps = nsteps,
    .step = step,
    .cost = cost,
};
