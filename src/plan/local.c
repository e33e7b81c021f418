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
