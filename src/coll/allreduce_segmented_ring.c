/* SPDX-License-Identifier: Apache-2.0
 *
 * Segmented ring (Open MPI's tuned component): every block of the ring is cut
 * into S segments that follow each other, at most two in flight, so that
 * adding one segment overlaps with receiving the next. Step t*S + i moves
 * segment i of lap step t; it needs what step t-1 brought of that segment. */
#include "coll_priv.h"

static enum pdl_status setup(struct pdl_coll_job *job, struct pdl_err *err)
{
    (void)err;
    coll_settle_segments(job, 4);
    coll_one_buffer(job, job->nranks * job->params.segments);
    return PDL_OK;
}

static int64_t nsteps(const struct pdl_coll_job *job, int rank)
{
    (void)rank;
    return 2 * ((int64_t)job->nranks - 1) * job->params.segments;
}

static void step(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out)
{
    int64_t p = job->nranks, parts = job->params.segments;
    int64_t t = s / parts, lap = t < p - 1 ? 1 : 0;
    int64_t give = coll_mod(rank - lap - (lap ? t : t - (p - 1)), p);
    int64_t take = coll_mod(give - 1, p);

    out->act = lap ? PDL_ACT_REDUCE : PDL_ACT_COPY;
    coll_send(out, (int)((rank + 1) % p),
              coll_run(0, give * parts + s % parts, 1));
    coll_recv(out, (int)((rank + p - 1) % p),
              coll_run(0, take * parts + s % parts, 1));
    /* two in flight; what step s - S brought is then there too */
    coll_after(out, parts > 1 ? s - 2 : s - 1);
    if (parts > 1)
        coll_after(out, s - 3);
}

static int64_t window(const struct pdl_coll_job *job)
{
    return job->params.segments > 1 ? 2 : 1;
}

static void cost(const struct pdl_coll_job *job, struct pdl_coll_cost *out)
{
    double p = job->nranks, bytes = (double)job->count * job->elem_bytes;

    out->rounds = (double)nsteps(job, 0);
    out->bytes = 2 * bytes * (p - 1) / p;
    out->reduced = bytes * (p - 1) / p;
}

static const struct pdl_alg_key keys[] = {
    COLL_KEY(segments, 1, 4096, "segments of every block (4)"),
};

const struct pdl_alg coll_allreduce_segmented_ring = {
    .collective = &coll_allreduce,
    .name = "segmented-ring",
    .summary = "a ring whose blocks move in segments; overlaps the adding",
    .source = "Open MPI tuned (Pjesivac-Grbovic et al., Cluster Comp. 2007)",
    .steps = "2(P-1)S",
    .bytes = "2N(P-1)/P",
    .limits = "",
    COLL_KEYS(keys),
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
    .window = window,
    .turns = coll_turn_ring,
    .cost = cost,
};
