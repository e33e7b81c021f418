/* offload: what of a step goes to the host, decided block by block and written
 * as clauses of a strategy. The chain of blocks that swap=karma decides on. */
#ifndef ORACLE_OFFLOAD_CHAIN_H
#define ORACLE_OFFLOAD_CHAIN_H

#include "oracle/offload/states.h"

struct chain {
    pdl_arena *arena;
    const struct pdl_model *model;
    const struct pdl_system *sys;
    const struct pdl_oracle_options *oracle;
    const struct pdl_plan_options *po;
    const struct pdl_strategy *plain;
    const struct pdl_model *whole; /* blocks written out */
    int *unit;                     /* of each node */
    bool *part;                    /* of each node: is it of those made again
                                      where a unit is in part? */
    int n, *first, *last;          /* nodes of each unit */
    int each;                      /* groups of a unit */
    struct pdl_karma_block *block;
    struct states_out states;
    struct pdl_outofcore *out;
};

/* clauses.c: decisions as a strategy; the same for all units. */
enum pdl_status oracle_chain_write(const struct chain *c,
                                   const struct pdl_karma_plan *p,
                                   struct pdl_strategy *s, struct pdl_err *err);
enum pdl_status oracle_chain_all(const struct chain *c,
                                 enum pdl_karma_choice which,
                                 struct pdl_strategy *s, struct pdl_err *err);

/* part.c: fills in `part` from the plan where everything stays, its operations'
 * seconds, and those for which all of each unit is made again. */
enum pdl_status oracle_chain_part(struct chain *c, const struct pdl_plan *plan,
                                  const double *seconds, const double *all_s,
                                  struct pdl_err *err);
bool oracle_is_heavy(const struct pdl_node *n); /* a convolution, a product */

#endif
