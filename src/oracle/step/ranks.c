/* SPDX-License-Identifier: Apache-2.0
 *
 * Representative ranks. A split by floors has at most two sizes, the smaller
 * first; borders have one-sided halos. So per factor the first, the second,
 * the middle and the last coordinate show everything; to bound the product,
 * factors beyond the third take first and last only. Messages of splits that
 * are not even depend on the neighbours' parts too: there all ranks of a group
 * are looked at. */
#include "oracle/oracle_priv.h"

static int choices(int64_t n, bool few, int64_t *out)
{
    int k = 0;

    out[k++] = 0;
    if (n > 1)
        out[k++] = n - 1;
    if (!few && n > 2)
        out[k++] = n / 2;
    return k;
}

/* Uneven shares: the first rank of each, and the last; a few more show all
 * sizes that rounding makes. */
enum { MAX_COORDS = 16 };
static int shared_choices(const struct pdl_mesh *m, int64_t *out)
{
    int64_t at = 0;
    int k = 0;

    for (int i = 0; i < m->nparts && k + 2 < MAX_COORDS; i++) {
        out[k++] = at;
        at += m->part[i].count;
        if (m->part[i].count > 1)
            out[k++] = at - 1;
    }
    return k;
}

int oracle_ranks(const struct pdl_plan *p, int stage, int64_t *ranks)
{
    int64_t coord[MAX_COORDS], list[ORACLE_MAX_RANKS];
    int64_t first = pdl_plan_lane_rank(p, pdl_plan_lane(p, stage));
    int n = 1, seen = 0;

    ranks[0] = 0;
    for (int f = 0; f < p->mesh->nfactors; f++) {
        bool pipe = p->pipe_factors >> f & 1;
        bool shared = p->mesh->nparts > 0 && f == p->mesh->dealt;
        int k = pipe     ? 1
                : shared ? shared_choices(p->mesh, coord)
                         : choices(p->mesh->factor[f], seen >= 3, coord);
        int m = 0;

        if (pipe)
            coord[0] = pdl_mesh_coord(p->mesh, first, f);
        seen += !pipe;
        for (int i = 0; i < n; i++)
            for (int c = 0; c < k && m < ORACLE_MAX_RANKS; c++)
                list[m++] = ranks[i] * p->mesh->factor[f] + coord[c];
        n = m;
        for (int i = 0; i < n; i++)
            ranks[i] = list[i];
    }
    return n;
}

/* Stages do not cut tensors, so what is alike in one is alike in all. */
bool oracle_find_alike(struct oracle *o)
{
    struct oracle_ranks *r = PDL_NEW(o->arena, struct oracle_ranks, 1);

    if (!r)
        return false;
    r->n = oracle_ranks(o->p, 0, r->rank);
    o->alike = r;
    return pdl_plan_alike(o->arena, o->p, r->rank, r->n, r->like, r->twin) ==
           PDL_OK;
}

/* Ranks with PEs of different kinds are not alike. */
static void part_kinds(const struct oracle *o, struct oracle_ranks *r)
{
    int64_t kind[ORACLE_MAX_RANKS] = {0};
    int like[ORACLE_MAX_RANKS] = {0}, twin[ORACLE_MAX_RANKS] = {0};

    for (int i = 0; i < r->n; i++) {
        kind[i] = oracle_kind(o, r->rank[i]);
        like[i] = twin[i] = i;
        for (int k = i - 1; k >= 0; k--) {
            if (kind[k] == kind[i] && r->like[k] == r->like[i])
                like[i] = k;
            if (kind[k] == kind[i] && r->twin[k] == r->twin[i])
                twin[i] = k;
        }
    }
    for (int i = 0; i < r->n; i++) {
        r->like[i] = like[i];
        r->twin[i] = twin[i];
    }
}

void oracle_find_ranks(const struct oracle *o, int stage,
                       struct oracle_ranks *out)
{
    *out = *o->alike;
    out->stage = stage;
    oracle_ranks(o->p, stage, out->rank);
    if (o->sys->npe_groups > 0)
        part_kinds(o, out);
}

static bool is_uneven(const struct oracle *o, int tensor)
{
    const struct pdl_plan_tensor *t = &o->p->tensors[tensor];
    int64_t parts[PDL_BOX_DIMS];

    for (int d = 0; d < t->ndims; d++)
        parts[d] = 1;
    for (int f = 0; f < o->p->mesh->nfactors; f++)
        if (t->place.at[f] >= 0)
            parts[t->place.at[f]] *= o->p->mesh->factor[f];
    for (int d = 0; d < t->ndims; d++) {
        const struct pdl_frame *w = &t->frame[d];

        if (t->dim[d] % (parts[d] * (t->unit[d] > 1 ? t->unit[d] : 1)) != 0 ||
            (w->kind != PDL_FRAME_NONE &&
             (w->window.in % parts[d] != 0 || w->window.out % parts[d] != 0)))
            return true;
    }
    return false;
}

/* Those that a message goes between, or that hold parts of what is copied. */
static uint32_t concerned(const struct oracle *o, const struct pdl_plan_op *x)
{
    uint32_t cut = 0;

    if (!oracle_is_copy(x->kind))
        return x->group;
    for (int f = 0; f < o->p->mesh->nfactors; f++)
        if (o->p->tensors[x->in[0]].place.at[f] >= 0)
            cut |= UINT32_C(1) << f;
    return cut;
}

int oracle_more_ranks(const struct oracle *o, int op, const int64_t *ranks,
                      int n, int64_t *more)
{
    const struct pdl_plan_op *x = &o->p->ops[op];
    int64_t last = ranks[0], found;

    if ((x->kind != PDL_PLAN_OP_HALO && x->kind != PDL_PLAN_OP_ALLTOALL &&
         !oracle_is_copy(x->kind)) ||
        (!is_uneven(o, x->in[0]) && !is_uneven(o, x->out[0])))
        return 0;
    for (int i = 0; i < n; i++) /* what else is cut: the largest parts */
        last = ranks[i] > last ? ranks[i] : last;
    found =
        pdl_mesh_group(o->p->mesh, last, concerned(o, x), more, ORACLE_MORE);
    return found <= ORACLE_MORE ? (int)found : 0;
}
