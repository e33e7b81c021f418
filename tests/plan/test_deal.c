/* SPDX-License-Identifier: Apache-2.0
 *
 * Which position stands at which place: every position somewhere, once; parts
 * that ascend and see as much; and which models and strategies have it. */
#include "paradl/plan.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <setjmp.h>

#include <cmocka.h>

static void assert_near(double a, double b)
{
    assert_true(fabs(a - b) <= 1e-9);
}

static const int64_t lengths[] = {1, 2, 3, 7, 8, 24, 31, 64, 65, 1000, 4096};

/* Is every position at exactly one place? */
static bool is_permutation(const struct pdl_deal *d)
{
    bool *seen = calloc((size_t)d->positions + 1, sizeof *seen);
    bool good = seen != NULL;

    for (int64_t i = 0; i < d->positions && good; i++) {
        int64_t p = pdl_deal_position(d, i);

        good = p >= 0 && p < d->positions && !seen[p];
        if (good)
            seen[p] = true;
    }
    free(seen);
    return good;
}

static void every_position_has_one_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int64_t ranks = 0; ranks < 20; ranks++) {
            struct pdl_deal d = {lengths[i], ranks};
            int64_t sum = 0, run;

            assert_true(is_permutation(&d));
            for (int64_t at = 0; at < d.positions; at += run) {
                run = pdl_deal_run(&d, at, d.positions);
                assert_true(run > 0);
                for (int64_t k = 1; k < run; k++)
                    assert_int_equal(pdl_deal_position(&d, at + k),
                                     pdl_deal_position(&d, at) + k);
                sum += run;
            }
            assert_int_equal(sum, d.positions);
        }
}

/* Rank r of P has the runs r and 2P - 1 - r of 2P; parts ascend; all see as
 * many keys, and where 2P does not divide, nearly. */
static void parts_ascend_and_are_even(void **state)
{
    struct pdl_deal four = {64, 4};

    (void)state;
    for (int64_t r = 0; r < 4; r++) {
        assert_int_equal(pdl_deal_position(&four, 16 * r), 8 * r);
        assert_int_equal(pdl_deal_position(&four, 16 * r + 8), 8 * (7 - r));
        assert_near(pdl_deal_mean(&four, 16 * r, 16 * r + 16), 31.5);
    }
    assert_false(pdl_deal_ascends(&four, 0, 64));
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int64_t ranks = 2; ranks < 20; ranks++) {
            struct pdl_deal d = {lengths[i], ranks};

            for (int64_t r = 0; r < ranks; r++) {
                int64_t lo, hi;

                pdl_split(d.positions, 1, ranks, r, &lo, &hi);
                assert_true(pdl_deal_ascends(&d, lo, hi));
                if (d.positions % (2 * ranks) == 0)
                    assert_near(pdl_deal_mean(&d, lo, hi),
                                (double)(d.positions - 1) / 2);
            }
        }
}

/* The last rank has 2 - 1/P of the mean work where places are positions. */
static void in_order_the_last_rank_has_most(void **state)
{
    struct pdl_deal plain = {64, 0};

    (void)state;
    assert_near((pdl_deal_mean(&plain, 48, 64) + .5) / 32, 2 - 1. / 4);
    assert_true(pdl_deal_ascends(&plain, 0, 64));
}

static void strategies_and_models_that_are_dealt(void **state)
{
    static const struct {
        const char *model, *strategy;
        int64_t ranks;
    } cases[] = {
        {"gpt:layers=1,hidden=8,heads=2,vocab=7,seq=12", "context=3", 3},
        {"gpt:layers=1,hidden=8,heads=2,vocab=7,seq=12", "context=3(plain)", 0},
        {"gpt:layers=1,hidden=8,heads=2,vocab=7,seq=12", "context=3(gather)",
         3},
        {"gpt:layers=1,hidden=8,heads=2,vocab=7,seq=12", "context=2(a2a)", 0},
        {"gpt:layers=1,hidden=8,heads=2,vocab=7,seq=12", "data=2", 0},
        {"gpt:layers=2,hidden=8,heads=2,vocab=7,seq=12",
         "*: context=4; layers.0.*: context=2,data=2", 0},
        {"llama:layers=1,hidden=8,heads=2,ffn=8,vocab=7,seq=12",
         "data=2,context=2", 2},
        {"t5:layers=1,hidden=8,heads=2,ffn=8,vocab=7,seq=12", "context=2", 0},
        {"bert:layers=1,hidden=8,heads=2,vocab=7,seq=12", "context=2", 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_plan_options opt = {.batch = 4, .dtype = PDL_F32};
        struct pdl_err err = {"", ""};
        const struct pdl_model *m;
        struct pdl_strategy s;
        const struct pdl_plan *p;

        if (pdl_model_load(a, cases[i].model, NULL, &m, &err) != PDL_OK ||
            pdl_strategy_parse(a, cases[i].strategy, &s, &err) != PDL_OK)
            fail_msg("%s: %s", cases[i].model, err.msg);
        if (pdl_plan_lower(a, m, &s, &opt, &p, &err) == PDL_OK)
            assert_int_equal(p->deal.ranks, cases[i].ranks);
        else if (cases[i].ranks)
            fail_msg("%s: %s", cases[i].strategy, err.msg);
        else
            print_message("%s %s: %s\n", cases[i].model, cases[i].strategy,
                          err.msg);
        pdl_arena_destroy(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_position_has_one_place),
        cmocka_unit_test(parts_ascend_and_are_even),
        cmocka_unit_test(in_order_the_last_rank_has_most),
        cmocka_unit_test(strategies_and_models_that_are_dealt),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
