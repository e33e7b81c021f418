/* SPDX-License-Identifier: Apache-2.0
 *
 * The wires of a group on a torus: how many links the longest message of a
 * step crosses, and how many messages of the step the busiest link carries,
 * while every group of the operation does the same. Ranks have places as the
 * network numbers its hosts (x runs fastest) and messages go as it routes them,
 * so that a step takes here what it takes in the simulator.
 *
 * A group whose factors are each along one dimension, or along whole ones, is a
 * box. Then a dimension is looked at by itself: with dimension order all lines
 * of it have the same messages. Any other group is walked message by message,
 * on the first LOOKED_AT PEs where there are more.
 *
 * What libraries do is the algorithm torus, dimension after dimension, on every
 * link of a PE at once: as many equal parts, each of which begins with another
 * dimension or goes the other way round. */
#include "oracle/wire/wire.h"

#include "paradl/net.h"

#include <math.h>
#include <string.h>

enum { LOOKED_AT = 512, LONGEST = 512, MANY_SHIFTS = 4096, FEW_SHIFTS = 16 };

struct grid {
    int n;
    int64_t dim[PDL_TORUS_DIMS], pes;
};

/* The factors of a group, the fastest first. */
struct places {
    int n;
    int64_t stride[PDL_MAX_FACTORS], size[PDL_MAX_FACTORS];
    int64_t ranks;
};

/* What a group is along one dimension. */
struct line {
    struct places at;
    int64_t length;
    double hops[LONGEST], load[LONGEST]; /* of a move by so many places */
};

static struct grid grid_of(const struct oracle *o)
{
    struct grid g = {.pes = o->p->mesh->pes};

    g.n = pdl_system_torus(o->sys, g.pes, g.dim);
    return g;
}

static void add_factor(struct places *p, int64_t stride, int64_t size)
{
    p->stride[p->n] = stride;
    p->size[p->n++] = size;
    p->ranks *= size;
}

static struct places places_of(const struct pdl_mesh *m, uint32_t group)
{
    struct places p = {.ranks = 1};
    int64_t stride = 1;

    for (int f = m->nfactors - 1; f >= 0; f--) {
        if ((group >> f & 1) && m->factor[f] > 1)
            add_factor(&p, stride, m->factor[f]);
        stride *= m->factor[f];
    }
    return p;
}

/* The place of a PE in its group, and how far a place is from the first. */
static int64_t place(const struct places *p, int64_t pe)
{
    int64_t at = 0, weight = 1;

    for (int i = 0; i < p->n; weight *= p->size[i++])
        at += pe / p->stride[i] % p->size[i] * weight;
    return at;
}

static int64_t offset(const struct places *p, int64_t at)
{
    int64_t sum = 0;

    for (int i = 0; i < p->n; at /= p->size[i++])
        sum += at % p->size[i] * p->stride[i];
    return sum;
}

/* ---- message by message ----------------------------------------------- */

/* Where the rank at a place sends to. */
struct move {
    enum { NEXT, CROSS, PARTNER, SHIFT, AHEAD } how;
    int64_t by; /* NEXT: in blocks of so many; CROSS, SHIFT: so far; PARTNER: by
                   exclusive or */
};

static int64_t moved(const struct move *m, int64_t at, int64_t n)
{
    switch (m->how) {
    case NEXT:
        return at - at % m->by + (at % m->by + 1) % m->by;
    case PARTNER:
        return at ^ m->by;
    case AHEAD:
        return at + 1 < n ? at + 1 : at;
    default:
        return (at + m->by) % n;
    }
}

struct walk {
    const struct grid *g;
    uint16_t on[LOOKED_AT][PDL_TORUS_DIMS][2];
    double most, hops;
};

static void go(struct walk *w, int64_t from, int64_t to)
{
    int64_t stride = 1, at = from;
    double hops = 0;

    for (int k = 0; k < w->g->n; stride *= w->g->dim[k++]) {
        int64_t d = w->g->dim[k], x = at / stride % d, y = to / stride % d;
        bool up = pdl_torus_goes_up(x, y, d);

        for (; x != y; hops++) {
            int64_t next = up ? (x + 1) % d : (x + d - 1) % d;

            if (at < LOOKED_AT)
                w->most = fmax(w->most, ++w->on[at][k][up]);
            at += (next - x) * stride;
            x = next;
        }
    }
    w->hops = fmax(w->hops, hops);
}

/* Of the first PEs all, and of the last as many: those begin rings anew. */
static struct oracle_hop walked(const struct grid *g, const struct places *p,
                                struct move m)
{
    struct walk w = {.g = g};

    for (int64_t pe = 0; pe < g->pes; pe++) {
        int64_t at, to;

        if (pe == LOOKED_AT && g->pes > (int64_t)2 * LOOKED_AT)
            pe = g->pes - LOOKED_AT;
        at = place(p, pe);
        to = moved(&m, at, p->ranks);
        go(&w, pe, pe - offset(p, at) + offset(p, to));
    }
    return (struct oracle_hop){w.hops, fmax(w.most, 1)};
}

/* ---- dimension by dimension ------------------------------------------- */

/* The part of a factor that is along dimension k, in hosts of it; false: the
 * factor is not of whole hosts, or breaks off within the dimension. */
static bool along(const struct grid *g, int k, int64_t below, int64_t stride,
                  int64_t size, struct places *out)
{
    int64_t above = below * g->dim[k], end = stride * size;
    int64_t first = stride > below ? stride : below;
    int64_t last = end < above ? end : above;

    if (last <= first)
        return true;
    if (first % below || first % stride || above % first || end % last ||
        last % first)
        return false;
    add_factor(out, first / below, last / first);
    return true;
}

static bool line_of(const struct grid *g, const struct places *p, int k,
                    struct line *out)
{
    int64_t below = 1;

    for (int i = 0; i < k; i++)
        below *= g->dim[i];
    out->length = g->dim[k];
    out->at = (struct places){.ranks = 1};
    for (int i = 0; i < p->n; i++)
        if (!along(g, k, below, p->stride[i], p->size[i], &out->at))
            return false;
    return out->length <= LONGEST && out->length % out->at.ranks == 0;
}

/* Messages of a line whose ranks all move by so many places: where each begins
 * and ends is noted, what runs over a link is what has begun. */
static void move_by(struct line *l, int64_t by)
{
    int64_t d = l->length;
    int change[2][LONGEST + 1] = {{0}};
    double on[2] = {0, 0};

    l->hops[by] = l->load[by] = 0;
    for (int64_t x = 0; x < d; x++) {
        int64_t at = place(&l->at, x);
        int64_t to =
            x - offset(&l->at, at) + offset(&l->at, (at + by) % l->at.ranks);
        bool up = pdl_torus_goes_up(x, to, d);
        int64_t n = up ? (to - x + d) % d : (x - to + d) % d;
        int64_t from = up ? x : to; /* links are numbered by their lower end */

        l->hops[by] = fmax(l->hops[by], (double)n);
        change[up][from]++;
        change[up][from + n <= d ? from + n : d]--;
        if (from + n > d) {
            change[up][0]++;
            change[up][from + n - d]--;
        }
    }
    for (int64_t x = 0; x < d; x++)
        for (int up = 0; up < 2; up++)
            l->load[by] = fmax(l->load[by], on[up] += change[up][x]);
}

/* Both ways round a whole ring; a ring of two, and a line, is one way. */
static double ways(const struct line *l)
{
    return l->at.ranks < 2                             ? 0
           : l->at.ranks == l->length && l->length > 2 ? 2
                                                       : 1;
}

/* Of a vector the share that is left is on the links of the line. */
static void add_line(struct oracle_torus *t, const struct line *l, double *left)
{
    double n = (double)l->at.ranks;

    if (l->at.ranks < 2)
        return;
    t->steps += (n - 1) * l->hops[1];
    t->share += *left * (n - 1) / n * l->load[1];
    t->ways += ways(l);
    *left /= n;
}

/* All moves of the box but none, or some of very many. */
static void all_moves(const struct line *l, int n, int64_t ranks,
                      struct oracle_torus *t)
{
    int64_t every = ranks / MANY_SHIFTS | 1, looked = 0;

    for (int64_t s = 1; s < ranks; s += every, looked++) {
        double hops = 0, load = 0;

        for (int64_t k = 0, rest = s; k < n; rest /= l[k++].at.ranks) {
            hops += l[k].hops[rest % l[k].at.ranks];
            load = fmax(load, l[k].load[rest % l[k].at.ranks]);
        }
        t->pairs.hops += hops;
        t->pairs.load += load;
    }
    t->pairs.hops /= (double)looked;
    t->pairs.load /= (double)looked;
}

static bool is_box(const struct grid *g, const struct places *p,
                   struct oracle_torus *t, bool pairs)
{
    struct line l[PDL_TORUS_DIMS];
    double left = 1;

    for (int k = 0; k < g->n; k++) {
        if (!line_of(g, p, k, &l[k]))
            return false;
        for (int64_t by = 0; by < (pairs ? l[k].at.ranks : 2); by++)
            move_by(&l[k], by);
    }
    for (int k = 0; k < g->n; k++)
        add_line(t, &l[k], &left);
    if (pairs)
        all_moves(l, g->n, p->ranks, t);
    return true;
}

static void some_shifts(const struct grid *g, const struct places *p,
                        struct oracle_torus *t)
{
    int64_t every = p->ranks / FEW_SHIFTS | 1;
    double n = 0;

    for (int64_t s = 1; s < p->ranks; s += every, n++) {
        struct oracle_hop h = walked(g, p, (struct move){SHIFT, s});

        t->pairs.hops += h.hops;
        t->pairs.load += h.load;
    }
    t->pairs.hops /= n;
    t->pairs.load /= n;
}

/* ---- for others ------------------------------------------------------- */

struct oracle_torus oracle_torus_of(const struct oracle *o, uint32_t group,
                                    enum oracle_pattern pattern)
{
    struct grid g = grid_of(o);
    struct places p = places_of(o->p->mesh, group);
    struct oracle_torus t = {.is = g.n > 0};
    bool pairs = pattern == ORACLE_PAIRS;

    if (!t.is || p.ranks < 2)
        return t;
    t.ring = walked(&g, &p,
                    pattern == ORACLE_RING ? (struct move){NEXT, p.ranks}
                                           : (struct move){AHEAD, 0});
    t.box = is_box(&g, &p, &t, pairs);
    if (pairs && !t.box)
        some_shifts(&g, &p, &t);
    return t;
}

static double step_s(const struct oracle_wire *w, const struct oracle_hop *h,
                     double bytes)
{
    return h->hops * w->torus.link_s +
           h->load * bytes / w->torus.link_bytes_per_s;
}

double oracle_torus_rings(const struct oracle_wire *w, double bytes, bool all)
{
    const struct oracle_torus *t = &w->torus;
    double parts = all ? fmin(t->ways, t->links) : 1;

    return t->steps * t->link_s +
           t->share * bytes / parts / t->link_bytes_per_s;
}

double oracle_torus_pairs(const struct oracle_wire *w, double n, double bytes)
{
    return n * step_s(w, &w->torus.pairs, bytes);
}

double oracle_torus_named(const struct oracle *o, const struct oracle_wire *w,
                          const char *name, double bytes)
{
    struct grid g = grid_of(o);
    struct places p = places_of(o->p->mesh, w->group);
    int64_t n = p.ranks, local = w->local > 1 ? w->local : 1, nodes = n / local;
    struct oracle_hop h;
    double t = 0, part = bytes / 2;

    if (strcmp(name, "torus") == 0 && w->torus.box)
        return 2 * oracle_torus_rings(w, bytes, false);
    if (strcmp(name, "halving-doubling") == 0 && (n & (n - 1)) == 0) {
        for (int64_t d = 1; d < n; d *= 2, part /= 2) {
            h = walked(&g, &p, (struct move){PARTNER, d});
            t += 2 * step_s(w, &h, part);
        }
        return t;
    }
    if (strcmp(name, "ring-ring") != 0 || local == 1 || nodes < 2 ||
        n % local != 0)
        return INFINITY;
    h = walked(&g, &p, (struct move){NEXT, local});
    t = 2 * (double)(local - 1) * step_s(w, &h, bytes / (double)local);
    h = walked(&g, &p, (struct move){CROSS, local});
    return t + 2 * (double)(nodes - 1) * step_s(w, &h, bytes / (double)n);
}
