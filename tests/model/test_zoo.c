/* The zoo: every network builds, is sound and has its published totals. */
#include "paradl/model.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

// clang-format off
static const struct {
    const char *spec;
    int64_t parameters, buffers, flops; /* -1: not pinned down */
} totals[] = {
    {"resnet18", 11689512, -1, -1},
    {"resnet34", 21797672, -1, -1},
    {"resnet50", 25557032, 53120, 8178368512},
    {"resnet101", 44549160, -1, -1},
    {"resnet152", 60192808, -1, -1},
};
// clang-format on

static void networks_have_their_published_totals(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof totals / sizeof totals[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        const struct pdl_model *m = NULL;
        struct pdl_model_totals t;
        struct pdl_err err = {"", ""};

        if (pdl_zoo_build(a, totals[i].spec, &m, &err) != PDL_OK ||
            pdl_model_check(m, &err) != PDL_OK ||
            pdl_model_totals(m, &t, &err) != PDL_OK)
            fail_msg("%s: %s", totals[i].spec, err.msg);
        if (t.parameters != totals[i].parameters ||
            (totals[i].buffers >= 0 && t.buffers != totals[i].buffers) ||
            (totals[i].flops >= 0 && t.forward_flops != totals[i].flops))
            fail_msg("%s: %lld parameters, %lld buffers, %lld FLOPs",
                     totals[i].spec, (long long)t.parameters,
                     (long long)t.buffers, (long long)t.forward_flops);
        pdl_arena_destroy(a);
    }
}

static void what_is_typed_wrong_is_said(void **state)
{
    static const struct {
        const char *spec, *msg, *hint;
    } cases[] = {
        {"resnet51", "no model 'resnet51'", "did you mean 'resnet50'?"},
        {"", "no model ''", "'paradl model list' shows the zoo"},
        {"resnet:dept=50", "resnet: no parameter 'dept'",
         "did you mean 'depth'?"},
        {"resnet:colour=red", "resnet: no parameter 'colour'",
         "it takes depth, stride, input, classes"},
        {"resnet:depth=51", "resnet: depth: '51' is none of 18|34|50|101|152",
         ""},
        {"resnet:input=4x4", "resnet: input: '4x4' is not a whole number", ""},
        {"resnet:input=", "resnet: 'input=' is not key=value", ""},
        {"resnet:", "resnet: '' is not key=value", ""},
        {"resnet:input=32,input=33", "resnet: input is set twice", ""},
        {"resnet50:stride=2x2", "resnet50: stride: '2x2' is none of 3x3|1x1",
         ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        const struct pdl_model *m = NULL;
        struct pdl_err err = {"", ""};

        assert_int_equal(pdl_zoo_build(a, cases[i].spec, &m, &err), PDL_EINVAL);
        assert_string_equal(err.msg, cases[i].msg);
        assert_string_equal(err.hint, cases[i].hint);
        assert_null(m);
        pdl_arena_destroy(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(networks_have_their_published_totals),
        cmocka_unit_test(what_is_typed_wrong_is_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
