/* SPDX-License-Identifier: Apache-2.0
 *
 * What is local to a rank: its box of a tensor, and the text of a plan. */
#include "plan_priv.h"

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

/* The rank's part of dimension d: its factors are one index, mesh order. */
static void part_of(const struct pdl_plan *p, const struct pdl_plan_tensor *t,
                    int64_t rank, int d, int64_t *parts, int64_t *index)
{
    *parts = 1;
    *index = 0;
    for (int f = 0; f < p->mesh->nfactors; f++)
        if (t->place.at[f] == d) {
            *index =
                *index * p->mesh->factor[f] + pdl_mesh_coord(p->mesh, rank, f);
            *parts *= p->mesh->factor[f];
        }
}

void pdl_plan_box(const struct pdl_plan *p, int tensor, int64_t rank,
                  struct pdl_box *box)
{
    const struct pdl_plan_tensor *t = &p->tensors[tensor];

    box->ndims = t->ndims;
    for (int d = 0; d < t->ndims; d++) {
        const struct pdl_frame *f = &t->frame[d];
        int64_t parts, i, lo, hi;

        part_of(p, t, rank, d, &parts, &i);
        switch (f->kind) {
        case PDL_FRAME_NONE:
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
}
