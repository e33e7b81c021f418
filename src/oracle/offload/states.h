/* Groups of what the optimizer keeps, for deciding where each is (states.c). */
#ifndef ORACLE_STATES_H
#define ORACLE_STATES_H

#include "oracle/oracle_priv.h"

/* A plan of one stage, and what its operations take. */
struct states_priced {
    const struct pdl_plan *plan;
    const double *seconds;
};
struct states_in {
    struct states_priced here, there; /* all states on the PE, on the host */
    const int *unit;                  /* of each node */
    int nunits;
    int64_t state_bytes; /* on the PE, where all are */
};
struct states_out {
    const struct pdl_karma_group *group; /* in the order of gradients */
    int n, *of_unit; /* the group of each unit; -1: it has no weights */
};
enum pdl_status oracle_state_groups(pdl_arena *a, const struct states_in *in,
                                    struct states_out *out,
                                    struct pdl_err *err);

#endif
