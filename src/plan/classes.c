/* SPDX-License-Identifier: Apache-2.0
 *
 * Classes of ranks: ranks of one stage whose local shapes and relative halo
 * boxes are all equal do the same work. Tensors are cut in few different
 * ways, so a rank is known by its part of each distinct cut (one dimension's
 * size, unit, factors and frame), not of each tensor. Very large meshes are
 * not listed rank by rank. */
#include "text.h"

#include <string.h>

struct cut {
    uint32_t factors;
    int64_t size, unit;
    bool shares; /* samples that are dealt unevenly */
    struct pdl_frame frame;
};

struct classes {
    const struct pdl_plan *p;
    pdl_arena *arena;
    struct cut *cuts;
    int ncuts, cap, seen; /* seen: the cut found last */
    int64_t *key;         /* [rank][2 * cuts + 1] */
    int64_t *class;       /* of each rank */
    int64_t *first;       /* rank of each class */
    int64_t nclasses;
};

static bool same_cut(const struct cut *a, const struct cut *b)
{
    return a->factors == b->factors && a->size == b->size &&
           a->unit == b->unit && a->shares == b->shares &&
           a->frame.kind == b->frame.kind &&
           memcmp(&a->frame.window, &b->frame.window, sizeof a->frame.window) ==
               0;
}

static bool add_cut(struct classes *c, const struct cut *cut)
{
    if (c->ncuts > 0 && same_cut(&c->cuts[c->seen], cut))
        return true;
    for (int i = 0; i < c->ncuts; i++)
        if (same_cut(&c->cuts[i], cut)) {
            c->seen = i;
            return true;
        }
    if (c->ncuts == c->cap) {
        int cap = c->cap ? 2 * c->cap : 32;
        void *p = pdl_arena_grow(c->arena, c->cuts, (size_t)c->ncuts,
                                 (size_t)cap, sizeof *cut);

        if (!p)
            return false;
        c->cuts = p;
        c->cap = cap;
    }
    c->seen = c->ncuts;
    c->cuts[c->ncuts++] = *cut;
    return true;
}

static bool collect(struct classes *c)
{
    const struct pdl_plan *p = c->p;

    for (int t = 0; t < p->ntensors; t++)
        for (int d = 0; d < p->tensors[t].ndims; d++) {
            const struct pdl_plan_tensor *x = &p->tensors[t];
            struct cut cut = {.size = x->dim[d],
                              .unit = x->unit[d] ? x->unit[d] : 1,
                              .frame = x->frame[d],
                              .factors = plan_cutting(p->mesh, x, d),
                              .shares = plan_has_shares(p->mesh, x, d)};

            if (cut.factors && !add_cut(c, &cut))
                return false;
        }
    return true;
}

/* What the rank has of a cut: how many items, and how far a frame reaches
 * below what the split owns. */
static void part(const struct classes *c, const struct cut *cut, int64_t rank,
                 int64_t *key)
{
    const struct pdl_mesh *m = c->p->mesh;
    int64_t parts = 1, i = 0, lo, hi, first, last;

    for (int f = 0; f < m->nfactors; f++)
        if (cut->factors >> f & 1) {
            i = i * m->factor[f] + pdl_mesh_coord(m, rank, f);
            parts *= m->factor[f];
        }
    if (cut->shares)
        pdl_mesh_split(m, cut->factors, cut->size, cut->unit, parts, i, &lo,
                       &hi);
    else
        pdl_split(cut->size, cut->unit, parts, i, &lo, &hi);
    first = lo;
    last = hi;
    if (cut->frame.kind == PDL_FRAME_READS) {
        pdl_split(cut->frame.window.out, 1, parts, i, &first, &last);
        pdl_window_reads(&cut->frame.window, first, last, &first, &last);
    } else if (cut->frame.kind == PDL_FRAME_READERS) {
        pdl_split(cut->frame.window.in, 1, parts, i, &first, &last);
        pdl_window_readers(&cut->frame.window, first, last, &first, &last);
    }
    key[0] = last - first;
    key[1] = lo - first;
}

/* The rank's place in a split that is not even: its neighbours' parts may be
 * larger or smaller than those of others. */
static int64_t uneven_place(const struct classes *c, const struct cut *cut,
                            int64_t rank)
{
    const struct pdl_mesh *m = c->p->mesh;
    int64_t parts = 1, i = 0;

    for (int f = 0; f < m->nfactors; f++)
        if (cut->factors >> f & 1) {
            i = i * m->factor[f] + pdl_mesh_coord(m, rank, f);
            parts *= m->factor[f];
        }
    return !cut->shares && cut->size % (cut->unit * parts) == 0 ? 0 : i + 1;
}

/* Of each of n ranks: its part of every cut, and then its places. */
static int64_t *keys_of(struct classes *c, const int64_t *ranks, int n)
{
    int64_t *key = PDL_NEW(c->arena, int64_t, 3 * c->ncuts * n + 1);

    for (int r = 0; key && r < n; r++)
        for (int i = 0; i < c->ncuts; i++) {
            int64_t *x = key + (ptrdiff_t)3 * c->ncuts * r;

            part(c, &c->cuts[i], ranks[r], x + (ptrdiff_t)2 * i);
            x[2 * c->ncuts + i] = uneven_place(c, &c->cuts[i], ranks[r]);
        }
    return key;
}

enum pdl_status pdl_plan_alike(pdl_arena *a, const struct pdl_plan *p,
                               const int64_t *ranks, int n, int *like,
                               int *twin)
{
    struct classes c = {.p = p, .arena = a};
    int64_t *key;
    size_t shape, place;

    if (!collect(&c) || !(key = keys_of(&c, ranks, n)))
        return PDL_ENOMEM;
    shape = 2 * (size_t)c.ncuts;
    place = (size_t)c.ncuts;
    for (int i = 0; i < n; i++) {
        const int64_t *x = key + (ptrdiff_t)3 * c.ncuts * i;

        like[i] = twin[i] = i;
        for (int k = 0; k < i && twin[i] == i; k++) {
            const int64_t *y = key + (ptrdiff_t)3 * c.ncuts * k;

            if (like[i] == i && like[k] == k &&
                memcmp(x, y, shape * sizeof *x) == 0)
                like[i] = k;
            if (like[i] == like[k] && twin[k] == k &&
                memcmp(x + shape, y + shape, place * sizeof *x) == 0)
                twin[i] = k;
        }
    }
    return PDL_OK;
}

/* Ranks by class; a hash table of keys keeps it linear. */
static bool classify(struct classes *c)
{
    int64_t pes = c->p->mesh->pes, width = 2 * c->ncuts + 1, nslots;
    int64_t *slot;

    nslots = 2 * pes + 1;
    c->key = PDL_NEW(c->arena, int64_t, pes * width);
    c->class = PDL_NEW(c->arena, int64_t, pes);
    c->first = PDL_NEW(c->arena, int64_t, pes);
    slot = PDL_NEW(c->arena, int64_t, nslots);
    if (!c->key || !c->class || !c->first || !slot)
        return false;
    for (int64_t r = 0; r < pes; r++) {
        int64_t *key = c->key + r * width;
        uint64_t h = UINT64_C(14695981039346656037);
        size_t s;

        key[0] = pdl_plan_rank_lane(c->p, r);
        for (int i = 0; i < c->ncuts; i++)
            part(c, &c->cuts[i], r, key + 1 + 2 * (int64_t)i);
        for (int64_t i = 0; i < width; i++)
            h = (h ^ (uint64_t)key[i]) * UINT64_C(1099511628211);
        s = (size_t)(h % (uint64_t)nslots);
        while (slot[s] && memcmp(c->key + c->first[slot[s] - 1] * width, key,
                                 (size_t)width * sizeof *key) != 0)
            s = (s + 1) % (size_t)nslots;
        if (!slot[s]) {
            c->first[c->nclasses] = r;
            slot[s] = ++c->nclasses;
        }
        c->class[r] = slot[s] - 1;
    }
    return true;
}

/* "0-3,8": the ranks of each class, in one pass over the ranks a class. */
static void put_ranks(const struct classes *c, int64_t k, struct pdl_sink *out)
{
    int64_t pes = c->p->mesh->pes;
    const char *sign = "";

    for (int64_t r = c->first[k]; r < pes; r++) {
        int64_t end = r;

        if (c->class[r] != k)
            continue;
        while (end + 1 < pes && c->class[end + 1] == k)
            end++;
        pdl_printf(out, "%s%lld", sign, (long long)r);
        if (end > r)
            pdl_printf(out, "-%lld", (long long)end);
        sign = ",";
        r = end;
    }
}

enum pdl_status plan_text_classes(const struct pdl_plan *p,
                                  struct pdl_sink *out)
{
    enum { MOST = 64 };
    struct classes c = {.p = p};
    enum pdl_status st = PDL_OK;

    if (p->mesh->pes > PLAN_TEXT_MAX_PES)
        return PDL_EINVAL;
    c.arena = pdl_arena_create(PDL_ARENA_DEFAULT);
    if (!c.arena || !collect(&c) || !classify(&c))
        st = PDL_ENOMEM;
    for (int64_t k = 0; st == PDL_OK && k < c.nclasses && k < MOST; k++) {
        pdl_printf(out, "class %lld stage=%lld ranks=", (long long)k,
                   (long long)pdl_plan_rank_lane(p, c.first[k]));
        put_ranks(&c, k, out);
        pdl_puts(out, "\n");
    }
    if (st == PDL_OK && c.nclasses > MOST)
        pdl_printf(out, "class %d more=%lld\n", MOST,
                   (long long)(c.nclasses - MOST));
    pdl_arena_destroy(c.arena);
    return st;
}
