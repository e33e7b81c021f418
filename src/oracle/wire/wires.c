/* SPDX-License-Identifier: Apache-2.0
 *
 * The wires that a group crosses, and who shares them. The job's nodes lie
 * anywhere: what counts is the highest level between two ranks of the group.
 *
 * Who leaves a block of PEs at the same time: all groups of an operation run
 * at once, so how many flows cross the border of a node, of a leaf or of a rack
 * follows from the mesh and from what the operation sends to whom; with the
 * capacity of that border it gives the contention of the plan (Martinasso and
 * Mehaut, Euro-Par 2011, for dynamic contention graphs). Nobody writes a
 * divisor.
 *
 * Blocks are those of the system's levels: consecutive PEs. What leaves one
 * shares its uplinks: the adapters of a node; above that, as many as its nodes
 * have, thinned by the over-subscription of the level that is crossed. */
#include "oracle/wire/wire.h"

#include <math.h>
#include <string.h>

/* ---- who shares them -------------------------------------------------- */

/* First and last rank of the group of `rank`. */
static void group_ends(const struct pdl_mesh *m, int64_t rank, uint32_t group,
                       int64_t *first, int64_t *last)
{
    int64_t stride = 1, rest = rank; /* its last digit is the coordinate */

    *first = *last = rank;
    for (int f = m->nfactors - 1; f >= 0; f--) {
        int64_t n = m->factor[f];

        if (group >> f & 1) {
            int64_t c = rest % n;

            *first -= c * stride;
            *last += (n - 1 - c) * stride;
        }
        stride *= n;
        rest /= n;
    }
}

/* A rank and its coordinates: blocks are walked without dividing. */
struct at {
    int64_t rank, coord[PDL_MAX_FACTORS];
};

static void step_on(const struct pdl_mesh *m, struct at *x)
{
    x->rank++;
    for (int f = m->nfactors - 1; f >= 0; f--) {
        if (++x->coord[f] < m->factor[f])
            return;
        x->coord[f] = 0;
    }
}

/* The next of the group in the order of ranks; after the last the first. */
static int64_t successor(const struct pdl_mesh *m, const struct at *x,
                         uint32_t group)
{
    int64_t stride = 1, next = x->rank;

    for (int f = m->nfactors - 1; f >= 0; f--) {
        if (group >> f & 1) {
            if (x->coord[f] + 1 < m->factor[f])
                return next + stride;
            next -= x->coord[f] * stride;
        }
        stride *= m->factor[f];
    }
    return next;
}

struct block {
    int64_t base, size;
};

static bool outside(const struct block *b, int64_t rank)
{
    return rank < b->base || rank >= b->base + b->size;
}

static bool ring_leaves(const struct pdl_mesh *m, const struct block *b,
                        const struct at *x, uint32_t group)
{
    return outside(b, successor(m, x, group));
}

static bool pairs_leave(const struct pdl_mesh *m, const struct block *b,
                        const struct at *x, uint32_t group)
{
    int64_t first, last;

    group_ends(m, x->rank, group, &first, &last);
    return outside(b, first) || outside(b, last);
}

static bool neighbours_leave(const struct pdl_mesh *m, const struct block *b,
                             const struct at *x, uint32_t group)
{
    int64_t stride = 1;

    for (int f = m->nfactors - 1; f >= 0; f--) {
        int64_t n = m->factor[f], c = x->coord[f];

        if ((group >> f & 1) && ((c > 0 && outside(b, x->rank - stride)) ||
                                 (c + 1 < n && outside(b, x->rank + stride))))
            return true;
        stride *= n;
    }
    return false;
}

static bool (*const leaves[])(const struct pdl_mesh *, const struct block *,
                              const struct at *, uint32_t) = {
    [ORACLE_RING] = ring_leaves,
    [ORACLE_PAIRS] = pairs_leave,
    [ORACLE_NEIGHBOURS] = neighbours_leave,
};

static enum oracle_pattern pattern_of(enum pdl_plan_op_kind kind)
{
    return kind == PDL_PLAN_OP_ALLTOALL || kind == PDL_PLAN_OP_ALLTOALLV
               ? ORACLE_PAIRS
           : kind == PDL_PLAN_OP_HALO ? ORACLE_NEIGHBOURS
                                      : ORACLE_RING;
}

/* Rings over factors next to each other (of 1 there is nothing to go over) have
 * their ranks a stride apart. Where the block, the stride and all of a ring's
 * ranks divide each other, of each ring in the block its last there leaves. -1:
 * they do not. */
static int64_t plain_rings(const struct pdl_mesh *m, const struct block *b,
                           uint32_t group)
{
    int f = m->nfactors - 1;
    int64_t stride = 1, all;

    while (f >= 0 && !(group >> f & 1))
        stride *= m->factor[f--];
    for (all = stride; f >= 0 && (group >> f & 1); f--)
        all *= m->factor[f];
    while (f >= 0 && !(group >> f & 1))
        f--;
    if (f >= 0)
        return -1;
    if (all == stride || b->base + b->size > m->pes || b->base % b->size != 0)
        return -1;
    if (b->size % all == 0)
        return 0;
    if (b->size % stride == 0 && all % b->size == 0)
        return stride;
    return stride % b->size == 0 ? b->size : -1;
}

double oracle_flows(const struct oracle *o, enum oracle_pattern pattern,
                    int64_t rank, uint32_t group, int64_t size)
{
    const struct pdl_mesh *m = o->p->mesh;
    struct block b = {.base = rank - rank % size, .size = size};
    int64_t plain;
    struct at x;
    double n = 0;

    if (b.base + size > m->pes && b.base >= size)
        b.base -= size; /* the slowest counts: a full block, not the last */
    plain = pattern == ORACLE_RING ? plain_rings(m, &b, group) : -1;
    if (plain >= 0)
        return plain > 0 ? (double)plain : 1;
    x.rank = b.base;
    for (int f = 0; f < m->nfactors; f++)
        x.coord[f] = pdl_mesh_coord(m, b.base, f);
    for (; x.rank < b.base + size && x.rank < m->pes; step_on(m, &x))
        n += leaves[pattern](m, &b, &x, group);
    return n > 0 ? n : 1;
}

/* Of one PE's share of a level, as it was measured or, ideally, its peak. */
static double level_rate(const struct oracle *o, const struct pdl_level *l)
{
    return o->opt->parameters == PDL_IDEAL || l->measured_bytes_per_s <= 0
               ? l->bytes_per_s
               : l->measured_bytes_per_s;
}

/* The narrowest border above the node: what one flow gets of it, if that is
 * less than `rate`. Where nothing is over-subscribed, a block's uplinks carry
 * what its nodes send. */
static void share_tiers(const struct oracle *o, enum oracle_pattern pattern,
                        struct oracle_wire *w)
{
    for (int k = 1; k < w->level; k++) {
        const struct pdl_level *in = &o->sys->levels[k], *up = in + 1;
        double one = level_rate(o, up), flows, share;

        if (!(up->oversubscription > 1))
            continue;
        flows = oracle_flows(o, pattern, w->rank, w->group, in->pes);
        share = one * (double)in->pes / up->oversubscription / flows;
        if (share < w->bytes_per_s) {
            w->bytes_per_s = share;
            w->flows = flows;
            w->at = k;
        }
    }
}

/* ---- what a flow gets ------------------------------------------------- */

static int64_t local_ranks(const struct oracle *o, uint32_t group, int64_t rank)
{
    int64_t per = o->sys->node.pes, base = rank - rank % per, n = 0;
    int64_t mine, first, last;

    group_ends(o->p->mesh, rank, group, &mine, &last);
    for (int64_t r = base; r < base + per && r < o->p->mesh->pes; r++) {
        group_ends(o->p->mesh, r, group, &first, &last);
        n += first == mine;
    }
    return n;
}

/* The network is the PEs' own links, and a message is on one of them. */
static bool is_torus(const struct oracle *o)
{
    return o->sys->network.topology &&
           strcmp(o->sys->network.topology, "torus") == 0;
}

/* What one ring gets of the node's adapters: all of them for a ring alone
 * (libraries open several channels), unless the framework's rings use one. */
static double share_of_node(const struct oracle *o, const struct pdl_level *l,
                            double flows, bool gradient)
{
    const struct pdl_framework *f = o->opt->framework;
    double node = level_rate(o, l) * (double)o->sys->node.pes;
    double nics = (double)o->sys->node.nics.count;
    double most =
        f && f->one_channel && gradient && nics > 0 ? node / nics : node;

    return node / flows < most ? node / flows : most;
}

double oracle_inside_node(const struct oracle *o, bool gradient)
{
    const struct pdl_framework *f = o->opt->framework;
    const struct pdl_level *l = &o->sys->levels[0];
    double cable = o->sys->node.links.link_bytes_per_s;
    bool ideal = o->opt->parameters == PDL_IDEAL;
    double rate = !ideal && l->measured_bytes_per_s > 0
                      ? l->measured_bytes_per_s
                  : l->flow_bytes_per_s > 0 ? l->flow_bytes_per_s
                                            : l->bytes_per_s;

    return f && f->one_channel && gradient && cable > 0 && cable < rate ? cable
                                                                        : rate;
}

double oracle_inside_latency(const struct oracle *o)
{
    const struct pdl_level *l = &o->sys->levels[0];

    if (oracle_without(o, ORACLE_LATENCY))
        return 0;
    return o->opt->parameters == PDL_IDEAL || l->measured_latency_s <= 0
               ? l->latency_s
               : l->measured_latency_s;
}

/* The job's nodes lie anywhere in the machine: the farthest that two ranks of
 * any of these groups are apart. */
static int level_of(const struct oracle *o, int64_t rank, uint32_t group)
{
    const int64_t *nodes = o->opt->nodes;
    int64_t per = o->sys->node.pes, first, last;
    int worst = 0;

    group_ends(o->p->mesh, rank, group, &first, &last);
    if (!nodes)
        return pdl_system_level(o->sys, first, last);
    for (int64_t r = 0; r < o->p->mesh->pes; r++) {
        int level;

        group_ends(o->p->mesh, r, group, &first, &last);
        level = pdl_system_level(o->sys, nodes[first / per] * per + first % per,
                                 nodes[r / per] * per + r % per);
        worst = level > worst ? level : worst;
    }
    return worst;
}

/* Peak of a ring: all adapters of its ranks in the node, or, in the papers'
 * exchange, one of them where they are shared. */
static double own_adapters(const struct oracle *o, const struct pdl_level *l,
                           const struct oracle_wire *w)
{
    bool shared = o->sys->node.nics.count < o->sys->node.pes;

    return w->level > 0 && w->pattern == ORACLE_RING &&
                   !(shared && o->p->strategy->exchange_paper)
               ? l->bytes_per_s * (double)w->local
               : 0;
}

/* A hop between two ranks of one node, of a group that leaves it. */
static void find_near(const struct oracle *o, bool gradient,
                      struct oracle_wire *w)
{
    const struct pdl_level *in = &o->sys->levels[0];
    bool ideal = o->opt->parameters == PDL_IDEAL;

    if (w->level == 0 || w->local < 2 || o->p->strategy->exchange_paper)
        return;
    w->pe_bytes_per_s = !ideal && in->measured_bytes_per_s > 0
                            ? in->measured_bytes_per_s
                            : in->bytes_per_s;
    w->near_alpha_s = oracle_inside_latency(o);
    w->near_bytes_per_s = oracle_inside_node(o, gradient);
}

/* A step of a ring: its slowest hop. */
double oracle_ring_step(const struct oracle_wire *w, double bytes)
{
    double rate = w->pe_bytes_per_s > 0
                      ? fmin(w->bytes_per_s, w->pe_bytes_per_s)
                      : w->bytes_per_s;
    double far = w->alpha_s + bytes / rate;

    return w->near_bytes_per_s > 0
               ? fmax(far, w->near_alpha_s + bytes / w->near_bytes_per_s)
               : far;
}

/* The network is the PEs' own links: no message has a node's adapters, and a
 * node is nothing. */
static bool find_torus(const struct oracle *o, struct oracle_wire *w)
{
    const struct pdl_level *l = &o->sys->levels[o->sys->nlevels - 1];
    bool ideal = o->opt->parameters == PDL_IDEAL;
    struct oracle_torus *t = &w->torus;

    if (!is_torus(o) || o->p->strategy->exchange_paper)
        return false;
    *t = oracle_torus_of(o, w->group, w->pattern);
    if (!t->is)
        return false;
    t->link_s = ideal || l->measured_latency_s <= 0 ? l->latency_s
                                                    : l->measured_latency_s;
    if (!ideal && o->sys->network.step_s > 0)
        t->link_s = o->sys->network.step_s;
    if (!ideal && oracle_without(o, ORACLE_LATENCY))
        t->link_s = 0;
    t->link_bytes_per_s =
        l->flow_bytes_per_s > 0 ? l->flow_bytes_per_s : l->bytes_per_s;
    t->links = l->bytes_per_s / t->link_bytes_per_s;
    if (!ideal)
        t->link_bytes_per_s *= level_rate(o, l) / l->bytes_per_s;
    w->flows = t->ring.load;
    w->alpha_s = t->ring.hops * t->link_s;
    w->bytes_per_s = t->link_bytes_per_s / t->ring.load;
    return true;
}

static struct oracle_wire find_wire(const struct oracle *o, int64_t rank,
                                    uint32_t group, enum oracle_pattern pattern,
                                    bool gradient)
{
    bool ideal = o->opt->parameters == PDL_IDEAL;
    double congestion = o->opt->congestion > 0 ? o->opt->congestion : 1;
    const struct pdl_level *l;
    struct oracle_wire w = {.flows = 1,
                            .known = true,
                            .gradient = gradient,
                            .pattern = pattern,
                            .group = group,
                            .rank = rank,
                            .local = local_ranks(o, group, rank)};

    w.level = level_of(o, rank, group);
    if (find_torus(o, &w))
        return w;
    l = &o->sys->levels[w.level];
    w.alpha_s = ideal || l->measured_latency_s <= 0 ? l->latency_s
                                                    : l->measured_latency_s;
    w.bytes_per_s =
        l->flow_bytes_per_s > 0 ? l->flow_bytes_per_s : l->bytes_per_s;
    find_near(o, gradient, &w);
    if (ideal && (pattern != ORACLE_PAIRS || o->p->strategy->exchange_paper)) {
        w.bytes_per_s = fmax(w.bytes_per_s, own_adapters(o, l, &w));
        return w;
    }
    if (w.level > 0) {
        if (!ideal && o->sys->network.step_s > 0)
            w.alpha_s = o->sys->network.step_s;
        if (!ideal && o->sys->network.layer_step_s > 0 && !gradient &&
            pattern == ORACLE_RING)
            w.alpha_s = o->sys->network.layer_step_s;
        if (!oracle_without(o, ORACLE_SHARING))
            w.flows = oracle_flows(o, pattern, rank, group, o->sys->node.pes);
        w.bytes_per_s = share_of_node(o, l, w.flows, gradient);
        if (!oracle_without(o, ORACLE_SHARING))
            share_tiers(o, pattern, &w);
        w.bytes_per_s /= congestion;
    } else {
        w.bytes_per_s = oracle_inside_node(o, gradient);
    }
    if (oracle_without(o, ORACLE_LATENCY))
        w.alpha_s = 0;
    return w;
}

struct oracle_wire oracle_wire_of(const struct oracle *o, int64_t rank,
                                  const struct pdl_plan_op *x, bool gradient)
{
    bool torus = is_torus(o), next = torus && x->kind == PDL_PLAN_OP_SEND;
    enum oracle_pattern pattern =
        next ? ORACLE_NEIGHBOURS : pattern_of(x->kind);
    int64_t of = torus ? 0 : rank; /* a torus is the same for all */
    uint32_t group = x->group;
    uint64_t h =
        ((((uint64_t)of << 20) + group) * 4 + (uint64_t)pattern) * 2 + gradient;
    struct oracle_wire *w;

    if (!o->wires)
        return find_wire(o, of, group, pattern, gradient);
    h *= UINT64_C(0x9e3779b97f4a7c15);
    w = &o->wires[(h >> 40) % ORACLE_WIRES];
    if (!w->known || w->rank != of || w->group != group ||
        w->pattern != pattern || w->gradient != gradient)
        *w = find_wire(o, of, group, pattern, gradient);
    return *w;
}

bool oracle_same_wire(const struct oracle *o, int op, int64_t a, int64_t b,
                      bool gradient)
{
    const struct pdl_plan_op *p = &o->p->ops[op];
    struct oracle_wire x = oracle_wire_of(o, a, p, gradient);
    struct oracle_wire y = oracle_wire_of(o, b, p, gradient);

    return x.level == y.level && x.alpha_s == y.alpha_s &&
           x.bytes_per_s == y.bytes_per_s && x.flows == y.flows &&
           x.local == y.local;
}
