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
         "megatron/ampere/transformer/16-bit/data+tensor"},
        {"gpt2", "data=1", "dgx-h100:nodes=1", NULL, "bf16",
         "none/hopper/transformer/16-bit/serial"},
        {"resnet50", "data=4", "dgx1-v100:nodes=1", "pytorch-channels-last",
         "fp32", "pytorch/volta/cnn/fp32/data"},
        {"mixtral-8x7b:layers=2", "expert=8", "dgx-b200:nodes=1", "megatron",
         "fp8", "megatron/blackwell/experts/fp8/expert"},
        {"nemotron-3-nano:mamba=8,attention=2", "data=8", "dgx-b200:nodes=1",
         "megatron", "fp8", "megatron/blackwell/hybrid/fp8/data"},
    };

    (void)st;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_system sys = open_system(a, rows[i].system);
        struct pdl_oracle_options opt = {
            .precision = pdl_precision_find(rows[i].precision),
            .framework =
                rows[i].framework ? open_framework(rows[i].framework) : NULL};
        char key[192];

        pdl_evidence_key(lower(a, rows[i].model, rows[i].strategy, 8), &sys,
                         &opt, key, sizeof key);
        assert_string_equal(key, rows[i].key);
        pdl_arena_destroy(a);
    }
}

/* The fewer features runs share, the wider; a campaign that is left out counts
 * for nothing. */
static void intervals_are_as_wide_as_evidence_is_thin(void **st)
{
    static const char *const keys[] = {
        "megatron-deepspeed/ampere/transformer/16-bit/pipe+data+tensor",
        "megatron-deepspeed/cdna3/transformer/16-bit/pipe+data+tensor",
        "nobodys/ampere/transformer/16-bit/pipe+data+tensor",
        "nobodys/ampere/nothing/16-bit/pipe+data+tensor",
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
    pdl_evidence_find(keys[0], "vTrain", &without);
    assert_true(without.runs < e.runs && without.runs > 0);
}

/* Runs that are far off make the intervals of those like them wide. */
static void what_is_far_off_is_wide(void **st)
{
    struct pdl_evidence e;

    (void)st;
    pdl_evidence_find("megatron/blackwell/experts/16-bit/expert", NULL, &e);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_is_the_features),
        cmocka_unit_test(intervals_are_as_wide_as_evidence_is_thin),
        cmocka_unit_test(what_is_far_off_is_wide),
        cmocka_unit_test(measured_runs_bound_the_part_of_the_peak),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
