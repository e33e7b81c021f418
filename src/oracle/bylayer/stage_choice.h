/* Shared by the per-layer search: a chain of segments, cut into stages. */
#ifndef ORACLE_CHAIN_H
#define ORACLE_CHAIN_H

#include "oracle/oracle_priv.h"

struct oracle_chain {
    int n, k, stages;
    const double *run;         /* [n][k] seconds of a micro-batch; INFINITY:
                                  not this one */
    const double *keep;        /* [n][k] bytes for each micro-batch in flight */
    const double *state;       /* [n][k] bytes all the time */
    const double *const *pair; /* [n]: [k of the one before][k] seconds; NULL:
                                  none. INFINITY: not together */
    const double *const *send; /* [n]: [k of the one before] seconds if a stage
                                  begins here; NULL: none may */
    bool fixed;                /* a stage begins wherever one may */
    const double *in_flight;   /* [stages] micro-batches */
    double room;               /* bytes of a stage */
    double fill, each; /* a step: fill x all stages + each x the slowest */
};
struct oracle_chain_answer {
    int *pick, *stage; /* [n] */
    double sum, slowest, cost;
};
/* Calls found (false: enough) with answers that none beats in both sum and
 * slowest stage, the least sum first; among them is the one of least cost.
 * Their number; -1: no memory. *exact false: some were left out. */
int oracle_chain_solve(pdl_arena *a, const struct oracle_chain *c,
                       bool (*found)(void *ctx,
                                     const struct oracle_chain_answer *),
                       void *ctx, bool *exact);

#endif
