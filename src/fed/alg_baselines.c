/* SPDX-License-Identifier: Apache-2.0
 *
 * What every table has beside an algorithm: one trainer with all samples of all
 * clients, which is the best that moving data could give, and clients that
 * train alone and exchange nothing, which is what taking part must beat. */
#include "fed/fed_priv.h"

#include <string.h>

/* ---- central -------------------------------------------------------- */

static void plan_pool(struct fed *f, struct fed_plan *p)
{
    fed_plan_task(p, PDL_FED_GLOBAL);
    for (int64_t c = 0; c < f->job->partition.clients; c++)
        if (fed_samples(f, c) > 0)
            fed_plan_visit(p, c, f->job->epochs);
    if (p->is.ntasks > 0)
        p->task[0].pooled = true;
}

const struct fed_alg fed_alg_central = {
    .is = {.name = "central",
           .summary = "all samples in one place: the bound (a baseline)"},
    .plan = plan_pool,
};

/* ---- local ---------------------------------------------------------- */

static enum pdl_status begin(struct fed *f, struct pdl_err *err)
{
    return fed_shelf_open(f, 0, "own", f->job->partition.clients, err);
}

static void plan(struct fed *f, struct fed_plan *p)
{
    int64_t *c, n = fed_choose(f, p, &c);

    for (int64_t i = 0; i < n; i++) {
        fed_plan_task(p, c[i]);
        fed_plan_visit(p, c[i], f->job->epochs);
    }
}

static void pack(struct fed *f, int64_t task, float *down)
{
    int64_t c = f->plan.task[task].start;

    memcpy(down, fed_has_slot(f, 0, c) ? fed_slot(f, 0, c) : f->model,
           (size_t)f->n * sizeof down[0]);
}

static void take(struct fed *f, const struct fed_back *b)
{
    memcpy(fed_slot(f, 0, f->plan.task[b->task].start), b->up,
           (size_t)f->n * sizeof b->up[0]);
}

static void end(struct fed *f)
{
    (void)f; /* nothing is put together */
}

const struct fed_alg fed_alg_local = {
    .is = {.name = "local",
           .summary = "every client alone; the mean of them (a baseline)"},
    .apart = true,
    .open = begin,
    .plan = plan,
    .pack = pack,
    .take = take,
    .end = end,
};
