/* SPDX-License-Identifier: Apache-2.0
 *
 * Redistribution: from one placement to another by the table of the algebra.
 *   Partial -> Replicate allreduce      Shard -> Replicate allgather
 *   Partial -> Shard     reduce-scatter Shard i -> Shard j alltoall
 *   Replicate -> Shard   slice          Shard -> framed Shard halo
 * Sums first (they shrink or end partial tensors), then slices (free), then
 * what moves. Several factors on one dimension are split as one index in mesh
 * order, so a factor can be added to or taken from a dimension in place only
 * where it is the innermost there; anything else is an exchange by boxes. */
#include "plan_priv.h"

#include <string.h>

struct pdl_place plan_everywhere(void)
{
    struct pdl_place p;

    memset(&p, PDL_REPLICATED, sizeof p);
    return p;
}

bool plan_same_place(const struct plan_lower *lo, const struct pdl_place *a,
                     const struct pdl_place *b)
{
    return memcmp(a->at, b->at, (size_t)lo->mesh->nfactors) == 0;
}

/* Are the factors of `set` the innermost of those that shard dimension d? */
static bool innermost(const struct pdl_mesh *m, const struct pdl_place *p,
                      uint32_t set, int d)
{
    bool outside = false;

    for (int f = m->nfactors - 1; f >= 0; f--) {
        if (p->at[f] != d)
            continue;
        if (!plan_has(set, f))
            outside = true;
        else if (outside)
            return false;
    }
    return true;
}

static bool innermost_all(const struct pdl_mesh *m, const struct pdl_place *p,
                          uint32_t set)
{
    for (int d = 0; d < PDL_BOX_DIMS; d++)
        if (!innermost(m, p, set, d))
            return false;
    return true;
}

/* A copy made for use is neither state nor input. */
static enum pdl_plan_kind copied(enum pdl_plan_kind kind)
{
    return kind == PDL_PLAN_WEIGHT || kind == PDL_PLAN_INPUT
               ? PDL_PLAN_ACTIVATION
               : kind;
}

/* ---- layouts ---------------------------------------------------------- */

static bool is_sharded(const struct pdl_mesh *m, const struct pdl_place *p,
                       int d)
{
    for (int f = 0; f < m->nfactors; f++)
        if (p->at[f] == d)
            return true;
    return false;
}

static bool same_unit(int64_t a, int64_t b)
{
    return (a ? a : 1) == (b ? b : 1);
}

struct plan_layout plan_layout_of(const struct plan_lower *lo, int t)
{
    struct plan_layout l = {.place = lo->tensors[t].place};

    memcpy(l.unit, lo->tensors[t].unit, sizeof l.unit);
    return l;
}

/* Dimensions that both cut, but in other units. */
static uint32_t other_units(const struct pdl_mesh *m,
                            const struct plan_layout *a,
                            const struct plan_layout *b)
{
    uint32_t dims = 0;

    for (int d = 0; d < PDL_BOX_DIMS; d++)
        if (!same_unit(a->unit[d], b->unit[d]) && is_sharded(m, &a->place, d) &&
            is_sharded(m, &b->place, d))
            dims |= UINT32_C(1) << d;
    return dims;
}

static bool same_layout(const struct plan_lower *lo,
                        const struct plan_layout *a,
                        const struct plan_layout *b)
{
    return plan_same_place(lo, &a->place, &b->place) &&
           other_units(lo->mesh, a, b) == 0;
}

bool plan_lies(const struct plan_lower *lo, int t, const struct plan_layout *at)
{
    struct plan_layout now = plan_layout_of(lo, t);

    return same_layout(lo, &now, at);
}

bool plan_lie_alike(const struct plan_lower *lo, int a, int b)
{
    struct plan_layout at = plan_layout_of(lo, b);

    return plan_lies(lo, a, &at);
}

/* ---- one step --------------------------------------------------------- */

static int step(struct plan_lower *lo, enum pdl_plan_op_kind kind, int from,
                const struct plan_layout *to, uint32_t group)
{
    struct pdl_plan_tensor t;
    int out;

    if (lo->status != PDL_OK || from < 0)
        return -1;
    t = lo->tensors[from];
    t.place = to->place;
    for (int d = 0; d < PDL_BOX_DIMS; d++)
        t.unit[d] = is_sharded(lo->mesh, &to->place, d) ? to->unit[d] : 0;
    t.kind = copied(t.kind);
    out = plan_add_tensor(lo, &t);
    plan_add_op(lo, &(struct pdl_plan_op){.kind = kind,
                                          .node = -1,
                                          .nin = 1,
                                          .in = &from,
                                          .nout = 1,
                                          .out = &out,
                                          .group = group});
    return out;
}

/* Factors whose placement is `have` now (any shard: 0) and `want` next. */
enum change { SUM_TO_SHARD, SUM_TO_ALL, ALL_TO_SHARD, GATHER, OTHER };

static uint32_t factors(const struct plan_lower *lo,
                        const struct plan_layout *now,
                        const struct plan_layout *to, enum change c)
{
    uint32_t set = 0;

    for (int f = 0; f < lo->mesh->nfactors; f++) {
        int a = now->place.at[f], b = to->place.at[f];
        enum change is = a == PDL_PARTIAL || a == PDL_PARTIAL_MAX
                             ? b >= 0 ? SUM_TO_SHARD : SUM_TO_ALL
                         : a == PDL_REPLICATED ? ALL_TO_SHARD
                         : b == PDL_REPLICATED ? GATHER
                                               : OTHER;

        if (a != b && is == c)
            set |= UINT32_C(1) << f;
    }
    return set;
}

/* now with the factors of `set` as in `to`; a dimension that was whole takes
 * the units of `to`. */
static struct plan_layout with(const struct plan_lower *lo,
                               const struct plan_layout *now,
                               const struct plan_layout *to, uint32_t set)
{
    struct plan_layout p = *now;

    for (int f = 0; f < lo->mesh->nfactors; f++) {
        int d = to->place.at[f];

        if (!(set >> f & 1))
            continue;
        p.place.at[f] = (int8_t)d;
        if (d >= 0 && !is_sharded(lo->mesh, &now->place, d))
            p.unit[d] = to->unit[d];
    }
    return p;
}

/* Can the factors of `set` be cut in place: innermost in their dimensions,
 * and in the units in which the others cut already? */
static bool in_place(const struct plan_lower *lo,
                     const struct plan_layout *next,
                     const struct plan_layout *to, uint32_t set)
{
    uint32_t dims = other_units(lo->mesh, next, to);

    for (int f = 0; f < lo->mesh->nfactors; f++)
        if (set >> f & 1 && to->place.at[f] >= 0 && dims >> to->place.at[f] & 1)
            return false;
    return innermost_all(lo->mesh, &next->place, set);
}

static int move_sums(struct plan_lower *lo, int t, const struct plan_layout *to)
{
    struct plan_layout now = plan_layout_of(lo, t), next;
    struct plan_layout all = {.place = plan_everywhere()};
    uint32_t scatter = factors(lo, &now, to, SUM_TO_SHARD);
    uint32_t reduce = factors(lo, &now, to, SUM_TO_ALL);

    next = with(lo, &now, to, scatter);
    if (scatter && in_place(lo, &next, to, scatter)) {
        t = step(lo, PDL_PLAN_OP_REDUCE_SCATTER, t, &next, scatter);
        now = next;
        scatter = 0;
    }
    reduce |= scatter;
    if (reduce) {
        next = with(lo, &now, &all, reduce);
        t = step(lo, PDL_PLAN_OP_ALLREDUCE, t, &next, reduce);
    }
    return t;
}

/* All factors that shard a dimension that changes. */
uint32_t plan_exchange_group(const struct pdl_mesh *m,
                             const struct plan_layout *now,
                             const struct plan_layout *to)
{
    const struct pdl_place *a = &now->place, *b = &to->place;
    uint32_t set = 0, dims = 0, units = other_units(m, now, to);

    for (int f = 0; f < m->nfactors; f++)
        if (a->at[f] != b->at[f]) {
            set |= UINT32_C(1) << f;
            dims |= a->at[f] >= 0 ? UINT32_C(1) << a->at[f] : 0;
            dims |= b->at[f] >= 0 ? UINT32_C(1) << b->at[f] : 0;
        }
    if (!units && innermost_all(m, a, set) && innermost_all(m, b, set))
        return set;
    dims |= units;
    for (int f = 0; f < m->nfactors; f++)
        if ((a->at[f] >= 0 && dims >> a->at[f] & 1) ||
            (b->at[f] >= 0 && dims >> b->at[f] & 1))
            set |= UINT32_C(1) << f;
    return set;
}

int plan_move_to(struct plan_lower *lo, int t, const struct plan_layout *to)
{
    struct plan_layout now, next;
    uint32_t set;

    if (lo->status != PDL_OK || t < 0)
        return -1;
    if (plan_lies(lo, t, to))
        return t;
    t = move_sums(lo, t, to);
    if (t < 0)
        return -1;
    now = plan_layout_of(lo, t);
    set = factors(lo, &now, to, ALL_TO_SHARD);
    next = with(lo, &now, to, set);
    if (set && in_place(lo, &next, to, set)) {
        t = step(lo, PDL_PLAN_OP_SLICE, t, &next, 0);
        now = next;
    }
    if (same_layout(lo, &now, to))
        return t;
    set = factors(lo, &now, to, GATHER);
    next = with(lo, &now, to, set);
    if (same_layout(lo, &next, to) && innermost_all(lo->mesh, &now.place, set))
        return step(lo, PDL_PLAN_OP_ALLGATHER, t, to, set);
    return step(lo, PDL_PLAN_OP_ALLTOALL, t, to,
                plan_exchange_group(lo->mesh, &now, to));
}

int plan_move(struct plan_lower *lo, int t, const struct pdl_place *to)
{
    struct plan_layout l;

    if (lo->status != PDL_OK || t < 0)
        return -1;
    l = plan_layout_of(lo, t);
    for (int d = 0; d < PDL_BOX_DIMS; d++)
        if (!is_sharded(lo->mesh, &l.place, d))
            l.unit[d] = 0;
    l.place = *to;
    return plan_move_to(lo, t, &l);
}

/* Is what the window needs inside what the split owns, for every part? */
static bool frame_is_owned(const struct pdl_frame *f, int64_t n, int64_t unit,
                           int64_t parts)
{
    for (int64_t i = 0; i < parts; i++) {
        int64_t lo, hi, first, last;

        if (f->kind == PDL_FRAME_READS) {
            pdl_split(f->window.out, 1, parts, i, &lo, &hi);
            pdl_window_reads(&f->window, lo, hi, &first, &last);
        } else {
            pdl_split(f->window.in, 1, parts, i, &lo, &hi);
            pdl_window_readers(&f->window, lo, hi, &first, &last);
        }
        pdl_split(n, unit, parts, i, &lo, &hi);
        if (last > first && (first < lo || last > hi))
            return false;
    }
    return true;
}

int plan_move_frames(struct plan_lower *lo, int t,
                     const struct pdl_frame *frames)
{
    struct pdl_frame framed[PDL_BOX_DIMS];
    struct pdl_plan_tensor next;
    uint32_t group = 0;
    int out;

    if (lo->status != PDL_OK || t < 0)
        return -1;
    next = lo->tensors[t];
    memcpy(framed, next.frame, sizeof framed);
    for (int d = 0; d < next.ndims; d++) {
        int64_t parts = 1;
        uint32_t set = 0;

        for (int f = 0; f < lo->mesh->nfactors; f++)
            if (next.place.at[f] == d) {
                parts *= lo->mesh->factor[f];
                set |= UINT32_C(1) << f;
            }
        if (frames[d].kind == PDL_FRAME_NONE || parts == 1 ||
            frame_is_owned(&frames[d], next.dim[d],
                           next.unit[d] ? next.unit[d] : 1, parts))
            continue;
        framed[d] = frames[d];
        group |= set;
    }
    if (!group)
        return t;
    next.frame = plan_copy_frames(lo, framed);
    next.name = plan_name(lo, "", next.name, ".halo");
    next.kind = copied(next.kind);
    out = plan_add_tensor(lo, &next);
    plan_add_op(lo, &(struct pdl_plan_op){.kind = PDL_PLAN_OP_HALO,
                                          .node = -1,
                                          .nin = 1,
                                          .in = &t,
                                          .nout = 1,
                                          .out = &out,
                                          .group = group});
    return out;
}
