/* SPDX-License-Identifier: Apache-2.0
 *
 * Halo exchange on a grid of ranks: every rank swaps the faces it shares with
 * its neighbours, all at the same time. Chunk 2i of both buffers belongs to
 * the lower neighbour in direction i, 2i+1 to the higher; the grid does not
 * wrap round. x is fastest in rank numbers. */
#include "coll_priv.h"

static enum pdl_status setup(struct pdl_coll_job *job, struct pdl_err *err)
{
    enum pdl_status st = coll_settle_grid(job, 1, err);
    const struct pdl_coll_params *p = &job->params;
    int64_t faces = p->z > 1 ? 6 : p->y > 1 ? 4 : 2;

    if (st == PDL_OK)
        st = coll_need_multiple(job, faces, err);
    if (st != PDL_OK)
        return st;
    job->nbufs = 2;
    job->buf[0] = job->buf[1] = (struct pdl_coll_buf){job->count, faces};
    return PDL_OK;
}

static int64_t nsteps(const struct pdl_coll_job *job, int rank)
{
    int64_t n = 0;

    for (int c = 0; c < job->buf[0].chunks; c++)
        n += coll_halo.wants(job, rank, c).what == PDL_WANT_ONE;
    return n;
}

static void step(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out)
{
    struct pdl_want want = {.what = PDL_WANT_ANYTHING};
    int64_t c = -1;

    while (s >= 0) {
        want = coll_halo.wants(job, rank, ++c);
        s -= want.what == PDL_WANT_ONE;
    }
    coll_send(out, want.from, coll_run(0, c, 1));
    coll_recv(out, want.from, coll_run(1, c, 1));
}

static void cost(const struct pdl_coll_job *job, struct pdl_coll_cost *out)
{
    double faces = (double)job->buf[0].chunks;

    out->rounds = job->nranks > 1;
    out->bytes =
        job->nranks > 1 ? (double)job->count * job->elem_bytes / faces : 0;
    out->reduced = 0;
}

/* All ports of a round at once. */
static int64_t window(const struct pdl_coll_job *job)
{
    (void)job;
    return 6;
}

static const struct pdl_alg_key keys[] = {
    COLL_KEY(x, 1, 1 << 20, "ranks along x (all)"),
    COLL_KEY(y, 1, 1 << 20, "ranks along y (1)"),
    COLL_KEY(z, 1, 1 << 20, "ranks along z (1)"),
};

const struct pdl_alg coll_halo_neighbours = {
    .collective = &coll_halo,
    .name = "neighbours",
    .summary = "all faces at the same time",
    .source = "spatial parallelism (Dryden et al., IPDPS 2019)",
    .steps = "1 round",
    .bytes = "N/(2 dims) on each port",
    .limits = "xyz = P; the count is a multiple of the faces",
    COLL_KEYS(keys),
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
    .window = window,
    .cost = cost,
};
