/* SPDX-License-Identifier: Apache-2.0
 *
 * SAFA (IEEE TC 2025): K models travel. Every round each is dealt to a random
 * client, with a penalty (elastic weight consolidation, Kirkpatrick et al.,
 * 2017) against forgetting what it learned before: weights are held by the mean
 * square of their gradients at earlier clients. Every u rounds a model becomes
 * (1 - a) mean + a own. What is tested is the mean of the models. The paper
 * adapts u from curves of gain and forgetting; here it is fixed. */
#include "fed/fed_priv.h"

#include <string.h>

enum { EVERY, OWN, EWC, KEEP };
enum { MODEL, STIFF }; /* shelves */

/* As many as clients are asked for, and there can be. */
static int64_t models(const struct fed *f)
{
    int64_t k = f->job->select;

    return k > 0 && k < f->able ? k : f->able;
}

static enum pdl_status begin(struct fed *f, struct pdl_err *err)
{
    int64_t k = models(f);
    enum pdl_status st =
        f->dry ? PDL_OK : fed_shelf_open(f, MODEL, "travels", k, err);

    if (f->dry) /* nothing travels */
        return st;
    if (st == PDL_OK)
        st = fed_shelf_open(f, STIFF, "stiff", k, err);
    for (int64_t i = 0; i < k && st == PDL_OK && f->rank == 0; i++)
        memcpy(fed_slot(f, MODEL, i), f->model,
               (size_t)f->n * sizeof f->model[0]);
    return st;
}

/* Where fewer clients are there than models, others stay in each round. */
static void plan(struct fed *f, struct fed_plan *p)
{
    int64_t *c, n = fed_choose(f, p, &c), k = models(f);
    double from = fed_unit(f, FED_DRAW_PAIR, p->is.round, 0) * (double)k;

    for (int64_t i = 0; i < n; i++) {
        fed_plan_task(p, n < k ? (i + (int64_t)from) % k : i);
        fed_plan_visit(p, c[i], f->job->epochs);
    }
}

static void pack(struct fed *f, int64_t task, float *down)
{
    int64_t k = f->plan.task[task].start;
    size_t bytes = (size_t)f->n * sizeof down[0];

    memcpy(down, fed_slot(f, MODEL, k), bytes);
    memcpy(down + f->n, fed_slot(f, STIFF, k), bytes);
}

static void teach(struct fed *f, int64_t task, const float *down,
                  struct fed_pull *pull)
{
    (void)task;
    memset(f->squares, 0, (size_t)f->n * sizeof f->squares[0]);
    *pull = (struct fed_pull){.anchor = down,
                              .stiff = down + f->n,
                              .strength = fed_value(f, EWC),
                              .squares = f->squares};
}

static void learned(struct fed *f, int64_t task, const struct fed_grade *g,
                    const float *down, float *up)
{
    double keep = fed_value(f, KEEP), steps = (double)g->steps;

    (void)task;
    for (int64_t i = 0; i < f->n; i++)
        up[f->n + i] = (float)(keep * (double)down[f->n + i] +
                               (1 - keep) * (double)f->squares[i] / steps);
}

static void take(struct fed *f, const struct fed_back *b)
{
    int64_t k = f->plan.task[b->task].start;
    size_t bytes = (size_t)f->n * sizeof b->up[0];

    memcpy(fed_slot(f, MODEL, k), b->up, bytes);
    memcpy(fed_slot(f, STIFF, k), b->up + f->n, bytes);
}

static void end(struct fed *f)
{
    double own = fed_value(f, OWN);
    bool mix = (f->plan.is.round + 1) % (int64_t)fed_value(f, EVERY) == 0;

    for (int64_t k = 0; k < f->shelf[MODEL].slots; k++)
        fed_add(f, fed_slot(f, MODEL, k), 1);
    fed_mean(f);
    for (int64_t k = 0; mix && k < f->shelf[MODEL].slots; k++) {
        float *w = fed_slot(f, MODEL, k);

        for (int64_t i = 0; i < f->n; i++)
            w[i] =
                (float)((1 - own) * (double)f->model[i] + own * (double)w[i]);
    }
}

const struct fed_alg fed_alg_safa = {
    .is = {.name = "safa",
           .summary = "models travel from client to client, then mix",
           .keys = {{"every", "rounds until models mix", 5, 1, 1e6,
                     pdl_sampling_whole},
                    {"own", "what a model keeps of itself then", 0.5, 0, 1,
                     NULL},
                    {"ewc", "strength of the penalty on forgetting", 1, 0, 1e9,
                     NULL},
                    {"keep", "of the old importance of weights", 0.5, 0, 1,
                     NULL}}},
    .down = 1,
    .up = 1,
    .open = begin,
    .plan = plan,
    .pack = pack,
    .teach = teach,
    .learned = learned,
    .take = take,
    .end = end,
};
