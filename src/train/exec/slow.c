/* SPDX-License-Identifier: Apache-2.0
 *
 * What a fast backend leaves to the reference kernels is said once, with its
 * share of one of the first steps: hundreds of times slower an element, one such
 * operator can be most of a step without anything being wrong. */
#include "train/train_priv.h"

#include <stdio.h>
#include <string.h>

enum { NAMED = 4 };

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

    while (pdl_op_at(i) && strcmp(pdl_op_at(i)->name, op->name) != 0)
        i++;
    return i;
}

/* "lrn (41 % of the step), matmul (3 %)": the largest first. */
static void write_note(double *share, int n, char *note, size_t size)
{
    size_t at = (size_t)snprintf(note, size, "no fast kernel for ");
    int named = 0;

    while (named < NAMED && at < size) {
        int best = 0;

        for (int i = 1; i < n; i++)
            best = share[i] > share[best] ? i : best;
        if (share[best] <= 0)
            break;
        at += (size_t)snprintf(note + at, size - at, "%s%s (%.3g %%%s)",
                               named ? ", " : "",
                               best < n - 1 ? pdl_op_at(best)->name : "loss",
                               100 * share[best], named ? "" : " of the step");
        share[best] = 0;
        named++;
    }
}

enum pdl_status train_slow_note(pdl_trainer *t, double step_s, char *note,
                                size_t size, struct pdl_err *err)
{
    int n = operators() + 1; /* and the loss */
    double *share = PDL_NEW(t->arena, double, n);
    double any = 0;
    enum pdl_status st;

    note[0] = '\0';
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
    for (int i = 0; i < n; i++)
        any += share[i];
    if (st == PDL_OK && any > 0)
        write_note(share, n, note, size);
    return st;
}
