/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory from lifetimes: what is live at the worst operation of the worst
 * rank. Weights and optimizer state live for ever, a gradient of a weight
 * until its update, everything else until the plan frees it. memory=paper is
 * the closed form of the papers: every layer keeps its own x, y and w, and
 * the gradients of each (factor 2), nothing is reused. */
#include "oracle_priv.h"

struct tally {
    int64_t live[8]; /* by enum pdl_plan_kind */
    int64_t buffers; /* results of collectives, among the above */
};

static int64_t size_of(const struct oracle *o, int t, int64_t rank)
{
    return pdl_plan_elements(o->p, t, rank) *
           pdl_dtype_bits(o->p->tensors[t].dtype) / 8;
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
    int64_t state = weights * o->opt->optimizer_slots;
    int64_t all = sum(t) + state;

    if (all <= out->allocated_bytes)
        return;
    out->allocated_bytes = all;
    out->weights_bytes = weights;
    out->optimizer_bytes = state;
    out->gradients_bytes = t->live[PDL_PLAN_WEIGHT_GRADIENT];
    out->activations_bytes = all - weights - state - out->gradients_bytes;
}

static void walk(const struct oracle *o, int stage, int64_t rank,
                 int first_item, int nitems, struct tally *t,
                 struct pdl_projection *out)
{
    for (int i = first_item; i < first_item + nitems; i++)
        for (int k = 0; k < o->p->items[i].nops; k++) {
            const struct pdl_plan_op *op =
                &o->p->ops[o->p->items[i].first_op + k];

            for (int j = 0; op->kind != PDL_PLAN_OP_UPDATE && j < op->nout; j++)
                if (in_stage(o, op->out[j], stage))
                    t->live[o->p->tensors[op->out[j]].kind] +=
                        size_of(o, op->out[j], rank);
            note(o, t, out);
            for (int j = 0; op->kind == PDL_PLAN_OP_FREE && j < op->nin; j++)
                t->live[o->p->tensors[op->in[j]].kind] -=
                    size_of(o, op->in[j], rank);
        }
}

/* Micro-batches whose activations a stage holds at a time: all of them under
 * GPipe, as many as there are stages from here on under 1F1B. */
static int64_t in_flight(const struct oracle *o, int stage)
{
    int64_t m = o->p->micro_batches, rest = o->p->nstages - stage;

    if (o->p->nstages == 1)
        return 1; /* accumulation: one after the other */
    return o->p->strategy->schedule == PDL_SCHEDULE_GPIPE || m < rest ? m
                                                                      : rest;
}

static void by_lifetimes(const struct oracle *o, int stage, int64_t rank,
                         struct pdl_projection *out)
{
    const struct pdl_plan_stage *s = &o->p->stages[stage];
    struct tally t = {.buffers = 0};
    int64_t saved;

    for (int i = 0; i < o->p->ntensors; i++) {
        enum pdl_plan_kind k = o->p->tensors[i].kind;

        if (in_stage(o, i, stage) &&
            (k == PDL_PLAN_WEIGHT || k == PDL_PLAN_INPUT ||
             k == PDL_PLAN_LABEL))
            t.live[k] += size_of(o, i, rank);
    }
    walk(o, stage, rank, s->first_forward, s->nforward, &t, out);
    saved = t.live[PDL_PLAN_ACTIVATION] + t.live[PDL_PLAN_INPUT] +
            t.live[PDL_PLAN_STATISTIC];
    t.live[PDL_PLAN_ACTIVATION] += saved * (in_flight(o, stage) - 1);
    walk(o, stage, rank, s->first_backward, s->nbackward, &t, out);
    walk(o, stage, rank, s->first_update, s->nupdate, &t, out);
}

/* 2 * sum over layers of x + y + w, as they lie on this rank. */
static void by_paper(const struct oracle *o, int stage, int64_t rank,
                     struct pdl_projection *out)
{
    int64_t act = 0, weights = 0;

    for (int i = 0; i < o->p->nops; i++) {
        const struct pdl_plan_op *op = &o->p->ops[i];
        const struct pdl_node *n;

        if (op->kind != PDL_PLAN_OP_COMPUTE || op->pass != PDL_FORWARD ||
            op->node < 0 || op->part > 0 || !in_stage(o, op->out[0], stage))
            continue;
        n = &o->p->model->nodes[op->node];
        for (int k = 0; k < op->nin; k++)
            if (k < n->nin)
                act += size_of(o, op->in[k], rank);
            else
                weights += size_of(o, op->in[k], rank);
        for (int k = 0; k < op->nout; k++)
            act += size_of(o, op->out[k], rank);
    }
    if (2 * (act + weights) <= out->allocated_bytes)
        return;
    out->allocated_bytes = 2 * (act + weights);
    out->activations_bytes = 2 * act;
    out->weights_bytes = weights;
    out->gradients_bytes = weights;
}

void oracle_memory(const struct oracle *o, struct pdl_projection *out)
{
    int64_t ranks[ORACLE_MAX_RANKS];

    for (int s = 0; s < o->p->nstages; s++) {
        int n = oracle_ranks(o->p, s, ranks);

        for (int i = 0; i < n; i++)
            if (o->p->strategy->memory_paper)
                by_paper(o, s, ranks[i], out);
            else
                by_lifetimes(o, s, ranks[i], out);
    }
    out->reserved_bytes = out->allocated_bytes;
    out->peak_bytes = out->reserved_bytes;
    out->capacity_bytes =
        (int64_t)((double)o->sys->pe.memory_bytes *
                  (o->sys->pe.memory_usable > 0 ? o->sys->pe.memory_usable
                                                : 1));
}
