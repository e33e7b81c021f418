/* What frameworks add to collectives, tokens and memory: each habit alone, in a
 * file of its own, changes what it says and nothing else. */
#include "oracle/plans.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static const char DENSE[] =
    "llama:layers=2,hidden=1024,heads=16,ffn=4096,vocab=1024,seq=512";
static const char MIXED[] =
    "moe:layers=2,hidden=1024,heads=16,ffn=512,vocab=1024,seq=512,experts=32,"
    "topk=8";

/* adds: of a framework that has nothing else; NULL: none */
static struct pdl_projection project(const char *model, const char *strategy,
                                     const char *system, const char *adds)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_oracle_options opt = {.precision = pdl_precision_find("bf16"),
                                     .optimizer_slots = 2,
                                     .gradient_bytes = 4};
    struct pdl_system sys = open_system(a, system);
    struct pdl_err err = {"", ""};
    struct pdl_projection x;
    const char *text = pdl_arena_printf(
        a, "name: a\ntitle: b\nadds:\n  - {%s, kind: counted, source: x}\n",
        adds);
    struct pdl_plan_options po = {.batch = 64, .dtype = PDL_BF16};

    if ((adds && pdl_framework_read(a, (struct pdl_bytes){text, strlen(text)},
                                    "f", &opt.framework, &err) != PDL_OK) ||
        pdl_project(lower_as(a, model, strategy, &po), &sys, &opt, &x, &err) !=
            PDL_OK)
        fail_msg("%s: %s", strategy, err.msg);
    x.reason = "";
    pdl_arena_destroy(a);
    return x;
}

#define ISSUE "issue: 1us"

/* However fast the device, a host that issues slowly sets the pace: with as
 * many collectives on 2 and on 8 ranks, the same. */
static void the_host_paces_collectives(void **st)
{
    const char *two = "data=4,tensor=2+seq,accumulate=16";
    const char *eight = "tensor=8+seq,accumulate=64", *one = "dgx-h100:nodes=1";
    double a = project(DENSE, two, one, ISSUE ", collective: 1ms").step_s / 16;
    double b =
        project(DENSE, eight, one, ISSUE ", collective: 1ms").step_s / 64;

    (void)st;
    assert_true(project(DENSE, two, one, ISSUE).step_s / 16 < a / 5);
    assert_true(fabs(a / b - 1) < .02);
}

/* In a pipeline that leaves a node, each step of a ring. */
static void far_pipelines_pace_rings(void **st)
{
    static const struct {
        const char *strategy;
        double ranks; /* 0: it does not apply */
    } rows[] = {
        {"pipe=2(1f1b,m=16),data=4,tensor=2+seq", 2},
        {"pipe=2(1f1b,m=16),data=2,tensor=4+seq", 4},
        {"pipe=2(1f1b,m=16),tensor=8+seq", 8},
        {"data=2,tensor=8+seq,accumulate=32", 0},
        {"pipe=2(1f1b,m=16),tensor=4+seq", 0},
    };
    double each = 0;

    (void)st;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double without =
            project(DENSE, rows[i].strategy, "dgx-h100:nodes=2", ISSUE).step_s;
        double with = project(DENSE, rows[i].strategy, "dgx-h100:nodes=2",
                              ISSUE ", pipe_step: 1ms")
                          .step_s;

        if (rows[i].ranks > 0)
            each = each > 0 ? each : with / (rows[i].ranks - 1);
        if (rows[i].ranks > 0
                ? fabs(with / (rows[i].ranks - 1) / each - 1) > .05
                : with != without)
            fail_msg("%s: %g s, without %g", rows[i].strategy, with, without);
    }
}

/* Between two nodes 8 visits are 4 tokens, or one to the node. */
static void tokens_cross_once_for_every_node(void **st)
{
    const char *s = "expert=16,accumulate=2", *slow = "dgx-h100:nodes=2,"
                                                      "nic=8x1GB/s";
    double all = project(MIXED, s, slow, "eager: 1").layer_comm_s;
    double once = project(MIXED, s, slow, "node_tokens: true").layer_comm_s;
    double near =
        project(MIXED, "expert=8,accumulate=2", "dgx-h100:nodes=1", "eager: 1")
            .layer_comm_s;

    (void)st;
    assert_true(once > .2 * all && once < .35 * all);
    assert_true(near == project(MIXED, "expert=8,accumulate=2",
                                "dgx-h100:nodes=1", "node_tokens: true")
                            .layer_comm_s);
}

/* Each of two tensor ranks has half of a sequence to send, and twice as many
 * ranks of the group are near. */
static void experts_span_tensor_ranks(void **st)
{
    const char *s = "expert=8,tensor=2+seq,accumulate=2";
    const char *slow = "dgx-h100:nodes=2,nic=8x1GB/s";
    double apart = project(MIXED, s, slow, "node_tokens: true").layer_comm_s;
    double spans =
        project(MIXED, s, slow, "node_tokens: true, experts_span: true")
            .layer_comm_s;

    (void)st;
    assert_true(spans < .5 * apart);
}

static void zero_has_a_buffer_of_its_own(void **st)
{
    const char *own = "gradient_bytes32: 6",
               *more = "gradient_bytes32: 6, zero_bytes: 2";
    const char *one = "dgx-h100:nodes=1";
    int64_t plain = project(DENSE, "data=8", one, own).gradients_bytes;

    (void)st;
    assert_int_equal(project(DENSE, "data=8", one, more).gradients_bytes,
                     plain);
    assert_int_equal(project(DENSE, "data=8,zero=1", one, own).gradients_bytes,
                     plain);
    assert_int_equal(project(DENSE, "data=8,zero=1", one, more).gradients_bytes,
                     plain / 6 * 8);
}

/* A ring step of layers, not of gradients, and only where it leaves a node. */
static void layer_steps_are_of_layers(void **st)
{
    const char *far = "dgx-h100:nodes=2",
               *slow = "dgx-h100:nodes=2,network.layer_step=1ms";
    struct pdl_projection a = project(DENSE, "tensor=16+seq", far, NULL);
    struct pdl_projection b = project(DENSE, "tensor=16+seq", slow, NULL);
    const char *near = "data=2,tensor=8+seq";

    (void)st;
    assert_true(b.layer_comm_s > a.layer_comm_s + .1);
    assert_true(project(DENSE, near, far, NULL).step_s ==
                project(DENSE, near, slow, NULL).step_s);
    assert_true(project(DENSE, "data=16", far, NULL).step_s ==
                project(DENSE, "data=16", slow, NULL).step_s);
}

/* Peak rates: a ring through all PEs of a node has all adapters; in the papers'
 * exchange one of ABCI's two for four PEs. */
static void ideal_rings_use_all_adapters(void **st)
{
    static const struct {
        const char *system, *more;
        double bytes_per_s;
    } rows[] = {{"dgx-h100:nodes=2", "", 8 * 50e9},
                {"abci-v100:nodes=2", "", 25e9},
                {"abci-v100:nodes=2", ",exchange=paper", 12.5e9}};

    (void)st;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_system sys = open_system(a, rows[i].system);
        struct pdl_oracle_options opt = {
            .parameters = PDL_IDEAL, .precision = pdl_precision_find("fp32")};
        int64_t n = 2 * sys.node.pes;
        const struct pdl_plan *p = lower(
            a, "vgg16",
            pdl_arena_printf(a, "data=%lld%s", (long long)n, rows[i].more), n);
        double bytes = 4 * 138.4e6 * 2 * (double)(n - 1) / (double)n;
        struct pdl_projection x;

        assert_int_equal(pdl_project(p, &sys, &opt, &x, NULL), PDL_OK);
        if (fabs(x.gradient_comm_s / (bytes / rows[i].bytes_per_s) - 1) > .1)
            fail_msg("%s: %g s", rows[i].system, x.gradient_comm_s);
        pdl_arena_destroy(a);
    }
}

/* Products of four bits are quicker than those of eight, and the head stays. */
static void four_bits_are_a_precision(void **st)
{
    (void)st;
    assert_int_equal(pdl_precision_find("nvfp4"), pdl_precision_find("fp4"));
    assert_int_equal(pdl_precision_find("mxfp8"), pdl_precision_find("fp8"));
    assert_int_equal(pdl_precision_storage(pdl_precision_find("nvfp4")),
                     PDL_BF16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_host_paces_collectives),
        cmocka_unit_test(far_pipelines_pace_rings),
        cmocka_unit_test(tokens_cross_once_for_every_node),
        cmocka_unit_test(experts_span_tensor_ranks),
        cmocka_unit_test(zero_has_a_buffer_of_its_own),
        cmocka_unit_test(layer_steps_are_of_layers),
        cmocka_unit_test(ideal_rings_use_all_adapters),
        cmocka_unit_test(four_bits_are_a_precision),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
