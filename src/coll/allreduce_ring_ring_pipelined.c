/* SPDX-License-Identifier: Apache-2.0
 *
 * Ring-ring in S segments, so that the links inside a node and those between
 * nodes work at the same time (ntt_lr_lr_pipeline of T. T. Nguyen et al., CCPE
 * 2021). Stage s = 0..S has two halves, each begun when the half before is
 * done: {allgather between nodes of segment s-1, reduce-scatter inside nodes
 * of segment s}, then {allgather inside of s-1, reduce-scatter between of s}.
 *
 * Here a half is two chains of steps; chain c = 4*stage + which. */
#include "coll_priv.h"

enum { GATHER_BETWEEN, SCATTER_INSIDE, GATHER_INSIDE, SCATTER_BETWEEN };

static int64_t chain_length(const struct pdl_coll_job *job, int64_t c)
{
    int64_t stage = c / 4, which = c % 4, k = job->params.k;
    bool gather = which == GATHER_BETWEEN || which == GATHER_INSIDE;
    bool inside = which == GATHER_INSIDE || which == SCATTER_INSIDE;

    if (gather ? stage == 0 : stage == job->params.segments)
        return 0;
    return (inside ? k : job->nranks / k) - 1;
}

static enum pdl_status setup(struct pdl_coll_job *job, struct pdl_err *err)
{
    enum pdl_status st = coll_settle_k(job, err);

    if (st != PDL_OK)
        return st;
    coll_settle_segments(job, 8);
    coll_one_buffer(job, job->nranks * job->params.segments);
    return PDL_OK;
}

static int64_t nsteps(const struct pdl_coll_job *job, int rank)
{
    int64_t n = job->nranks / job->params.k;

    (void)rank;
    return 2 * job->params.segments * (job->params.k - 1 + n - 1);
}

/* The chain that step s is in, and where that chain begins. */
static int64_t find_chain(const struct pdl_coll_job *job, int64_t s,
                          int64_t *begin)
{
    int64_t c = 0, at = 0;

    while (at + chain_length(job, c) <= s)
        at += chain_length(job, c++);
    *begin = at;
    return c;
}

/* Waits for the ends of the last half before chain c that has any steps. */
static void wait_half(const struct pdl_coll_job *job, int64_t c, int64_t begin,
                      struct pdl_step *out)
{
    if (c % 2)
        begin -= chain_length(job, --c);
    for (c -= 2; c >= 0; c -= 2) {
        int64_t a = chain_length(job, c), b = chain_length(job, c + 1);

        if (b > 0)
            coll_after(out, begin - 1);
        if (a > 0)
            coll_after(out, begin - b - 1);
        if (a + b > 0)
            return;
    }
}

static void step(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out)
{
    int k = (int)job->params.k, n = job->nranks / k;
    struct coll_group node = {rank - rank % k, 1, k, rank % k};
    struct coll_group peers = {rank % k, k, n, rank / k};
    int64_t begin, c = find_chain(job, s, &begin), t = s - begin;
    int64_t segment = c / 4 - (c % 4 == GATHER_BETWEEN || c % 4 == 2);
    struct coll_view super = {0, segment * job->nranks, n};
    struct coll_view own = {0, super.base + (int64_t)(rank % k) * n, 1};

    if (c % 4 == GATHER_BETWEEN)
        coll_ring_gather(&peers, &own, t, out);
    else if (c % 4 == SCATTER_INSIDE)
        coll_ring_scatter(&node, &super, t, out);
    else if (c % 4 == GATHER_INSIDE)
        coll_ring_gather(&node, &super, t, out);
    else
        coll_ring_scatter(&peers, &own, t, out);
    if (t > 0)
        coll_after(out, s - 1);
    else
        wait_half(job, c, begin, out);
}

/* A half is two chains; only the other chain of it can be behind. */
static int64_t window(const struct pdl_coll_job *job)
{
    int64_t n = job->nranks / job->params.k;

    return n + job->params.k;
}

static const struct pdl_alg_key keys[] = {
    COLL_KEY(k, 1, 1 << 20, "ranks per node (4 where it divides)"),
    COLL_KEY(segments, 1, 4096, "segments of the vector (8)"),
};

const struct pdl_alg coll_allreduce_ring_ring_pipelined = {
    .collective = &coll_allreduce,
    .name = "ring-ring-pipelined",
    .summary = "ring-ring in segments: both levels' links work at once",
    .source = "Nguyen et al., CCPE 2021 (ntt_lr_lr_pipeline)",
    .steps = "S (2(k-1) + 2(P/k-1))",
    .bytes = "2N(P-1)/P",
    .limits = "k divides P",
    COLL_KEYS(keys),
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
    .window = window,
};
