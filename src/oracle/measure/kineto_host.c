/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators of a job on processors: a call lies inside of another one of its
 * thread where its time does. */
#include "oracle/measure/kineto.h"

#include <stdlib.h>

bool oracle_kineto_add(struct kineto_ops *o, const struct kineto_op *op)
{
    if (o->n == o->cap) {
        size_t cap = o->cap ? 2 * o->cap : 1024;
        struct kineto_op *more = realloc(o->op, cap * sizeof *more);

        if (!more)
            return false;
        o->op = more;
        o->cap = cap;
    }
    o->op[o->n++] = *op;
    return true;
}

/* By thread, then by start, who contains others first. */
static int outer_first(const void *a, const void *b)
{
    const struct kineto_op *x = a, *y = b;

    if (x->thread != y->thread)
        return x->thread < y->thread ? -1 : 1;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    if (x->to != y->to)
        return x->to > y->to ? -1 : 1;
    return (int)y->step - (int)x->step;
}

static void place(struct kineto_op *all, struct kineto_op *op)
{
    struct kineto_op *outer = op->top ? NULL : &all[op->around];

    op->own += op->to - op->from;
    op->update = op->step;
    if (!outer)
        return;
    outer->own -= op->to - op->from;
    if (outer->update) {
        op->kind = outer->kind;
        op->update = true;
        op->step = false;
    }
    op->inside = op->kind == outer->kind;
}

void oracle_kineto_nest(struct kineto_ops *o)
{
    size_t at = 0; /* the innermost that is open, where there is one */
    bool open = false;

    if (o->n > 1)
        qsort(o->op, o->n, sizeof *o->op, outer_first);
    for (size_t i = 0; i < o->n; i++) {
        struct kineto_op *op = &o->op[i];

        while (open &&
               (o->op[at].thread != op->thread || o->op[at].to <= op->from)) {
            open = !o->op[at].top;
            at = o->op[at].around;
        }
        op->top = !open;
        op->around = at;
        place(o->op, op);
        at = i;
        open = true;
    }
}
