/* SPDX-License-Identifier: Apache-2.0
 *
 * How long operations take. On the host that is a look at the clock before and
 * after. A device does them later: marks in its stream, before and after, are
 * read when the step is done, so that nothing waits in between; steps whose own
 * time counts go without. */
#include "train/train_priv.h"

#include <stdlib.h>
#include <time.h>

void pdl_trainer_time(pdl_trainer *t, bool on)
{
    t->times.off = !on;
}

bool train_is_timed(const pdl_trainer *t)
{
    return t->opt.timed && !(t->device && t->times.off);
}

/* Exchanges wait: only what is local can go by CPU time. */
static double now(const pdl_trainer *t, int op)
{
    enum pdl_plan_op_kind kind = t->plan->ops[op].kind;
    struct timespec s;

    if (!t->opt.cpu_times ||
        (kind != PDL_PLAN_OP_COMPUTE && kind != PDL_PLAN_OP_ADD &&
         kind != PDL_PLAN_OP_UPDATE))
        return pdl_clock_s();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &s);
    return (double)s.tv_sec + (double)s.tv_nsec * 1e-9;
}

static void mark(pdl_trainer *t, int64_t i)
{
    struct pdl_err err;
    enum pdl_status st =
        t->device->mark(t->backend_state, TRAIN_COMPUTE, i, &err);

    if (st != PDL_OK && t->device_st == PDL_OK) {
        t->device_st = st;
        t->device_err = err;
    }
}

/* The n-th operation, from 1 on, has marks 2n and 2n + 1; 0 and 1 have nothing
 * between them: what two marks take by themselves. */
double train_time_begin(pdl_trainer *t, int op)
{
    struct train_times *x = &t->times;

    if (!train_is_timed(t))
        return 0;
    if (!t->device)
        return now(t, op);
    if (x->n == 0) {
        x->base_s = pdl_clock_s();
        mark(t, 0);
        mark(t, 1);
    }
    mark(t, 2 * x->n + 2);
    return 0;
}

void train_time_end(pdl_trainer *t, int op, int64_t micro, double start)
{
    struct train_times *x = &t->times;

    if (!train_is_timed(t))
        return;
    if (!t->device) {
        t->opt.timed(t->opt.timed_ctx, op, micro, start, now(t, op));
        return;
    }
    if (x->n == x->room) {
        int64_t room = 2 * x->room + 256;
        struct train_time_of *more =
            realloc(x->of, (size_t)room * sizeof *more);

        if (!more)
            return; /* one that nobody hears of */
        x->of = more;
        x->room = room;
    }
    mark(t, 2 * x->n + 3);
    x->of[x->n++] = (struct train_time_of){op, micro};
}

enum pdl_status train_times_tell(pdl_trainer *t, struct pdl_err *err)
{
    struct train_times *x = &t->times;
    const struct train_device *d = t->device;
    enum pdl_status st = x->n > 0 ? train_settled(t, err) : PDL_OK;
    double own = x->n > 0 ? d->between(t->backend_state, 0, 1) : 0;

    for (int64_t i = 0; i < x->n && st == PDL_OK; i++) {
        double start = d->between(t->backend_state, 0, 2 * i + 2);
        double took = d->between(t->backend_state, 2 * i + 2, 2 * i + 3) - own;

        start += x->base_s;
        t->opt.timed(t->opt.timed_ctx, x->of[i].op, x->of[i].micro, start,
                     start + (took > 0 ? took : 0));
    }
    x->n = 0;
    return st;
}

void train_times_close(pdl_trainer *t)
{
    free(t->times.of);
}
