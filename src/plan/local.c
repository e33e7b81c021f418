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

/* Batch norm's sums of each set of samples, a row a set: not of samples. */
static bool has_rows_of_sets(const struct pdl_mesh *m,
                             const struct pdl_plan_tensor *t)
{
    int64_t parts = 1;

    for (int f = 0; f < m->nfactors; f++)
        parts *= t->place.at[f] == 0 ? m->factor[f] : 1;
    return t->dim[1] == 2 && t->dim[0] == parts;
}

bool plan_has_shares(const struct pdl_mesh *m, const struct pdl_plan_tensor *t,
                     int d)
{
    return m->nparts > 0 && d == 0 && t->place.at[m->dealt] == 0 &&
           (t->kind <= PDL_PLAN_GRADIENT ||
            (t->kind == PDL_PLAN_STATISTIC && !has_rows_of_sets(m, t)));
}

uint32_t plan_cutting(const struct pdl_mesh *m, const struct pdl_plan_tensor *t,
                      int d)
{
    uint32_t set = 0;

    for (int f = 0; f < m->nfactors; f++)
        set |= t->place.at[f] == d ? UINT32_C(1) << f : 0;
    return set;
}

static void part_box(const struct pdl_mesh *m, const struct pdl_plan_tensor *t,
                     int d, int64_t parts, int64_t i, struct pdl_box *box)
{
    const struct pdl_frame *f = &t->frame[d];
    int64_t lo, hi;

    switch (f->kind) {
    case PDL_FRAME_NONE:
        if (plan_has_shares(m, t, d))
            pdl_mesh_split(m, plan_cutting(m, t, d), t->dim[d],
                           t->unit[d] ? t->unit[d] : 1, parts, i, &box->lo[d],
                           &box->hi[d]);
        else
            pdl_split(t->dim[d], t->unit[d] ? t->unit[d] : 1, parts, i,
                      &box->lo[d], &box->hi[d]);
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
            part_box(p->mesh, t, d, c.parts[d], c.index[d], box);
        } else if (t->frame[d].kind != PDL_FRAME_NONE) {
            part_box(p->mesh, t, d, 1, 0, box);
        } else {
            box->lo[d] = 0;
            box->hi[d] = t->dim[d];
        }
}

/* ---- what ranks have in common ---------------------------------------- */

/* Of one dimension that is cut, for each part that a peer may have: items that
 * are wanted, and those of them that the rank has itself; -1: not counted yet.
 * Boxes are products, so a few parts a dimension stand for all peers. */
enum { FEW_PARTS = 32 };
struct overlap {
    int64_t parts;
    int dim, nfactors;
    int64_t stride[PDL_MAX_FACTORS], factor[PDL_MAX_FACTORS]; /* mesh order */
    int64_t wanted[FEW_PARTS + 1], own[FEW_PARTS + 1]; /* the last: others */
};

static int64_t common(int64_t lo, int64_t hi, int64_t lo2, int64_t hi2)
{
    int64_t a = lo > lo2 ? lo : lo2, b = hi < hi2 ? hi : hi2;

    return b > a ? b - a : 0;
}

static void count_part(const struct pdl_mesh *m,
                       const struct pdl_plan_tensor *t, int d, int64_t parts,
                       int64_t i, const struct pdl_box *want,
                       const struct pdl_box *mine, int64_t *wanted,
                       int64_t *own)
{
    struct pdl_box b;
    int64_t lo, hi;

    if (parts > 1 || t->frame[d].kind != PDL_FRAME_NONE) {
        part_box(m, t, d, parts, i, &b);
    } else {
        b.lo[d] = 0;
        b.hi[d] = t->dim[d];
    }
    *wanted = common(b.lo[d], b.hi[d], want->lo[d], want->hi[d]);
    lo = b.lo[d] > want->lo[d] ? b.lo[d] : want->lo[d];
    hi = b.hi[d] < want->hi[d] ? b.hi[d] : want->hi[d];
    *own = common(lo, hi, mine->lo[d], mine->hi[d]);
}

/* The dimensions that are cut, and by which factors. */
static int find_overlaps(const struct pdl_mesh *m,
                         const struct pdl_plan_tensor *t, struct overlap *out)
{
    int64_t stride[PDL_MAX_FACTORS], ranks = 1;
    int n = 0;

    for (int f = m->nfactors - 1; f >= 0; f--) {
        stride[f] = ranks;
        ranks *= m->factor[f];
    }
    for (int d = 0; d < t->ndims; d++) {
        struct overlap *x = &out[n];

        x->dim = d;
        x->nfactors = 0;
        x->parts = 1;
        for (int f = 0; f < m->nfactors; f++)
            if (t->place.at[f] == d) {
                x->stride[x->nfactors] = stride[f];
                x->factor[x->nfactors++] = m->factor[f];
                x->parts *= m->factor[f];
            }
        if (x->nfactors == 0)
            continue;
        memset(x->wanted, -1,
               sizeof x->wanted[0] *
                   (size_t)(x->parts < FEW_PARTS ? x->parts : FEW_PARTS));
        n++;
    }
    return n;
}

/* A peer's part of a dimension, by its slot in the table. */
static int slot_of(const struct pdl_mesh *m, const struct pdl_plan_tensor *t,
                   struct overlap *x, int64_t peer, const struct pdl_box *want,
                   const struct pdl_box *mine)
{
    int64_t at = 0;
    int slot;

    for (int k = 0; k < x->nfactors; k++)
        at = at * x->factor[k] + peer / x->stride[k] % x->factor[k];
    slot = at < FEW_PARTS ? (int)at : FEW_PARTS;
    if (slot == FEW_PARTS || x->wanted[slot] < 0)
        count_part(m, t, x->dim, x->parts, at, want, mine, &x->wanted[slot],
                   &x->own[slot]);
    return slot;
}

/* Of the dimensions that are not cut, all peers have the same. */
static void count_whole(const struct pdl_mesh *m,
                        const struct pdl_plan_tensor *t,
                        const struct overlap *table, int n,
                        const struct pdl_box *want, const struct pdl_box *mine,
                        int64_t *wanted, int64_t *own)
{
    *wanted = *own = 1;
    for (int d = 0, k = 0; d < t->ndims; d++) {
        int64_t all, some;

        if (k < n && table[k].dim == d) {
            k++;
            continue;
        }
        count_part(m, t, d, 1, 0, want, mine, &all, &some);
        *wanted *= all;
        *own *= some;
    }
}

void pdl_plan_transfers(const struct pdl_plan *p, int from, int to,
                        const int64_t *peers, int64_t n, int64_t rank,
                        int64_t *bytes)
{
    const struct pdl_plan_tensor *t = &p->tensors[from];
    struct overlap table[PDL_BOX_DIMS];
    struct pdl_box want = {.ndims = 0}, mine = {.ndims = 0};
    int64_t item = pdl_dtype_bits(p->tensors[to].dtype), all, own;
    int ncut = find_overlaps(p->mesh, t, table);

    pdl_plan_box(p, from, rank, &mine);
    pdl_plan_box(p, to, rank, &want);
    count_whole(p->mesh, t, table, ncut, &want, &mine, &all, &own);
    for (int64_t i = 0; i < n; i++) {
        int64_t wanted = all, mine_too = own;

        for (int k = 0; k < ncut && wanted > 0; k++) {
            int slot = slot_of(p->mesh, t, &table[k], peers[i], &want, &mine);

            wanted *= table[k].wanted[slot];
            mine_too *= table[k].own[slot];
        }
        bytes[i] = wanted > 0 ? (wanted - mine_too) * item / 8 : 0;
    }
}
