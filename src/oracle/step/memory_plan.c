/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes of a plan: of the representative ranks, those are walked (memory.c) of
 * which some tensor is larger than on every rank before. memory=paper: the
 * closed form of the papers. Every layer keeps its own x, y and w, and the
 * gradients of each (factor 2); nothing is reused. */
#include "oracle/step/step.h"

#include <string.h>

/* Values that a fused kernel makes again for backward: the activation inside
 * a gated feed-forward. */
bool *oracle_find_inside(const struct oracle *o)
{
    const struct pdl_framework *f = o->opt->framework;
    const struct pdl_model *m = o->p->model;
    bool *inside = PDL_NEW(o->arena, bool, m->ntensors + 1);

    for (int i = 0; inside && f && f->fused && i + 1 < m->nnodes; i++)
        if (pdl_op_id(m->nodes[i].op) == PDL_ID_SILU &&
            pdl_op_id(m->nodes[i + 1].op) == PDL_ID_MUL)
            inside[m->nodes[i].out[0]] = true;
    return inside;
}

void oracle_all_sizes(const struct oracle *o, int64_t rank, const bool *inside,
                      int64_t *all)
{
    for (int i = 0; i < o->p->ntensors; i++) {
        const struct pdl_plan_tensor *t = &o->p->tensors[i];

        all[i] = t->kind == PDL_PLAN_ACTIVATION && t->model_tensor >= 0 &&
                         inside[t->model_tensor]
                     ? 0
                     : oracle_bytes(o, i, rank);
    }
}

void oracle_sizes_of(const struct oracle *o, int stage, const int64_t *all,
                     int64_t *size)
{
    for (int i = 0; i < o->p->ntensors; i++)
        size[i] = o->p->tensors[i].stage == stage ? all[i] : 0;
}

/* Ranks that are looked at, and sizes of all tensors there. */
struct looked_at {
    int n;
    int rank[ORACLE_MAX_RANKS];
    int64_t *size[ORACLE_MAX_RANKS];
};

/* Is no tensor larger than on one of the ranks before? Then it needs no more. */
static bool fits_into(const struct looked_at *x, const int64_t *size, int n)
{
    for (int k = 0; k < x->n; k++) {
        int i = 0;

        while (i < n && size[i] <= x->size[k][i])
            i++;
        if (i == n)
            return true;
    }
    return false;
}

/* The last parts of a split are the largest: they come first. */
static bool choose_ranks(const struct oracle *o, struct looked_at *x)
{
    const bool *inside = oracle_find_inside(o);
    struct oracle_ranks r;
    int n = o->p->ntensors;

    oracle_find_ranks(o, 0, &r);
    for (int i = r.n - 1; inside && i >= 0; i--) {
        int64_t **size = &x->size[x->n];

        if (r.like[i] != i)
            continue;
        if (!*size && !(*size = PDL_NEW(o->arena, int64_t, n + 1)))
            return false;
        oracle_all_sizes(o, r.rank[i], inside, *size);
        if (!fits_into(x, *size, n))
            x->rank[x->n++] = i;
    }
    return inside != NULL;
}

static bool live_stage(const struct oracle *o, const struct looked_at *x,
                       int stage, int64_t *size, struct stage_work *w,
                       struct stage_exchange *u)
{
    struct stage_live *live = PDL_NEW(o->arena, struct stage_live, x->n + 1);
    struct oracle_lived *lived =
        PDL_NEW(o->arena, struct oracle_lived, x->n + 1);
    struct oracle_ranks r;

    oracle_find_ranks(o, stage, &r);
    for (int k = 0; live && lived && k < x->n; k++) {
        int64_t rank = r.rank[x->rank[k]];

        oracle_sizes_of(o, stage, x->size[k], size);
        oracle_live_passes(o, stage, w->shape, rank, size, &live[k]);
        oracle_live_update(o, stage, rank, size, &lived[k]);
    }
    w->live = live;
    u->lived = lived;
    return live && lived;
}

bool oracle_plan_lives(struct step *c, struct stage_work *work,
                       struct stage_exchange *update)
{
    const struct oracle *o = c->o;
    struct looked_at x = {.n = 0};
    uint8_t *slot = PDL_NEW(o->arena, uint8_t, ORACLE_MAX_RANKS);
    int64_t *size = PDL_NEW(o->arena, int64_t, o->p->ntensors + 1);

    if (!slot || !size || !choose_ranks(o, &x))
        return false;
    for (int s = 0; s < o->p->nstages; s++)
        if (!live_stage(o, &x, s, size, &work[s], &update[s]) ||
            !oracle_live_kind(c, &c->stage[s], x.n))
            return false;
    for (int i = 0; i < x.n; i++)
        slot[i] = (uint8_t)(x.n - 1 - i); /* the first is looked at last */
    c->nranks = x.n;
    c->held_work = c->held_update = slot;
    return true;
}

/* ---- the papers' closed form ---------------------------------------------------- */

static bool is_framed(const struct pdl_plan_tensor *t)
{
    for (int d = 0; d < t->ndims; d++)
        if (t->frame[d].kind != PDL_FRAME_NONE)
            return true;
    return false;
}

/* The buffer of each value on this rank: what its producer hands over, the
 * largest form of it without a halo. */
static void buffers(const struct oracle *o, int stage, int64_t rank,
                    int64_t *size)
{
    memset(size, 0, (size_t)o->p->model->ntensors * sizeof *size);
    for (int i = 0; i < o->p->ntensors; i++) {
        const struct pdl_plan_tensor *t = &o->p->tensors[i];
        bool value =
            t->kind == PDL_PLAN_ACTIVATION || t->kind == PDL_PLAN_INPUT;
        int64_t n;

        if (!value || t->model_tensor < 0 || t->stage != stage || is_framed(t))
            continue;
        n = oracle_bytes(o, i, rank);
        if (n > size[t->model_tensor])
            size[t->model_tensor] = n;
    }
}

/* x + y of every layer of the stage: each has buffers of its own. */
static int64_t layer_buffers(const struct oracle *o, int stage,
                             const int64_t *size)
{
    int64_t sum = 0;

    for (int i = 0; i < o->p->model->nnodes; i++) {
        const struct pdl_node *n = &o->p->model->nodes[i];
        int op = o->p->forward_op[i];

        if (op < 0 || o->p->tensors[o->p->ops[op].out[0]].stage != stage)
            continue;
        for (int k = 0; k < n->nin; k++)
            sum += oracle_times(o, o->p->ops[op].round) * size[n->in[k]];
        for (int k = 0; k < n->nout; k++)
            sum += oracle_times(o, o->p->ops[op].round) * size[n->out[k]];
    }
    return sum;
}

/* 2 * (B (x + y) + w): every layer keeps its own, values and gradients, of
 * all micro-batches that are in flight; nothing is reused. */
static void by_layers(const struct oracle *o, int stage, int64_t rank,
                      int64_t *size, struct pdl_projection *out)
{
    int64_t act, weights = 0;

    buffers(o, stage, rank, size);
    act = layer_buffers(o, stage, size) * oracle_in_flight(o, stage);
    for (int i = 0; i < o->p->ntensors; i++) {
        const struct pdl_plan_tensor *t = &o->p->tensors[i];

        if (t->kind == PDL_PLAN_WEIGHT && t->stage == stage &&
            o->p->model->tensors[t->model_tensor].kind == PDL_TENSOR_WEIGHT)
            weights += oracle_times(o, t->round) * oracle_bytes(o, i, rank);
    }
    if (2 * (act + weights) <= out->allocated_bytes)
        return;
    out->allocated_bytes = 2 * (act + weights);
    out->activations_bytes = 2 * act;
    out->weights_bytes = weights;
    out->gradients_bytes = weights;
}

/* On every rank, or those with the last parts, of a lane (-1: of all); false:
 * out of memory. */
static bool by_paper(const struct oracle *o, int lane, bool all,
                     struct pdl_projection *out)
{
    int64_t *size = PDL_NEW(o->arena, int64_t, o->p->model->ntensors + 1);
    struct oracle_ranks r;

    for (int s = 0; size && s < o->p->nstages; s++) {
        int last = 0;

        if (lane >= 0 && pdl_plan_lane(o->p, s) != lane)
            continue;
        oracle_find_ranks(o, s, &r);
        for (int i = r.n - 1; i >= 0; i--) {
            last = r.rank[i] > r.rank[last] ? i : last;
            if (all && r.like[i] == i)
                by_layers(o, s, r.rank[i], size, out);
        }
        if (!all)
            by_layers(o, s, r.rank[last], size, out);
    }
    return size != NULL;
}

bool oracle_plan_memory(const struct step *c, int lane,
                        struct pdl_projection *out)
{
    struct pdl_projection kept = {.allocated_bytes = 0};

    if (!c->o->p->strategy->memory_paper)
        oracle_step_memory(c, lane, out);
    else if (by_paper(c->o, lane, true, out))
        oracle_fill_device(c->o, out);
    else
        return false;
    if (lane >= 0)
        return true;
    if (!by_paper(c->o, lane, false, &kept))
        return false;
    out->gamma = kept.allocated_bytes > 0
                     ? (double)(out->allocated_bytes - out->optimizer_bytes) /
                           (double)kept.allocated_bytes
                     : 0;
    return true;
}
