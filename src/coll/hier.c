/* SPDX-License-Identifier: Apache-2.0
 *
 * Node-level ring around a butterfly between nodes: what ring-rab and
 * ring-rdb share. Super-chunk i of the vector is local index i's; it is cut
 * into as many pieces as the butterfly needs. */
#include "coll_priv.h"
#include "coll_hier.h"

static struct coll_fold between(const struct pdl_coll_job *job, bool halve)
{
    return (struct coll_fold){
        .halve = halve,
        .b = {.rounds = coll_log2(job->nranks / job->params.k),
              .job = job,
              .partner = coll_xor_near,
              .bits = coll_bits_near},
    };
}

enum pdl_status coll_hier_setup(struct pdl_coll_job *job, bool halve,
                                struct pdl_err *err)
{
    enum pdl_status st = coll_settle_k(job, err);
    struct coll_fold f;

    if (st != PDL_OK)
        return st;
    f = between(job, halve);
    coll_one_buffer(job, job->params.k * coll_fold_pieces(&f));
    return PDL_OK;
}

static struct coll_group peers(const struct pdl_coll_job *job, int rank)
{
    int k = (int)job->params.k;

    return (struct coll_group){rank % k, k, job->nranks / k, rank / k};
}

int64_t coll_hier_nsteps(const struct pdl_coll_job *job, bool halve, int rank)
{
    struct coll_fold f = between(job, halve);
    struct coll_group g = peers(job, rank);

    return 2 * (job->params.k - 1) + coll_fold_nsteps(&f, &g);
}

void coll_hier_step(const struct pdl_coll_job *job, bool halve, int rank,
                    int64_t s, struct pdl_step *out)
{
    struct coll_fold f = between(job, halve);
    struct coll_group g = peers(job, rank);
    int k = (int)job->params.k;
    struct coll_group node = {rank - rank % k, 1, k, rank % k};
    int64_t pieces = coll_fold_pieces(&f), t = s - (k - 1);
    int64_t body = coll_fold_nsteps(&f, &g);
    struct coll_view super = {0, 0, pieces}, own = {0, (rank % k) * pieces, 1};

    if (t < 0)
        coll_ring_scatter(&node, &super, s, out);
    else if (t < body)
        coll_fold_step(&f, &g, &own, t, out);
    else
        coll_ring_gather(&node, &super, t - body, out);
    coll_chain(out, s);
}

void coll_hier_cost(const struct pdl_coll_job *job, bool halve,
                    struct pdl_coll_cost *out)
{
    struct coll_fold f = between(job, halve);
    struct coll_levels node = {1, {job->params.k, 1, 1}};
    double bytes = (double)job->count * job->elem_bytes;

    coll_levels_cost(&node, bytes, out);
    coll_fold_cost(&f, job->nranks / job->params.k,
                   bytes / (double)job->params.k, out);
}
