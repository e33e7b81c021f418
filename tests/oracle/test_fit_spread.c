/* How well a fit knows its parameters: against covariances worked out by hand,
 * and what several parameters off together mean for an interval. */
#include "paradl/oracle.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#include "plans.h"

enum { ROWS = 25 };
static const double START = 1e-4, PRIOR = .3, NOISE = .02;

static const struct pdl_fit_param two[] = {
    {"network.sync", offsetof(struct pdl_system, network.sync_s), 1e-6, 1e-2,
     1e-4, .003, .3},
    {"pe.host_call", offsetof(struct pdl_system, pe.host_call_s), 1e-6, 1e-2,
     1e-4, .003, .3},
};

/* Rows that see only the product of both, weakly or well. */
static double of_product(const struct pdl_system *sys, void *ctx)
{
    double weight = *(const double *)ctx;

    return weight * fabs(log(sys->network.sync_s / START) +
                         log(sys->pe.host_call_s / START));
}

static void rows_that_see_a_product_leave_both_factors_uncertain(void **st)
{
    static const double weights[] = {0, .05, 1};

    (void)st;
    for (int w = 0; w < 3; w++) {
        struct pdl_system sys = {.nodes = 1};
        double weight = weights[w], p = 1 / (PRIOR * PRIOR);
        double a = ROWS * weight * weight / (NOISE * NOISE), sum = 0, one;
        struct pdl_fit_moves x;

        sys.network.sync_s = sys.pe.host_call_s = START;
        pdl_fit_moves(&sys, two, 2, of_product, &weight, ROWS, &x);
        one = PDL_IN_80_PERCENT * sqrt((a + p) / ((a + p) * (a + p) - a * a));
        for (int i = 0; i < 2; i++)
            assert_true(fabs(x.spread[i] / one - 1) < 1e-6);
        for (int k = 0; k < 2; k++)
            sum += pow(x.move[k][0] + x.move[k][1], 2);
        assert_true(
            fabs(sqrt(sum) / (PDL_IN_80_PERCENT * sqrt(2 / (2 * a + p))) - 1) <
            1e-6);
        assert_true(sys.network.sync_s == START); /* put back */
    }
}

static double half_width(const struct pdl_spread *s, int n)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_plan *p = lower(a, "resnet50", "data=4", 64);
    struct pdl_system sys = open_system(a, "abci-v100");
    struct pdl_oracle_options opt = {.precision = PDL_PREC_FP32};
    struct pdl_projection x;
    double h;

    sys.spreads = s;
    sys.nspreads = n;
    sys.projection_error = 1e-9;
    assert_int_equal(pdl_project(p, &sys, &opt, &x, NULL), PDL_OK);
    pdl_interval(p, &sys, &opt, &x);
    h = log(x.high_s / x.step_s);
    pdl_arena_destroy(a);
    return h;
}

static void parameters_of_one_move_are_off_together(void **st)
{
    struct pdl_spread s[] = {{"pe.kernels.conv_forward.fp32", .1, 0},
                             {"pe.memory_efficiency", .1, 0}};
    double one = half_width(s, 1), other = half_width(s + 1, 1);
    double apart = half_width(s, 2), together, against;

    (void)st;
    assert_true(fabs(apart - sqrt(one * one + other * other)) < 1e-9);
    s[0].move = s[1].move = 3;
    together = half_width(s, 2);
    s[1].spread = -.1;
    against = half_width(s, 2);
    assert_true(together > apart && against < apart && against > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_that_see_a_product_leave_both_factors_uncertain),
        cmocka_unit_test(parameters_of_one_move_are_off_together),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
