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
#include "oracle/step/stage.h"

#include <math.h>

void oracle_scattered(struct streams *c, int id, double start, double before)
{
    int n = c->nscatters;

    if (n == ORACLE_SCATTERS) { /* too many to move: none does */
        c->nscatters = 0;
        return;
    }
    if (n == 0) {
        c->before_scatter = before;
        c->scatter_start = start;
    }
    c->scatter[n] = id;
    c->nscatters = n + 1;
}

bool oracle_gathers_ahead(struct streams *c, double ready, double seconds,
                          double *start, double *later)
{
    double end, beside;

    *start = fmax(ready, c->before_scatter);
    if (!c->overlap || c->nscatters == 0 || *start >= c->scatter_start)
        return false;
    end = *start + seconds;
    /* what computed beside it had the rest of the PE */
    beside = c->held * fmax(0, fmin(end, c->compute) - *start);
    *later = fmax(beside, end - c->scatter_start);
    c->compute += beside;
    c->network_from += *later;
    c->network += *later;
    return true;
}
