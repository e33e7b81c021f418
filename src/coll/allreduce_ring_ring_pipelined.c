/* SPDX-License-Identifier: Apache-2.0
 *
 * Ring-ring in S segments, so that the links inside a node and those between
 * nodes work at the same time (ntt_lr_lr_pipeline of T. T. Nguyen et al., CCPE
 * 2021). Stage s = 0..S has two halves, each begun when the half before is
 * done: {allgather between nodes of segment s-1, reduce-scatter inside nodes
 * of segment s}, then {allgather inside of s-1, reduce-scatter between of s}.
 * The reduce-scatters are rings, and so are the two allgathers of the last
 * stage, which have nothing beside them. The allgathers before are not
 * blocking. The author's program posts all messages of such a ring at once,
 * the ones that pass on what has not come yet too: a race. Here a rank sends
 * its own block to all others of its group at once, which takes as many
 * messages of the same size in and out of every rank.
 *
 * A half is two parts, each a chain of steps or one round with its joins; part
 * c = 4*stage + which. */
#include "coll_priv.h"

enum { GATHER_BETWEEN, SCATTER_INSIDE, GATHER_INSIDE, SCATTER_BETWEEN };

static bool gathers(int64_t c)
{
    return c % 4 == GATHER_BETWEEN || c % 4 == GATHER_INSIDE;
}

static bool at_once(const struct pdl_coll_job *job, int64_t c)
{
    return gathers(c) && c / 4 < job->params.segments;
}

static struct coll_rounds gather_round(int64_t n)
{
    return (struct coll_rounds){2, {n - 1, 0}};
}

static int64_t part_length(const struct pdl_coll_job *job, int64_t c)
{
    bool inside = c % 4 == GATHER_INSIDE || c % 4 == SCATTER_INSIDE;
    int64_t k = job->params.k, n = inside ? k : job->nranks / k;
    struct coll_rounds r = gather_round(n);

    if (c / 4 == (gathers(c) ? 0 : job->params.segments))
        return 0;
    return at_once(job, c) ? coll_rounds_nsteps(&r) : n - 1;
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

/* Steps of a stage that has all four parts. */
static int64_t full_stage(const struct pdl_coll_job *job)
{
    struct coll_rounds in = gather_round(job->params.k);
    struct coll_rounds out = gather_round(job->nranks / job->params.k);

    return job->params.k - 1 + job->nranks / job->params.k - 1 +
           coll_rounds_nsteps(&in) + coll_rounds_nsteps(&out);
}

static int64_t nsteps(const struct pdl_coll_job *job, int rank)
{
    int64_t k = job->params.k, n = job->nranks / k;

    (void)rank; /* the first stage only scatters, the last only gathers */
    return (job->params.segments - 1) * full_stage(job) + 2 * (k - 1 + n - 1);
}

/* The part that step s is in, and where that part begins. */
static int64_t find_part(const struct pdl_coll_job *job, int64_t s,
                         int64_t *begin)
{
    int64_t c = 0, at = 0;

    while (at + part_length(job, c) <= s)
        at += part_length(job, c++);
    *begin = at;
    return c;
}

/* Waits for the ends of the last half before part c that has any steps. */
static void wait_half(const struct pdl_coll_job *job, int64_t c, int64_t begin,
                      struct pdl_step *out)
{
    if (c % 2)
        begin -= part_length(job, --c);
    for (c -= 2; c >= 0; c -= 2) {
        int64_t a = part_length(job, c), b = part_length(job, c + 1);

        if (b > 0)
            coll_after(out, begin - 1);
        if (a > 0)
            coll_after(out, begin - b - 1);
        if (a + b > 0)
            return;
    }
}

/* Step t of sending the own piece to all others; its waits count from the
 * part's first step. */
static void gather(const struct coll_group *g, const struct coll_view *v,
                   int64_t t, struct pdl_step *out)
{
    struct coll_rounds r = gather_round(g->n);
    int64_t round, i, from;

    if (!coll_rounds_locate(&r, t, &round, &i, out))
        return;
    from = coll_mod(g->me - i - 1, g->n);
    coll_send(out, coll_member(g, g->me + i + 1),
              coll_run(0, v->base + g->me * v->unit, v->unit));
    coll_recv(out, coll_member(g, from),
              coll_run(0, v->base + from * v->unit, v->unit));
}

static void step(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out)
{
    int k = (int)job->params.k, n = job->nranks / k;
    struct coll_group node = {rank - rank % k, 1, k, rank % k};
    struct coll_group peers = {rank % k, k, n, rank / k};
    int64_t begin, c = find_part(job, s, &begin), t = s - begin;
    struct coll_view super = {0, (c / 4 - gathers(c)) * job->nranks, n};
    struct coll_view own = {0, super.base + (int64_t)(rank % k) * n, 1};

    bool inside = c % 4 == SCATTER_INSIDE || c % 4 == GATHER_INSIDE;
    const struct coll_group *group = inside ? &node : &peers;
    const struct coll_view *view = inside ? &super : &own;

    if (at_once(job, c))
        gather(group, view, t, out);
    else if (gathers(c))
        coll_ring_gather(group, view, t, out);
    else
        coll_ring_scatter(group, view, t, out);
    for (int i = 0; i < out->nafter; i++)
        out->after[i] += begin;
    if (!at_once(job, c) && t > 0)
        coll_after(out, s - 1);
    if (out->nafter == 0)
        wait_half(job, c, begin, out);
}

/* A half waits for the half before; only its own steps can be behind. */
static int64_t window(const struct pdl_coll_job *job)
{
    return full_stage(job) + 1;
}

/* Both kinds of rings, whatever the segment. */
static void turns(const struct pdl_coll_job *job, struct pdl_turns *out)
{
    int64_t k = job->params.k;

    *out = (struct pdl_turns){.n = 2, .level = {{1, k}, {k, job->nranks / k}}};
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
    .steps = "2(S+1) halves of at most k-1 or P/k-1 messages in a row",
    .bytes = "2N(P-1)/P",
    .limits = "k divides P",
    COLL_KEYS(keys),
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
    .window = window,
    .turns = turns,
};
