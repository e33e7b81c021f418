/* SPDX-License-Identifier: Apache-2.0
 *
 * What a fast backend leaves to the reference kernels is said once, with its
 * share of one of the first steps: hundreds of times slower an element, one
 * such operator can be most of a step without anything being wrong. */
#include "train/exec/loop.h"

#include <stdio.h>
#include <string.h>

enum { NAMED = 4, MOST = 16 };

/* Nobody promised anything fast for float64. */
bool train_is_slow(const pdl_trainer *t, const struct train_call *c,
                   const struct train_kernel *k)
{
    return t->backend != &train_ref && k && c->nin > 0 &&
           c->in[0].dtype != PDL_F64 && strcmp(k->implementation, "ref") == 0;
}

void train_slow_reset(pdl_trainer *t)
{
    for (int i = 0; i < t->plan->nops; i++)
        t->ops[i].slow_s = 0;
}

static int operators(void)
{
    int n = 0;

    while (pdl_op_at(n))
        n++;
    return n;
}

static int number_of(const struct pdl_op *op)
{
    int i = 0;

    while (pdl_op_at(i) && pdl_op_at(i) != op)
        i++;
    return i;
}

/* The largest first; 0: none is left. */
static double take_largest(double *share, int n, const char **name)
{
    int best = 0;
    double largest;

    for (int i = 1; i < n; i++)
        best = share[i] > share[best] ? i : best;
    largest = share[best];
    share[best] = 0;
    *name = best < n - 1 ? pdl_op_at(best)->name : "loss";
    return largest;
}

/* "lrn (41 % of the step), matmul (3 %)". */
static void tell(struct train_loop *l, double *share, int n)
{
    struct pdl_train_slow slow[MOST];
    size_t at;
    char note[200];
    int k = 0;

    while (k < MOST &&
           (slow[k].share = take_largest(share, n, &slow[k].op)) > 0)
        k++;
    at = (size_t)snprintf(note, sizeof note, "no fast kernel for ");
    for (int i = 0; i < k && i < NAMED && at < sizeof note; i++)
        at += (size_t)snprintf(note + at, sizeof note - at, "%s%s (%.3g %%%s)",
                               i ? ", " : "", slow[i].op, 100 * slow[i].share,
                               i ? "" : " of the step");
    if (k > 0)
        train_tell(l, (struct pdl_train_line){.step = l->resumed_at,
                                              .note = note,
                                              .warns = true,
                                              .slow = slow,
                                              .nslow = k});
}

enum pdl_status train_slow_tell(struct train_loop *l, double step_s,
                                struct pdl_err *err)
{
    const pdl_trainer *t = l->t;
    int n = operators() + 1; /* and the loss */
    double *share = PDL_NEW(l->arena, double, n);
    enum pdl_status st;

    if (!share)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    memset(share, 0, (size_t)n * sizeof *share);
    for (int i = 0; i < t->plan->nops; i++) {
        const struct pdl_plan_op *o = &t->plan->ops[i];

        if (t->ops[i].slow_s > 0 && step_s > 0)
            share[o->node < 0 ? n - 1
                              : number_of(t->plan->model->nodes[o->node].op)] +=
                t->ops[i].slow_s / step_s;
    }
    st = pdl_comm_allreduce(t->world, share, share, n, PDL_COMM_F64,
                            PDL_COMM_MAX, err);
    if (st == PDL_OK)
        tell(l, share, n);
    return st;
}
