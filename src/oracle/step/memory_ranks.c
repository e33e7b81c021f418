/* SPDX-License-Identifier: Apache-2.0
 *
 * The fullest PE: of the representative ranks, those are walked (memory.c) of
 * which some tensor is larger than on every rank before. */
#include "oracle/step/stage.h"

#include <string.h>

/* Values that a fused kernel makes again for backward: the activation inside
 * a gated feed-forward. */
bool *oracle_find_inside(const struct oracle *o)
{
    const struct pdl_framework *f = o->opt->framework;
    const struct pdl_model *m = o->p->model;
    bool *inside = PDL_NEW(o->arena, bool, m->ntensors + 1);

    for (int i = 0; inside && f && f->fused && i + 1 < m->nnodes; i++)
        if (strcmp(m->nodes[i].op->name, "silu") == 0 &&
            strcmp(m->nodes[i + 1].op->name, "mul") == 0)
            inside[m->nodes[i].out[0]] = true;
    return inside;
}

void oracle_sizes(const struct oracle *o, int stage, int64_t rank,
                  const bool *inside, int64_t *size)
{
    int lane = pdl_plan_lane(o->p, stage);

    for (int i = 0; i < o->p->ntensors; i++) {
        int form = oracle_tensor_form(o, i);

        size[i] = form < i ? size[form] : oracle_bytes(o, i, rank);
    }
    for (int i = 0; i < o->p->ntensors; i++) {
        const struct pdl_plan_tensor *t = &o->p->tensors[i];
        bool again = t->kind == PDL_PLAN_ACTIVATION && t->model_tensor >= 0 &&
                     inside[t->model_tensor];

        if (again ||
            (t->stage != stage && pdl_plan_lane(o->p, t->stage) != lane))
            size[i] = 0;
    }
}

/* What the allocator reserves, and what the device holds beside it. */
void oracle_fill_device(const struct oracle *o, struct pdl_projection *out)
{
    const struct pdl_framework *f =
        o->opt->parameters == PDL_IDEAL ? NULL : o->opt->framework;

    out->reserved_bytes = out->allocated_bytes;
    if (f)
        out->reserved_bytes +=
            (int64_t)((double)out->activations_bytes * f->fragments);
    out->peak_bytes = out->reserved_bytes + (f ? (int64_t)f->context_bytes : 0);
    out->capacity_bytes = oracle_capacity(o);
}

/* Sizes of all tensors on the ranks that were walked. */
struct walked {
    int n;
    int64_t *size[ORACLE_MAX_RANKS];
};

/* Is no tensor larger than on one of the ranks before? Then it needs no more. */
static bool fits_into(const int64_t *size, const struct walked *before, int n)
{
    for (int k = 0; k < before->n; k++) {
        int i = 0;

        while (i < n && size[i] <= before->size[k][i])
            i++;
        if (i == n)
            return true;
    }
    return false;
}

static void remember(const struct oracle *o, const int64_t *size,
                     struct walked *w)
{
    size_t n = (size_t)o->p->ntensors;

    if (!w->size[w->n])
        w->size[w->n] = PDL_NEW(o->arena, int64_t, n + 1);
    if (w->size[w->n]) /* without: the next is walked too */
        memcpy(w->size[w->n++], size, n * sizeof *size);
}

/* The last parts of a split are the largest: they come first. */
static void walk_ranks(const struct oracle *o, int stage, const bool *inside,
                       int64_t *size, struct walked *before,
                       struct pdl_projection *out)
{
    struct oracle_ranks r;

    before->n = 0;
    oracle_find_ranks(o, stage, &r);
    for (int i = r.n - 1; i >= 0; i--) {
        if (r.like[i] != i)
            continue;
        if (o->p->strategy->memory_paper) {
            oracle_memory_paper(o, stage, r.rank[i], size, out);
            continue;
        }
        oracle_sizes(o, stage, r.rank[i], inside, size);
        if (fits_into(size, before, o->p->ntensors))
            continue;
        oracle_by_lifetimes(o, stage, r.rank[i], size, out);
        if (i > 0)
            remember(o, size, before);
    }
}

/* The papers' reuse factor, on the rank with the last parts. */
static double reuse(const struct oracle *o, int64_t *size,
                    const struct pdl_projection *x)
{
    struct pdl_projection kept = {.allocated_bytes = 0};
    struct oracle_ranks r;

    for (int s = 0; s < o->p->nstages; s++) {
        int64_t last = 0;

        oracle_find_ranks(o, s, &r);
        for (int i = 0; i < r.n; i++)
            last = r.rank[i] > last ? r.rank[i] : last;
        oracle_memory_paper(o, s, last, size, &kept);
    }
    return kept.allocated_bytes > 0
               ? (double)(x->allocated_bytes - x->optimizer_bytes) /
                     (double)kept.allocated_bytes
               : 0;
}

bool oracle_memory_lane(const struct oracle *o, int lane,
                        struct pdl_projection *out)
{
    int most = o->p->ntensors > o->p->model->ntensors ? o->p->ntensors
                                                      : o->p->model->ntensors;
    int64_t *size = PDL_NEW(o->arena, int64_t, most + 1);
    struct walked before = {.n = 0};
    const bool *inside = oracle_find_inside(o);

    if (!size || !inside)
        return false;
    for (int s = 0; s < o->p->nstages; s++)
        if ((o->p->strategy->memory_paper || s < o->p->lanes) &&
            (lane < 0 || pdl_plan_lane(o->p, s) == lane))
            walk_ranks(o, s, inside, size, &before, out);
    if (lane < 0) /* of a whole plan */
        out->gamma = reuse(o, size, out);
    oracle_fill_device(o, out);
    return true;
}

bool oracle_memory(const struct oracle *o, struct pdl_projection *out)
{
    return oracle_memory_lane(o, -1, out);
}
