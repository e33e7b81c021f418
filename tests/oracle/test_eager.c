/* Habits of eager PyTorch: each kernel it adds shows where it must and nowhere
 * else, and follows the shape. */
#include "plans.h"

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

    if (q->framework)
        o.framework = open_framework(q->framework);
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

/* Two layers of each, so that the host does not hide the device. */
#define LAYERS  "layers=2,hidden=2048,heads=16,ffn=4096,vocab=1000,seq=1024"
#define MIXTURE "moe:" LAYERS ",experts=8,topk=2"

/* transformers' norms and rotary positions are many kernels; Llama's own are
 * one each. */
static void modules_in_steps_cost_more(void **state)
{
    double own = ASK("llama:" LAYERS, "pytorch", PDL_PREC_BF16, false).step_s;
    double theirs =
        ASK("llama:" LAYERS, "transformers", PDL_PREC_BF16, false).step_s;

    (void)state;
    assert_true(theirs > 1.15 * own && theirs < 3 * own);
    assert_true(ASK(MIXTURE, "pytorch", PDL_PREC_BF16, false).step_s ==
                ASK(MIXTURE, "transformers", PDL_PREC_BF16, false).step_s);
}

static double narrow_over_wide(const char *model)
{
    return ASK(model, "pytorch", PDL_PREC_BF16, false).step_s /
           ASK(model, "pytorch", PDL_PREC_TF32, false).step_s;
}

/* Experts compute in 32 bits whatever autocast says: 16 bits save less of them
 * than of a plain network. */
static void experts_do_not_follow_autocast(void **state)
{
    (void)state;
    assert_true(narrow_over_wide(MIXTURE) >
                1.3 * narrow_over_wide("llama:" LAYERS));
    assert_true(narrow_over_wide(MIXTURE) < 1);
    assert_true(ASK(MIXTURE, "pytorch", PDL_PREC_BF16, false).step_s >
                2 * ASK(MIXTURE, "own", PDL_PREC_BF16, false).step_s);
}

/* A loop of the host: as many tokens and weights in more experts. */
static void more_experts_are_more_products(void **state)
{
    double few = ASK("moe:layers=4,hidden=512,heads=8,ffn=2048,vocab=1000,"
                     "seq=64,experts=8,topk=1",
                     "pytorch", PDL_PREC_BF16, false)
                     .step_s;
    double many = ASK("moe:layers=4,hidden=512,heads=8,ffn=256,vocab=1000,"
                      "seq=64,experts=64,topk=8",
                      "pytorch", PDL_PREC_BF16, false)
                      .step_s;

    (void)state; /* 336 products of a layer more, 27 us each: 36 ms */
    assert_true(many - few > 30e-3 && many - few < 45e-3);
}

static double peak_of(const char *model, int64_t batch)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_oracle_options o = {.optimizer_slots = 2,
                                   .precision = PDL_PREC_BF16,
                                   .framework = open_framework("pytorch")};
    struct pdl_system sys = open_system(a, "dgx-h200");
    struct pdl_err err = {"", ""};
    struct pdl_projection x = {.peak_bytes = 0};

    if (pdl_project(lower_as(a, model, "data=8,zero=3",
                             &(struct pdl_plan_options){.batch = batch,
                                                        .dtype = PDL_BF16}),
                    &sys, &o, &x, &err) != PDL_OK)
        fail_msg("%s: %s", model, err.msg);
    pdl_arena_destroy(a);
    return (double)x.peak_bytes;
}

/* Weights that are gathered for a layer and freed are in no tally of what stays:
 * as many bytes come with every sample. */
static void gathered_experts_take_nothing_off(void **state)
{
    static const char model[] = "moe:layers=8,hidden=512,heads=8,ffn=2048,"
                                "vocab=1000,seq=256,experts=8,topk=2";
    double one = peak_of(model, 8), two = peak_of(model, 16);
    double three = peak_of(model, 24);

    (void)state;
    assert_true(three - two > 0);
    assert_true(fabs((two - one) / (three - two) - 1) < .05);
    assert_true(one > two - one); /* it was less than a sample's */
}

/* T5's bias has a gradient, so its scores are tensors of 32 bits; the same
 * without relative positions is BERT, which keeps none. */
static void a_learned_bias_keeps_scores(void **state)
{
    struct pdl_projection a =
        ASK("t5:layers=2,seq=512", "pytorch", PDL_PREC_BF16, false);
    struct pdl_projection b =
        ASK("t5:layers=2,seq=1024", "pytorch", PDL_PREC_BF16, false);
    double scores =
        4 * 64 * 12. * (1024. * 1024 - 2 * 512. * 512); /* a layer */
    double more = (double)(b.allocated_bytes - 2 * a.allocated_bytes);

    (void)state; /* two layers of either stack; weights count once */
    assert_true(more > 3.5 * scores && more < 4.2 * scores);
}

/* A block walks a channel of a volume: twice the channels at half of the voxels
 * keep twice the device busy. */
static void few_channels_of_a_volume_leave_the_device_idle(void **state)
{
    struct pdl_projection a = ASK("unet3d", "own", PDL_PREC_BF16, false);
    struct pdl_projection b = ASK("unet3d", "pytorch", PDL_PREC_BF16, false);

    (void)state; /* 64 volumes: measured 46.9 ms for two */
    assert_true(b.step_s > 64 / 2 * 40e-3 && b.step_s < 64 / 2 * 54e-3);
    assert_true(b.step_s > 1.5 * a.step_s);
}

/* MobileNetV2 has depthwise convolutions and few channels: in 32 bits the order
 * of the axes decides; in 16 it is channels last for both. */
static void images_channels_first_are_slower_in_32_bits(void **state)
{
    double first = ASK("mobilenet-v2", "pytorch", PDL_PREC_TF32, false).step_s;
    double last =
        ASK("mobilenet-v2", "pytorch-channels-last", PDL_PREC_TF32, false)
            .step_s;

    (void)state;
    assert_true(first > 1.1 * last && first < 3 * last);
    assert_true(
        ASK("mobilenet-v2", "pytorch", PDL_PREC_BF16, false).step_s ==
        ASK("mobilenet-v2", "pytorch-channels-last", PDL_PREC_BF16, false)
            .step_s);
}

/* fp16 goes to cuDNN, bf16 to kernels that leave much of the device idle. */
static void batch_norm_of_bf16_is_pytorchs_own(void **state)
{
    double bf16 = ASK("resnet50", "pytorch", PDL_PREC_BF16, false).step_s;
    double fp16 = ASK("resnet50", "pytorch", PDL_PREC_FP16, false).step_s;

    (void)state;
    assert_true(fp16 < bf16);
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
        cmocka_unit_test(modules_in_steps_cost_more),
        cmocka_unit_test(experts_do_not_follow_autocast),
        cmocka_unit_test(more_experts_are_more_products),
        cmocka_unit_test(gathered_experts_take_nothing_off),
        cmocka_unit_test(a_learned_bias_keeps_scores),
        cmocka_unit_test(images_channels_first_are_slower_in_32_bits),
        cmocka_unit_test(batch_norm_of_bf16_is_pytorchs_own),
        cmocka_unit_test(few_channels_of_a_volume_leave_the_device_idle),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
