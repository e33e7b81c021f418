/* SPDX-License-Identifier: Apache-2.0
 *
 * Are two plans the same? Field by field; what only means the same (a unit of
 * 0 and of 1, placements over factors the mesh has not) counts as equal. */
#include "plan_priv.h"

#include <string.h>

bool plan_same_frame(const struct pdl_frame *a, const struct pdl_frame *b)
{
    const struct pdl_window *v = &a->window, *w = &b->window;

    if (a->kind != b->kind)
        return false;
    return a->kind == PDL_FRAME_NONE ||
           (v->kernel == w->kernel && v->stride == w->stride &&
            v->dilation == w->dilation && v->pad == w->pad && v->in == w->in &&
            v->out == w->out);
}

static int64_t unit(const struct pdl_plan_tensor *t, int d)
{
    return t->unit[d] ? t->unit[d] : 1;
}

static bool same_tensor(const struct pdl_plan *p,
                        const struct pdl_plan_tensor *a,
                        const struct pdl_plan_tensor *b)
{
    if (strcmp(a->name, b->name) != 0 || a->kind != b->kind ||
        a->dtype != b->dtype || !plan_same_shape(a, b) ||
        a->model_tensor != b->model_tensor || a->stage != b->stage ||
        a->some != b->some || a->of != b->of || a->host != b->host ||
        memcmp(a->place.at, b->place.at, (size_t)p->mesh->nfactors) != 0)
        return false;
    for (int d = 0; d < a->ndims; d++)
        if (unit(a, d) != unit(b, d) ||
            !plan_same_frame(&a->frame[d], &b->frame[d]))
            return false;
    return true;
}

static bool same_algorithm(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool same_op(const struct pdl_plan_op *a, const struct pdl_plan_op *b)
{
    return same_algorithm(a->algorithm, b->algorithm) &&
           same_algorithm(a->compress, b->compress) && a->kind == b->kind &&
           a->pass == b->pass && a->part == b->part && a->node == b->node &&
           a->nin == b->nin && a->nout == b->nout && a->group == b->group &&
           (a->nin == 0 ||
            memcmp(a->in, b->in, (size_t)a->nin * sizeof *a->in) == 0) &&
           (a->nout == 0 ||
            memcmp(a->out, b->out, (size_t)a->nout * sizeof *a->out) == 0);
}

static bool same_item(const struct pdl_plan_item *a,
                      const struct pdl_plan_item *b)
{
    return a->first_op == b->first_op && a->nops == b->nops &&
           a->repeat == b->repeat && a->segment == b->segment;
}

static bool same_stage(const struct pdl_plan_stage *a,
                       const struct pdl_plan_stage *b)
{
    return a->first_forward == b->first_forward && a->nforward == b->nforward &&
           a->first_backward == b->first_backward &&
           a->nbackward == b->nbackward && a->first_update == b->first_update &&
           a->nupdate == b->nupdate;
}

static bool same_whole(const struct pdl_plan *a, const struct pdl_plan *b)
{
    if (strcmp(a->model->name, b->model->name) != 0 ||
        a->model->nnodes != b->model->nnodes ||
        a->model->ntensors != b->model->ntensors ||
        !pdl_strategy_equal(a->strategy, b->strategy) ||
        a->mesh->nfactors != b->mesh->nfactors || a->batch != b->batch ||
        a->micro_batches != b->micro_batches || a->ntensors != b->ntensors ||
        a->nops != b->nops || a->nitems != b->nitems ||
        a->nstages != b->nstages || a->lanes != b->lanes ||
        a->pipe_factors != b->pipe_factors || a->nfallbacks != b->nfallbacks ||
        a->deal.ranks != b->deal.ranks ||
        a->deal.positions != b->deal.positions)
        return false;
    for (int f = 0; f < a->mesh->nfactors; f++)
        if (a->mesh->factor[f] != b->mesh->factor[f])
            return false;
    for (int i = 0; i < a->nfallbacks; i++)
        if (strcmp(a->fallbacks[i], b->fallbacks[i]) != 0)
            return false;
    return true;
}

/* Of which rounds, and what is of which. */
static bool same_roll(const struct pdl_plan *a, const struct pdl_plan *b)
{
    const struct pdl_plan_roll *x = a->roll, *y = b->roll;

    if (!x || !y)
        return x == y;
    if (x->segment != y->segment || x->width != y->width ||
        x->period != y->period || x->ngroups != y->ngroups)
        return false;
    for (int g = 0; g < x->ngroups; g++)
        if (x->groups[g].first != y->groups[g].first ||
            x->groups[g].repeat != y->groups[g].repeat)
            return false;
    for (int t = 0; t < a->ntensors; t++)
        if (a->tensors[t].round != b->tensors[t].round)
            return false;
    for (int i = 0; i < a->nops; i++)
        if (a->ops[i].round != b->ops[i].round)
            return false;
    for (int i = 0; i < a->nfallbacks; i++)
        if (x->fallback_round[i] != y->fallback_round[i])
            return false;
    return true;
}

bool pdl_plan_equal(const struct pdl_plan *a, const struct pdl_plan *b)
{
    if (!same_whole(a, b) || !same_roll(a, b))
        return false;
    for (int i = 0; i < a->ntensors; i++)
        if (!same_tensor(a, &a->tensors[i], &b->tensors[i]))
            return false;
    for (int i = 0; i < a->nops; i++)
        if (!same_op(&a->ops[i], &b->ops[i]))
            return false;
    for (int i = 0; i < a->nitems; i++)
        if (!same_item(&a->items[i], &b->items[i]))
            return false;
    for (int i = 0; i < a->nstages; i++)
        if (!same_stage(&a->stages[i], &b->stages[i]))
            return false;
    for (int i = 0; i < a->model->nnodes; i++)
        if (a->forward_op[i] != b->forward_op[i])
            return false;
    return true;
}
