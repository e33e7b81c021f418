/* The transformer builder: FLOPs in closed form, size whatever the depth,
 * the strings people measured runs with, arrangements of norms. */
#include "transformer.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static struct pdl_model_totals totals_of(const char *spec, size_t *used)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_model *m = NULL;
    struct pdl_model_totals t = {.parameters = -1};
    struct pdl_err err = {"", ""};

    if (pdl_zoo_build(a, spec, &m, &err) != PDL_OK ||
        pdl_model_check(m, &err) != PDL_OK ||
        pdl_model_totals(m, &t, &err) != PDL_OK)
        fail_msg("%s: %s", spec, err.msg);
    if (used)
        *used = pdl_arena_used(a);
    pdl_arena_destroy(a);
    return t;
}

/* Korthikanti et al. 2023: forward, 24 s h^2 (1 + s / 6h) a layer and
 * sequence, plus the logits, 2 s h V. */
static void flops_of_gpt_are_those_of_the_formula(void **state)
{
    static const struct {
        const char *spec;
        int64_t layers, h, s, v;
    } cases[] = {
        {"gpt3-175b", 96, 12288, 2048, 50257},
        {"megatron-22b", 48, 6144, 2048, 51200},
        {"megatron-1t", 128, 25600, 2048, 51200},
        {"gpt2:seq=77", 12, 768, 77, 50257},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t l = cases[i].layers, h = cases[i].h, s = cases[i].s;
        int64_t want =
            l * (24 * s * h * h + 4 * s * s * h) + 2 * s * h * cases[i].v;

        assert_int_equal(totals_of(cases[i].spec, NULL).forward_flops, want);
    }
}

/* Grouped queries, a gated feed-forward layer and experts, by hand. */
static void flops_of_other_decoders_are_counted_by_hand(void **state)
{
    int64_t s = 8192, h = 4096, kv = 8 * 128, f = 14336, v = 128256;
    int64_t layer =
        2 * s * h * (2 * h + 2 * kv) + 4 * s * s * h + 6 * s * h * f;

    (void)state;
    assert_int_equal(totals_of("llama3-8b", NULL).forward_flops,
                     32 * layer + 2 * s * h * v);
    s = 4096;
    layer = 2 * s * h * (2 * h + 2 * kv) + 4 * s * s * h + 2 * (6 * s * h * f) +
            2 * s * h * 8;
    assert_int_equal(totals_of("mixtral-8x7b", NULL).forward_flops,
                     32 * layer + 2 * s * h * 32000);
}

static void a_trillion_parameters_take_little_memory(void **state)
{
    size_t deep = 0, shallow = 0;

    (void)state;
    totals_of("megatron-1t:layers=001", &shallow);
    totals_of("megatron-1t:layers=128", &deep);
    assert_int_equal(deep, shallow);
    assert_true(deep < 100 * 1024);
}

/* The strings of published runs; the table of totals has others. */
static void every_family_string_of_measured_runs_builds(void **state)
{
    static const char *const shapes[] = {
        "layers=100,hidden=12288,heads=64,ffn=49152,vocab=250880,seq=2048",
        "layers=105,hidden=20480,heads=128,ffn=81920,vocab=51200,seq=2048",
        "layers=106,hidden=12288,heads=128,ffn=49152,vocab=250880,seq=2048",
        "layers=12,hidden=1024,heads=16,ffn=4096,vocab=51200,seq=1024",
        "layers=24,hidden=2304,heads=24,ffn=9216,vocab=51200,seq=2048",
        "layers=32,hidden=4096,heads=32,kv_heads=8,ffn=16384,vocab=131200,"
        "seq=8192,tied=0",
        "layers=78,hidden=13824,heads=64,ffn=55296,vocab=250880,seq=2048",
        "layers=4,hidden=16384,heads=128,kv_heads=16,ffn=53248,gated=1,"
        "vocab=128256,seq=131072",
        "layers=126,hidden=16384,heads=128,kv_heads=8,ffn=53248,gated=1,"
        "vocab=128256,seq=262144",
    };

    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        static const char *const families[] = {"gpt", "llama", "moe"};

        for (int f = 0; f < 3; f++) {
            char spec[256];

            snprintf(spec, sizeof spec, "%s:%s", families[f], shapes[i]);
            assert_true(totals_of(spec, NULL).parameters > 0);
        }
    }
}

/* Norms a layer has in each arrangement, with h = 8: 2 x 8 numbers each. */
static void arrangements_have_their_norms(void **state)
{
    static const int norms[] = {
        [TF_PRE] = 2,    [TF_POST] = 2,     [TF_SANDWICH] = 4,
        [TF_BRANCH] = 2, [TF_PARALLEL] = 1, [TF_PARALLEL2] = 2,
    };

    (void)state;
    for (int i = 0; i < 6; i++) {
        struct model_tf_run run = {.repeat = 3};
        struct model_tf tf = {.name = "t", .source = "test", .nstacks = 1};
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        const struct pdl_model *m = NULL;
        struct pdl_model_totals t;
        struct pdl_err err = {"", ""};

        run.layer = (struct model_tf_layer){.order = i,
                                            .norm = TF_LAYER,
                                            .heads = 2,
                                            .kv_heads = 2,
                                            .head_dim = 4,
                                            .v_head_dim = 4,
                                            .ffn = 16};
        tf.stack[0] = (struct model_tf_stack){.prefix = "",
                                              .hidden = 8,
                                              .tokens = 5,
                                              .norm = TF_LAYER,
                                              .vocab = 10,
                                              .embed_dim = 8,
                                              .runs = &run,
                                              .nruns = 1};
        if (model_tf_build(a, &tf, &m, &err) != PDL_OK ||
            pdl_model_check(m, &err) != PDL_OK)
            fail_msg("%d: %s", i, err.msg);
        assert_int_equal(pdl_model_totals(m, &t, &err), PDL_OK);
        assert_int_equal(t.parameters,
                         80 + 3 * (4 * 64 + 2 * 8 * 16 + norms[i] * 16));
        pdl_arena_destroy(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flops_of_gpt_are_those_of_the_formula),
        cmocka_unit_test(flops_of_other_decoders_are_counted_by_hand),
        cmocka_unit_test(a_trillion_parameters_take_little_memory),
        cmocka_unit_test(every_family_string_of_measured_runs_builds),
        cmocka_unit_test(arrangements_have_their_norms),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
