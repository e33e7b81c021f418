/* Where pipelines are cut: by work, also where it has more than 63 bits, and
 * where the strategy says. */
#include "paradl/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* Attention to two million positions: 80 layers have 1.2e19 FLOPs. */
static void long_sequences_do_not_overflow(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_model *m;

    (void)state;
    assert_int_equal(
        pdl_model_load(a, "llama-3-70b:seq=2097152", NULL, &m, NULL), PDL_OK);
    for (int64_t stages = 1; stages <= 80; stages++) {
        int64_t *blocks = PDL_NEW(a, int64_t, stages), sum = 0;

        assert_int_equal(
            pdl_plan_blocks(a, m, stages, PDL_SPLIT_WORK, blocks, NULL),
            PDL_OK);
        for (int64_t s = 0; s < stages; s++) {
            assert_true(blocks[s] >= 1);
            sum += blocks[s];
        }
        assert_int_equal(sum, 80);
    }
    pdl_arena_destroy(a);
}

/* The first layer of each stage, from the plan. */
static void stages_begin_where_the_strategy_says(void **state)
{
    static const struct {
        const char *strategy;
        enum pdl_status status;
        const char *first[3];
    } cases[] = {
        {"pipe=2(m=2,at=conv3),data=2", PDL_OK, {"conv1", "conv3"}},
        {"pipe=3(m=2,at=conv2+fc6),data=1", PDL_OK, {"conv1", "conv2", "fc6"}},
        {"pipe=3(m=2,at=conv2),data=1", PDL_EINVAL, {NULL}},
        {"pipe=2(m=2,at=conv2+conv3),data=1", PDL_EINVAL, {NULL}},
        {"pipe=3(m=2,at=conv3+conv2),data=1", PDL_EINVAL, {NULL}},
        {"pipe=2(m=2,at=conv1),data=1", PDL_EINVAL, {NULL}},
    };
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_plan_options po = {.batch = 8, .dtype = PDL_F32};
    const struct pdl_model *m;

    (void)state;
    assert_int_equal(pdl_model_load(a, "alexnet", NULL, &m, NULL), PDL_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pdl_strategy *s = PDL_NEW(a, struct pdl_strategy, 1);
        const struct pdl_plan *p;

        assert_int_equal(pdl_strategy_parse(a, cases[i].strategy, s, NULL),
                         PDL_OK);
        assert_int_equal(pdl_plan_lower(a, m, s, &po, &p, NULL),
                         cases[i].status);
        for (int k = 0; cases[i].status == PDL_OK && k < p->nstages; k++) {
            const struct pdl_plan_item *it =
                &p->items[p->stages[k].first_forward];
            int op = it->first_op;

            while (p->ops[op].kind != PDL_PLAN_OP_COMPUTE)
                op++;
            assert_string_equal(p->model->nodes[p->ops[op].node].name,
                                cases[i].first[k]);
        }
    }
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_sequences_do_not_overflow),
        cmocka_unit_test(stages_begin_where_the_strategy_says),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
