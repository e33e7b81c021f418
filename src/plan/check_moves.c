/* SPDX-License-Identifier: Apache-2.0
 *
 * The checker's part for what moves: every collective resolves what it says,
 * has the group its placements need, and what a rank receives is owned by
 * somebody in the group. */
#include "check.h"

#include <string.h>

/* What each kind does to the placement of a factor in its group; factors
 * outside keep theirs. */
static bool step_fits(enum pdl_plan_op_kind kind, int from, int to)
{
    switch (kind) {
    case PDL_PLAN_OP_ALLREDUCE:
        return from <= PDL_PARTIAL && to == PDL_REPLICATED;
    case PDL_PLAN_OP_REDUCE_SCATTER:
        return from == PDL_PARTIAL && to >= 0;
    case PDL_PLAN_OP_ALLGATHER:
        return from >= 0 && to == PDL_REPLICATED;
    case PDL_PLAN_OP_ALLTOALLV:
    case PDL_PLAN_OP_ROTATE:
        return (from >= 0 && to == PDL_REPLICATED) ||
               (from == PDL_PARTIAL && to >= 0);
    case PDL_PLAN_OP_ALLTOALL:
        return from > PDL_PARTIAL && to > PDL_PARTIAL;
    case PDL_PLAN_OP_HALO:
        return from >= 0 && from == to;
    default:
        return false;
    }
}

/* Two blocks at a time of one ring, for one attention; the pass tells it. */
static bool turns(const struct plan_check *c, const struct pdl_plan_op *o,
                  int k)
{
    const struct pdl_plan_tensor *a = plan_check_tensor(c, o->in[k]);
    const struct pdl_plan_tensor *b = plan_check_tensor(c, o->out[k]);
    const struct pdl_plan_tensor *t = a->of > 0 ? a : b;
    int x = pdl_plan_rotates_for(c->p, c->op);
    int64_t n = 1;

    for (int f = 0; f < c->p->mesh->nfactors; f++)
        if (plan_has(o->group, f))
            n *= c->p->mesh->factor[f];
    return x >= 0 && c->p->ops[x].pass == o->pass &&
           (a->of > 0) != (b->of > 0) && t->of == n &&
           t->some == PLAN_RING_BLOCKS;
}

static enum pdl_status one_move(struct plan_check *c,
                                const struct pdl_plan_op *o, int k)
{
    const struct pdl_plan_tensor *a = plan_check_tensor(c, o->in[k]);
    const struct pdl_plan_tensor *b = plan_check_tensor(c, o->out[k]);
    bool slice = o->kind == PDL_PLAN_OP_SLICE;

    if (!plan_same_shape(a, b))
        return BAD(c, "changes the shape");
    if (a->model_tensor != b->model_tensor)
        return BAD(c, "makes another tensor than it reads");
    if (o->kind == PDL_PLAN_OP_ALLTOALLV && (a->of > 0) == (b->of > 0))
        return BAD(c, "exchanges no tokens of experts");
    if (o->kind == PDL_PLAN_OP_ROTATE && !turns(c, o, k))
        return BAD(c, "turns no blocks of keys");
    for (int f = 0; f < c->p->mesh->nfactors; f++) {
        int from = a->place.at[f], to = b->place.at[f];

        if (slice && from == to)
            continue;
        if (slice && (from != PDL_REPLICATED || to < 0))
            return BAD(c, "is no slice");
        if (!slice && o->group >> f & 1 && !step_fits(o->kind, from, to))
            return BAD(c, "does not resolve the placement of its group");
        if (!slice && !(o->group >> f & 1) && from != to)
            return BAD(c, "changes a placement outside its group");
    }
    return PDL_OK;
}

static bool same_box(const struct pdl_box *a, const struct pdl_box *b)
{
    for (int d = 0; d < a->ndims; d++)
        if (a->lo[d] != b->lo[d] || a->hi[d] != b->hi[d])
            return false;
    return true;
}

/* Every item a rank receives is owned by somebody in the group. Owners are
 * equal or disjoint, so volumes add up. Large meshes: ranks at both ends. */
static enum pdl_status covered(struct plan_check *c,
                               const struct pdl_plan_op *o, int k)
{
    int64_t pes = c->p->mesh->pes, group[4096];

    for (int64_t r = 0; r < pes; r++) {
        struct pdl_box want, have, common, seen[64];
        int64_t n, got = 0;
        int nseen = 0;

        if (r >= 32 && r < pes - 32)
            continue;
        pdl_plan_box(c->p, o->out[k], r, &want);
        n = pdl_mesh_group(c->p->mesh, r, o->group, group, 4096);
        for (int64_t g = 0; g < n && g < 4096; g++) {
            bool again = false;

            pdl_plan_box(c->p, o->in[k], group[g], &have);
            for (int s = 0; s < nseen; s++)
                again = again || same_box(&seen[s], &have);
            if (again)
                continue;
            if (nseen < 64)
                seen[nseen++] = have;
            if (pdl_box_intersect(&want, &have, &common))
                got += pdl_box_volume(&common);
        }
        if (got < pdl_box_volume(&want))
            return BAD(c, "needs items that nobody in the group has");
    }
    return PDL_OK;
}

/* The group must be the one the change needs, no larger: its ranks wait for
 * each other. */
static bool group_fits(const struct plan_check *c, const struct pdl_plan_op *o,
                       int k)
{
    const struct pdl_plan_tensor *a = plan_check_tensor(c, o->in[k]);
    const struct pdl_plan_tensor *b = plan_check_tensor(c, o->out[k]);
    struct plan_layout now = {.place = a->place}, to = {.place = b->place};
    uint32_t framed = 0;

    memcpy(now.unit, a->unit, sizeof now.unit);
    memcpy(to.unit, b->unit, sizeof to.unit);

    if (o->kind == PDL_PLAN_OP_ALLTOALL)
        return o->group == plan_exchange_group(c->p->mesh, &now, &to);
    for (int f = 0; f < c->p->mesh->nfactors; f++)
        if (b->place.at[f] >= 0 &&
            b->frame[b->place.at[f]].kind != PDL_FRAME_NONE)
            framed |= UINT32_C(1) << f;
    return o->kind != PDL_PLAN_OP_HALO || o->group == framed;
}

enum pdl_status plan_check_collective(struct plan_check *c,
                                      const struct pdl_plan_op *o)
{
    enum pdl_status st = PDL_OK;

    if (o->nin != o->nout || o->nin == 0)
        return BAD(c, "has not one result for each operand");
    if (o->kind != PDL_PLAN_OP_SLICE && !o->group)
        return BAD(c, "has an empty group");
    for (int k = 0; k < o->nin && st == PDL_OK; k++) {
        st = one_move(c, o, k);
        if (st == PDL_OK && !group_fits(c, o, k))
            st = BAD(c, "has not the group that its placements need");
        if (st == PDL_OK)
            st = covered(c, o, k);
    }
    return st;
}

/* The same part of the same tensor, in the other memory. */
static bool is_copy(const struct plan_check *c, const struct pdl_plan_op *o,
                    int k)
{
    const struct pdl_plan_tensor *a = plan_check_tensor(c, o->in[k]);
    const struct pdl_plan_tensor *b = plan_check_tensor(c, o->out[k]);
    bool out = o->kind == PDL_PLAN_OP_COPY_OUT;

    if (a->host == out || b->host != out || a->dtype != b->dtype ||
        a->model_tensor != b->model_tensor || a->some != b->some ||
        a->of != b->of || !plan_same_shape(a, b))
        return false;
    for (int f = 0; f < c->p->mesh->nfactors; f++)
        if (!plan_check_alike(c, o->in[k], o->out[k], f))
            return false;
    return a->kind == b->kind || (!out && a->kind == PDL_PLAN_STATE);
}

enum pdl_status plan_check_copy(struct plan_check *c,
                                const struct pdl_plan_op *o)
{
    enum pdl_status st = PDL_OK;

    for (int k = 0; k < o->nin && st == PDL_OK; k++)
        st = is_copy(c, o, k) ? covered(c, o, k)
                              : BAD(c, "is no copy to or from the host");
    return st;
}
