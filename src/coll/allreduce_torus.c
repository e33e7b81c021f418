/* SPDX-License-Identifier: Apache-2.0
 *
 * Torus allreduce (BlueConnect, Cho et al., SysML 2019; 2-D torus of Mikami et
 * al. 2018): reduce-scatter along x, then y, then z, each on what is left, and
 * the allgathers the other way round. Every message goes to a neighbour of a
 * torus whose x is fastest in rank numbers. */
#include "coll_priv.h"

static struct coll_levels levels(const struct pdl_coll_job *job)
{
    const struct pdl_coll_params *p = &job->params;

    return (struct coll_levels){3, {p->x, p->y, p->z}};
}

static enum pdl_status setup(struct pdl_coll_job *job, struct pdl_err *err)
{
    enum pdl_status st = coll_settle_grid(job, 2, err);

    if (st != PDL_OK)
        return st;
    coll_one_buffer(job, job->nranks);
    return PDL_OK;
}

static int64_t nsteps(const struct pdl_coll_job *job, int rank)
{
    struct coll_levels l = levels(job);

    (void)rank;
    return coll_levels_nsteps(&l);
}

static void step(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out)
{
    struct coll_levels l = levels(job);
    int phase;
    int64_t t;

    coll_levels_step(&l, rank, 0, s, out, &phase, &t);
    coll_chain(out, s);
}

static int64_t alike(const struct pdl_coll_job *job, int64_t s)
{
    struct coll_levels l = levels(job);

    return coll_levels_alike(&l, s);
}

static void cost(const struct pdl_coll_job *job, struct pdl_coll_cost *out)
{
    struct coll_levels l = levels(job);

    coll_levels_cost(&l, (double)job->count * job->elem_bytes, out);
}

static const struct pdl_alg_key keys[] = {
    COLL_KEY(x, 1, 1 << 20, "ranks along x"),
    COLL_KEY(y, 1, 1 << 20, "ranks along y"),
    COLL_KEY(z, 1, 1 << 20, "ranks along z"),
};

const struct pdl_alg coll_allreduce_torus = {
    .collective = &coll_allreduce,
    .name = "torus",
    .summary = "rings along x, y and z in turn; few steps on a torus",
    .source = "Cho et al., SysML 2019 (BlueConnect)",
    .steps = "2(x-1) + 2(y-1) + 2(z-1)",
    .bytes = "2N(P-1)/P",
    .limits = "xyz = P",
    COLL_KEYS(keys),
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
    .alike = alike,
    .cost = cost,
};
