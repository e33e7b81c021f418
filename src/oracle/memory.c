/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory from lifetimes: what is live at the worst operation of the worst
 * rank. Weights and optimizer state live for ever, a gradient of a weight
 * until its update, everything else until the plan frees it. memory=paper is
 * the closed form of the papers: every layer keeps its own x, y and w, and
 * the gradients of each (factor 2), nothing is reused. */
#include "oracle_priv.h"

#include <string.h>

struct tally {
    int64_t updated;     /* bytes of weights that this rank updates */
    const int64_t *size; /* bytes of each tensor on this rank */
    int64_t live[8];     /* by enum pdl_plan_kind */
};

static int64_t size_of(const struct oracle *o, int t, int64_t rank)
{
    return oracle_bytes(o, t, rank);
}

static int64_t sum(const struct tally *t)
{
    int64_t n = 0;

    for (int k = 0; k < 8; k++)
        n += t->live[k];
    return n;
}

static bool in_stage(const struct oracle *o, int t, int stage)
{
    return o->p->tensors[t].stage == stage;
}

static void note(const struct oracle *o, const struct tally *t,
                 struct pdl_projection *out)
{
    int64_t weights = t->live[PDL_PLAN_WEIGHT];
    int64_t state = t->updated * o->opt->optimizer_slots;
    int64_t all = sum(t) + state;

    if (all <= out->allocated_bytes)
        return;
    out->allocated_bytes = all;
    out->weights_bytes = weights;
    out->optimizer_bytes = state;
    out->gradients_bytes = t->live[PDL_PLAN_WEIGHT_GRADIENT];
    out->activations_bytes = all - weights - state - out->gradients_bytes;
}

/* Weights are there all the time: an update or a gather only renews them. */
static bool is_kept(const struct oracle *o, int t)
{
    return o->p->tensors[t].kind == PDL_PLAN_WEIGHT ||
           o->p->tensors[t].kind == PDL_PLAN_STATE;
}

static void walk(const struct oracle *o, int stage, int first_item, int nitems,
                 struct tally *t, struct pdl_projection *out)
{
    for (int i = first_item; i < first_item + nitems; i++)
        for (int k = 0; k < o->p->items[i].nops; k++) {
            const struct pdl_plan_op *op =
                &o->p->ops[o->p->items[i].first_op + k];

            for (int j = 0; j < op->nout; j++)
                if (in_stage(o, op->out[j], stage) && !is_kept(o, op->out[j]))
                    t->live[o->p->tensors[op->out[j]].kind] +=
                        t->size[op->out[j]];
            note(o, t, out);
            for (int j = 0; op->kind == PDL_PLAN_OP_FREE && j < op->nin; j++)
                t->live[o->p->tensors[op->in[j]].kind] -= t->size[op->in[j]];
        }
}

/* Optimizer state goes with what the rank updates: its weights, or with ZeRO
 * its parts of them. */
static int64_t updated(const struct oracle *o, const struct pdl_plan_stage *s,
                       const int64_t *size)
{
    int64_t n = 0;

    for (int i = s->first_update; i < s->first_update + s->nupdate; i++)
        for (int k = 0; k < o->p->items[i].nops; k++) {
            const struct pdl_plan_op *op =
                &o->p->ops[o->p->items[i].first_op + k];

            for (int j = 0; op->kind == PDL_PLAN_OP_UPDATE && j < op->nout; j++)
                n += size[op->out[j]];
        }
    return n;
}

/* What stays while other stages of the lane run. */
struct held {
    int64_t saved, gradients;
};

static struct tally start_tally(const struct oracle *o, int lane,
                                const int64_t *size)
{
    struct tally t = {.size = size};

    for (int i = 0; i < o->p->ntensors; i++) {
        enum pdl_plan_kind k = o->p->tensors[i].kind;

        if (o->p->tensors[i].stage % o->p->lanes == lane &&
            (k == PDL_PLAN_WEIGHT || k == PDL_PLAN_INPUT ||
             k == PDL_PLAN_LABEL))
            t.live[k] += size[i];
    }
    for (int s = lane; s < o->p->nstages; s += o->p->lanes)
        t.updated += updated(o, &o->p->stages[s], size);
    return t;
}

/* One stage of the lane, the others holding what they hold. */
static struct held walk_stage(const struct oracle *o, int stage,
                              const struct tally *start,
                              const struct held *others,
                              struct pdl_projection *out)
{
    const struct pdl_plan_stage *s = &o->p->stages[stage];
    struct tally t = *start;
    int64_t before = t.live[PDL_PLAN_ACTIVATION] + t.live[PDL_PLAN_STATISTIC];
    struct held mine;

    t.live[PDL_PLAN_ACTIVATION] += others->saved;
    t.live[PDL_PLAN_WEIGHT_GRADIENT] += others->gradients;
    walk(o, stage, s->first_forward, s->nforward, &t, out);
    mine.saved = t.live[PDL_PLAN_ACTIVATION] + t.live[PDL_PLAN_STATISTIC] -
                 before - others->saved + t.live[PDL_PLAN_INPUT];
    t.live[PDL_PLAN_ACTIVATION] +=
        mine.saved * (oracle_in_flight(o, stage) - 1);
    walk(o, stage, s->first_backward, s->nbackward, &t, out);
    mine.gradients = t.live[PDL_PLAN_WEIGHT_GRADIENT] - others->gradients;
    walk(o, stage, s->first_update, s->nupdate, &t, out);
    mine.saved *= oracle_in_flight(o, stage);
    return mine;
}

static void by_lifetimes(const struct oracle *o, int lane, const int64_t *size,
                         struct pdl_projection *out)
{
    struct pdl_projection ignored = {.allocated_bytes = INT64_MAX};
    struct held nothing = {0, 0}, all = {0, 0}, one[ORACLE_MAX_STAGES];
    struct tally start = start_tally(o, lane, size);
    int n = o->p->nstages / o->p->lanes;

    if (n == 1) {
        walk_stage(o, lane, &start, &nothing, out);
        return;
    }
    for (int k = 0; k < n; k++) {
        one[k] =
            walk_stage(o, lane + k * o->p->lanes, &start, &nothing, &ignored);
        all.saved += one[k].saved;
        all.gradients += one[k].gradients;
    }
    for (int k = 0; k < n; k++) {
        struct held others = {all.saved - one[k].saved,
                              all.gradients - one[k].gradients};

        walk_stage(o, lane + k * o->p->lanes, &start, &others, out);
    }
}

/* ---- the papers' closed form ----------------------------------------------- */

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

        if (!value || t->model_tensor < 0 || !in_stage(o, i, stage) ||
            is_framed(t))
            continue;
        n = size_of(o, i, rank);
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

        if (op < 0 || !in_stage(o, o->p->ops[op].out[0], stage))
            continue;
        for (int k = 0; k < n->nin; k++)
            sum += size[n->in[k]];
        for (int k = 0; k < n->nout; k++)
            sum += size[n->out[k]];
    }
    return sum;
}

/* 2 * (B (x + y) + w): every layer keeps its own, values and gradients, of
 * all micro-batches that are in flight; nothing is reused. */
static void by_paper(const struct oracle *o, int stage, int64_t rank,
                     int64_t *size, struct pdl_projection *out)
{
    int64_t act, weights = 0;

    buffers(o, stage, rank, size);
    act = layer_buffers(o, stage, size) * oracle_in_flight(o, stage);
    for (int i = 0; i < o->p->ntensors; i++) {
        const struct pdl_plan_tensor *t = &o->p->tensors[i];

        if (t->kind == PDL_PLAN_WEIGHT && in_stage(o, i, stage) &&
            o->p->model->tensors[t->model_tensor].kind == PDL_TENSOR_WEIGHT)
            weights += size_of(o, i, rank);
    }
    if (2 * (act + weights) <= out->allocated_bytes)
        return;
    out->allocated_bytes = 2 * (act + weights);
    out->activations_bytes = 2 * act;
    out->weights_bytes = weights;
    out->gradients_bytes = weights;
}

static void sizes(const struct oracle *o, int stage, int64_t rank,
                  int64_t *size)
{
    for (int i = 0; i < o->p->ntensors; i++)
        size[i] = o->p->tensors[i].stage % o->p->lanes == stage % o->p->lanes
                      ? size_of(o, i, rank)
                      : 0;
}

bool oracle_memory(const struct oracle *o, struct pdl_projection *out)
{
    int most = o->p->ntensors > o->p->model->ntensors ? o->p->ntensors
                                                      : o->p->model->ntensors;
    int64_t *size = PDL_NEW(o->arena, int64_t, most + 1);
    struct oracle_ranks r;

    if (!size)
        return false;
    for (int s = 0; s < o->p->nstages; s++) {
        oracle_find_ranks(o, s, &r);
        for (int i = 0; i < r.n; i++) {
            if (r.like[i] != i)
                continue;
            if (o->p->strategy->memory_paper) {
                by_paper(o, s, r.rank[i], size, out);
            } else if (s < o->p->lanes) {
                sizes(o, s, r.rank[i], size);
                by_lifetimes(o, s, size, out);
            }
        }
    }
    out->reserved_bytes = out->allocated_bytes;
    out->peak_bytes = out->reserved_bytes;
    out->capacity_bytes =
        (int64_t)((double)o->sys->pe.memory_bytes *
                  (o->sys->pe.memory_usable > 0 ? o->sys->pe.memory_usable
                                                : 1));
    return true;
}
