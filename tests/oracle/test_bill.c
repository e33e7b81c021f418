/* Energy and cost of a step, by hand. */
#include "oracle/oracle_priv.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-12 * fabs(b);
}

static void energy_and_cost_are_power_and_price_times_time(void **state)
{
    struct pdl_projection x = {.pes = 10, .step_s = 2, .compute_s = 1.5};
    struct pdl_system sys = {.node = {.pes = 4, .peak_w = 100},
                             .pe = {.peak_w = 300, .price_per_hour = 36}};
    struct pdl_bill bill;

    (void)state;
    pdl_project_bill(&x, &sys, &bill); /* 3 nodes, no idle power known */
    assert_true(bill.upper_bound);
    assert_true(near(bill.energy_j, 10 * 300 * 2 + 3 * 100 * 2));
    assert_true(near(bill.cost, 10 * 36.0 * 2 / 3600));
    sys.pe.idle_w = 60;
    pdl_project_bill(&x, &sys, &bill);
    assert_false(bill.upper_bound);
    assert_true(near(bill.energy_j, 10 * (300 * 1.5 + 60 * 0.5) + 3 * 100 * 2));
    sys.pe = (struct pdl_pe){.peak_w = 0};
    pdl_project_bill(&x, &sys, &bill); /* nothing known, nothing said */
    assert_true(near(bill.energy_j, 0));
    assert_true(near(bill.cost, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(energy_and_cost_are_power_and_price_times_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
