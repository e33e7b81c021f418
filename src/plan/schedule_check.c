/* SPDX-License-Identifier: Apache-2.0
 *
 * The proof of a pipeline's order: every lane is run as far as it goes, and
 * what it needs must be done by then. */
#include "plan_priv.h"

struct proof {
    const struct pdl_tasks *o;
    bool *done; /* [forward, backward or input, weights][stage][micro] */
    struct pdl_err *err;
};

static bool *mark(const struct proof *x, int pass, int stage, int64_t micro)
{
    return &x->done[((int64_t)pass * x->o->nstages + stage) * x->o->micro +
                    micro];
}

static enum pdl_status bad(const struct proof *x, int lane,
                           const struct pdl_task *t, const char *what)
{
    static const char *const names[] = {
        "forward", "backward", "backward of inputs", "backward of weights"};

    return pdl_fail(x->err, PDL_EWRONG,
                    "schedule: lane %d, %s of micro-batch %d in stage %d: %s",
                    lane, names[t->kind], t->micro, t->stage, what);
}

static enum pdl_status known(const struct proof *x, int lane, int64_t k)
{
    const struct pdl_task *t = &x->o->task[lane][k];
    bool split = pdl_schedule_splits(x->o->schedule);

    if (t->stage < 0 || t->stage >= x->o->nstages || t->micro < 0 ||
        t->micro >= x->o->micro)
        return bad(x, lane, t, "does not exist");
    if (pdl_schedule_lane(x->o->schedule, x->o->lanes, t->stage) != lane)
        return bad(x, lane, t, "is another lane's");
    if (t->kind != PDL_TASK_FORWARD && (t->kind == PDL_TASK_BACKWARD) == split)
        return bad(x, lane, t, "is no task of this schedule");
    return PDL_OK;
}

/* Runs the lane as far as it goes. */
static enum pdl_status advance(const struct proof *x, int lane, int64_t *k,
                               bool *moved)
{
    for (; *k < x->o->n; ++*k) {
        const struct pdl_task *t = &x->o->task[lane][*k];
        int pass = pdl_task_pass(t->kind), needs, from;

        if (pdl_task_needs(x->o, t, &needs, &from) &&
            !*mark(x, needs, from, t->micro))
            return PDL_OK;
        if (pass == 1 && !*mark(x, 0, t->stage, t->micro))
            return bad(x, lane, t, "comes before its forward");
        if (*mark(x, pass, t->stage, t->micro))
            return bad(x, lane, t, "is run twice");
        *mark(x, pass, t->stage, t->micro) = true;
        *moved = true;
    }
    return PDL_OK;
}

enum pdl_status pdl_tasks_check(const struct pdl_tasks *o, struct pdl_err *err)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct proof x = {.o = o, .err = err};
    int64_t *k = a ? PDL_NEW(a, int64_t, o->lanes) : NULL;
    enum pdl_status st = PDL_OK;
    bool moved = true;

    x.done = a ? PDL_NEW(a, bool, 3 * (int64_t)o->nstages * o->micro) : NULL;
    if (!k || !x.done)
        st = pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (int i = 0; i < o->lanes && st == PDL_OK; i++)
        for (int64_t j = 0; j < o->n && st == PDL_OK; j++)
            st = known(&x, i, j);
    while (moved && st == PDL_OK) {
        moved = false;
        for (int i = 0; i < o->lanes && st == PDL_OK; i++)
            st = advance(&x, i, &k[i], &moved);
    }
    for (int i = 0; i < o->lanes && st == PDL_OK; i++)
        if (k[i] < o->n)
            st = bad(&x, i, &o->task[i][k[i]], "waits for ever");
    pdl_arena_destroy(a);
    return st;
}
