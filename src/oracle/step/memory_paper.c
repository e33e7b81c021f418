/* SPDX-License-Identifier: Apache-2.0
 *
 * memory=paper: the closed form of the papers. Every layer keeps its own x, y
 * and w, and the gradients of each (factor 2); nothing is reused. */
#include "oracle/oracle_priv.h"

#include <string.h>

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

bool oracle_memory_paper(const struct oracle *o, int lane, bool all,
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
