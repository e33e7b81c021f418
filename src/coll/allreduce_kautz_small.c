/* SPDX-License-Identifier: Apache-2.0
 *
 * Allreduce of short vectors on the Kautz network K(d,2): two rounds of whole
 * vectors on all ports. Round 1 sums the d neighbours before; round 2 sends
 * these sums on. The own vector comes back along the one walk of two arcs, so
 * it is first replaced by the sum of round 1. */
#include "coll_priv.h"
#include "coll_kautz.h"

static enum pdl_status setup(struct pdl_coll_job *job, struct pdl_err *err)
{
    enum pdl_status st = coll_kautz_settle(job, err);

    if (st != PDL_OK)
        return st;
    job->nbufs = 2;
    job->buf[0] = job->buf[1] = (struct pdl_coll_buf){job->count, job->nranks};
    return PDL_OK;
}

static int64_t first_round(const struct pdl_coll_job *job)
{
    struct coll_rounds r = coll_even_rounds(2, job->params.d);

    return coll_rounds_nsteps(&r) - job->params.d;
}

static int64_t nsteps(const struct pdl_coll_job *job, int rank)
{
    (void)rank;
    return first_round(job) + 1 + job->params.d;
}

static void step(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out)
{
    struct coll_rounds r = coll_even_rounds(2, job->params.d);
    struct coll_vertex v = coll_kautz_vertex(job, rank), to, from;
    int64_t first = first_round(job), round, port = s - first - 1;
    struct pdl_span all = coll_run(0, 0, job->nranks), sum = all;

    sum.buf = 1;
    if (s == first) {
        coll_send(out, rank, sum);
        coll_recv(out, rank, all);
        coll_after(out, s - 1);
        return;
    }
    if (s < first && !coll_rounds_locate(&r, s, &round, &port, out))
        return;
    to = coll_kautz_out(v, port);
    from = coll_kautz_in(v, port);
    out->act = PDL_ACT_REDUCE;
    coll_send(out, coll_kautz_rank(to.d, to.a, to.b), s < first ? all : sum);
    coll_recv(out, coll_kautz_rank(from.d, from.a, from.b),
              s < first ? sum : all);
    if (s > first)
        coll_after(out, first);
}

static void cost(const struct pdl_coll_job *job, struct pdl_coll_cost *out)
{
    double bytes = (double)job->count * job->elem_bytes;

    out->rounds = 2;
    out->bytes = 2 * bytes;
    out->reduced = 2 * (double)job->params.d * bytes;
}

/* All ports of a round at once. */
static int64_t window(const struct pdl_coll_job *job)
{
    return nsteps(job, 0);
}

static const struct pdl_alg_key keys[] = {
    COLL_KEY(d, 1, 2048, "degree of the Kautz graph"),
};

const struct pdl_alg coll_allreduce_kautz_small = {
    .collective = &coll_allreduce,
    .name = "kautz-small",
    .summary = "two rounds of whole vectors on a Kautz network; short vectors",
    .source = "Nguyen et al., IPDPS 2022 (reconstruction)",
    .steps = "2 rounds of d ports",
    .bytes = "2N on each of d ports",
    .limits = "P = d(d+1)",
    COLL_KEYS(keys),
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
    .window = window,
    .turns = coll_turn_letters,
    .cost = cost,
};
