/* SPDX-License-Identifier: Apache-2.0
 *
 * All-to-all on the n x m network in which every node (x,y) is linked to all
 * (x',y) and all (x,y') (2-D HyperX; after Nguyen et al., CCGrid 2024,
 * reconstruction). A block for (x',y') goes over (x',y), "x first", or over
 * (x,y'), "y first". Round 1 brings blocks to the node between, round 2 to
 * their owner; all links work at the same time.
 *
 * Buffers: 0 in, 1 out, 2 what came x first as [source x][destination y],
 * 3 what came y first as [source y][destination x]. Rank = x + n*y. Where
 * blocks are halved, chunk 2*block + order is the half of that order. */
#include "coll_priv.h"

struct full2d {
    bool orders[2]; /* x first, y first */
    bool halves;    /* each order carries one half of every block */
    bool parity;    /* the order of a block is the parity of coordinates */
    bool direct;    /* blocks for neighbours go whole in the first round */
};

struct place {
    int64_t n, m, x, y;
};

static struct place place_of(const struct pdl_coll_job *job, int rank)
{
    int64_t n = job->params.x;

    return (struct place){n, job->params.y, rank % n, rank / n};
}

static enum pdl_status setup(struct pdl_coll_job *job, struct pdl_err *err)
{
    const struct full2d *f = job->alg->family;
    enum pdl_status st = coll_settle_grid(job, 2, err);
    int64_t p = job->nranks, block, part;

    if (st == PDL_OK && job->params.z != 1)
        st = pdl_fail(err, PDL_EINVAL, "the network has two dimensions");
    if (st == PDL_OK)
        st = coll_need_multiple(job, p, err);
    if (st != PDL_OK)
        return st;
    block = job->count / p;
    part = f->halves ? block / 2 : block;
    job->nbufs = f->orders[1] ? 4 : 3;
    job->buf[0] = job->buf[1] =
        (struct pdl_coll_buf){job->count, f->halves ? 2 * p : p};
    job->buf[2] = (struct pdl_coll_buf){part * p, p};
    job->buf[3] =
        (struct pdl_coll_buf){(f->halves ? block - part : block) * p, p};
    return PDL_OK;
}

/* Indices of the other coordinate: all `len`, or those of one parity, or all
 * but one. Writes them as spans of chunks base + i*mult. */
struct set {
    int64_t first, step, n, skip;
};

static struct set choose(const struct full2d *f, int64_t len, int64_t sum,
                         int64_t own)
{
    struct set s = {0, 1, len, f->direct ? own : len};

    if (f->parity) {
        s.first = sum % 2;
        s.step = 2;
        s.n = (len - s.first + 1) / 2;
        s.skip = s.n;
    }
    return s;
}

static int spans_of(struct set s, int buf, int64_t base, int64_t mult,
                    struct pdl_span *out)
{
    int64_t stride = s.step * mult, n = s.skip < s.n ? s.skip : s.n;
    int used = 0;

    base += s.first * mult;
    if (n > 0)
        out[used++] = (struct pdl_span){buf, base, 1, stride, n};
    n = s.n - s.skip - 1;
    if (n > 0)
        out[used++] =
            (struct pdl_span){buf, base + (s.skip + 1) * stride, 1, stride, n};
    return used;
}

static void add(struct pdl_span *to, int *n, const struct pdl_span *spans,
                int count)
{
    for (int i = 0; i < count; i++)
        to[(*n)++] = spans[i];
}

/* Round 1, order o: to the node whose first coordinate is v (v = own: the
 * blocks that need no first hop). u is the first coordinate of the order, w
 * the other; lengths lu and lw; a block for (v,i) is chunk v*mu + i*mw. */
struct axis {
    int64_t u, w, lu, lw, mu, mw;
};

static struct axis axis_of(const struct place *at, int order)
{
    if (order == 0)
        return (struct axis){at->x, at->y, at->n, at->m, 1, at->n};
    return (struct axis){at->y, at->x, at->m, at->n, at->n, 1};
}

static int64_t rank_at(const struct axis *a, int64_t u, int64_t w)
{
    return u * a->mu + w * a->mw;
}

/* The v-th of the others: skips the own coordinate. */
static int64_t other(int64_t i, int64_t own)
{
    return i + (i >= own);
}

static void first_hop(const struct full2d *f, const struct axis *a, int order,
                      int64_t v, struct pdl_step *out)
{
    int64_t per = f->halves ? 2 : 1, sub = f->halves ? order : 0;
    int64_t peer = rank_at(a, v, a->w);
    struct set there = choose(f, a->lw, a->u + a->w + v + order, a->w);
    struct pdl_span spans[2];
    int n;

    if (f->direct) {
        coll_send(out, (int)peer, coll_run(0, peer * per, per));
        coll_recv(out, (int)peer, coll_run(1, peer * per, per));
    }
    n = spans_of(there, 0, v * a->mu * per + sub, a->mw * per, spans);
    add(out->send, &out->nsend, spans, n);
    n = spans_of(there, 2 + order, v * a->lw, 1, spans);
    add(out->recv, &out->nrecv, spans, n);
    out->send_to = out->nsend ? (int)peer : -1;
    out->recv_from = out->nrecv ? (int)peer : -1;
}

/* Round 2, order o: from here, the node between, to the other coordinate w2;
 * v chooses among sources by their first coordinate. */
static void second_hop(const struct full2d *f, const struct axis *a, int order,
                       int64_t w2, struct pdl_step *out)
{
    int64_t per = f->halves ? 2 : 1, sub = f->halves ? order : 0;
    int64_t peer = rank_at(a, a->u, w2);
    struct set from = choose(f, a->lu, a->w + a->u + w2 + order, a->u);

    out->nsend = spans_of(from, 2 + order, w2, a->lw, out->send);
    out->nrecv =
        spans_of(from, 1, w2 * a->mw * per + sub, a->mu * per, out->recv);
    out->send_to = out->nsend ? (int)peer : -1;
    out->recv_from = out->nrecv ? (int)peer : -1;
}

static int64_t ports(const struct pdl_coll_job *job, const struct full2d *f,
                     int round)
{
    int64_t n = 0;

    for (int order = 0; order < 2; order++)
        if (f->orders[order])
            n += (order == round ? job->params.x : job->params.y) - f->direct;
    return n + (f->direct && round == 0);
}

static struct coll_rounds rounds(const struct pdl_coll_job *job,
                                 const struct full2d *f)
{
    return (struct coll_rounds){2, {ports(job, f, 0), ports(job, f, 1)}};
}

static int64_t nsteps(const struct pdl_coll_job *job, int rank)
{
    struct coll_rounds r = rounds(job, job->alg->family);

    (void)rank;
    return coll_rounds_nsteps(&r);
}

static void step(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out)
{
    const struct full2d *f = job->alg->family;
    struct coll_rounds r = rounds(job, f);
    struct place at = place_of(job, rank);
    struct axis a = axis_of(&at, 0);
    int64_t round, port, len;
    int order = 0;

    if (!coll_rounds_locate(&r, s, &round, &port, out))
        return;
    len = (round == 0 ? a.lu : a.lw) - f->direct;
    if (port >= len && f->orders[1]) {
        port -= len;
        a = axis_of(&at, order = 1);
        len = (round == 0 ? a.lu : a.lw) - f->direct;
    }
    if (port >= len) {
        int64_t per = job->buf[0].chunks / job->nranks;

        coll_send(out, rank, coll_run(0, rank * per, per));
        coll_recv(out, rank, coll_run(1, rank * per, per));
    } else if (round == 0) {
        first_hop(f, &a, order, f->direct ? other(port, a.u) : port, out);
    } else {
        second_hop(f, &a, order, f->direct ? other(port, a.w) : port, out);
    }
}

/* All ports of a round at once. */
static int64_t window(const struct pdl_coll_job *job)
{
    return nsteps(job, 0);
}

static const struct pdl_alg_key keys[] = {
    COLL_KEY(x, 1, 1 << 20, "columns of the network"),
    COLL_KEY(y, 1, 1 << 20, "rows of the network"),
};

/* All blocks x first: round 1
 * uses only the links along x, round 2 those along y. */
static const struct full2d xy = {.orders = {true, false}};

const struct pdl_alg coll_alltoall_xy = {
    .collective = &coll_alltoall,
    .name = "xy",
    .summary = "along x, then along y; half of the links idle in each round",
    .source = "Nguyen et al., CCGrid 2024 (reconstruction)",
    .steps = "2 rounds",
    .bytes = "(x+y)N/P on the busiest link",
    .limits = "xy = P; P divides the count",
    COLL_KEYS(keys),
    .family = &xy,
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
    .window = window,
};

/* Every block cut in two: one
 * half goes x first, the other y first, so that all links work in both
 * rounds. On a square the load equals the lower bound. */
static const struct full2d half_split = {.orders = {true, true},
                                         .halves = true};

const struct pdl_alg coll_alltoall_half_split = {
    .collective = &coll_alltoall,
    .name = "half-split",
    .summary = "half x first, half y first; reaches the lower bound",
    .source = "Nguyen et al., CCGrid 2024 (reconstruction)",
    .steps = "2 rounds",
    .bytes = "max(x,y)N/P on the busiest link",
    .limits = "xy = P; P divides the count",
    COLL_KEYS(keys),
    .family = &half_split,
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
    .window = window,
};

/* Whole blocks: a block from
 * (x,y) for (u,v) goes x first when x+y+u+v is even, else y first. The load of
 * half-split (for even sizes) without cutting blocks. */
static const struct full2d parity = {.orders = {true, true}, .parity = true};

const struct pdl_alg coll_alltoall_parity = {
    .collective = &coll_alltoall,
    .name = "parity",
    .summary = "whole blocks, x or y first by parity; no splitting",
    .source = "Nguyen et al., CCGrid 2024 (reconstruction)",
    .steps = "2 rounds",
    .bytes = "about max(x,y)N/P on the busiest link",
    .limits = "xy = P; P divides the count",
    COLL_KEYS(keys),
    .family = &parity,
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
    .window = window,
};

/* Blocks for neighbours go
 * whole in round 1, the others half x first and half y first. */
static const struct full2d direct = {
    .orders = {true, true}, .halves = true, .direct = true};

const struct pdl_alg coll_alltoall_direct = {
    .collective = &coll_alltoall,
    .name = "direct",
    .summary = "neighbours at once, the rest half-split",
    .source = "Nguyen et al., CCGrid 2024 (reconstruction)",
    .steps = "2 rounds",
    .bytes = "about max(x,y)N/P on the busiest link",
    .limits = "xy = P; P divides the count",
    COLL_KEYS(keys),
    .family = &direct,
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
    .window = window,
};
