/* What is priced: a plan on a system, and what has been found out about it so
 * far. Every folder of the oracle may look at this. */
#ifndef ORACLE_CONTEXT_H
#define ORACLE_CONTEXT_H

#include "oracle/kernel/kernel.h"

struct oracle {
    const struct pdl_plan *p;
    const struct pdl_plan_rounds *rounds; /* of a rolled plan; else NULL */
    const struct pdl_system *sys;
    const struct pdl_oracle_options *opt;
    struct pdl_err *err;
    struct oracle_pe pe;
    struct oracle_pe pe16; /* what 8-bit arithmetic leaves to 16 bits; pe */
    struct oracle_pe pe32; /* what transformers leaves in 32 bits */
    bool in_steps, relative, waits; /* compute_steps.c */
    double busy; /* of the node's PEs: 0 one, 1 all (oracle_busy) */
    struct oracle_record *record; /* NULL: nobody asks */
    pdl_arena *arena;             /* for the duration of one projection */
    struct oracle_wire *wires;    /* of (rank, group) seen last; NULL: none */
    struct oracle_quickest *quickest; /* allreduces asked for; NULL: none */
    struct oracle_ranks *alike;       /* of the first stage */
    struct oracle_memo *memo;         /* NULL: nothing is remembered */
    struct oracle_order *order;       /* of the pipeline's tasks */
    /* of a lane on a machine with several kinds of PE: the whole machine, for
     * what goes between lanes; and 2 + the kind whose ranks are meant */
    const struct oracle *between;
    int64_t only;      /* 0: all */
    bool on_lane;      /* sends between stages stay on their lane (zb-v) */
    const bool *again; /* of each layer: computed again; NULL: as the strategy
                          says for all */
};

/* Bytes of a rank's part of a tensor; remembered where there is a memo. */
int64_t oracle_bytes(const struct oracle *o, int tensor, int64_t rank);

#endif
