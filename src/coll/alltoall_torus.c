/* SPDX-License-Identifier: Apache-2.0
 *
 * Pairwise all-to-all by coordinates: in step (a, b, c) the rank at (x, y, z)
 * sends to (x+a, y+b, z+c), each modulo its extent. On a torus all messages of
 * a step go equally far in each direction and so end together; the plain one,
 * which adds to rank numbers, has ranks whose carry makes a message longer in
 * every step. */
#include "coll_priv.h"

static enum pdl_status setup(struct pdl_coll_job *job, struct pdl_err *err)
{
    enum pdl_status st = coll_settle_grid(job, 2, err);

    return st == PDL_OK ? coll_shift_setup(job, err) : st;
}

/* The rank that is so far on: a step's number is a displacement as a rank's is
 * a place. */
static int moved(const struct pdl_coll_job *job, int rank, int64_t s, int way)
{
    const int64_t extent[] = {job->params.x, job->params.y, job->params.z};
    int64_t at = 0, stride = 1;

    for (int i = 0; i < 3; i++) {
        int64_t n = extent[i];

        at += coll_mod(rank / stride % n + way * (s / stride % n), n) * stride;
        stride *= n;
    }
    return (int)at;
}

static void step(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out)
{
    int to = moved(job, rank, s, 1), from = moved(job, rank, s, -1);

    coll_send(out, to, coll_run(0, to, 1));
    coll_recv(out, from, coll_run(1, from, 1));
    coll_chain(out, s);
}

static void turns(const struct pdl_coll_job *job, struct pdl_turns *out)
{
    const struct pdl_coll_params *p = &job->params;

    *out = (struct pdl_turns){
        .n = 3, .level = {{1, p->x}, {p->x, p->y}, {p->x * p->y, p->z}}};
}

static void cost(const struct pdl_coll_job *job, struct pdl_coll_cost *out)
{
    double p = job->nranks, bytes = (double)job->count * job->elem_bytes;

    *out = (struct pdl_coll_cost){p - 1, bytes * (p - 1) / p, 0};
}

static const struct pdl_alg_key keys[] = {
    COLL_KEY(x, 1, 1 << 20, "ranks along x (about the square root)"),
    COLL_KEY(y, 1, 1 << 20, "ranks along y"),
    COLL_KEY(z, 1, 1 << 20, "ranks along z"),
};

const struct pdl_alg coll_alltoall_torus = {
    .collective = &coll_alltoall,
    .name = "torus",
    .summary = "pairwise by coordinates: steps of one displacement; tori",
    .source = "folklore",
    .steps = "P-1",
    .bytes = "N(P-1)/P",
    .limits = "xyz = P; P divides the count",
    COLL_KEYS(keys),
    .setup = setup,
    .nsteps = coll_shift_nsteps,
    .step = step,
    .turns = turns,
    .cost = cost,
};
