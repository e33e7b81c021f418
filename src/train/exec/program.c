/* SPDX-License-Identifier: Apache-2.0
 *
 * The program of one rank: the operations of its stages for every micro-batch
 * in the order of the schedule (src/plan/schedule.c), written out once so that
 * lifetimes and thus memory are known before the first step. One stage with
 * several micro-batches is F0 B0 F1 B1 ... U.
 *
 * A lane is a place in the pipeline; the schedule says which stages lie on it.
 * Receives wait, sends do not: what forward sent has arrived when its
 * gradient comes back, what backward sent is waited for before the update.
 * Backward goes through the micro-batches in order in all schedules, so their
 * gradients are added in the same order. */
#include "train/train_priv.h"

#include <string.h>

int train_next_stage(const pdl_trainer *t, int stage)
{
    for (stage++; stage < t->plan->nstages; stage++)
        if (train_has_stage(t, stage))
            return stage;
    return -1;
}

bool train_has_stage(const pdl_trainer *t, int stage)
{
    return pdl_plan_lane(t->plan, stage) == t->lane;
}

bool train_is_state(const pdl_trainer *t, int tensor)
{
    enum pdl_plan_kind k;

    if (tensor >= t->plan->ntensors)
        return false;
    k = t->plan->tensors[tensor].kind;
    return k == PDL_PLAN_WEIGHT || k == PDL_PLAN_STATE;
}

bool train_is_loaded(const struct pdl_plan_tensor *t)
{
    return t->kind == PDL_PLAN_INPUT || t->kind == PDL_PLAN_LABEL;
}

static void add_step(pdl_trainer *t, struct train_action s)
{
    t->steps[t->nsteps++] = s;
}

/* A gradient of the last micro-batch is there: is its bucket complete? */
static void count_bucket(pdl_trainer *t, int tensor)
{
    const struct pdl_plan_stage *s =
        &t->plan->stages[t->plan->tensors[tensor].stage];

    for (int i = s->first_update; i < s->first_update + s->nupdate; i++)
        for (int k = 0; k < t->plan->items[i].nops; k++) {
            int op = t->plan->items[i].first_op + k;
            const struct pdl_plan_op *o = &t->plan->ops[op];

            if (o->kind != PDL_PLAN_OP_ALLREDUCE &&
                o->kind != PDL_PLAN_OP_COPY_OUT)
                continue;
            for (int j = 0; j < o->nin; j++)
                if (o->in[j] == tensor && ++t->ops[op].gradients == o->nin) {
                    t->ops[op].overlaps = o->kind == PDL_PLAN_OP_ALLREDUCE;
                    add_step(
                        t, (struct train_action){.kind = TRAIN_START,
                                                 .op = op,
                                                 .micro = (int)t->micros - 1});
                }
        }
}

static void add_kept(pdl_trainer *t, const struct pdl_plan_op *o, int micro)
{
    for (int k = 0; o->kind != PDL_PLAN_OP_FREE && k < o->nout; k++) {
        if (!t->kept[o->out[k]])
            continue;
        if (t->micros > 1)
            add_step(t, (struct train_action){.kind = TRAIN_ACCUMULATE,
                                              .op = o->out[k],
                                              .micro = micro,
                                              .first = micro == 0});
        if (micro == t->micros - 1 && !t->plan->strategy->no_overlap)
            count_bucket(t, o->out[k]);
    }
}

static void add_items(pdl_trainer *t, int first, int n, int micro)
{
    for (int i = first; i < first + n; i++)
        for (int k = 0; k < t->plan->items[i].nops; k++) {
            int op = t->plan->items[i].first_op + k;

            add_step(t, (struct train_action){
                            .kind = TRAIN_OP, .op = op, .micro = micro});
            if (micro != TRAIN_UPDATE)
                add_kept(t, &t->plan->ops[op], micro);
        }
}

/* All that a lane loads, labels too, with its first stage. */
static void add_forward(pdl_trainer *t, int stage, int micro)
{
    const struct pdl_plan_stage *s = &t->plan->stages[stage];

    if (stage == t->lane)
        add_step(t, (struct train_action){.kind = TRAIN_LOAD, .micro = micro});
    add_items(t, s->first_forward, s->nforward, micro);
}

/* Where backward is two tasks, the gradients of weights are the last item. */
static void add_backward(pdl_trainer *t, const struct pdl_task *x)
{
    const struct pdl_plan_stage *s = &t->plan->stages[x->stage];
    int last = s->first_backward + s->nbackward - 1;

    if (x->kind == PDL_TASK_WEIGHTS) {
        add_items(t, last, 1, x->micro);
        return;
    }
    add_items(t, s->first_backward, s->nbackward - (x->kind == PDL_TASK_INPUT),
              x->micro);
    if (t->plan->nstages > 1)
        add_step(t,
                 (struct train_action){.kind = TRAIN_WAIT, .micro = x->micro});
}

/* Updates, and what moves what they made (ZeRO gathers weights). */
static bool follows_update(const pdl_trainer *t, const struct pdl_plan_op *o)
{
    bool last = o->kind == PDL_PLAN_OP_UPDATE || o->kind == PDL_PLAN_OP_FREE;

    for (int k = 0; k < o->nin; k++)
        last = last || train_is_state(t, o->in[k]);
    return last;
}

/* Exchanges in place and updates alternate, bucket by bucket; an optimizer
 * that needs norms of all gradients waits until all are there. */
static void add_update(pdl_trainer *t)
{
    int first = t->nsteps, n;

    for (int s = train_next_stage(t, -1); s >= 0; s = train_next_stage(t, s))
        add_items(t, t->plan->stages[s].first_update,
                  t->plan->stages[s].nupdate, TRAIN_UPDATE);
    if (!train_tuner_measures(t))
        return;
    n = t->nsteps - first;
    for (int late = 0; late < 2; late++) {
        for (int i = first; i < first + n; i++) {
            if (follows_update(t, &t->plan->ops[t->steps[i].op]) == (late == 1))
                add_step(t, t->steps[i]);
        }
        if (late == 0)
            add_step(t, (struct train_action){.kind = TRAIN_MEASURE,
                                              .micro = TRAIN_UPDATE});
    }
    memmove(t->steps + first, t->steps + first + n,
            (size_t)(n + 1) * sizeof t->steps[0]);
    t->nsteps -= n;
}

/* ---- the whole -------------------------------------------------------- */

/* What backward makes and the update reads. */
static void mark_kept(pdl_trainer *t, const struct pdl_plan_stage *s)
{
    const struct pdl_plan *p = t->plan;

    for (int i = s->first_backward; i < s->first_backward + s->nbackward; i++)
        for (int k = 0; k < p->items[i].nops; k++) {
            const struct pdl_plan_op *o = &p->ops[p->items[i].first_op + k];

            for (int j = 0; j < o->nout; j++)
                t->kept[o->out[j]] =
                    o->kind != PDL_PLAN_OP_SEND &&
                    p->tensors[o->out[j]].kind == PDL_PLAN_WEIGHT_GRADIENT;
        }
    for (int i = s->first_backward; i < s->first_backward + s->nbackward; i++)
        for (int k = 0; k < p->items[i].nops; k++) {
            const struct pdl_plan_op *o = &p->ops[p->items[i].first_op + k];

            /* freed there: an intermediate sum */
            for (int j = 0; o->kind == PDL_PLAN_OP_FREE && j < o->nin; j++)
                t->kept[o->in[j]] = false;
        }
}

static int64_t count_steps(const pdl_trainer *t)
{
    const struct pdl_plan *p = t->plan;
    int64_t ops = 0, outs = 0;

    for (int i = 0; i < p->nitems; i++)
        ops += p->items[i].nops;
    for (int i = 0; i < p->nops; i++)
        outs += p->ops[i].nout;
    return (ops + outs + 4) * (t->micros + 2);
}

static enum pdl_status add_tasks(pdl_trainer *t, struct pdl_err *err)
{
    struct pdl_tasks all;
    enum pdl_status st = pdl_plan_tasks(t->arena, t->plan, &all, err);

    for (int64_t k = 0; st == PDL_OK && k < all.n; k++) {
        const struct pdl_task *x = &all.task[t->lane][k];

        if (x->kind == PDL_TASK_FORWARD)
            add_forward(t, x->stage, x->micro);
        else
            add_backward(t, x);
    }
    return st;
}

enum pdl_status train_program(pdl_trainer *t, struct pdl_err *err)
{
    enum pdl_status st;

    t->steps = PDL_NEW(t->arena, struct train_action, count_steps(t));
    t->kept = PDL_NEW(t->arena, bool, t->capacity + 1);
    if (!t->steps || !t->kept)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for the program");
    for (int i = train_next_stage(t, -1); i >= 0; i = train_next_stage(t, i))
        mark_kept(t, &t->plan->stages[i]);
    st = add_tasks(t, err);
    if (st != PDL_OK)
        return st;
    if (t->plan->nstages > 1)
        add_step(t, (struct train_action){.kind = TRAIN_WAIT,
                                          .micro = TRAIN_UPDATE});
    add_update(t);
    if (t->plan->nstages > 1) /* gradients of tied weights */
        add_step(t, (struct train_action){.kind = TRAIN_WAIT,
                                          .micro = TRAIN_UPDATE});
    for (int i = 0; i < t->nsteps; i++)
        if (t->steps[i].kind == TRAIN_OP)
            t->ops[t->steps[i].op].mine = true;
    return PDL_OK;
}
