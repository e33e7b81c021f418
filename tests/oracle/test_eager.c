/* Habits of eager PyTorch: each kernel it adds shows where it must and nowhere
 * else, and follows the shape. */
#include "paradl/oracle.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

struct asked {
    const char *model, *framework;
    enum pdl_precision precision;
    bool compile;
};

static struct pdl_projection project(const struct asked *q)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_oracle_options o = {
        .optimizer_slots = 1, .precision = q->precision, .compile = q->compile};
    struct pdl_plan_options po = {
        .batch = 64,
        .dtype = q->precision == PDL_PREC_TF32 ? PDL_F32 : PDL_BF16};
    struct pdl_strategy s = {0};
    struct pdl_err err = {"", ""};
    struct pdl_projection x;
    struct pdl_system sys;
    const struct pdl_model *m;
    const struct pdl_plan *p;

    if (q->framework &&
        pdl_framework_find(q->framework, &o.framework, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    if (pdl_zoo_build(a, q->model, &m, &err) != PDL_OK ||
        pdl_strategy_parse(a, "serial", &s, &err) != PDL_OK ||
        pdl_plan_lower(a, m, &s, &po, &p, &err) != PDL_OK ||
        pdl_system_open(a, "dgx-h200", &sys, &err) != PDL_OK ||
        pdl_project(p, &sys, &o, &x, &err) != PDL_OK)
        fail_msg("%s: %s", q->model, err.msg);
    x.reason = "";
    pdl_arena_destroy(a);
    return x;
}

#define ASK(...) project(&(struct asked){__VA_ARGS__})

static void a_framework_without_habits_adds_nothing(void **state)
{
    struct pdl_projection a = ASK("vgg16", NULL, PDL_PREC_BF16, false);
    struct pdl_projection b = ASK("vgg16", "own", PDL_PREC_BF16, false);

    (void)state;
    assert_true(a.step_s == b.step_s);
    assert_int_equal(a.allocated_bytes, b.allocated_bytes);
}

/* VGG-16 has biases and max pools of 4 taps, ResNet-50 one pool of 9. */
static void pools_biases_and_the_host_cost_time(void **state)
{
    static const struct {
        const char *model;
        double least, most; /* the eager step over the other */
    } rows[] = {{"vgg16", 1.3, 1.9}, {"resnet50", 1.02, 2.2}};

    (void)state;
    for (int i = 0; i < 2; i++) {
        double with =
            ASK(rows[i].model, "pytorch", PDL_PREC_BF16, false).step_s;
        double none = ASK(rows[i].model, NULL, PDL_PREC_BF16, false).step_s;

        assert_true(with > rows[i].least * none);
        assert_true(with < rows[i].most * none);
    }
}

static void a_compiler_takes_the_extra_kernels_away(void **state)
{
    double eager = ASK("vgg16", "pytorch", PDL_PREC_BF16, false).step_s;
    double compiled = ASK("vgg16", "pytorch", PDL_PREC_BF16, true).step_s;

    (void)state;
    assert_true(compiled < .8 * eager);
}

/* 64 images, indices of 8 bytes for each output of VGG-16's five pools. */
static void indices_of_pools_are_kept_for_backward(void **state)
{
    struct pdl_projection a = ASK("vgg16", NULL, PDL_PREC_TF32, false);
    struct pdl_projection b = ASK("vgg16", "pytorch", PDL_PREC_TF32, false);
    double outputs = 64 * (64. * 112 * 112 + 128. * 56 * 56 + 256. * 28 * 28 +
                           512. * 14 * 14 + 512. * 7 * 7);
    double more = (double)(b.allocated_bytes - a.allocated_bytes);

    (void)state;
    assert_true(more > .9 * 8 * outputs && more < 1.1 * 8 * outputs);
}

/* MobileNetV2's activations in place: what they overwrite is copied and kept;
 * 64 images, 16 bits. */
static void what_an_activation_overwrites_is_kept(void **state)
{
    struct pdl_projection a = ASK("mobilenet-v2", NULL, PDL_PREC_BF16, false);
    struct pdl_projection b =
        ASK("mobilenet-v2", "pytorch", PDL_PREC_BF16, false);
    double images = 64 * 2 * 4.3e6; /* elements behind its 35 activations */
    double more = (double)(b.allocated_bytes - a.allocated_bytes);

    (void)state;
    assert_true(more > .8 * images && more < 1.5 * images);
}

/* U-Net cuts what crosses it, which backward puts together. */
static void cutting_an_image_costs_backward(void **state)
{
    struct pdl_projection a = ASK("unet", "own", PDL_PREC_BF16, false);
    struct pdl_projection b = ASK("unet", "pytorch", PDL_PREC_BF16, false);
    struct pdl_projection c =
        ASK("unet:padding=same", "own", PDL_PREC_BF16, false);
    struct pdl_projection d =
        ASK("unet:padding=same", "pytorch", PDL_PREC_BF16, false);

    (void)state; /* the same but for the cuts and the borders */
    assert_true(b.backward_s / a.backward_s >
                1.05 * d.backward_s / c.backward_s);
}

/* The host paces few images: 477 gradients of DenseNet-121 meet, which the
 * engine adds, and ResNet-152 has hardly any. */
static void gradients_that_meet_are_cheap_to_issue(void **state)
{
    double dense = ASK("densenet121", "pytorch", PDL_PREC_BF16, false).step_s;

    (void)state;
    assert_true(dense > 52e-3 && dense < 66e-3); /* 58 to 61 ms measured */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_framework_without_habits_adds_nothing),
        cmocka_unit_test(pools_biases_and_the_host_cost_time),
        cmocka_unit_test(a_compiler_takes_the_extra_kernels_away),
        cmocka_unit_test(indices_of_pools_are_kept_for_backward),
        cmocka_unit_test(what_an_activation_overwrites_is_kept),
        cmocka_unit_test(cutting_an_image_costs_backward),
        cmocka_unit_test(gradients_that_meet_are_cheap_to_issue),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
