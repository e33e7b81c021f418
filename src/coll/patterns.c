/* SPDX-License-Identifier: Apache-2.0
 *
 * The patterns most collective algorithms are made of. Each is a pure
 * function "step s of this member"; an algorithm puts them one after the
 * other and says what waits for what. */
#include "coll_priv.h"

/* ---- ring ---------------------------------------------------------------
 * Piece c starts at member c+1, gathers a term at every hop and ends, whole,
 * at member c (Patarasuk and Yuan, JPDC 2009, with the index shift of
 * SimGrid's lr). */

static struct pdl_span piece(const struct coll_group *g,
                             const struct coll_view *v, int64_t i)
{
    return coll_run(v->buf, v->base + coll_mod(i, g->n) * v->unit, v->unit);
}

void coll_ring_scatter(const struct coll_group *g, const struct coll_view *v,
                       int64_t t, struct pdl_step *out)
{
    out->act = PDL_ACT_REDUCE;
    coll_send(out, coll_member(g, g->me + 1), piece(g, v, g->me - 1 - t));
    coll_recv(out, coll_member(g, g->me - 1), piece(g, v, g->me - 2 - t));
}

void coll_ring_gather(const struct coll_group *g, const struct coll_view *v,
                      int64_t t, struct pdl_step *out)
{
    out->act = PDL_ACT_COPY;
    coll_send(out, coll_member(g, g->me + 1), piece(g, v, g->me - t));
    coll_recv(out, coll_member(g, g->me - 1), piece(g, v, g->me - 1 - t));
}

/* ---- levels of rings ----------------------------------------------------
 * Chunk (a0, a1, a2) belongs to the rank with these digits, a2 fastest in
 * memory, a0 fastest in rank numbers. */

static int64_t levels_chunks(const struct coll_levels *l)
{
    int64_t n = 1;

    for (int i = 0; i < l->n; i++)
        n *= l->extent[i];
    return n;
}

int64_t coll_levels_nsteps(const struct coll_levels *l)
{
    int64_t n = 0;

    for (int i = 0; i < l->n; i++)
        n += 2 * (l->extent[i] - 1);
    return n;
}

/* The phase of step s and the step t within it. */
static void find_phase(const struct coll_levels *l, int64_t s, int *phase,
                       int64_t *t)
{
    for (*phase = 0; *phase < 2 * l->n; ++*phase) {
        int level = *phase < l->n ? *phase : 2 * l->n - 1 - *phase;

        if (s < l->extent[level] - 1)
            break;
        s -= l->extent[level] - 1;
    }
    *t = s;
}

void coll_levels_step(const struct coll_levels *l, int rank, int64_t base,
                      int64_t s, struct pdl_step *out, int *phase, int64_t *t)
{
    struct coll_group g = {.stride = 1};
    struct coll_view v = {.base = base, .unit = levels_chunks(l)};
    int level;
    int64_t rest = rank;

    find_phase(l, s, phase, t);
    level = *phase < l->n ? *phase : 2 * l->n - 1 - *phase;
    for (int i = 0;; i++) {
        int64_t extent = l->extent[i], digit = rest % extent;

        v.unit /= extent;
        if (i == level) {
            g.n = (int)extent;
            g.me = (int)digit;
            g.base = rank - (int)digit * g.stride;
            break;
        }
        v.base += digit * v.unit;
        g.stride *= (int)extent;
        rest /= extent;
    }
    if (*phase < l->n)
        coll_ring_scatter(&g, &v, *t, out);
    else
        coll_ring_gather(&g, &v, *t, out);
}

/* Steps of a phase are alike, and so are the last lap in and the first lap
 * out, which turn round the same ring. */
int64_t coll_levels_alike(const struct coll_levels *l, int64_t s)
{
    int phase, level, inner = l->n - 1;
    int64_t t, left;

    while (inner > 0 && l->extent[inner] == 1)
        inner--;
    find_phase(l, s, &phase, &t);
    if (phase >= 2 * l->n)
        return 1;
    level = phase < l->n ? phase : 2 * l->n - 1 - phase;
    left = l->extent[level] - 1 - t;
    return level == inner && phase < l->n ? left + l->extent[level] - 1 : left;
}

void coll_levels_cost(const struct coll_levels *l, double bytes,
                      struct pdl_coll_cost *out)
{
    *out = (struct pdl_coll_cost){0, 0, 0};
    for (int i = 0; i < l->n; i++) {
        double n = (double)l->extent[i];

        out->rounds += 2 * (n - 1);
        out->bytes += 2 * (n - 1) / n * bytes;
        out->reduced += (n - 1) / n * bytes;
        bytes /= n;
    }
}

/* ---- butterflies --------------------------------------------------------- */

int64_t coll_xor_near(const struct coll_butterfly *b, int64_t i, int j)
{
    (void)b;
    return i ^ ((int64_t)1 << j);
}

int64_t coll_xor_far(const struct coll_butterfly *b, int64_t i, int j)
{
    return i ^ ((int64_t)1 << (b->rounds - 1 - j));
}

/* The low n bits of v, the last first. */
static uint32_t reversed(uint32_t v, int n)
{
    v = (v >> 1 & 0x55555555u) | (v & 0x55555555u) << 1;
    v = (v >> 2 & 0x33333333u) | (v & 0x33333333u) << 2;
    v = (v >> 4 & 0x0f0f0f0fu) | (v & 0x0f0f0f0fu) << 4;
    v = (v >> 8 & 0x00ff00ffu) | (v & 0x00ff00ffu) << 8;
    return n > 0 ? (v >> 16 | v << 16) >> (32 - n) : 0;
}

uint32_t coll_bits_near(const struct coll_butterfly *b, int64_t i)
{
    (void)b;
    return (uint32_t)i;
}

uint32_t coll_bits_far(const struct coll_butterfly *b, int64_t i)
{
    return reversed((uint32_t)i, b->rounds);
}

void coll_halves(const struct coll_butterfly *b, const struct coll_view *v,
                 int64_t i, int j, struct pdl_span *keep, struct pdl_span *give)
{
    uint32_t bits = b->bits(b, i), before = ((uint32_t)1 << j) - 1;
    int64_t half = (int64_t)1 << (b->rounds - 1 - j);
    int64_t low = reversed(bits & before, b->rounds), high = low + half;

    if (bits >> j & 1) {
        high = low;
        low += half;
    }
    *keep = coll_run(v->buf, v->base + low * v->unit, half * v->unit);
    *give = coll_run(v->buf, v->base + high * v->unit, half * v->unit);
}

/* ---- butterfly among any number of members ------------------------------
 * n = 2^rounds + rem. Of the first 2*rem members the even ones add their
 * vector to their odd neighbour's and wait (Rabenseifner, ICCS 2004). */

int64_t coll_fold_pieces(const struct coll_fold *f)
{
    return f->halve ? (int64_t)1 << f->b.rounds : 1;
}

static int64_t fold_rem(const struct coll_fold *f, const struct coll_group *g)
{
    return g->n - ((int64_t)1 << f->b.rounds);
}

static int64_t fold_body(const struct coll_fold *f)
{
    return f->halve ? 2 * (int64_t)f->b.rounds : f->b.rounds;
}

int64_t coll_fold_nsteps(const struct coll_fold *f, const struct coll_group *g)
{
    if (g->me >= 2 * fold_rem(f, g))
        return fold_body(f);
    return g->me % 2 == 0 ? 2 : fold_body(f) + 2;
}

/* Step s of member i of the 2^rounds that take part. */
static void fold_exchange(const struct coll_fold *f, const struct coll_group *g,
                          const struct coll_view *v, int64_t i, int64_t s,
                          struct pdl_step *out)
{
    int64_t rem = fold_rem(f, g), with;
    int j = (int)(s < f->b.rounds ? s : 2 * (int64_t)f->b.rounds - 1 - s);
    struct pdl_span keep, give;
    int peer;

    with = f->b.partner(&f->b, i, j);
    peer = coll_member(g, with < rem ? 2 * with + 1 : with + rem);
    if (!f->halve) {
        keep = give = coll_run(v->buf, v->base, v->unit);
    } else if (s < f->b.rounds) {
        coll_halves(&f->b, v, i, j, &keep, &give);
    } else {
        coll_halves(&f->b, v, i, j, &give, &keep);
    }
    out->act = s < f->b.rounds ? PDL_ACT_REDUCE : PDL_ACT_COPY;
    coll_send(out, peer, give);
    coll_recv(out, peer, keep);
}

void coll_fold_step(const struct coll_fold *f, const struct coll_group *g,
                    const struct coll_view *v, int64_t s, struct pdl_step *out)
{
    int64_t rem = fold_rem(f, g), pieces = coll_fold_pieces(f);
    struct pdl_span all = coll_run(v->buf, v->base, pieces * v->unit);
    bool folded = g->me < 2 * rem;

    if (!folded) {
        fold_exchange(f, g, v, g->me - rem, s, out);
    } else if (g->me % 2 == 0) {
        if (s == 0)
            coll_send(out, coll_member(g, g->me + 1), all);
        else
            coll_recv(out, coll_member(g, g->me + 1), all);
    } else if (s == 0) {
        out->act = PDL_ACT_REDUCE;
        coll_recv(out, coll_member(g, g->me - 1), all);
    } else if (s <= fold_body(f)) {
        fold_exchange(f, g, v, g->me / 2, s - 1, out);
    } else {
        coll_send(out, coll_member(g, g->me - 1), all);
    }
}

void coll_fold_cost(const struct coll_fold *f, int64_t n, double bytes,
                    struct pdl_coll_cost *out)
{
    double m = (double)((int64_t)1 << f->b.rounds), part = (m - 1) / m;
    bool fold = n > (int64_t)1 << f->b.rounds;

    out->rounds += (double)fold_body(f) + 2 * fold;
    out->bytes += bytes * (2 * fold + (f->halve ? 2 * part : f->b.rounds));
    out->reduced += bytes * (fold + (f->halve ? part : f->b.rounds));
}

/* ---- binomial tree ------------------------------------------------------
 * Member i has children i + 2^j below its lowest set bit. */

static int children(const struct coll_group *g)
{
    int64_t low = g->me ? g->me & -g->me : (int64_t)1 << 31;
    int n = 0;

    while ((int64_t)1 << n < low && g->me + ((int64_t)1 << n) < g->n)
        n++;
    return n;
}

int64_t coll_binomial_nsteps(const struct coll_group *g)
{
    return children(g) + (g->me != 0);
}

void coll_binomial_reduce(const struct coll_group *g, struct pdl_span what,
                          int64_t s, struct pdl_step *out)
{
    if (s < children(g)) {
        out->act = PDL_ACT_REDUCE;
        coll_recv(out, coll_member(g, g->me + ((int64_t)1 << s)), what);
    } else {
        coll_send(out, coll_member(g, g->me - (g->me & -g->me)), what);
    }
}

void coll_binomial_bcast(const struct coll_group *g, struct pdl_span what,
                         int64_t s, struct pdl_step *out)
{
    int64_t j = children(g) - 1 - s + (g->me != 0);

    if (g->me != 0 && s == 0)
        coll_recv(out, coll_member(g, g->me - (g->me & -g->me)), what);
    else
        coll_send(out, coll_member(g, g->me + ((int64_t)1 << j)), what);
}

/* ---- rounds of many ports ------------------------------------------------
 * A round is its ports' steps, then joins: the first level joins four ports
 * each, the next four joins each, down to one, which the next round waits
 * for. The last round has no joins. */

static int64_t joins(int64_t ports)
{
    int64_t n = 0;

    while (ports > 1) {
        ports = (ports + PDL_STEP_AFTER - 1) / PDL_STEP_AFTER;
        n += ports;
    }
    return n;
}

int64_t coll_rounds_nsteps(const struct coll_rounds *r)
{
    int64_t n = 0;

    for (int i = 0; i < r->rounds; i++)
        n += r->ports[i] + (i + 1 < r->rounds ? joins(r->ports[i]) : 0);
    return n;
}

/* Join number j of a round of `width` ports that starts at step `from`. */
static void join(int64_t from, int64_t width, int64_t j, struct pdl_step *out)
{
    for (;;) {
        int64_t next = (width + PDL_STEP_AFTER - 1) / PDL_STEP_AFTER;

        if (j < next)
            break;
        j -= next;
        from += width;
        width = next;
    }
    for (int64_t i = j * PDL_STEP_AFTER;
         i < width && i < (j + 1) * PDL_STEP_AFTER; i++)
        coll_after(out, from + i);
}

bool coll_rounds_locate(const struct coll_rounds *r, int64_t s, int64_t *round,
                        int64_t *port, struct pdl_step *out)
{
    int64_t begin = 0;
    int i = 0;

    for (;; i++) {
        int64_t each = r->ports[i] + joins(r->ports[i]);

        if (i + 1 == r->rounds || s < begin + each)
            break;
        begin += each;
    }
    *round = i;
    *port = s - begin;
    if (*port >= r->ports[i]) {
        join(begin, r->ports[i], *port - r->ports[i], out);
        return false;
    }
    coll_after(out, begin - 1);
    return true;
}

/* ---- split exchange ------------------------------------------------------
 * Port t sends to r+t+1 and receives from r-t-1. With two ranks there is one
 * port and nothing to join. */

int64_t coll_split_nsteps(int nranks)
{
    return nranks > 1 ? nranks - 1 + joins(nranks - 1) : 0;
}

void coll_split_step(int nranks, int rank, int64_t s, struct pdl_step *out)
{
    struct coll_rounds r = {2, {nranks - 1, 0}};
    int64_t round, t;
    int to, from;

    if (!coll_rounds_locate(&r, s, &round, &t, out))
        return;
    to = (int)((rank + t + 1) % nranks);
    from = (int)coll_mod(rank - t - 1, nranks);
    out->act = PDL_ACT_REDUCE;
    coll_send(out, to, coll_run(0, to, 1));
    coll_recv(out, from, coll_run(0, rank, 1));
    out->send_terms = out->recv_terms = 1;
}

enum pdl_status coll_shift_setup(struct pdl_coll_job *job, struct pdl_err *err)
{
    enum pdl_status st = coll_need_multiple(job, job->nranks, err);

    if (st != PDL_OK)
        return st;
    job->nbufs = 2;
    job->buf[0] = job->buf[1] = (struct pdl_coll_buf){job->count, job->nranks};
    return PDL_OK;
}

int64_t coll_shift_nsteps(const struct pdl_coll_job *job, int rank)
{
    (void)rank;
    return job->nranks;
}

void coll_shift_step(const struct pdl_coll_job *job, int rank, int64_t s,
                     struct pdl_step *out)
{
    int p = job->nranks, to = (int)((rank + s) % p);
    int from = (int)coll_mod(rank - s, p);

    coll_send(out, to, coll_run(0, to, 1));
    coll_recv(out, from, coll_run(1, from, 1));
}

/* ---- turns --------------------------------------------------------------- */

void coll_turn_ring(const struct pdl_coll_job *job, struct pdl_turns *out)
{
    *out = (struct pdl_turns){.n = 1, .level = {{1, job->nranks}}};
}

void coll_turn_letters(const struct pdl_coll_job *job, struct pdl_turns *out)
{
    *out = (struct pdl_turns){.letters = (int)job->params.d + 1};
}
