/* Shared inside the oracle room. */
#ifndef ORACLE_PRIV_H
#define ORACLE_PRIV_H

#include "paradl/oracle.h"

struct oracle {
    const struct pdl_plan *p;
    const struct pdl_system *sys;
    const struct pdl_oracle_options *opt;
    struct pdl_err *err;
};

/* ranks.c: ranks of a stage that between them have every local shape the
 * splits produce: both ends and the middle of each factor. */
enum { ORACLE_MAX_RANKS = 81 };
int oracle_ranks(const struct pdl_plan *p, int stage, int64_t *ranks);

/* compute.c, comm.c: seconds of one operation on one rank */
double oracle_compute(const struct oracle *o, int op, int64_t rank);
double oracle_comm(const struct oracle *o, int op, int64_t rank, int *level,
                   double *flows);
/* memory.c */
void oracle_memory(const struct oracle *o, struct pdl_projection *out);

#endif
