/* The projection looks up what an equal operation cost before; every price it
 * uses must be the one that the operation has on its own. */
#include "plans.h"

#include <stdio.h>
#include <stdlib.h>

static int compare(const char *model, const char *strategy, int64_t batch)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_plan *p = lower(a, model, strategy, batch);
    struct pdl_system sys = open_system(a, "abci-v100");
    struct pdl_oracle_options opt = {.optimizer_slots = 1};
    struct pdl_err err = {"", ""};
    struct pdl_timeline line;
    int n;

    /* beside an exchange an operation takes longer than alone */
    assert_int_equal(pdl_effect_find("interference", &opt.without, NULL),
                     PDL_OK);
    if (pdl_timeline(a, p, &sys, &opt, &line, &err) != PDL_OK)
        fail_msg("%s %s: %s", model, strategy, err.msg);
    for (int64_t i = 0; i < line.n; i++) {
        struct pdl_op_price alone;

        pdl_price_op(p, &sys, &opt, line.events[i].op, &alone);
        if (alone.seconds != line.events[i].seconds)
            fail_msg("%s %s: operation %d is priced %.17g, alone %.17g", model,
                     strategy, line.events[i].op, line.events[i].seconds,
                     alone.seconds);
    }
    n = (int)line.n;
    pdl_arena_destroy(a);
    return n;
}

static void a_price_looked_up_is_the_operations_own(void **state)
{
    static const struct {
        const char *model, *strategy;
        int64_t batch;
    } cases[] = {
        {"resnet50", "data=64", 128},
        {"resnet50", "data=4,spatial=4x2", 16},
        {"resnet50", "data=2,filter=4,channel=2", 16},
        {"vgg16", "pipe=8(1f1b,m=8),data=4", 64},
        {"alexnet", "spatial=3,bn=sync", 4},
        {"gpt2", "data=8", 16},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_true(compare(cases[i].model, cases[i].strategy, cases[i].batch) >
                    50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_price_looked_up_is_the_operations_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
