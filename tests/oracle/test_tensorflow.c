/* SPDX-License-Identifier: Apache-2.0
 *
 * TensorFlow's habits: chains of kernels that XLA fuses, casts, Horovod. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "plans.h"
#include "paradl/plan.h"

struct asked {
    const char *model, *framework, *strategy;
    enum pdl_precision precision;
    bool compile;
    double dropout;
};

static struct pdl_projection project(const struct asked *q)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_oracle_options o = {.optimizer_slots = 2,
                                   .precision = q->precision,
                                   .compile = q->compile,
                                   .dropout = q->dropout,
                                   .unfused = true};
    struct pdl_plan_options po = {
        .batch = 64,
        .dtype = q->precision == PDL_PREC_FP16 ? PDL_F16 : PDL_F32};
    struct pdl_strategy s = {0};
    struct pdl_err err = {"", ""};
    struct pdl_projection x;
    struct pdl_system sys;
    const struct pdl_model *m;
    const struct pdl_plan *p;

    if (q->framework)
        o.framework = open_framework(q->framework);
    if (pdl_zoo_build(a, q->model, &m, &err) != PDL_OK ||
        pdl_strategy_parse(a, q->strategy, &s, &err) != PDL_OK ||
        pdl_plan_lower(a, m, &s, &po, &p, &err) != PDL_OK ||
        pdl_system_open(a, "dgx-a100", &sys, &err) != PDL_OK ||
        pdl_project(p, &sys, &o, &x, &err) != PDL_OK)
        fail_msg("%s: %s", q->model, err.msg);
    x.reason = "";
    pdl_arena_destroy(a);
    return x;
}

#define ASK(...) project(&(struct asked){__VA_ARGS__})
#define BERT     "bert:layers=2,hidden=1024,heads=16,ffn=4096,vocab=1024,seq=128"

static double seconds(const char *model, const char *framework,
                      enum pdl_precision precision, bool compile)
{
    return ASK(model, framework, "serial", precision, compile, 0).step_s;
}

/* 64 sequences of 128 tokens: products take about half of a fused step. */
static void xla_fuses_what_is_a_kernel_each_without(void **state)
{
    static const enum pdl_precision precisions[] = {PDL_PREC_FP16,
                                                    PDL_PREC_TF32};

    (void)state;
    for (int i = 0; i < 2; i++) {
        double none = seconds(BERT, NULL, precisions[i], false);
        double fused = seconds(BERT, "tensorflow", precisions[i], true);
        double each = seconds(BERT, "tensorflow", precisions[i], false);

        assert_true(fused > 1.02 * none && fused < 1.6 * none);
        assert_true(each > 1.5 * fused && each < 4 * fused);
    }
}

/* Random numbers are written and read beside the mask. */
static void dropout_costs_a_tensor_of_random_numbers(void **state)
{
    double with =
        ASK(BERT, "tensorflow", "serial", PDL_PREC_FP16, true, .1).forward_s;
    double without =
        ASK(BERT, "tensorflow", "serial", PDL_PREC_FP16, true, 0).forward_s;

    (void)state;
    assert_true(with > 1.02 * without);
}

/* ReLU and sums are part of ResNet-50's normalisations; U-Net has none, so that
 * only forward has something to be part of. */
static void relu_is_part_of_the_kernel_before_it(void **state)
{
    (void)state;
    assert_true(seconds("resnet50", "tensorflow", PDL_PREC_FP16, true) <
                .9 * seconds("resnet50", "tensorflow", PDL_PREC_FP16, false));
    assert_true(
        ASK("unet", "tensorflow", "serial", PDL_PREC_FP16, true, 0).forward_s <
        ASK("unet", "tensorflow", "serial", PDL_PREC_FP16, false, 0).forward_s);
}

/* Four exchanges of U-Net's gradients wait half a cycle each: 0.5 or 2.5 ms. */
static void horovod_waits_for_its_cycle(void **state)
{
    double now = ASK("unet", "tensorflow", "data=8", PDL_PREC_TF32, true, 0)
                     .gradient_comm_s;
    double old = ASK("unet", "tensorflow-1", "data=8", PDL_PREC_TF32, true, 0)
                     .gradient_comm_s;

    (void)state;
    assert_true(old - now > 6e-3 && old - now < 12e-3);
}

/* XLA lays 32-bit images channels first, as PyTorch does. */
static void depthwise_kernels_are_those_of_the_layout(void **state)
{
    (void)state;
    assert_true(seconds("mobilenet-v2", "tensorflow", PDL_PREC_TF32, false) >
                1.05 * seconds("mobilenet-v2", NULL, PDL_PREC_TF32, false));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(xla_fuses_what_is_a_kernel_each_without),
        cmocka_unit_test(dropout_costs_a_tensor_of_random_numbers),
        cmocka_unit_test(relu_is_part_of_the_kernel_before_it),
        cmocka_unit_test(horovod_waits_for_its_cycle),
        cmocka_unit_test(depthwise_kernels_are_those_of_the_layout),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
