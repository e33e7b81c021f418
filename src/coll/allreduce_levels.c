/* SPDX-License-Identifier: Apache-2.0
 *
 * Rings along one, two or three levels of ranks: a reduce-scatter along each in
 * turn, and the way back. */
#include "coll_priv.h"

/* Ranks along each level, of a job that is settled. */
struct family {
    enum pdl_status (*settle)(struct pdl_coll_job *job, struct pdl_err *err);
    struct coll_levels (*levels)(const struct pdl_coll_job *job);
};

static struct coll_levels levels(const struct pdl_coll_job *job)
{
    const struct family *f = job->alg->family;

    return f->levels(job);
}

static enum pdl_status setup(struct pdl_coll_job *job, struct pdl_err *err)
{
    const struct family *f = job->alg->family;
    enum pdl_status st = f->settle ? f->settle(job, err) : PDL_OK;

    if (st == PDL_OK)
        coll_one_buffer(job, job->nranks);
    return st;
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

/* Each ring by itself. */
static void turns(const struct pdl_coll_job *job, struct pdl_turns *out)
{
    struct coll_levels l = levels(job);
    int64_t stride = 1;

    for (int i = 0; i < l.n; stride *= l.extent[i++])
        out->level[i] = (struct pdl_turn){stride, l.extent[i]};
    out->n = l.n;
}

static void cost(const struct pdl_coll_job *job, struct pdl_coll_cost *out)
{
    struct coll_levels l = levels(job);

    coll_levels_cost(&l, (double)job->count * job->elem_bytes, out);
}

/* Messages hold index and value pairs until that would be longer than the dense
 * chunk. `terms` of a step is the number of ranks whose non-zeros the message
 * unites, from which its expected length follows (pdl_coll_sparse_bytes). */
static void sparse_step(const struct pdl_coll_job *job, int rank, int64_t s,
                        struct pdl_step *out)
{
    struct coll_levels l = levels(job);
    int phase, united = 1;
    int64_t t;

    coll_levels_step(&l, rank, 0, s, out, &phase, &t);
    coll_chain(out, s);
    for (int i = 0; i < phase && i < l.n; i++)
        united *= (int)l.extent[i];
    out->send_terms = phase < l.n ? united * (int)(t + 1) : job->nranks;
    out->recv_terms = out->send_terms;
}

/* Ring allreduce (Patarasuk and Yuan, JPDC 2009): a reduce-scatter lap and an
 * allgather lap. For N bytes on P ranks 2(P-1) steps and 2N(P-1)/P bytes sent
 * by each rank, the least possible. */
static struct coll_levels one_level(const struct pdl_coll_job *job)
{
    return (struct coll_levels){1, {job->nranks, 1, 1}};
}

static const struct family ring = {.levels = one_level};

/* Both laps go to the same neighbour. */
static int64_t alike_ring(const struct pdl_coll_job *job, int64_t s)
{
    return nsteps(job, 0) - s;
}

const struct pdl_alg coll_allreduce_ring = {
    .collective = &coll_allreduce,
    .name = "ring",
    .summary = "two laps of a ring; least traffic, for long messages",
    .source = "Patarasuk and Yuan, JPDC 2009",
    .steps = "2(P-1)",
    .bytes = "2N(P-1)/P",
    .limits = "",
    .family = &ring,
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
    .alike = alike_ring,
    .turns = turns,
    .cost = cost,
};

/* Flat ring on sparse vectors (baseline of T. T. Nguyen et al., IPCCC 2019):
 * in the first lap a message unites one more rank's non-zeros at every hop. */
const struct pdl_alg coll_allreduce_sparse_ring = {
    .collective = &coll_allreduce,
    .name = "sparse-ring",
    .summary = "a ring on sparse vectors, dense once that is shorter",
    .source = "Nguyen et al., IPCCC 2019 (baseline)",
    .steps = "2(P-1)",
    .bytes = "by density; at most 2N(P-1)/P",
    .limits = "",
    .sparse = true,
    .family = &ring,
    .setup = setup,
    .nsteps = nsteps,
    .step = sparse_step,
    .turns = turns,
};

/* Ring-ring, the multi-leader hierarchical ring (T. T. Nguyen, Wahib, Takano,
 * CANDAR 2018 and CCPE 2021; ntt_lr_lr): reduce-scatter inside each node, a
 * ring allreduce among the ranks of equal local index on their 1/k of the
 * vector, allgather inside the node. Every rank of a node is a leader. */
static struct coll_levels nodes(const struct pdl_coll_job *job)
{
    return (struct coll_levels){
        2, {job->params.k, job->nranks / job->params.k, 1}};
}

static const struct family ring_ring = {.settle = coll_settle_k,
                                        .levels = nodes};

static const struct pdl_alg_key node_keys[] = {
    COLL_KEY(k, 1, 1 << 20, "ranks per node (4 where it divides)"),
};

const struct pdl_alg coll_allreduce_ring_ring = {
    .collective = &coll_allreduce,
    .name = "ring-ring",
    .summary = "rings inside nodes, then k rings between them at once",
    .source = "Nguyen et al., CCPE 2021 (ntt_lr_lr)",
    .steps = "2(k-1) + 2(P/k-1)",
    .bytes = "2N(P-1)/P",
    .limits = "k divides P",
    COLL_KEYS(node_keys),
    .family = &ring_ring,
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
    .alike = alike,
    .turns = turns,
    .cost = cost,
};

/* Ring-ring on sparse vectors (T. T. Nguyen, Wahib, Takano, IPCCC 2019). */
const struct pdl_alg coll_allreduce_sparse_ring_ring = {
    .collective = &coll_allreduce,
    .name = "sparse-ring-ring",
    .summary = "ring-ring on sparse vectors, dense once that is shorter",
    .source = "Nguyen et al., IPCCC 2019",
    .steps = "2(k-1) + 2(P/k-1)",
    .bytes = "by density; at most 2N(P-1)/P",
    .limits = "k divides P",
    COLL_KEYS(node_keys),
    .sparse = true,
    .family = &ring_ring,
    .setup = setup,
    .nsteps = nsteps,
    .step = sparse_step,
    .turns = turns,
};

/* Torus allreduce (BlueConnect, Cho et al., SysML 2019; 2-D torus of Mikami et
 * al. 2018): reduce-scatter along x, then y, then z, each on what is left, and
 * the allgathers the other way round. Every message goes to a neighbour of a
 * torus whose x is fastest in rank numbers. */
static struct coll_levels grid(const struct pdl_coll_job *job)
{
    const struct pdl_coll_params *p = &job->params;

    return (struct coll_levels){3, {p->x, p->y, p->z}};
}

static enum pdl_status settle_grid(struct pdl_coll_job *job,
                                   struct pdl_err *err)
{
    return coll_settle_grid(job, 2, err);
}

static const struct family torus = {.settle = settle_grid, .levels = grid};

static const struct pdl_alg_key grid_keys[] = {
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
    COLL_KEYS(grid_keys),
    .family = &torus,
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
    .alike = alike,
    .turns = turns,
    .cost = cost,
};
