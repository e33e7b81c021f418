/* SPDX-License-Identifier: Apache-2.0
 *
 * Pairwise all-to-all by nodes: in step a k + b rank i of node g sends to rank
 * i+b of node g+a. So all messages of a step stay inside nodes or all leave
 * them, where the plain one has both at once and every step waits for those
 * that leave. */
#include "coll_priv.h"

static enum pdl_status setup(struct pdl_coll_job *job, struct pdl_err *err)
{
    enum pdl_status st = coll_settle_k(job, err);

    return st == PDL_OK ? coll_shift_setup(job, err) : st;
}

/* The rank that is a nodes and b ranks of its node further on. */
static int moved(const struct pdl_coll_job *job, int rank, int64_t a, int64_t b)
{
    int64_t k = job->params.k, n = job->nranks / k;

    return (int)(coll_mod(rank / k + a, n) * k + coll_mod(rank % k + b, k));
}

static void step(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out)
{
    int64_t a = s / job->params.k, b = s % job->params.k;
    int to = moved(job, rank, a, b), from = moved(job, rank, -a, -b);

    coll_send(out, to, coll_run(0, to, 1));
    coll_recv(out, from, coll_run(1, from, 1));
    coll_chain(out, s);
}

static void turns(const struct pdl_coll_job *job, struct pdl_turns *out)
{
    int64_t k = job->params.k;

    *out = (struct pdl_turns){.n = 2, .level = {{1, k}, {k, job->nranks / k}}};
}

static void cost(const struct pdl_coll_job *job, struct pdl_coll_cost *out)
{
    double p = job->nranks, bytes = (double)job->count * job->elem_bytes;

    *out = (struct pdl_coll_cost){p - 1, bytes * (p - 1) / p, 0};
}

static const struct pdl_alg_key keys[] = {
    COLL_KEY(k, 1, 1 << 20, "ranks per node (4 where it divides)"),
};

const struct pdl_alg coll_alltoall_node_pairwise = {
    .collective = &coll_alltoall,
    .name = "node-pairwise",
    .summary = "pairwise inside nodes, then from node to node; long blocks",
    .source = "folklore; MPICH's exchanges of powers of two",
    .steps = "P-1",
    .bytes = "N(P-1)/P",
    .limits = "k divides P; P divides the count",
    COLL_KEYS(keys),
    .setup = setup,
    .nsteps = coll_shift_nsteps,
    .step = step,
    .turns = turns,
    .cost = cost,
};
