/* Every network of the zoo lowers to a plan that the checker accepts, and can
 * be priced on a real machine: data parallel for all, the feature and spatial
 * axes for the convolutional ones. */
#include "paradl/oracle.h"

#include <stdarg.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

static void try_one(const char *model, const char *strategy, int64_t batch)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_plan_options opt = {.batch = batch};
    struct pdl_oracle_options how = {.precision = PDL_PREC_FP32};
    struct pdl_err err = {"", ""};
    const struct pdl_model *m;
    const struct pdl_plan *p;
    struct pdl_strategy s;
    struct pdl_system sys;
    struct pdl_projection x;

    if (pdl_zoo_build(a, model, &m, &err) != PDL_OK ||
        pdl_strategy_parse(a, strategy, &s, &err) != PDL_OK ||
        pdl_plan_lower(a, m, &s, &opt, &p, &err) != PDL_OK ||
        pdl_plan_check(p, &err) != PDL_OK ||
        pdl_system_open(a, "dgx-a100", &sys, &err) != PDL_OK ||
        pdl_project(p, &sys, &how, &x, &err) != PDL_OK)
        fail_msg("%s, %s: %s", model, strategy, err.msg);
    assert_true(x.step_s > 0 && x.step_s < 1e6);
    /* the identity every report states */
    assert_true(x.compute_s + x.exposed_comm_s + x.bubble_s + x.io_s -
                    x.step_s <
                1e-9 * x.step_s);
    assert_true(x.allocated_bytes == x.weights_bytes + x.gradients_bytes +
                                         x.optimizer_bytes +
                                         x.activations_bytes);
    pdl_arena_destroy(a);
}

static void every_zoo_network_can_be_planned(void **state)
{
    int n = 0;

    (void)state;
    for (int i = 0; pdl_zoo_at(i); i++) {
        const char *name = pdl_zoo_at(i)->name;

        if (!pdl_zoo_at(i)->family)
            continue; /* a family without its parameters */
        try_one(name, "data=2", 4);
        n++;
    }
    assert_true(n > 50);
}

static void convolutional_networks_split_every_way(void **state)
{
    static const char *const models[] = {"resnet50",    "vgg16",
                                         "densenet121", "mobilenet-v2",
                                         "unet3d",      "cosmoflow:size=128"};
    static const char *const strategies[] = {
        "filter=2",           "channel=2",        "spatial=2",
        "data=2,filter=2",    "data=2,spatial=2", "pipe=2(gpipe,m=2),data=2",
        "spatial=2x2,data=2", "pipe=3(m=4)",
    };

    (void)state;
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++)
        for (size_t s = 0; s < sizeof strategies / sizeof strategies[0]; s++)
            try_one(models[m], strategies[s], 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_zoo_network_can_be_planned),
        cmocka_unit_test(convolutional_networks_split_every_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
