/* SPDX-License-Identifier: Apache-2.0
 *
 * Double binary tree (Sanders, Speck and Traeff, Parallel Computing 2009),
 * pipelined. Half of the vector is reduced to the root of one tree and sent
 * back down, half on a second tree in which the inner ranks of the first are
 * leaves, so that every rank sends about as much as it receives. Each half
 * moves in S segments.
 *
 * First tree: rank r != 0 hangs under the rank that replaces its lowest set
 * bit by the next higher one (in-order numbering); rank 0 is the root and has
 * one child. Second tree: the same with ranks counted backwards (even P) or
 * shifted by one (odd P). */
#include "coll_priv.h"

enum { UP0, UP1, UP, DOWN, DOWN0, DOWN1, NOPS };

struct place {
    int parent, child[2]; /* ranks; -1: none */
};

static int in_order_parent(int r, int p)
{
    int bit = r & -r, up = (r ^ bit) | bit << 1;

    return up < p ? up : r ^ bit;
}

static struct place in_order(int r, int p)
{
    struct place at = {-1, {-1, -1}};
    int half;

    if (r == 0) {
        for (half = 1; half < p; half <<= 1)
            at.child[0] = half;
        return at;
    }
    at.parent = in_order_parent(r, p);
    half = (r & -r) >> 1;
    if (half > 0)
        at.child[0] = r - half;
    while (half > 0 && r + half >= p)
        half >>= 1;
    if (half > 0)
        at.child[1] = r + half;
    return at;
}

static int renumber(int r, int p, int by)
{
    if (r < 0)
        return r;
    return p % 2 == 0 ? p - 1 - r : (int)coll_mod(r + by, p);
}

static struct place place_in(int tree, int r, int p)
{
    struct place at;

    if (tree == 0)
        return in_order(r, p);
    at = in_order(renumber(r, p, -1), p);
    at.parent = renumber(at.parent, p, 1);
    at.child[0] = renumber(at.child[0], p, 1);
    at.child[1] = renumber(at.child[1], p, 1);
    return at;
}

static bool has(const struct place *at, int op)
{
    const bool there[NOPS] = {
        [UP0] = at->child[0] >= 0,   [UP1] = at->child[1] >= 0,
        [UP] = at->parent >= 0,      [DOWN] = at->parent >= 0,
        [DOWN0] = at->child[0] >= 0, [DOWN1] = at->child[1] >= 0,
    };

    return there[op];
}

/* How many of the operations before op this place has. */
static int64_t before(const struct place *at, int op)
{
    int64_t n = 0;

    for (int i = 0; i < op; i++)
        n += has(at, i);
    return n;
}

static enum pdl_status setup(struct pdl_coll_job *job, struct pdl_err *err)
{
    (void)err;
    coll_settle_segments(job, 8);
    coll_one_buffer(job, 2 * job->params.segments);
    return PDL_OK;
}

static int64_t per_segment(const struct pdl_coll_job *job, int rank)
{
    struct place a = place_in(0, rank, job->nranks);
    struct place b = place_in(1, rank, job->nranks);

    return before(&a, NOPS) + before(&b, NOPS);
}

static int64_t nsteps(const struct pdl_coll_job *job, int rank)
{
    return per_segment(job, rank) * job->params.segments;
}

/* Waits for operation op of the same tree and segment, if there is one. */
static void wait_for(struct pdl_step *out, const struct place *at, int64_t base,
                     int op)
{
    if (has(at, op))
        coll_after(out, base + before(at, op));
}

static void move(struct pdl_step *out, const struct place *at, int op,
                 struct pdl_span what)
{
    switch (op) {
    case UP0:
    case UP1:
        out->act = PDL_ACT_REDUCE;
        coll_recv(out, at->child[op - UP0], what);
        break;
    case UP:
        coll_send(out, at->parent, what);
        break;
    case DOWN:
        coll_recv(out, at->parent, what);
        break;
    default:
        coll_send(out, at->child[op - DOWN0], what);
    }
}

static void step(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out)
{
    int64_t each = per_segment(job, rank), segment = s / each, i = s % each;
    int64_t base = s - i;
    struct place at = place_in(0, rank, job->nranks);
    int tree = i >= before(&at, NOPS), op = 0;

    if (tree) {
        i -= before(&at, NOPS);
        base += before(&at, NOPS);
        at = place_in(1, rank, job->nranks);
    }
    while (!has(&at, op) || before(&at, op) < i)
        op++;
    move(out, &at, op, coll_run(0, tree * job->params.segments + segment, 1));
    if (segment > 0)
        coll_after(out, s - each);
    if (op == UP || (op >= DOWN0 && at.parent < 0)) {
        wait_for(out, &at, base, UP0);
        wait_for(out, &at, base, UP1);
    } else if (op == DOWN) {
        wait_for(out, &at, base, UP);
    } else if (op >= DOWN0) {
        wait_for(out, &at, base, DOWN);
    }
}

/* The way up never waits for the way down. */
static int64_t window(const struct pdl_coll_job *job)
{
    return (int64_t)2 * NOPS * job->params.segments;
}

static const struct pdl_alg_key keys[] = {
    COLL_KEY(segments, 1, 4096, "segments of each half (8)"),
};

const struct pdl_alg coll_allreduce_double_tree = {
    .collective = &coll_allreduce,
    .name = "double-tree",
    .summary = "two complementary binary trees, pipelined; low latency and "
               "near full rate",
    .source = "Sanders, Speck and Traeff, Parallel Computing 2009",
    .steps = "at most 8S",
    .bytes = "at most 2N",
    .limits = "",
    COLL_KEYS(keys),
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
    .window = window,
};
