/* SPDX-License-Identifier: Apache-2.0
 *
 * The two-round reduce-scatter and allgather of kautz.c on the Kautz network
 * K(d,2), each alone or one after the other. */
#include "coll_kautz.h"

struct halves {
    bool scatter, gather;
};

static struct coll_rounds rounds_of(const struct pdl_coll_job *job)
{
    const struct halves *h = job->alg->family;

    return coll_even_rounds(2 * h->scatter + 2 * h->gather, job->params.d);
}

static enum pdl_status setup(struct pdl_coll_job *job, struct pdl_err *err)
{
    const struct halves *h = job->alg->family;
    enum pdl_status st = coll_kautz_settle(job, err);

    if (st != PDL_OK)
        return st;
    job->nbufs = h->scatter ? 2 : 1;
    job->buf[0] = (struct pdl_coll_buf){job->count, job->nranks};
    if (h->scatter)
        job->buf[1] = job->buf[0];
    return PDL_OK;
}

static int64_t nsteps(const struct pdl_coll_job *job, int rank)
{
    struct coll_rounds r = rounds_of(job);

    (void)rank;
    return coll_rounds_nsteps(&r);
}

static void step(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out)
{
    const struct halves *h = job->alg->family;
    struct coll_rounds r = rounds_of(job);
    struct coll_vertex v = coll_kautz_vertex(job, rank);
    int64_t round, port;

    if (!coll_rounds_locate(&r, s, &round, &port, out))
        return;
    if (h->scatter && round < 2)
        coll_kautz_scatter(v, round, port, out);
    else
        coll_kautz_gather(v, h->scatter ? round - 2 : round, port, out);
}

/* All ports of a round at once. */
static int64_t window(const struct pdl_coll_job *job)
{
    return nsteps(job, 0);
}

static const struct pdl_alg_key keys[] = {
    COLL_KEY(d, 1, 2048, "degree of the Kautz graph"),
};

/* Reduce-scatter on the Kautz network K(d,2): two rounds, see kautz.c. */
static const struct halves scatter = {.scatter = true};

static void cost_scatter(const struct pdl_coll_job *job,
                         struct pdl_coll_cost *out)
{
    double d = (double)job->params.d;
    double chunk = (double)job->count * job->elem_bytes / job->nranks;

    out->rounds = 2;
    out->bytes = (d + 2) * chunk;
    out->reduced = (d + 2) * d * chunk;
}

const struct pdl_alg coll_reduce_scatter_kautz = {
    .collective = &coll_reduce_scatter,
    .name = "kautz",
    .summary = "two rounds on all d ports of a Kautz network",
    .source = "Nguyen et al., IPDPS 2022 (reconstruction)",
    .steps = "2 rounds of d ports",
    .bytes = "N(d+2)/P on each of d ports",
    .limits = "P = d(d+1)",
    COLL_KEYS(keys),
    .family = &scatter,
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
    .window = window,
    .turns = coll_turn_letters,
    .cost = cost_scatter,
};

/* Allgather on the Kautz network K(d,2): own block to all d neighbours, then
 * the d blocks received to all of them; see kautz.c. */
static const struct halves gather = {.gather = true};

static void cost_gather(const struct pdl_coll_job *job,
                        struct pdl_coll_cost *out)
{
    double d = (double)job->params.d;

    out->rounds = 2;
    out->bytes = (d + 1) * (double)job->count * job->elem_bytes / job->nranks;
    out->reduced = 0;
}

const struct pdl_alg coll_allgather_kautz = {
    .collective = &coll_allgather,
    .name = "kautz",
    .summary = "two rounds on all d ports of a Kautz network",
    .source = "Nguyen et al., IPDPS 2022 (reconstruction)",
    .steps = "2 rounds of d ports",
    .bytes = "N(d+1)/P on each of d ports",
    .limits = "P = d(d+1)",
    COLL_KEYS(keys),
    .family = &gather,
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
    .window = window,
    .turns = coll_turn_letters,
    .cost = cost_gather,
};

/* Allreduce of long vectors on the Kautz network K(d,2): the two-round
 * reduce-scatter and allgather of kautz.c; about 2N/d bytes on every port. */
static const struct halves both = {.scatter = true, .gather = true};

static void cost_both(const struct pdl_coll_job *job, struct pdl_coll_cost *out)
{
    double d = (double)job->params.d;
    double chunk = (double)job->count * job->elem_bytes / job->nranks;

    out->rounds = 4;
    out->bytes = (2 * d + 3) * chunk;
    out->reduced = (d + 2) * d * chunk;
}

const struct pdl_alg coll_allreduce_kautz = {
    .collective = &coll_allreduce,
    .name = "kautz",
    .summary = "four rounds on all d ports of a Kautz network; long vectors",
    .source = "Nguyen et al., IPDPS 2022 (reconstruction)",
    .steps = "4 rounds of d ports",
    .bytes = "about 2N(d+2)/(d+1) on d ports",
    .limits = "P = d(d+1)",
    COLL_KEYS(keys),
    .family = &both,
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
    .window = window,
    .turns = coll_turn_letters,
    .cost = cost_both,
};
