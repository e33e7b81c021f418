/* Plans and systems for tests of the oracle, or the test fails. */
#ifndef TEST_ORACLE_PLANS_H
#define TEST_ORACLE_PLANS_H

#include "paradl/oracle.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

static inline const struct pdl_plan *lower_as(pdl_arena *a, const char *model,
                                              const char *strategy,
                                              const struct pdl_plan_options *po)
{
    struct pdl_strategy *s = PDL_NEW(a, struct pdl_strategy, 1);
    struct pdl_err err = {"", ""};
    const struct pdl_model *m;
    const struct pdl_plan *p = NULL;

    if (pdl_zoo_build(a, model, &m, &err) != PDL_OK ||
        pdl_strategy_parse(a, strategy, s, &err) != PDL_OK ||
        pdl_plan_lower(a, m, s, po, &p, &err) != PDL_OK)
        fail_msg("%s %s: %s", model, strategy, err.msg);
    return p;
}

static inline const struct pdl_plan *lower(pdl_arena *a, const char *model,
                                           const char *strategy, int64_t batch)
{
    return lower_as(a, model, strategy,
                    &(struct pdl_plan_options){.batch = batch});
}

static inline struct pdl_system open_system(pdl_arena *a, const char *name)
{
    struct pdl_system sys;
    struct pdl_err err = {"", ""};

    if (pdl_system_open(a, name, &sys, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    return sys;
}

/* It lives as long as the test's program. */
static inline const struct pdl_framework *open_framework(const char *name)
{
    static pdl_arena *keep;
    const struct pdl_framework *f = NULL;
    struct pdl_err err = {"", ""};

    keep = keep ? keep : pdl_arena_create(PDL_ARENA_DEFAULT);
    if (pdl_framework_open(keep, name, &f, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    return f;
}

#endif
