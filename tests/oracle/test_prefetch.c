/* Weights gathered ahead of the gradients before them: hand values of one
 * gather, and what holds of any. */
#include "oracle/step/streams.h"

#include <math.h>
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

/* The network was free at 2, scatters are on it from 5 to 9, compute is at 8. */
static struct streams busy(double held)
{
    struct streams c = {.compute = 8,
                        .network = 9,
                        .network_from = 5,
                        .overlap = true,
                        .held = held};

    oracle_scattered(&c, 5, 2);
    return c;
}

static void the_first_scatter_says_when_the_network_was_free(void **state)
{
    struct streams c = {.nscatters = 0};

    (void)state;
    oracle_scattered(&c, 5, 2);
    oracle_scattered(&c, 6, 6);
    assert_int_equal(c.nscatters, 2);
    assert_true(c.scatter_start == 5 && c.before_scatter == 2);
}

static void too_many_scatters_move_not_at_all(void **state)
{
    struct streams c = {.overlap = true, .compute = 8, .network = 9};
    double start, later;

    (void)state;
    for (int i = 0; i < ORACLE_SCATTERS; i++)
        oracle_scattered(&c, 5, 2);
    assert_int_equal(c.nscatters, ORACLE_SCATTERS);
    oracle_scattered(&c, 5, 2);
    assert_int_equal(c.nscatters, 0);
    assert_false(oracle_gathers_ahead(&c, 0, 1, &start, &later));
}

/* Between 2 and 5 the wires are idle: 2 s fit, of 4 s one second is in the way. */
static void a_gather_takes_the_gap_and_moves_the_rest_back(void **state)
{
    struct streams c = busy(0);
    double start = -1, later = -1;

    (void)state;
    assert_true(oracle_gathers_ahead(&c, 1, 2, &start, &later));
    assert_true(start == 2 && later == 0);
    assert_true(c.network == 9 && c.compute == 8 && c.network_from == 5);
    c = busy(0);
    assert_true(oracle_gathers_ahead(&c, 1, 4, &start, &later));
    assert_true(start == 2 && later == 1);
    assert_true(c.network == 10 && c.network_from == 6 && c.compute == 8);
    c = busy(0); /* asked for at 4 only */
    assert_true(oracle_gathers_ahead(&c, 4, 4, &start, &later));
    assert_true(start == 4 && later == 3 && c.network == 12);
}

/* A quarter of the PE is the gather's from 2 to 6: compute is 1 s later, and
 * so are gradients that come of it. */
static void what_computes_beside_it_is_slower(void **state)
{
    struct streams c = busy(.25);
    double start, later;

    (void)state;
    assert_true(oracle_gathers_ahead(&c, 0, 4, &start, &later));
    assert_true(start == 2 && c.compute == 9);
    assert_true(later == 1 && c.network == 10);
    c = busy(.25); /* beyond 8 nothing computes: 6 s beside 10 s */
    assert_true(oracle_gathers_ahead(&c, 0, 10, &start, &later));
    assert_true(c.compute == 8 + .25 * 6 && later == 7);
    c = busy(.5); /* it fits, but what it slows makes gradients late */
    assert_true(oracle_gathers_ahead(&c, 0, 3, &start, &later));
    assert_true(c.compute == 9.5 && later == 1.5 && c.network == 10.5);
}

static void nothing_goes_in_front_without_overlap_or_scatters(void **state)
{
    struct streams c = busy(0), before;
    double start, later;

    (void)state;
    c.overlap = false;
    before = c;
    assert_false(oracle_gathers_ahead(&c, 0, 1, &start, &later));
    assert_true(c.network == before.network && c.compute == before.compute);
    c = busy(0);
    c.nscatters = 0;
    assert_false(oracle_gathers_ahead(&c, 0, 1, &start, &later));
    c = busy(0); /* its operands come after the scatter began */
    assert_false(oracle_gathers_ahead(&c, 5, 1, &start, &later));
    assert_true(c.network == 9);
}

/* A longer gather is never earlier for anybody; the gap is used first. */
static void later_grows_with_the_gather(void **state)
{
    double last = 0;

    (void)state;
    for (int held = 0; held < 3; held++) {
        last = 0;
        for (double s = .25; s < 12; s += .25) {
            struct streams c = busy(held * .2);
            double start, later;

            assert_true(oracle_gathers_ahead(&c, 0, s, &start, &later));
            assert_true(later >= last && later <= fmax(s, .4 * 6));
            assert_true(held || (later > 0) == (s > 3));
            assert_true(c.network == 9 + later && c.network_from == 5 + later);
            last = later;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_scatter_says_when_the_network_was_free),
        cmocka_unit_test(too_many_scatters_move_not_at_all),
        cmocka_unit_test(a_gather_takes_the_gap_and_moves_the_rest_back),
        cmocka_unit_test(what_computes_beside_it_is_slower),
        cmocka_unit_test(nothing_goes_in_front_without_overlap_or_scatters),
        cmocka_unit_test(later_grows_with_the_gather),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
