/* Units: what is read, what is refused and how, what people see. */
#include "paradl/base.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static void numbers_with_units_are_read_exactly(void **state)
{
    static const struct {
        const char *text;
        enum pdl_unit unit;
        double want;
    } cases[] = {
        {"32MiB", PDL_UNIT_BYTES, 33554432},
        {"80GB", PDL_UNIT_BYTES, 80e9},
        {"0", PDL_UNIT_BYTES, 0},
        {"12.5GB/s", PDL_UNIT_BYTES_S, 12.5e9},
        {"400Gbps", PDL_UNIT_BYTES_S, 50e9},
        {"5us", PDL_UNIT_SECONDS, 5e-6},
        {"1.07PFLOP/s", PDL_UNIT_FLOP_S, 1.07e15},
        {"1e15", PDL_UNIT_NONE, 1e15},
        {"3 ms", PDL_UNIT_SECONDS, 3e-3},
        {"7ns", PDL_UNIT_SECONDS, 7e-9},
        {"30cm", PDL_UNIT_METRE, 0.3},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pdl_err err = {"", ""};
        double got = -1;

        assert_int_equal(
            pdl_unit_parse(cases[i].text, cases[i].unit, &got, &err), PDL_OK);
        assert_true(got == cases[i].want);
    }
}

static void what_is_wrong_is_said(void **state)
{
    static const struct {
        const char *text;
        enum pdl_unit unit;
        const char *msg, *hint;
    } cases[] = {
        {"32", PDL_UNIT_BYTES, "'32' needs a unit",
         "write it like 32MiB or 80GB"},
        {"12.5Gb", PDL_UNIT_BYTES_S, "'12.5Gb': unknown unit 'Gb'",
         "write it like 12.5GB/s or 400Gbps"},
        {"12.5GBs", PDL_UNIT_BYTES_S, "'12.5GBs': unknown unit 'GBs'",
         "did you mean 'GB/s'?"},
        {"fast", PDL_UNIT_SECONDS, "'fast' is not a number",
         "write it like 5us or 1.5s"},
        {"0x10B", PDL_UNIT_BYTES, "'0x10B' is not a number",
         "write it like 32MiB or 80GB"},
        {"inf", PDL_UNIT_NONE, "'inf' is not a number", "write it like 1000"},
        {"1e999s", PDL_UNIT_SECONDS, "'1e999s' is too large", ""},
        {".", PDL_UNIT_NONE, "'.' is not a number", ""},
        {"-.B", PDL_UNIT_BYTES, "'-.B' is not a number", ""},
        {"0x", PDL_UNIT_NONE, "'0x' is not a number", "write it like 1000"},
        {"5\xc2", PDL_UNIT_SECONDS, "'5?': unknown unit '?'",
         "write it like 5us or 1.5s"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pdl_err err = {"", ""};
        double got = -7;

        assert_int_equal(
            pdl_unit_parse(cases[i].text, cases[i].unit, &got, &err),
            PDL_EPARSE);
        assert_string_equal(err.msg, cases[i].msg);
        assert_string_equal(err.hint, cases[i].hint);
        assert_true(got == -7);
    }
}

static void bytes_are_exact_above_two_to_the_53(void **state)
{
    static const struct {
        const char *text;
        int64_t want; /* -1: refused */
    } cases[] = {
        {"9007199254740993B", 9007199254740993},
        {"9223372036854775807B", INT64_MAX},
        {"8796093022207MiB", 9223372036853727232},
        {"9223372036854775808B", -1},
        {"8796093022208MiB", -1},
        {"0", 0},
        {"1.5KiB", 1536},
        {"2e3B", 2000},
        {"5EB", 5000000000000000000},
        {"0.3B", -1},
        {"-1B", -1},
        {"5", -1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t got = -1;

        assert_int_equal(pdl_bytes_parse(cases[i].text, &got, NULL),
                         cases[i].want < 0 ? PDL_EPARSE : PDL_OK);
        assert_true(got == cases[i].want);
    }
}

static void whole_numbers_are_whole_and_in_range(void **state)
{
    static const struct {
        const char *text, *msg;
    } bad[] = {
        {"", "'' is not a whole number"},
        {" 5", "' 5' is not a whole number"},
        {"5 ", "'5 ' is not a whole number"},
        {"1.0", "'1.0' is not a whole number"},
        {"1e3", "'1e3' is not a whole number"},
        {"0x10", "'0x10' is not a whole number"},
        {"11", "11 is outside 0 to 10"},
        {"-1", "-1 is outside 0 to 10"},
        {"99999999999999999999", "99999999999999999999 is outside 0 to 10"},
    };
    struct pdl_err err;
    int64_t v = 7;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(pdl_int_parse(bad[i].text, 0, 10, &v, &err),
                         PDL_EPARSE);
        assert_string_equal(err.msg, bad[i].msg);
        assert_int_equal(v, 7);
    }
    assert_int_equal(
        pdl_int_parse("-9223372036854775808", INT64_MIN, INT64_MAX, &v, &err),
        PDL_OK);
    assert_true(v == INT64_MIN);
}

static void printed_values_read_back_the_same(void **state)
{
    struct pdl_rng rng = {.key = 42};
    char text[64];

    (void)state;
    for (int i = 0; i < 20000; i++) {
        enum pdl_unit unit = (enum pdl_unit)pdl_rng_below(&rng, PDL_NUNITS);
        double v = pow(10, 40 * pdl_rng_unit(&rng) - 20), back;

        if (i % 2)
            v = (double)pdl_rng_below(&rng, 1 << 20);
        pdl_unit_print(v, unit, text, sizeof text);
        assert_int_equal(pdl_unit_parse(text, unit, &back, NULL), PDL_OK);
        assert_true(back == v);
    }
}

static void round_numbers_print_short(void **state)
{
    static const struct {
        double v;
        enum pdl_unit unit;
        const char *want;
    } cases[] = {
        {80e9, PDL_UNIT_BYTES, "80GB"},
        {34359738368.0, PDL_UNIT_BYTES, "32GiB"},
        {12.5e9, PDL_UNIT_BYTES_S, "12.5GB/s"},
        {5e-6, PDL_UNIT_SECONDS, "5us"},
        {0.3, PDL_UNIT_METRE, "300mm"},
        {312e12, PDL_UNIT_FLOP_S, "312TFLOP/s"},
        {0, PDL_UNIT_BYTES, "0B"},
    };
    char text[64];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(
            pdl_unit_print(cases[i].v, cases[i].unit, text, sizeof text),
            cases[i].want);
}

static void people_see_three_digits(void **state)
{
    static const struct {
        double v;
        enum pdl_unit unit;
        const char *want;
    } cases[] = {
        {17179869184.0, PDL_UNIT_BYTES, "16 GiB"},
        {12.5e9, PDL_UNIT_BYTES_S, "12.5 GB/s"},
        {5e-6, PDL_UNIT_SECONDS, "5 us"},
        {0.99999, PDL_UNIT_SECONDS, "1 s"},
        {0, PDL_UNIT_SECONDS, "0 ns"},
        {25557032, PDL_UNIT_NONE, "25.6 M"},
        {3600, PDL_UNIT_SECONDS, "3600 s"},
        {NAN, PDL_UNIT_SECONDS, "-"},
        {999.6, PDL_UNIT_SECONDS, "1000 s"},
        {999.6, PDL_UNIT_BYTES, "1000 B"},
        {1023.9, PDL_UNIT_BYTES, "1 KiB"},
        {-2048, PDL_UNIT_BYTES, "-2 KiB"},
        {5, PDL_UNIT_METRE, "5 m"},
        {0.25, PDL_UNIT_METRE, "250 mm"},
        {1500, PDL_UNIT_METRE, "1.5 km"},
    };
    char text[64];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(
            pdl_unit_format(cases[i].v, cases[i].unit, text, sizeof text),
            cases[i].want);
}

/* A program that uses the library may have chosen a locale with a comma. */
static void a_locale_with_a_comma_changes_nothing(void **state)
{
    static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8",
                                        "de_DE.utf8", "es_ES.UTF-8"};
    bool found = false;
    struct pdl_buf b;
    struct pdl_json j;
    char text[64];
    double v = 0;

    (void)state;
    for (size_t i = 0; !found && i < sizeof names / sizeof names[0]; i++)
        found = setlocale(LC_ALL, names[i]) != NULL;
    if (!found) {
        print_message("SKIPPED: no locale with a decimal comma here\n");
        skip();
    }
    snprintf(text, sizeof text, "%.1f", 0.5);
    assert_string_equal(text, "0,5");
    assert_int_equal(pdl_unit_parse("12.5GB/s", PDL_UNIT_BYTES_S, &v, NULL),
                     PDL_OK);
    assert_true(v == 12.5e9);
    assert_string_equal(pdl_unit_format(v, PDL_UNIT_BYTES_S, text, sizeof text),
                        "12.5 GB/s");
    assert_string_equal(pdl_unit_print(v, PDL_UNIT_BYTES_S, text, sizeof text),
                        "12.5GB/s");
    pdl_buf_init(&b);
    pdl_json_init(&j, &b.sink);
    pdl_json_num(&j, 0.1);
    assert_string_equal(b.text, "0.1");
    pdl_buf_free(&b);
    setlocale(LC_ALL, "C");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_with_units_are_read_exactly),
        cmocka_unit_test(what_is_wrong_is_said),
        cmocka_unit_test(bytes_are_exact_above_two_to_the_53),
        cmocka_unit_test(whole_numbers_are_whole_and_in_range),
        cmocka_unit_test(printed_values_read_back_the_same),
        cmocka_unit_test(round_numbers_print_short),
        cmocka_unit_test(people_see_three_digits),
        cmocka_unit_test(a_locale_with_a_comma_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
