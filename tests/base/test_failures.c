/* How often to save: the interval is the best one of the formula, and the
 * formula is what happens when failures are drawn at random. */
#include "paradl/base.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>

static void near(double a, double b, double within)
{
    if (!(fabs(a - b) <= within))
        fail_msg("%.17g is not %.17g", a, b);
}

static void the_interval_is_the_best_one(void **state)
{
    static const double costs[] = {0.1, 1, 10, 60, 300};

    (void)state;
    for (size_t i = 0; i < sizeof costs / sizeof costs[0]; i++) {
        double mtbf = 3600, t = pdl_ckpt_interval_s(costs[i], mtbf, 0);
        double best = INFINITY;

        for (double tau = 1; tau < 10000; tau *= 1.001)
            best = fmin(best, pdl_run_s(1, tau, costs[i], 0, mtbf));
        assert_true(pdl_run_s(1, t, costs[i], 0, mtbf) < best * 1.0005);
        assert_true(pdl_run_s(1, t / 2, costs[i], 0, mtbf) > best * 1.0005);
    }
    assert_true(pdl_ckpt_interval_s(10, 100, 0.035) == 10 / 0.035);
    assert_true(pdl_ckpt_interval_s(10, 0, 0.05) == 200);
    assert_true(isfinite(pdl_ckpt_interval_s(0, 100, 0.035)));
    assert_true(pdl_ckpt_interval_s(300, 100, 0) == 100);
}

/* One run, failure by failure. */
static double draw_run(struct pdl_rng *r, double work, double tau, double cost,
                       double restart, double mtbf)
{
    double clock = 0, next = -mtbf * log1p(-pdl_rng_unit(r));

    while (work > 1e-9) {
        double part = fmin(tau, work) + cost;

        if (clock + part <= next) {
            clock += part;
            work -= part - cost;
            continue;
        }
        clock = next; /* lost; restarting may fail too */
        do {
            next = clock - mtbf * log1p(-pdl_rng_unit(r));
            clock = fmin(next, clock + restart);
        } while (clock == next);
    }
    return clock;
}

static void the_formula_is_the_mean_of_drawn_runs(void **state)
{
    static const struct {
        double tau, cost, restart, mtbf;
    } cases[] = {
        {600, 30, 120, 3600}, {3600, 60, 300, 10800}, {100, 10, 0, 500}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double work = 200 * cases[i].tau, sum = 0, expected;
        struct pdl_rng r = {11, i, 0};
        enum { RUNS = 2000 };

        for (int k = 0; k < RUNS; k++)
            sum += draw_run(&r, work, cases[i].tau, cases[i].cost,
                            cases[i].restart, cases[i].mtbf);
        expected = pdl_run_s(work, cases[i].tau, cases[i].cost,
                             cases[i].restart, cases[i].mtbf);
        assert_true(fabs(sum / RUNS / expected - 1) < .01);
        /* and would notice a restart that is forgotten */
        assert_true(cases[i].restart == 0 ||
                    fabs(sum / RUNS /
                             pdl_run_s(work, cases[i].tau, cases[i].cost, 0,
                                       cases[i].mtbf) -
                         1) > .01);
    }
    near(pdl_run_s(100, 10, 1, 5, 0), 110, 1e-12);
    near(pdl_run_s(0, 10, 1, 5, 100), 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_interval_is_the_best_one),
        cmocka_unit_test(the_formula_is_the_mean_of_drawn_runs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
