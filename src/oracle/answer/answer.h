/* answer: what a projection means to people: why it is as it is, what it costs,
 * who shares what, how far it goes. */
#ifndef ORACLE_ANSWER_H
#define ORACLE_ANSWER_H

#include "oracle/measure/measure.h"
#include "oracle/oracle_priv.h"

/* What is explained. */
struct oracle_why {
    pdl_arena *arena;
    const struct pdl_plan *p;
    const struct pdl_system *sys;
    const struct pdl_oracle_options *opt;
    const struct pdl_projection *x;
    struct pdl_err *err;
    const struct pdl_op_price *price; /* of each operation */
};
/* gains.c */
enum pdl_status oracle_find_gains(const struct oracle_why *w,
                                  struct pdl_explanation *out);

#endif
