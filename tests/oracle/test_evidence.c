/* What measured runs there are like a projection, and what follows for its
 * interval. */
#include "oracle/plans.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static void a_key_is_the_features(void **st)
{
    static const struct {
        const char *model, *strategy, *system, *framework, *precision, *key;
    } rows[] = {
        {"gpt2", "data=2,tensor=4", "dgx-a100:nodes=1", "megatron", "fp16",
         "megatron/ampere/transformer/16-bit/data+tensor/-"},
        {"gpt2", "data=1", "dgx-h100:nodes=1", NULL, "bf16",
         "none/hopper/transformer/16-bit/serial/-"},
        {"resnet50", "data=4", "dgx1-v100:nodes=1", "pytorch-channels-last",
         "fp32", "pytorch/volta/cnn/fp32/data/-"},
        {"mixtral-8x7b:layers=2", "expert=8", "dgx-b200:nodes=1", "megatron",
         "fp8", "megatron/blackwell/experts/fp8/expert/-"},
        {"nemotron-3-nano:mamba=8,attention=2", "data=8", "dgx-b200:nodes=1",
         "megatron", "fp8", "megatron/blackwell/hybrid/fp8/data/-"},
    };

    (void)st;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_system sys = open_system(a, rows[i].system);
        struct pdl_oracle_options opt = {
            .precision = pdl_precision_find(rows[i].precision),
            .framework =
                rows[i].framework ? open_framework(rows[i].framework) : NULL};
        const struct pdl_plan *plan =
            lower(a, rows[i].model, rows[i].strategy, 8);
        char key[192];

        pdl_evidence_key(plan->model, plan->strategy, &sys, &opt, key,
                         sizeof key);
        assert_string_equal(key, rows[i].key);
        pdl_arena_destroy(a);
    }
}

/* The fewer features runs share, the wider; a campaign that is left out counts
 * for nothing. */
static void intervals_are_as_wide_as_evidence_is_thin(void **st)
{
    static const char *const keys[] = {
        "megatron-deepspeed/ampere/transformer/16-bit/pipe+data+tensor/"
        "zero1+1f1b",
        "megatron-deepspeed/cdna3/transformer/16-bit/pipe+data+tensor/"
        "zero1+1f1b",
        "nobodys/ampere/transformer/16-bit/pipe+data+tensor/zero1+1f1b",
        "nobodys/ampere/nothing/16-bit/pipe+data+tensor/zero1+1f1b",
    };
    struct pdl_evidence e, without;
    double before = 0;

    (void)st;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        pdl_evidence_find(keys[i], NULL, &e);
        assert_true(e.half_width > before);
        assert_true((e.runs > 0) == (i == 0));
        assert_true((e.error > 0) == (i == 0));
        before = e.half_width;
    }
    pdl_evidence_find(keys[0], NULL, &e);
    pdl_evidence_find(keys[0], "BLOOM", &without);
    assert_true(without.runs == 0 && without.near > 0);
    assert_true(without.half_width > e.half_width);
}

/* Runs that are far off make the intervals of those like them wide. */
static void what_is_far_off_is_wide(void **st)
{
    struct pdl_evidence e;

    (void)st;
    pdl_evidence_find("megatron/blackwell/experts/16-bit/expert/zero1", NULL,
                      &e);
    assert_true(e.runs > 0);
    assert_true(e.half_width > log1p(e.error));
}

static void measured_runs_bound_the_part_of_the_peak(void **st)
{
    struct pdl_pe a = {.arch = "ampere"}, none = {.name = "abacus"};
    double mfu = pdl_evidence_mfu(&a, pdl_precision_find("bf16"));

    (void)st;
    assert_true(mfu > .5 && mfu < .75);
    assert_true(mfu == pdl_evidence_mfu(&a, pdl_precision_find("fp16")));
    assert_true(pdl_evidence_mfu(&none, pdl_precision_find("bf16")) == 0);
}

/* The median of one's own runs moves the step; runs that are alike count before
 * others, and a few tell less than many. */
static void own_runs_anchor_a_projection(void **st)
{
    static const char key[] = "megatron/hopper/transformer/16-bit/data";
    static const char near[] = "megatron/hopper/transformer/16-bit/tensor";
    static const char far[] = "own/ampere/cnn/fp32/data";
    const struct pdl_own_run run[] = {
        {far, 1, 3},    {near, 1, 2},    {near, 1, 2.1}, {key, 1, 1.1},
        {key, 2, 2.24}, {key, 1, 1.08},  {key, 1, 1.12}, {key, 1, 1.3},
        {key, 1, 0},    {key, 10, 11.2},
    };
    const struct {
        int first, n, runs;
        bool alike;
        double factor;
    } rows[] = {{0, 10, 6, true, 1.12},
                {0, 4, 1, true, 1.1},
                {0, 3, 2, false, 2.0494},
                {0, 1, 1, false, 3},
                {8, 1, 0, false, 0}};
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_anchor many, x;

    (void)st;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(
            pdl_anchor_find(a, run + rows[i].first, rows[i].n, key, .3, &x),
            PDL_OK);
        assert_int_equal(x.runs, rows[i].runs);
        assert_true(x.alike == rows[i].alike);
        if (fabs(x.factor - rows[i].factor) > 1e-3)
            fail_msg("row %zu: %g", i, x.factor);
        assert_true(x.runs == 0 || (x.half_width >= .05 && x.half_width <= .3));
    }
    pdl_anchor_find(a, run, 10, key, .3, &many);
    pdl_anchor_find(a, run, 1, key, .3, &x);
    assert_true(many.half_width < x.half_width);
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_is_the_features),
        cmocka_unit_test(intervals_are_as_wide_as_evidence_is_thin),
        cmocka_unit_test(what_is_far_off_is_wide),
        cmocka_unit_test(measured_runs_bound_the_part_of_the_peak),
        cmocka_unit_test(own_runs_anchor_a_projection),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
