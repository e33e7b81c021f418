/* An allreduce is priced from its algorithm: by hand on two nodes, and the
 * choice is never slower than what it chooses from. */
#include "oracle/oracle_priv.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static pdl_arena *arena;

struct job {
    const struct pdl_model *model;
    struct pdl_system sys;
    struct pdl_strategy strategy;
    const struct pdl_plan *plan;
    struct pdl_projection x;
};

static enum pdl_status price(struct job *j, const char *system,
                             const char *strategy, int64_t batch,
                             struct pdl_err *err)
{
    struct pdl_plan_options po = {.batch = batch, .dtype = PDL_F32};
    struct pdl_oracle_options oo = {.precision = PDL_PREC_FP32};

    assert_int_equal(pdl_model_load(arena, "lenet5", NULL, &j->model, NULL),
                     PDL_OK);
    assert_int_equal(pdl_system_open(arena, system, &j->sys, NULL), PDL_OK);
    assert_int_equal(pdl_strategy_parse(arena, strategy, &j->strategy, NULL),
                     PDL_OK);
    assert_int_equal(
        pdl_plan_lower(arena, j->model, &j->strategy, &po, &j->plan, err),
        PDL_OK);
    return pdl_project(j->plan, &j->sys, &oo, &j->x, err);
}

static double exchange(const char *system, const char *strategy, int64_t batch)
{
    struct job j;

    assert_int_equal(price(&j, system, strategy, batch, NULL), PDL_OK);
    return j.x.gradient_comm_s;
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-12 * fabs(b);
}

static void rings_and_hierarchies_are_what_paper_and_pencil_say(void **state)
{
    struct pdl_model_totals t;
    const struct pdl_level *in, *out;
    double bytes, a0, b0, a1, b1, step;
    struct job j;

    (void)state;
    assert_int_equal(
        price(&j, "dgx-a100:nodes=2", "data=16,allreduce=ring", 16, NULL),
        PDL_OK);
    assert_int_equal(pdl_model_totals(j.model, &t, NULL), PDL_OK);
    bytes = 4.0 * (double)t.parameters; /* one bucket */
    in = &j.sys.levels[0];
    out = &j.sys.levels[1];
    a0 = in->measured_latency_s > 0 ? in->measured_latency_s : in->latency_s;
    a1 = out->measured_latency_s > 0 ? out->measured_latency_s : out->latency_s;
    b0 = in->measured_bytes_per_s;
    b1 = 8 * out->measured_bytes_per_s; /* one ring has all adapters */
    step = fmax(a1 + bytes / 16 / fmin(b0, b1), a0 + bytes / 16 / b0);
    assert_true(near(j.x.gradient_comm_s, 2 * 15 * step));
    assert_true(
        near(exchange("dgx-a100:nodes=2", "data=16,allreduce=ring-ring", 16),
             2 * 7 * (a0 + bytes / 8 / b0) + 2 * 1 * (a1 + bytes / 2 / b1)));
    assert_true(near(
        exchange("dgx-a100:nodes=2", "data=16,allreduce=halving-doubling", 16),
        2 * (3 * a0 + 7.0 / 8 * bytes / b0 + a1 + bytes / 16 / (b1 / 8))));
}

static void the_choice_is_the_quickest(void **state)
{
    static const char *const algs[] = {"ring", "ring-ring", "halving-doubling"};
    static const int sizes[] = {2, 8, 16, 24, 64, 256};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char text[64];
        double choice;

        snprintf(text, sizeof text, "data=%d", sizes[i]);
        choice = exchange("dgx-a100", text, 512);
        for (size_t k = 0; k < sizeof algs / sizeof algs[0]; k++) {
            struct job j;

            snprintf(text, sizeof text, "data=%d,allreduce=%s", sizes[i],
                     algs[k]);
            if (price(&j, "dgx-a100", text, 512, NULL) == PDL_OK)
                assert_true(choice <= j.x.gradient_comm_s * (1 + 1e-12));
            else /* not a power of two */
                assert_true(sizes[i] == 24 && k == 2);
        }
    }
}

static void what_cannot_be_priced_is_refused(void **state)
{
    static const struct {
        const char *strategy, *what;
    } rows[] = {
        {"data=8,allreduce=rng", "no algorithm 'rng'"},
        {"data=8,allreduce=double-tree", "no closed form"},
        {"data=6,allreduce=shd", "groups of this size"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct pdl_err err = {"", ""};
        struct job j;

        assert_int_equal(price(&j, "dgx-a100", rows[i].strategy, 48, &err),
                         PDL_EINVAL);
        if (!strstr(err.msg, rows[i].what))
            fail_msg("'%s' does not say '%s'", err.msg, rows[i].what);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rings_and_hierarchies_are_what_paper_and_pencil_say),
        cmocka_unit_test(the_choice_is_the_quickest),
        cmocka_unit_test(what_cannot_be_priced_is_refused),
    };
    int rc;

    arena = pdl_arena_create(PDL_ARENA_DEFAULT);
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    pdl_arena_destroy(arena);
    return rc;
}
