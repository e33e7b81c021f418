/* The words of the strategy notation, for its parser and its printer. */
#ifndef PLAN_STRATEGY_H
#define PLAN_STRATEGY_H

#include "paradl/plan.h"

/* Words of a choice, in the order of its enum; the first is the default. */
extern const char *const plan_schedules[], *const plan_recomputes[],
                                               *const plan_context_kinds[],
                                                   *const plan_context_orders[];

enum plan_option_kind {
    PLAN_OPT_CHOICE,
    PLAN_OPT_FLAG,
    PLAN_OPT_COUNT,
    PLAN_OPT_BYTES,
    PLAN_OPT_TEXT,
    PLAN_OPT_ZERO,
    PLAN_OPT_COMPRESS,
    PLAN_OPT_OFFLOAD,
};

struct plan_option {
    const char *name;
    enum plan_option_kind kind;
    size_t offset;
    const char *const *words; /* CHOICE: an enum; FLAG: off, on */
    const char *example;
};
extern const struct plan_option plan_options[];
extern const int plan_noptions;

#endif
