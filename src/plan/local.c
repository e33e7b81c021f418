/* SPDX-License-Identifier: Apache-2.0
 *
 * What is local to a rank: its box of a tensor, and the text of a plan. */
#include "plan_priv.h"

const struct pdl_frame pdl_no_frames[PDL_BOX_DIMS];

bool plan_same_shape(const struct pdl_plan_tensor *a,
                     const struct pdl_plan_tensor *b)
{
    if (a->ndims != b->ndims)
        return false;
    for (int d = 0; d < a->ndims; d++)
        if (a->dim[d] != b->dim[d])
            return false;
    return true;
}

/* The rank's part of each dimension: its factors are one index, mesh order. */
struct cuts {
    int64_t parts[PDL_BOX_DIMS], index[PDL_BOX_DIMS];
};

static bool find_cuts(const struct pdl_mesh *m, const struct pdl_plan_tensor *t,
                      int64_t rank, struct cuts *c)
{
    int64_t coord[PDL_MAX_FACTORS];
    bool any = false;

    for (int f = 0; f < m->nfactors; f++)
        any = any || t->place.at[f] >= 0;
    if (!any)
        return false;
    for (int d = 0; d < t->ndims; d++) {
        c->parts[d] = 1;
        c->index[d] = 0;
    }
    for (int f = m->nfactors - 1; f >= 0; f--) {
        coord[f] = rank % m->factor[f];
        rank /= m->factor[f];
    }
    for (int f = 0; f < m->nfactors; f++) {
        int d = t->place.at[f];

        if (d < 0)
            continue;
        c->index[d] = c->index[d] * m->factor[f] + coord[f];
        c->parts[d] *= m->factor[f];
    }
    return true;
}

static void part_box(const struct pdl_plan_tensor *t, int d, int64_t parts,
                     int64_t i, struct pdl_box *box)
{
    const struct pdl_frame *f = &t->frame[d];
    int64_t lo, hi;

    switch (f->kind) {
    case PDL_FRAME_NONE:
        pdl_split(t->dim[d], t->unit[d] ? t->unit[d] : 1, parts, i, &box->lo[d],
                  &box->hi[d]);
        break;
    case PDL_FRAME_READS:
        pdl_split(f->window.out, 1, parts, i, &lo, &hi);
        pdl_window_reads(&f->window, lo, hi, &box->lo[d], &box->hi[d]);
        break;
    case PDL_FRAME_READERS:
        pdl_split(f->window.in, 1, parts, i, &lo, &hi);
        pdl_window_readers(&f->window, lo, hi, &box->lo[d], &box->hi[d]);
        break;
    }
}

void pdl_plan_box(const struct pdl_plan *p, int tensor, int64_t rank,
                  struct pdl_box *box)
{
    const struct pdl_plan_tensor *t = &p->tensors[tensor];
    struct cuts c;
    bool cut = find_cuts(p->mesh, t, rank, &c);

    box->ndims = t->ndims;
    for (int d = 0; d < t->ndims; d++)
        if (cut && (c.parts[d] > 1 || t->frame[d].kind != PDL_FRAME_NONE)) {
            part_box(t, d, c.parts[d], c.index[d], box);
        } else if (t->frame[d].kind != PDL_FRAME_NONE) {
            part_box(t, d, 1, 0, box);
        } else {
            box->lo[d] = 0;
            box->hi[d] = t->dim[d];
        }
}

/* ---- what ranks have in common ------------------------------------------------- */

/* Of one dimension, for each part that a peer may have: items that are wanted,
 * and those of them that the rank has itself; -1: not counted yet. Boxes are
 * products, so a few parts a dimension stand for all peers. */
enum { FEW_PARTS = 32 };
struct overlap {
    int64_t wanted[FEW_PARTS + 1], own[FEW_PARTS + 1]; /* the last: others */
};

static int64_t common(int64_t lo, int64_t hi, int64_t lo2, int64_t hi2)
{
    int64_t a = lo > lo2 ? lo : lo2, b = hi < hi2 ? hi : hi2;

    return b > a ? b - a : 0;
}

static void count_part(const struct pdl_plan_tensor *t, int d, int64_t parts,
                       int64_t i, const struct pdl_box *want,
                       const struct pdl_box *mine, int64_t *wanted,
                       int64_t *own)
{
    struct pdl_box b = {.ndims = t->ndims};
    int64_t lo, hi;

    if (parts > 1 || t->frame[d].kind != PDL_FRAME_NONE) {
        part_box(t, d, parts, i, &b);
    } else {
        b.lo[d] = 0;
        b.hi[d] = t->dim[d];
    }
    *wanted = common(b.lo[d], b.hi[d], want->lo[d], want->hi[d]);
    lo = b.lo[d] > want->lo[d] ? b.lo[d] : want->lo[d];
    hi = b.hi[d] < want->hi[d] ? b.hi[d] : want->hi[d];
    *own = common(lo, hi, mine->lo[d], mine->hi[d]);
}

void pdl_plan_transfers(const struct pdl_plan *p, int from, int to,
                        const int64_t *peers, int64_t n, int64_t rank,
                        int64_t *bytes)
{
    const struct pdl_plan_tensor *t = &p->tensors[from];
    struct overlap table[PDL_BOX_DIMS];
    struct pdl_box want = {.ndims = 0}, mine = {.ndims = 0};
    int64_t item = pdl_dtype_bits(p->tensors[to].dtype);

    pdl_plan_box(p, from, rank, &mine);
    pdl_plan_box(p, to, rank, &want);
    for (int d = 0; d < t->ndims; d++)
        memset(table[d].wanted, -1, sizeof table[d].wanted);
    for (int64_t i = 0; i < n; i++) {
        struct cuts c = {.parts = {0}};
        bool cut = find_cuts(p->mesh, t, peers[i], &c);
        int64_t all = 1, own = 1;

        for (int d = 0; d < t->ndims && all > 0; d++) {
            int64_t parts = cut ? c.parts[d] : 1, at = cut ? c.index[d] : 0;
            int slot = at < FEW_PARTS ? (int)at : FEW_PARTS;

            if (slot == FEW_PARTS || table[d].wanted[slot] < 0)
                count_part(t, d, parts, at, &want, &mine,
                           &table[d].wanted[slot], &table[d].own[slot]);
            all *= table[d].wanted[slot];
            own *= table[d].own[slot];
        }
        bytes[i] = all > 0 ? (all - own) * item / 8 : 0;
    }
}
