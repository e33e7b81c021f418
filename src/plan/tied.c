/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights that several layers share (the embedding and the head of a language
 * model) are one tensor with several uses. Where the layers lie in different
 * pipeline stages each stage keeps a copy, and before the update the stages
 * add up what each has of the gradient: every one sends its own to the others
 * (for the two stages there are in practice, an allreduce). The copies stay
 * equal because they get equal gradients. */
#include "plan_priv.h"

struct plan_weight *plan_weight_here(const struct plan_lower *lo, int id)
{
    struct plan_weight *w = lo->weight[id];

    while (w && w->stage != lo->stage_now)
        w = w->next;
    return w;
}

struct plan_weight *plan_new_weight(struct plan_lower *lo, int id, int tensor)
{
    struct plan_weight *w = PDL_NEW(lo->arena, struct plan_weight, 1);

    if (!w || tensor < 0) {
        plan_fail(lo, "out of memory");
        return NULL;
    }
    *w = (struct plan_weight){.stage = lo->stage_now,
                              .tensor = tensor,
                              .grad = -1,
                              .state = -1,
                              .next = lo->weight[id]};
    lo->weight[id] = w;
    return w;
}

static bool is_tied(const struct plan_lower *lo, int id)
{
    const struct plan_weight *w = lo->weight[id];

    return w && w->next && w->grad >= 0;
}

/* Do all copies have gradients that lie alike, so that they can be added
 * before anything else is done to them? */
static bool lie_alike(const struct plan_lower *lo, int id)
{
    const struct plan_weight *first = lo->weight[id];

    for (const struct plan_weight *w = first->next; w; w = w->next)
        if (!plan_lie_alike(lo, w->grad, first->grad))
            return false;
    return true;
}

/* What stage `from` sends to stage `to`: a tensor of the receiver. */
static int new_message(struct plan_lower *lo, const struct plan_weight *from,
                       int to, bool raw)
{
    struct pdl_plan_tensor t = lo->tensors[from->grad];

    if (!raw) {
        t.place = lo->tensors[from->tensor].place;
        memcpy(t.unit, lo->tensors[from->tensor].unit, sizeof t.unit);
    }
    lo->stage_now = to;
    return plan_add_tensor(lo, &t);
}

/* Programs of all stages need the tensors, so they are made first. */
void plan_tie_prepare(struct plan_lower *lo)
{
    int home = lo->stage_now;

    for (int id = 0; id < lo->model->ntensors && lo->status == PDL_OK; id++) {
        bool raw;

        if (!is_tied(lo, id))
            continue;
        raw = lie_alike(lo, id);
        for (struct plan_weight *w = lo->weight[id]; w; w = w->next)
            for (struct plan_weight *v = lo->weight[id]; v; v = v->next) {
                struct plan_tie *t;

                if (v == w)
                    continue;
                t = PDL_NEW(lo->arena, struct plan_tie, 1);
                if (!t) {
                    plan_fail(lo, "out of memory");
                    return;
                }
                *t = (struct plan_tie){id, w->stage, v->stage,
                                       -1, raw,      lo->ties};
                t->tensor = new_message(lo, w, v->stage, raw);
                lo->ties = t;
            }
    }
    lo->stage_now = home;
}

static void send_ours(struct plan_lower *lo, const struct plan_tie *t)
{
    struct plan_weight *w = plan_weight_here(lo, t->id);
    struct plan_layout home = plan_layout_of(lo, w->tensor);

    if (!t->raw)
        w->grad = plan_move_to(lo, w->grad, &home);
    plan_add_op(lo, &(struct pdl_plan_op){.kind = PDL_PLAN_OP_SEND,
                                          .node = -1,
                                          .nin = 1,
                                          .in = &w->grad,
                                          .nout = 1,
                                          .out = &t->tensor,
                                          .group = lo->plan.pipe_factors});
}

static void add_theirs(struct plan_lower *lo, const struct plan_tie *t)
{
    struct plan_weight *w = plan_weight_here(lo, t->id);
    struct plan_layout ours = plan_layout_of(lo, w->grad);

    plan_add_op(lo, &(struct pdl_plan_op){.kind = PDL_PLAN_OP_RECV,
                                          .node = -1,
                                          .nout = 1,
                                          .out = &t->tensor,
                                          .group = lo->plan.pipe_factors});
    w->grad = plan_add(lo, w->grad, plan_move_to(lo, t->tensor, &ours));
}

/* All that this stage sends, then what it receives: nobody waits for one who
 * waits for him. */
void plan_tie_exchange(struct plan_lower *lo)
{
    for (struct plan_tie *t = lo->ties; t && lo->status == PDL_OK; t = t->next)
        if (t->from == lo->stage_now)
            send_ours(lo, t);
    for (struct plan_tie *t = lo->ties; t && lo->status == PDL_OK; t = t->next)
        if (t->to == lo->stage_now)
            add_theirs(lo, t);
}
