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

/* The number of a mark that is set now. */
static int64_t mark(pdl_trainer *t)
{
    struct pdl_err err;
    enum pdl_status st =
        t->device->mark(t->backend_state, TRAIN_COMPUTE, t->times.marks, &err);

    if (st != PDL_OK && t->device_st == PDL_OK) {
        t->device_st = st;
        t->device_err = err;
    }
    return t->times.marks++;
}

/* Updates go together where a device gathers them: they are timed as one. */
static void end_updates(pdl_trainer *t)
{
    struct train_times *x = &t->times;
    int64_t to = x->updates ? mark(t) : 0;

    for (int64_t i = x->n - 1; x->updates && i >= 0 && x->of[i].to < 0; i--)
        x->of[i].to = to;
    x->updates = false;
}

static bool is_nothing(const pdl_trainer *t, int op)
{
    return t->plan->ops[op].kind == PDL_PLAN_OP_FREE || t->ops[op].joined;
}

/* Marks 0 and 1 have nothing between them: what two take by themselves. */
double train_time_begin(pdl_trainer *t, int op)
{
    struct train_times *x = &t->times;
    bool update = t->plan->ops[op].kind == PDL_PLAN_OP_UPDATE;

    if (!train_is_timed(t) || is_nothing(t, op))
        return 0;
    if (!t->device)
        return now(t, op);
    if (x->marks == 0) {
        x->base_s = pdl_clock_s();
        (void)mark(t);
        (void)mark(t);
    }
    if (!update)
        end_updates(t);
    if (!x->updates)
        x->from = mark(t);
    x->updates = update;
    return 0;
}

void train_time_end(pdl_trainer *t, int op, int64_t micro, double start)
{
    struct train_times *x = &t->times;

    if (!train_is_timed(t) || is_nothing(t, op))
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
    x->of[x->n++] = (struct train_time_of){.op = op,
                                           .micro = micro,
                                           .from = x->from,
                                           .to = x->updates ? -1 : mark(t)};
}

static double elements(const pdl_trainer *t, int op)
{
    return (double)train_array_elements(&t->arrays[t->plan->ops[op].out[0]]);
}

/* Of updates that were timed as one each has its share. */
static double share(const pdl_trainer *t, int64_t i)
{
    const struct train_times *x = &t->times;
    double all = 0;

    for (int64_t k = i; k >= 0 && x->of[k].from == x->of[i].from; k--)
        all += elements(t, x->of[k].op);
    for (int64_t k = i + 1; k < x->n && x->of[k].from == x->of[i].from; k++)
        all += elements(t, x->of[k].op);
    return all > 0 ? elements(t, x->of[i].op) / all : 1;
}

enum pdl_status train_times_tell(pdl_trainer *t, struct pdl_err *err)
{
    struct train_times *x = &t->times;
    const struct train_device *d = t->device;
    enum pdl_status st = PDL_OK;
    double own;

    if (x->n == 0)
        return PDL_OK;
    end_updates(t);
    st = train_settled(t, err);
    own = d->between(t->backend_state, 0, 1);
    for (int64_t i = 0; i < x->n && st == PDL_OK; i++) {
        const struct train_time_of *o = &x->of[i];
        double start = x->base_s + d->between(t->backend_state, 0, o->from);
        double took = d->between(t->backend_state, o->from, o->to) - own;

        took = took > 0 ? took : 0;
        if (t->plan->ops[o->op].kind == PDL_PLAN_OP_UPDATE)
            took *= share(t, i);
        t->opt.timed(t->opt.timed_ctx, o->op, o->micro, start, start + took);
    }
    x->n = x->marks = 0;
    return st;
}

void train_times_close(pdl_trainer *t)
{
    free(t->times.of);
}
