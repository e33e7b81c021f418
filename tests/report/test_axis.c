/* Axes: round ends, few ticks in order, values where they belong. */
#include "report_priv.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void check_ticks(enum pdl_unit unit, bool log, double min, double max,
                        const char *want)
{
    struct report_axis ax = {.unit = unit, .log = log};
    char text[1024] = "", one[64];
    size_t n = 0;

    report_axis_fit(&ax, min, max);
    for (int i = 0; i < ax.nticks; i++)
        n += (size_t)snprintf(
            text + n, sizeof text - n, "%s%s", i ? "|" : "",
            report_axis_text(&ax, ax.ticks[i], one, sizeof one));
    assert_string_equal(text, want);
}

static void ticks_are_round(void **state)
{
    (void)state;
    check_ticks(PDL_UNIT_SECONDS, false, 0, 0.35,
                "0|50 ms|100 ms|150 ms|200 ms|250 ms|300 ms|350 ms");
    check_ticks(PDL_UNIT_BYTES, false, 0, 17179869184.0,
                "0|4 GiB|8 GiB|12 GiB|16 GiB");
    check_ticks(PDL_UNIT_NONE, false, 0, 3, "0|1|2|3");
    check_ticks(PDL_UNIT_BYTES, true, 4096, 1 << 24,
                "4 KiB|16 KiB|64 KiB|256 KiB|1 MiB|4 MiB|16 MiB");
    check_ticks(PDL_UNIT_SECONDS, true, 1.2e-5, 9e-4,
                "10 us|20 us|50 us|100 us|200 us|500 us|1 ms");
    check_ticks(PDL_UNIT_SECONDS, true, 3e-6, 2.0,
                "10 us|100 us|1 ms|10 ms|100 ms|1 s");
    check_ticks(PDL_UNIT_NONE, true, 12, 56, "8|16|32|64");
}

static void every_range_gives_few_ticks_in_order(void **state)
{
    struct pdl_rng r = {.key = 7};

    (void)state;
    for (int i = 0; i < 4000; i++) {
        static const enum pdl_unit units[] = {PDL_UNIT_NONE, PDL_UNIT_BYTES,
                                              PDL_UNIT_SECONDS};
        struct report_axis ax = {
            .unit = units[i % 3], .log = i % 2, .from = 0, .to = 100};
        double min = pow(10, 20 * pdl_rng_unit(&r) - 10);
        double max = min * pow(10, 8 * pdl_rng_unit(&r));

        report_axis_fit(&ax, min, max);
        assert_in_range(ax.nticks, 1, 14);
        for (int k = 1; k < ax.nticks; k++)
            assert_true(ax.ticks[k] > ax.ticks[k - 1]);
        assert_true(ax.min <= min * (1 + 1e-6));
        assert_true(ax.max >= max * (1 - 1e-6));
        assert_true(report_axis_at(&ax, max) >= report_axis_at(&ax, min));
        assert_true(report_axis_at(&ax, max) <= 100.001);
    }
}

static void odd_values_stay_on_the_page(void **state)
{
    static const double odd[] = {0, -1, NAN, INFINITY, 1e300, 5e-324};

    (void)state;
    for (size_t i = 0; i < 6; i++)
        for (size_t k = 0; k < 6; k++)
            for (int log = 0; log < 2; log++) {
                struct report_axis ax = {.unit = PDL_UNIT_SECONDS,
                                         .log = log == 1,
                                         .from = 10,
                                         .to = 110};
                double at;

                report_axis_fit(&ax, odd[i], odd[k]);
                at = report_axis_at(&ax, odd[k]);
                assert_true(at >= 0 && at <= 120);
            }
}

/* Values that are near each other fill the axis; counts are written out. */
static void a_tight_axis_begins_where_the_values_do(void **state)
{
    struct report_axis ax = {
        .unit = PDL_UNIT_SECONDS, .log = true, .tight = true};
    struct report_axis far = {
        .unit = PDL_UNIT_SECONDS, .log = true, .tight = true};
    struct report_axis pes = {.log = true, .whole = true};
    char text[64];

    (void)state;
    report_axis_fit(&ax, 7.68, 8.5);
    assert_false(ax.log);
    assert_true(ax.min > 7 && ax.min <= 7.68 && ax.max >= 8.5 && ax.max < 9);
    assert_true(ax.nticks >= 3);
    report_axis_fit(&far, 0.1, 8.5);
    assert_true(far.log);
    report_axis_fit(&pes, 1, 1024);
    assert_string_equal(report_axis_text(&pes, 1024, text, sizeof text),
                        "1024");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ticks_are_round),
        cmocka_unit_test(every_range_gives_few_ticks_in_order),
        cmocka_unit_test(odd_values_stay_on_the_page),
        cmocka_unit_test(a_tight_axis_begins_where_the_values_do),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
