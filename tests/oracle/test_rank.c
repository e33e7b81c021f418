/* Which plan is named first: by what 9 of 10 steps are shorter than, and of
 * those that cannot be told apart the simplest. */
#include "oracle/plans.h"

#include <stddef.h>
#include <string.h>

struct row {
    const char *strategy;
    double step_s;
};

static void rank(pdl_arena *a, const char *framework, const struct row *rows,
                 int n, struct pdl_found *out, const struct pdl_own_run *own,
                 int nown)
{
    struct pdl_oracle_options oracle = {.precision = PDL_PREC_BF16,
                                        .own = own,
                                        .nown = nown,
                                        .framework = open_framework(framework)};
    struct pdl_search_options opt = {.batch = 64};
    struct pdl_system sys = open_system(a, "dgx-a100");
    struct pdl_err err = {"", ""};
    const struct pdl_model *m;

    for (int i = 0; i < n; i++)
        out[i] = (struct pdl_found){
            .strategy = rows[i].strategy,
            .priced = true,
            .x = {.step_s = rows[i].step_s, .feasible = rows[i].step_s < 9}};
    if (pdl_zoo_build(a, "gpt2", &m, &err) != PDL_OK ||
        pdl_oracle_rank(m, &sys, &oracle, &opt, out, n, &err) != PDL_OK)
        fail_msg("%s", err.msg);
}

static void of_ties_the_simplest_is_first(void **st)
{
    static const struct row rows[] = {
        {"data=4,context=2,tensor=2+seq,zero=1,offload=optimizer", 1},
        {"data=4,context=2,tensor=2+seq,zero=1", 1.005},
        {"data=8,tensor=2+seq,zero=1,recompute=full", 1.01},
        {"data=8,tensor=2+seq,zero=1", 1.02},
        {"data=16,zero=1", 1.04}, /* simple, but not a tie */
        {"pipe=2(zb-h2,m=4),data=8,zero=1", 1.05},
        {"pipe=2(m=4),data=8,zero=1", 1.06},
        {"data=16", 10}, /* does not fit */
    };
    static const int order[] = {3, 2, 1, 0, 4, 6, 5, 7};
    static const int tie[] = {1, 1, 1, 1, 2, 2, 2, 0};
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_found list[8];

    (void)st;
    rank(a, "torchtitan", rows, 8, list, NULL,
         0); /* none of them was measured */
    for (int i = 0; i < 8; i++) {
        assert_string_equal(list[i].strategy, rows[order[i]].strategy);
        assert_int_equal(list[i].tie, tie[i]);
        assert_true(list[i].tie == 0 || list[i].high_s > list[i].x.step_s);
    }
    pdl_arena_destroy(a);
}

/* What was measured goes before what is a bit faster and was not. */
static void what_was_measured_is_surer(void **st)
{
    static const struct row rows[] = {
        {"pipe=2(m=4),data=4,context=2,zero=1", 1},
        {"pipe=2(m=4),data=4,tensor=2,zero=1", 1.01},
    };
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_found list[2];

    (void)st;
    rank(a, "megatron-deepspeed", rows, 2, list, NULL, 0);
    assert_true(list[0].runs > 0 && list[1].runs == 0);
    assert_string_equal(list[0].strategy, rows[1].strategy);
    assert_true(list[0].high_s < list[1].high_s);
    pdl_arena_destroy(a);
}

/* Own runs move the plans that they are like, and are counted with them. */
static void own_runs_change_what_is_first(void **st)
{
    static const struct row rows[] = {
        {"data=16,zero=1", 1},
        {"data=8,tensor=2,zero=1", 1.1},
    };
    static const struct pdl_own_run own[] = {
        {"megatron/ampere/transformer/16-bit/data/zero1", 1, 1.5},
        {"megatron/ampere/transformer/16-bit/data+tensor/zero1", 1, 1.02},
    };
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_found list[2];

    (void)st;
    rank(a, "megatron", rows, 2, list, NULL, 0);
    assert_string_equal(list[0].strategy, rows[0].strategy);
    assert_true(list[0].anchored_s == 0);
    rank(a, "megatron", rows, 2, list, own, 2);
    assert_string_equal(list[0].strategy, rows[1].strategy);
    assert_true(list[0].anchored_s > 1.121 && list[0].anchored_s < 1.123);
    assert_true(list[1].anchored_s > 1.49 && list[1].high_s > 1.5);
    assert_true(list[0].runs > 0);
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_ties_the_simplest_is_first),
        cmocka_unit_test(what_was_measured_is_surer),
        cmocka_unit_test(own_runs_change_what_is_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
