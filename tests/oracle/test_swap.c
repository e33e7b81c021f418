/* swap=auto: as few blocks as it takes, in every stage the first; none where
 * all fits, and all where nothing does. */
#include "paradl/oracle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

struct question {
    pdl_arena *a;
    const struct pdl_model *m;
    struct pdl_system sys;
    struct pdl_oracle_options oracle;
    struct pdl_plan_options po;
    struct pdl_strategy s;
};

static enum pdl_status ask(struct question *q, const char *strategy,
                           int64_t memory)
{
    q->a = pdl_arena_create(PDL_ARENA_DEFAULT);
    q->oracle = (struct pdl_oracle_options){.precision = PDL_PREC_BF16,
                                            .optimizer_slots = 2};
    q->po = (struct pdl_plan_options){.batch = 8, .dtype = PDL_BF16};
    assert_int_equal(pdl_model_load(q->a, "gpt2", NULL, &q->m, NULL), PDL_OK);
    assert_int_equal(pdl_system_open(q->a, "dgx-a100", &q->sys, NULL), PDL_OK);
    assert_int_equal(pdl_strategy_parse(q->a, strategy, &q->s, NULL), PDL_OK);
    q->sys.pe.memory_bytes = memory;
    return pdl_swap_settle(q->a, q->m, &q->sys, &q->oracle, &q->po, &q->s,
                           NULL);
}

static bool fits(struct question *q)
{
    struct pdl_projection x;
    const struct pdl_plan *p;

    assert_int_equal(pdl_plan_lower(q->a, q->m, &q->s, &q->po, &p, NULL),
                     PDL_OK);
    assert_int_equal(pdl_plan_check(p, NULL), PDL_OK);
    assert_int_equal(pdl_project(p, &q->sys, &q->oracle, &x, NULL), PDL_OK);
    return x.feasible;
}

/* How far into the network the first clause that offloads reaches. */
static int reach_of(struct question *q)
{
    const struct pdl_model *m;
    const char *dots;

    if (q->s.nclauses < 2)
        return 0;
    dots = strstr(q->s.clause[1].layers, "..");
    assert_non_null(dots);
    assert_int_equal(pdl_plan_expand(q->a, q->m, &m, NULL), PDL_OK);
    for (int i = 0; i < m->nnodes; i++)
        if (strcmp(m->nodes[i].name, dots + 2) == 0)
            return i + 1;
    fail();
    return -1;
}

static void less_memory_swaps_more_until_nothing_helps(void **state)
{
    int before = 0, swapped = 0;

    (void)state;
    for (int64_t mib = 8192; mib >= 512; mib = mib * 9 / 10) {
        struct question q;
        int now;

        assert_int_equal(ask(&q, "data=4,swap=auto", mib << 20), PDL_OK);
        assert_int_equal(q.s.swap, PDL_SWAP_NONE);
        now = reach_of(&q);
        assert_true(now >= before);
        if (fits(&q) && now > before)
            swapped++;
        before = now;
        pdl_arena_destroy(q.a);
    }
    assert_true(swapped >= 2);
}

static void every_stage_swaps_its_first_blocks(void **state)
{
    struct question q;

    (void)state;
    assert_int_equal(ask(&q, "pipe=2(m=4),data=2,swap=auto", 1 << 30), PDL_OK);
    assert_int_equal(q.s.nclauses, 3);
    assert_true(q.s.clause[1].offload && q.s.clause[2].offload);
    pdl_arena_destroy(q.a);
}

static void strategies_by_layer_are_refused(void **state)
{
    struct question q;

    (void)state;
    assert_int_equal(
        ask(&q, "*: data=4,swap=auto; head: data=4", INT64_C(1) << 40),
        PDL_EINVAL);
    pdl_arena_destroy(q.a);
    assert_int_equal(
        ask(&q, "data=4,swap=auto,offload=activations", INT64_C(1) << 40),
        PDL_EINVAL);
    pdl_arena_destroy(q.a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(less_memory_swaps_more_until_nothing_helps),
        cmocka_unit_test(every_stage_swaps_its_first_blocks),
        cmocka_unit_test(strategies_by_layer_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
