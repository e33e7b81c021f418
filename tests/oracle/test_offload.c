/* Offload: what leaves the PE's memory, what that costs over the host's link,
 * and what a fast or a slow link makes of it. */
#include "plans.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define GPT  "gpt:layers=8,hidden=1024,heads=16,ffn=4096,vocab=2048,seq=1024"
#define SLOW "dgx-h100:node.host.pcie_bandwidth=1GB/s"
#define FAST "dgx-h100:node.host.pcie_bandwidth=10000GB/s"

static const struct pdl_plan *lower_checked(pdl_arena *a, const char *model,
                                            const char *strategy, int64_t batch)
{
    struct pdl_plan_options po = {.batch = batch, .dtype = PDL_BF16};
    const struct pdl_plan *p = lower_as(a, model, strategy, &po);
    struct pdl_err err = {"", ""};

    if (pdl_plan_check(p, &err) != PDL_OK)
        fail_msg("%s %s: %s", model, strategy, err.msg);
    return p;
}

static struct pdl_projection project(const char *system, const char *strategy,
                                     int64_t batch)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_oracle_options o = {.optimizer_slots = 2,
                                   .precision = PDL_PREC_BF16};
    struct pdl_err err = {"", ""};
    struct pdl_projection x;
    struct pdl_system sys;

    if (pdl_system_open(a, system, &sys, &err) != PDL_OK ||
        pdl_project(lower_checked(a, GPT, strategy, batch), &sys, &o, &x,
                    &err) != PDL_OK)
        fail_msg("%s", err.msg);
    x.reason = "";
    pdl_arena_destroy(a);
    return x;
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fabs(b);
}

static void the_parts_of_the_step_add_up(void **state)
{
    static const char *const strategies[] = {
        "serial,offload=activations",
        "data=2,offload=optimizer",
        "tensor=2,offload=optimizer,offload=activations,recompute=full",
        "pipe=4(m=8),offload=activations",
        "pipe=4(gpipe,m=8),offload=activations,offload=optimizer",
        "pipe=2(interleaved,m=4,v=2),offload=activations",
        "data=4,zero=3,offload=activations,offload=optimizer"};
    static const char *const systems[] = {SLOW, "dgx-h100", FAST};

    (void)state;
    for (int i = 0; i < 7; i++)
        for (int k = 0; k < 3; k++) {
            struct pdl_projection x = project(systems[k], strategies[i], 16);

            assert_true(near(x.step_s, x.compute_s + x.exposed_comm_s +
                                           x.bubble_s + x.io_s));
            assert_true(x.host_bytes > 0);
        }
}

static void activations_leave_and_the_link_decides_what_it_costs(void **state)
{
    struct pdl_projection none = project("dgx-h100", "serial", 8);
    struct pdl_projection slow = project(SLOW, "serial,offload=activations", 8);
    struct pdl_projection fast = project(FAST, "serial,offload=activations", 8);

    (void)state;
    assert_true((double)fast.activations_bytes <
                .5 * (double)none.activations_bytes);
    assert_int_equal(slow.allocated_bytes, fast.allocated_bytes);
    assert_int_equal(none.host_bytes, 0);
    assert_true(fast.host_bytes > none.activations_bytes / 2);
    /* nothing to wait for, and everything: out, and in again */
    assert_true(fast.step_s < 1.001 * none.step_s);
    assert_true(slow.io_s >
                1.5 * (double)slow.host_bytes / 1e9); /* 2 less one group */
    assert_true(slow.step_s <
                none.step_s + 2.05 * (double)slow.host_bytes / 1e9);
}

/* As many as are used, and no more than it has. */
static void ranks_of_a_switch_share_its_uplink(void **state)
{
#define SWITCH \
    "dgx-h100:node.host.pcie_bandwidth=4GB/s,node.host.pes_per_switch="
    static const struct {
        const char *strategy, *shared, *alone;
    } cases[] = {
        {"serial", SWITCH "2", "4GB/s"}, {"data=2", SWITCH "2", "2GB/s"},
        {"data=2", SWITCH "4", "2GB/s"}, {"data=4", SWITCH "4", "1GB/s"},
        {"data=8", SWITCH "4", "1GB/s"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char alone[80], strategy[80];

        snprintf(alone, sizeof alone, "dgx-h100:node.host.pcie_bandwidth=%s",
                 cases[i].alone);
        snprintf(strategy, sizeof strategy, "%s,offload=activations",
                 cases[i].strategy);
        assert_true(near(project(cases[i].shared, strategy, 16).step_s,
                         project(alone, strategy, 16).step_s));
    }
}

/* By a part of what they take, out and in. */
static void copies_slow_what_computes_beside_them(void **state)
{
    static const char strategy[] = "serial,offload=activations";
    struct pdl_projection none = project(FAST, strategy, 8);
    struct pdl_projection some =
        project(FAST ",node.host.copy_interference=0.3", strategy, 8);
    struct pdl_projection more =
        project(FAST ",node.host.copy_interference=0.6", strategy, 8);
    double copies = 2 * (double)none.host_bytes / 10000e9;

    (void)state;
    assert_true(
        near(more.compute_s - some.compute_s, some.compute_s - none.compute_s));
    assert_true(some.compute_s - none.compute_s > .3 * copies);
    /* what is slower waits less */
    assert_true(some.step_s - none.step_s >
                .9 * (some.compute_s - none.compute_s));
    assert_true(some.step_s - none.step_s <=
                (some.compute_s - none.compute_s) * (1 + 1e-9));
    assert_true(none.peak_bytes == more.peak_bytes);
}

/* The bytes of the copies in the plan are those that the memory misses. */
static void what_is_copied_is_what_backward_reads(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_plan *p =
        lower_checked(a, GPT, "serial,offload=activations", 8);
    int64_t out = 0, in = 0;

    (void)state;
    for (int i = 0; i < p->nops; i++) {
        struct pdl_work w;

        pdl_plan_op_work(p, i, 0, &w);
        if (p->ops[i].kind == PDL_PLAN_OP_COPY_OUT)
            out += w.write_bytes;
        if (p->ops[i].kind == PDL_PLAN_OP_COPY_IN)
            in += w.write_bytes;
    }
    assert_true(out > 0);
    assert_int_equal(out, in);
    assert_int_equal(
        out, project("dgx-h100", "serial,offload=activations", 8).host_bytes);
    pdl_arena_destroy(a);
}

/* Stages of a pipeline hold as many micro-batches, in the host's memory. */
static void a_pipeline_offloads_what_is_in_flight(void **state)
{
    struct pdl_projection none = project("dgx-h100", "pipe=4(m=8)", 16);
    struct pdl_projection x =
        project("dgx-h100", "pipe=4(m=8),offload=activations", 16);
    struct pdl_projection all =
        project("dgx-h100", "pipe=4(gpipe,m=8),offload=activations", 16);

    (void)state;
    assert_true(x.activations_bytes < none.activations_bytes);
    assert_true((double)all.host_bytes >
                1.9 * (double)x.host_bytes); /* 8 for 4 */
}

/* Gradients go (2 bytes), weights come (2 bytes), Adam streams 28 bytes of the
 * host's memory; 12 bytes of each weight leave the PE, and the host has the
 * weight and all gradients, too. */
static void the_optimizer_leaves(void **state)
{
    struct pdl_projection none = project("dgx-h100", "serial", 8);
    struct pdl_projection slow = project(SLOW, "serial,offload=optimizer", 8);
    struct pdl_projection fast = project(FAST, "serial,offload=optimizer", 8);
    double weights = (double)none.weights_bytes / 2;

    (void)state;
    assert_int_equal(slow.optimizer_bytes, 0);
    assert_int_equal(none.optimizer_bytes, 12 * (int64_t)weights);
    assert_true((double)(none.allocated_bytes - slow.allocated_bytes) >=
                8 * weights);
    assert_int_equal(slow.host_bytes, 16 * (int64_t)weights);
    assert_true(slow.update_s == 0); /* there, beside backward */
    assert_true(fast.io_s < 28 * weights / 614.4e9);
    assert_true(slow.step_s - fast.step_s > 2 * weights / 1e9);
    assert_true(slow.step_s - fast.step_s < 4.1 * weights / 1e9);
}

static void a_system_must_know_its_host(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_plan *p =
        lower_checked(a, GPT, "serial,offload=optimizer", 8);
    struct pdl_oracle_options o = {.precision = PDL_PREC_BF16};
    struct pdl_projection x;
    struct pdl_system sys;
    struct pdl_err err;

    (void)state;
    assert_int_equal(pdl_system_open(a, "dgx-b200", &sys, &err), PDL_OK);
    assert_int_equal(pdl_project(p, &sys, &o, &x, &err), PDL_EINVAL);
    assert_non_null(strstr(err.msg, "memory_bandwidth"));
    pdl_arena_destroy(a);
}

static void a_host_can_be_full(void **state)
{
    struct pdl_projection x = project("dgx-h100:node.host.memory=1GiB",
                                      "serial,offload=activations", 64);

    (void)state;
    assert_false(x.feasible);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_parts_of_the_step_add_up),
        cmocka_unit_test(activations_leave_and_the_link_decides_what_it_costs),
        cmocka_unit_test(ranks_of_a_switch_share_its_uplink),
        cmocka_unit_test(copies_slow_what_computes_beside_them),
        cmocka_unit_test(what_is_copied_is_what_backward_reads),
        cmocka_unit_test(a_pipeline_offloads_what_is_in_flight),
        cmocka_unit_test(the_optimizer_leaves),
        cmocka_unit_test(a_system_must_know_its_host),
        cmocka_unit_test(a_host_can_be_full),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
