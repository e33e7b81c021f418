/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights that are gathered ahead of the gradients before them. ZeRO 3 asks for
 * the weights of the next block while a block computes, backward too (Zhao et
 * al., PyTorch FSDP, VLDB 2023: backward prefetching), so their allgather is on
 * the wires before the reduce-scatter of the block that computes, which has to
 * wait for its gradients. The plan has them the other way round, as they depend
 * on each other; here the gather takes its place in front, and the scatters
 * since the gather before it move back if they must.
 *
 * Limits: one block ahead, as in oracle_add_items; scatters move together. */
#include "stage.h"

#include <math.h>

void oracle_scattered(struct streams *c, int op, double start, double seconds,
                      double before)
{
    int n = c->nscatters;

    if (n == ORACLE_SCATTERS) { /* too many to move: none does */
        c->nscatters = 0;
        return;
    }
    if (n == 0)
        c->before_scatter = before;
    c->scatter[n] = op;
    c->scatter_start[n] = start;
    c->scatter_s[n] = seconds;
    c->nscatters = n + 1;
}

static void set_ready(const struct oracle *o, int op, double t,
                      struct streams *c)
{
    for (int k = 0; k < o->p->ops[op].nout; k++)
        c->ready[o->p->ops[op].out[k]] = t;
}

static void move_scatters(const struct oracle *o, double later,
                          struct streams *c)
{
    for (int i = 0; i < c->nscatters; i++) {
        double start = c->scatter_start[i] + later;

        oracle_keep(o, c->scatter[i], start, c->scatter_s[i]);
        set_ready(o, c->scatter[i], start + c->scatter_s[i], c);
    }
    c->network_from += later;
    c->network += later;
}

bool oracle_gathers_ahead(const struct oracle *o, int op, double start,
                          double seconds, struct streams *c)
{
    double end, beside;

    if (!c->overlap || c->nscatters == 0)
        return false;
    start = fmax(start, c->before_scatter);
    end = start + seconds;
    if (start >= c->scatter_start[0])
        return false;
    /* what computed beside it had the rest of the PE */
    beside = c->held * fmax(0, fmin(end, c->compute) - start);
    c->compute += beside;
    move_scatters(o, fmax(beside, end - c->scatter_start[0]), c);
    oracle_keep(o, op, start, seconds);
    set_ready(o, op, end, c);
    c->nscatters = 0;
    return true;
}
