/* SPDX-License-Identifier: Apache-2.0
 *
 * Reduce-scatter on the Kautz network K(d,2): two rounds, see kautz.c. */
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

static int64_t nsteps(const struct pdl_coll_job *job, int rank)
{
    struct coll_rounds r = coll_even_rounds(2, job->params.d);

    (void)rank;
    return coll_rounds_nsteps(&r);
}

static void step(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out)
{
    struct coll_rounds r = coll_even_rounds(2, job->params.d);
    int64_t round, port;

    if (coll_rounds_locate(&r, s, &round, &port, out))
        coll_kautz_scatter(coll_kautz_vertex(job, rank), round, port, out);
}

static void cost(const struct pdl_coll_job *job, struct pdl_coll_cost *out)
{
    double d = (double)job->params.d;
    double chunk = (double)job->count * job->elem_bytes / job->nranks;

    out->rounds = 2;
    out->bytes = (d + 2) * chunk;
    out->reduced = (d + 2) * d * chunk;
}

/* All ports of a round at once. */
static int64_t window(const struct pdl_coll_job *job)
{
    return nsteps(job, 0);
}

static const struct pdl_alg_key keys[] = {
    COLL_KEY(d, 1, 2048, "degree of the Kautz graph"),
};

const struct pdl_alg coll_reduce_scatter_kautz = {
    .collective = &coll_reduce_scatter,
    .name = "kautz",
    .summary = "two rounds on all d ports of a Kautz network",
    .source = "Nguyen et al., IPDPS 2022 (reconstruction)",
    .steps = "2 rounds of d ports",
    .bytes = "N(d+2)/P on each of d ports",
    .limits = "P = d(d+1)",
    COLL_KEYS(keys),
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
    .window = window,
    .cost = cost,
};
