/* SPDX-License-Identifier: Apache-2.0
 *
 * Schedules of pipelines: in which order each lane (the PEs of one place in
 * the pipeline) runs its tasks. An order is data: it is simulated, exported,
 * printed and proved, and none of these derives it again.
 *
 *   gpipe        all forwards, then all backwards (Huang et al. 2019)
 *   1f1b         as many forwards as lanes follow, then one backward, one
 *                forward (PipeDream-flush, Narayanan et al. 2021)
 *   interleaved  a lane has v stages, stage s on lane s mod p; p micro-batches
 *                pass through one of them before the next (SC 2021)
 *   zb-h1,       backward in two tasks, the gradients of inputs (which the
 *   zb-h2        stage before waits for) and of weights, which fill the gaps
 *                (Qi et al. 2023). Lane i defers those of i (h1) or 2i (h2)
 *                micro-batches; h2 runs nearly twice as many forwards first.
 *   zb-v         two stages a lane, down the lanes and up again: a lane has
 *                the first and the last (Qi et al. 2023, 2024).
 *
 *   dualpipe     two copies of the network, one down the lanes and one up, so
 *                that a lane has a stage of each; micro-batches enter at both
 *                ends, forwards of one meet backwards of the other, and the
 *                last gradients of weights fill the gaps (DeepSeek-V3,
 *                arXiv:2412.19437). Twice the weights; lanes are even, and each
 *                copy has at least as many micro-batches as there are lanes.
 *
 * Bubbles of equal stages (a test has them): 1f1b (p-1)(F+I+W), interleaved
 * that over v, zb-h1 (p-1)(F+I-W), zb-h2 (p-1)(F+I-2W); the last and zb-v have
 * none when F = I = W. */
#include "plan_priv.h"

struct lane {
    const struct pdl_tasks *o;
    struct pdl_task *task;
    int64_t n;
    int at;
    int64_t done[3][2]; /* zero-bubble: tasks so far, by kind and stage */
};

static void push(struct lane *l, enum pdl_task_kind kind, int64_t stage,
                 int64_t micro)
{
    if (micro < l->o->micro)
        l->task[l->n++] = (struct pdl_task){kind, (int)stage, (int)micro};
}

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- forwards and whole backwards ------------------------------------- */

/* The k-th forward of a lane, or (its stages backwards) its k-th backward. */
static void push_nth(struct lane *l, int64_t k, bool back)
{
    int64_t p = l->o->lanes, v = l->o->nstages / p, chunk = k / p % v;

    if (back)
        chunk = v - 1 - chunk;
    push(l, back ? PDL_TASK_BACKWARD : PDL_TASK_FORWARD, chunk * p + l->at,
         k / (p * v) * p + k % p);
}

static void order_plain(struct lane *l, int64_t warm)
{
    int64_t all = l->o->micro * (l->o->nstages / l->o->lanes);

    warm = min64(all, warm);
    for (int64_t k = 0; k < warm; k++)
        push_nth(l, k, false);
    for (int64_t k = 0; k < all; k++) {
        push_nth(l, k, true);
        if (warm + k < all)
            push_nth(l, warm + k, false);
    }
}

static void order_gpipe(struct lane *l)
{
    order_plain(l, INT64_MAX);
}

static void order_1f1b(struct lane *l)
{
    order_plain(l, l->o->lanes - l->at);
}

static void order_interleaved(struct lane *l)
{
    int64_t p = l->o->lanes, v = l->o->nstages / p;

    order_plain(l, v == 1 ? p - l->at : 2 * (p - 1 - l->at) + (v - 1) * p + 1);
}

/* ---- zero bubble ------------------------------------------------------ */

/* The next task of this kind on the lane's first (0) or second stage. */
static void next(struct lane *l, enum pdl_task_kind kind, int second)
{
    int64_t stage = second ? l->o->nstages - 1 - l->at : l->at;
    int k = kind == PDL_TASK_FORWARD ? 0 : kind == PDL_TASK_INPUT ? 1 : 2;

    push(l, kind, stage, l->done[k][second]++);
}

static void order_h(struct lane *l, int64_t warm, int64_t defer)
{
    int64_t m = l->o->micro;

    for (int64_t k = 0; k < min64(m, warm); k++)
        next(l, PDL_TASK_FORWARD, 0);
    for (int64_t k = 0; k < m; k++) {
        next(l, PDL_TASK_INPUT, 0);
        if (k >= defer)
            next(l, PDL_TASK_WEIGHTS, 0);
        if (warm + k < m)
            next(l, PDL_TASK_FORWARD, 0);
    }
    for (int64_t k = 0; k < min64(m, defer); k++)
        next(l, PDL_TASK_WEIGHTS, 0);
}

static void order_h1(struct lane *l)
{
    order_h(l, l->o->lanes - l->at, l->at);
}

static void order_h2(struct lane *l)
{
    order_h(l, 2 * (l->o->lanes - l->at) - 1, 2 * (int64_t)l->at);
}

static void backward_of(struct lane *l, int second)
{
    next(l, PDL_TASK_INPUT, second);
    next(l, PDL_TASK_WEIGHTS, second);
}

/* Before a lane's first backward, until its second stage has caught up. */
static void warm_up_v(struct lane *l)
{
    int p = l->o->lanes;

    for (int k = 0; k < 2 * (p - l->at) - 1; k++)
        next(l, PDL_TASK_FORWARD, 0);
    for (int k = 0; k < l->at; k++) {
        next(l, PDL_TASK_FORWARD, 1);
        next(l, PDL_TASK_FORWARD, 0);
    }
    for (int k = l->at; k < p; k++) {
        next(l, PDL_TASK_FORWARD, 1);
        backward_of(l, 1);
    }
}

/* Of fewer than 2 p - 1 micro-batches the order is that of so many, without
 * those that do not exist (push leaves them out). */
static void order_v(struct lane *l)
{
    int64_t m = l->o->micro, p = l->o->lanes;
    int64_t n = m > 2 * p - 1 ? m : 2 * p - 1;

    warm_up_v(l);
    while (l->done[0][1] < n) {
        if (l->done[0][0] < n)
            next(l, PDL_TASK_FORWARD, 0);
        backward_of(l, 0);
        next(l, PDL_TASK_FORWARD, 1);
        backward_of(l, 1);
    }
    for (int k = 0; k < l->at; k++) {
        next(l, PDL_TASK_INPUT, 0);
        next(l, PDL_TASK_INPUT, 1);
    }
    for (int k = l->at; k < l->o->lanes; k++)
        backward_of(l, 0);
    for (int second = 1; second >= 0; second--)
        while (l->done[2][second] < l->done[1][second])
            next(l, PDL_TASK_WEIGHTS, second);
}

/* ---- both ways -------------------------------------------------------- */

/* Backward of which copy (0: the one that enters on this side) is the k-th
 * whose weights wait? They begin in the middle of the backwards that alternate;
 * those that follow are all of copy 0. */
static int waits_of(int64_t depth, int64_t k)
{
    return k < depth && (depth + k) % 2 == 0 ? 1 : 0;
}

/* Lanes are numbered from both ends; depth: from 1. */
static void order_dual(struct lane *l)
{
    int64_t p = l->o->lanes, n = l->o->micro, half = p / 2;
    bool far = l->at >= half; /* there copy 1 enters */
    int64_t depth = far ? p - l->at : l->at + 1, rest = half - depth;
    int ours = far, theirs = !far;

    for (int64_t k = 0; k < 2 * rest; k++)
        next(l, PDL_TASK_FORWARD, ours);
    for (int64_t k = 0; k < depth; k++) {
        next(l, PDL_TASK_FORWARD, ours);
        next(l, PDL_TASK_FORWARD, theirs);
    }
    for (int64_t k = 0; k < rest; k++) {
        backward_of(l, theirs);
        next(l, PDL_TASK_FORWARD, theirs);
    }
    for (int64_t k = 0; k < n - p + depth; k++) {
        next(l, PDL_TASK_FORWARD, ours);
        backward_of(l, theirs);
        next(l, PDL_TASK_FORWARD, theirs);
        backward_of(l, ours);
    }
    for (int64_t k = 0; k < rest; k++) {
        backward_of(l, theirs);
        next(l, PDL_TASK_FORWARD, theirs);
        backward_of(l, ours);
    }
    for (int64_t k = 0; k < 2 * depth; k++) {
        next(l, PDL_TASK_INPUT, k % 2 ? ours : theirs);
        if (k < depth)
            next(l, PDL_TASK_WEIGHTS, k % 2 ? ours : theirs);
    }
    for (int64_t k = 0; k < rest + depth; k++) {
        next(l, PDL_TASK_WEIGHTS, waits_of(depth, k) ? theirs : ours);
        if (k < rest)
            next(l, PDL_TASK_INPUT, ours);
    }
}

/* ---- the table -------------------------------------------------------- */

/* All that is known of a schedule. */
struct schedule {
    void (*order)(struct lane *);
    bool splits; /* backward is two tasks */
    bool folded; /* the second stages go back up the lanes */
    int chunks;  /* stages of a lane; 0: as many as the strategy says */
    int copies;  /* of the network */
};

static const struct schedule schedules[] = {
    // clang-format off
    [PDL_SCHEDULE_1F1B]        = {order_1f1b,        false, false, 1, 1},
    [PDL_SCHEDULE_GPIPE]       = {order_gpipe,       false, false, 1, 1},
    [PDL_SCHEDULE_INTERLEAVED] = {order_interleaved, false, false, 0, 1},
    [PDL_SCHEDULE_ZB_H1]       = {order_h1,          true,  false, 1, 1},
    [PDL_SCHEDULE_ZB_H2]       = {order_h2,          true,  false, 1, 1},
    [PDL_SCHEDULE_DUALPIPE]    = {order_dual,        true,  true,  2, 2},
    [PDL_SCHEDULE_ZB_V]        = {order_v,           true,  true,  2, 1},
    // clang-format on
};

bool pdl_schedule_splits(enum pdl_schedule s)
{
    return schedules[s].splits;
}

int64_t pdl_schedule_chunks(const struct pdl_strategy *s)
{
    int n = schedules[s->schedule].chunks;

    return n > 0 ? n : s->virtual_stages > 0 ? s->virtual_stages : 2;
}

int pdl_schedule_copies(enum pdl_schedule s)
{
    return schedules[s].copies;
}

int pdl_schedule_lane(enum pdl_schedule s, int lanes, int stage)
{
    return schedules[s].folded && stage >= lanes ? 2 * lanes - 1 - stage
                                                 : stage % lanes;
}

int pdl_schedule_stage(enum pdl_schedule s, int lanes, int lane, int i)
{
    return schedules[s].folded && i > 0 ? 2 * lanes - 1 - lane
                                        : i * lanes + lane;
}

int plan_lane_of(const struct pdl_mesh *m, uint32_t pipe, int64_t rank)
{
    int64_t lane = 0;

    for (int f = 0; f < m->nfactors; f++)
        if (pipe >> f & 1)
            lane = lane * m->factor[f] + pdl_mesh_coord(m, rank, f);
    return (int)lane;
}

int pdl_plan_rank_lane(const struct pdl_plan *p, int64_t rank)
{
    return plan_lane_of(p->mesh, p->pipe_factors, rank);
}

int64_t pdl_plan_lane_rank(const struct pdl_plan *p, int lane)
{
    int64_t rank = 0, stride = 1, rest = lane;

    for (int f = p->mesh->nfactors - 1; f >= 0; f--) {
        if (p->pipe_factors >> f & 1) {
            rank += rest % p->mesh->factor[f] * stride;
            rest /= p->mesh->factor[f];
        }
        stride *= p->mesh->factor[f];
    }
    return rank;
}

int pdl_plan_lane(const struct pdl_plan *p, int stage)
{
    return pdl_schedule_lane(p->strategy->schedule, p->lanes, stage);
}

int pdl_task_pass(enum pdl_task_kind kind)
{
    return kind == PDL_TASK_FORWARD ? 0 : kind == PDL_TASK_WEIGHTS ? 2 : 1;
}

bool pdl_task_needs(const struct pdl_tasks *o, const struct pdl_task *t,
                    int *pass, int *stage)
{
    int each = o->nstages / schedules[o->schedule].copies;
    bool last = t->stage % each == each - 1;

    *pass = t->kind == PDL_TASK_FORWARD || (last && t->kind != PDL_TASK_WEIGHTS)
                ? 0
                : 1;
    if (t->kind == PDL_TASK_FORWARD && t->stage % each == 0)
        return false;
    *stage = t->kind == PDL_TASK_FORWARD           ? t->stage - 1
             : t->kind == PDL_TASK_WEIGHTS || last ? t->stage
                                                   : t->stage + 1;
    return true;
}

enum pdl_status pdl_tasks_make(pdl_arena *a, enum pdl_schedule schedule,
                               int lanes, int nstages, int64_t micro,
                               struct pdl_tasks *out, struct pdl_err *err)
{
    int64_t each = pdl_schedule_splits(schedule) ? 3 : 2, n, all;
    struct pdl_task *tasks;

    *out = (struct pdl_tasks){schedule, lanes, nstages, micro, 0, NULL};
    if (lanes < 1 || micro < 1 || micro > INT32_MAX || nstages < lanes ||
        nstages % lanes != 0)
        return pdl_fail(err, PDL_EINVAL, "no schedule without stages");
    if (schedules[schedule].copies > 1 && (lanes % 2 != 0 || micro < lanes))
        return pdl_fail(err, PDL_EINVAL,
                        "micro-batches that enter at both ends need an even "
                        "number of lanes, and as many at each end");
    if (!pdl_mul64(each * (nstages / lanes), micro, &n) ||
        !pdl_mul64(n, lanes, &all) || all > INT64_C(1) << 28)
        return pdl_fail(err, PDL_EINVAL, "the schedule has too many tasks");
    tasks = PDL_NEW(a, struct pdl_task, all);
    out->task = PDL_NEW(a, struct pdl_task *, lanes);
    if (!tasks || !out->task)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    out->n = n;
    for (int i = 0; i < lanes; i++) {
        struct lane l = {.o = out, .task = tasks + i * n, .at = i};

        out->task[i] = l.task;
        schedules[schedule].order(&l);
    }
    return PDL_OK;
}

enum pdl_status pdl_plan_tasks(pdl_arena *a, const struct pdl_plan *p,
                               struct pdl_tasks *out, struct pdl_err *err)
{
    /* accumulation: nobody waits for a forward, so none is run ahead */
    enum pdl_schedule s =
        p->nstages == 1 ? PDL_SCHEDULE_1F1B : p->strategy->schedule;

    return pdl_tasks_make(a, s, p->lanes, p->nstages, p->micro_batches, out,
                          err);
}
