/* SPDX-License-Identifier: Apache-2.0
 *
 * Who leaves a block of PEs at the same time. All groups of an operation run
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

/* First and last rank of the group of `rank`. */
void oracle_group_ends(const struct oracle *o, int64_t rank, uint32_t group,
                       int64_t *first, int64_t *last)
{
    int64_t stride = 1;

    *first = *last = rank;
    for (int f = o->p->mesh->nfactors - 1; f >= 0; f--) {
        if (group >> f & 1) {
            int64_t c = pdl_mesh_coord(o->p->mesh, rank, f);

            *first -= c * stride;
            *last += (o->p->mesh->factor[f] - 1 - c) * stride;
        }
        stride *= o->p->mesh->factor[f];
    }
}

/* The next of the group in the order of ranks; after the last the first. */
static int64_t successor(const struct oracle *o, int64_t rank, uint32_t group)
{
    int64_t stride = 1, next = rank;

    for (int f = o->p->mesh->nfactors - 1; f >= 0; f--) {
        int64_t n = o->p->mesh->factor[f];

        if (group >> f & 1) {
            int64_t c = pdl_mesh_coord(o->p->mesh, rank, f);

            if (c + 1 < n)
                return next + stride;
            next -= c * stride;
        }
        stride *= n;
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

static bool ring_leaves(const struct oracle *o, const struct block *b,
                        int64_t rank, uint32_t group)
{
    return outside(b, successor(o, rank, group));
}

static bool pairs_leave(const struct oracle *o, const struct block *b,
                        int64_t rank, uint32_t group)
{
    int64_t first, last;

    oracle_group_ends(o, rank, group, &first, &last);
    return outside(b, first) || outside(b, last);
}

static bool neighbours_leave(const struct oracle *o, const struct block *b,
                             int64_t rank, uint32_t group)
{
    int64_t stride = 1;

    for (int f = o->p->mesh->nfactors - 1; f >= 0; f--) {
        int64_t n = o->p->mesh->factor[f];
        int64_t c = pdl_mesh_coord(o->p->mesh, rank, f);

        if ((group >> f & 1) && ((c > 0 && outside(b, rank - stride)) ||
                                 (c + 1 < n && outside(b, rank + stride))))
            return true;
        stride *= n;
    }
    return false;
}

static bool (*const leaves[])(const struct oracle *, const struct block *,
                              int64_t, uint32_t) = {
    [ORACLE_RING] = ring_leaves,
    [ORACLE_PAIRS] = pairs_leave,
    [ORACLE_NEIGHBOURS] = neighbours_leave,
};

enum oracle_pattern oracle_pattern_of(enum pdl_plan_op_kind kind)
{
    return kind == PDL_PLAN_OP_ALLTOALL || kind == PDL_PLAN_OP_ALLTOALLV
               ? ORACLE_PAIRS
           : kind == PDL_PLAN_OP_HALO ? ORACLE_NEIGHBOURS
                                      : ORACLE_RING;
}

double oracle_flows(const struct oracle *o, enum oracle_pattern pattern,
                    int64_t rank, uint32_t group, int64_t size)
{
    struct block b = {.base = rank - rank % size, .size = size};
    double n = 0;

    if (b.base + size > o->p->mesh->pes && b.base >= size)
        b.base -= size; /* the slowest counts: a full block, not the last */
    for (int64_t r = b.base; r < b.base + size && r < o->p->mesh->pes; r++)
        n += leaves[pattern](o, &b, r, group);
    return n > 0 ? n : 1;
}

/* The narrowest border above the node: what one flow gets of it, if that is
 * less than `rate`. Where nothing is over-subscribed, a block's uplinks carry
 * what its nodes send. */
void oracle_share_tiers(const struct oracle *o, enum oracle_pattern pattern,
                        struct oracle_wire *w)
{
    for (int k = 1; k < w->level; k++) {
        const struct pdl_level *in = &o->sys->levels[k], *up = in + 1;
        double one = up->measured_bytes_per_s > 0 ? up->measured_bytes_per_s
                                                  : up->bytes_per_s;
        double flows, share;

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
