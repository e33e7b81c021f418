/* The JSON writer: what it writes, jansson reads, and it is the same. */
#include "paradl/base.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <float.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void layout_is_fixed(void **state)
{
    struct pdl_buf b;
    struct pdl_json j;

    (void)state;
    pdl_buf_init(&b);
    pdl_json_init(&j, &b.sink);
    pdl_json_schema(&j, "test");
    pdl_json_kint(&j, "int", INT64_MIN);
    pdl_json_knum(&j, "num", 0.1);
    pdl_json_knum(&j, "nan", NAN);
    pdl_json_kbool(&j, "yes", true);
    pdl_json_kstr(&j, "none", NULL);
    pdl_json_key(&j, "flat");
    pdl_json_flat(&j);
    pdl_json_int(&j, 1);
    pdl_json_int(&j, 2);
    pdl_json_end(&j);
    pdl_json_key(&j, "rows");
    pdl_json_array(&j);
    pdl_json_row(&j);
    pdl_json_kint(&j, "a", 1);
    pdl_json_kint(&j, "b", 2);
    pdl_json_end(&j);
    pdl_json_end(&j);
    pdl_json_key(&j, "empty");
    pdl_json_object(&j);
    pdl_json_end(&j);
    pdl_json_end(&j);
    assert_string_equal(b.text, "{\n"
                                "  \"schema\": \"paradl.test/1\",\n"
                                "  \"int\": -9223372036854775808,\n"
                                "  \"num\": 0.1,\n"
                                "  \"nan\": null,\n"
                                "  \"yes\": true,\n"
                                "  \"none\": null,\n"
                                "  \"flat\": [1, 2],\n"
                                "  \"rows\": [\n"
                                "    {\"a\": 1, \"b\": 2}\n"
                                "  ],\n"
                                "  \"empty\": {}\n"
                                "}\n");
    pdl_buf_free(&b);
}

static void text_is_escaped(void **state)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"plain", "\"plain\"\n"},
        {"\"\\/", "\"\\\"\\\\/\"\n"},
        {"a\nb\tc\x01\x7f", "\"a\\u000ab\\u0009c\\u0001\x7f\"\n"},
        {"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80",
         "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"\n"},
        /* not UTF-8: a lone tail, cut heads, overlong, surrogate, too high */
        {"\x80", "\"\\ufffd\"\n"},
        {"x\xc3", "\"x\\ufffd\"\n"},
        {"\xe2\x82", "\"\\ufffd\\ufffd\"\n"},
        {"\xc0\xaf", "\"\\ufffd\\ufffd\"\n"},
        {"\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\"\n"},
        {"\xf5\x80\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\"\n"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char want[64];
        struct pdl_buf b;
        struct pdl_json j;

        pdl_buf_init(&b);
        pdl_json_init(&j, &b.sink);
        pdl_json_flat(&j);
        pdl_json_str(&j, cases[i].text);
        pdl_json_end(&j);
        snprintf(want, sizeof want, "[%.*s]\n", (int)strlen(cases[i].want) - 1,
                 cases[i].want);
        assert_string_equal(b.text, want);
        pdl_buf_free(&b);
    }
}

static void print_number(double v, char *text, size_t size)
{
    struct pdl_buf b;
    struct pdl_json j;

    pdl_buf_init(&b);
    pdl_json_init(&j, &b.sink);
    pdl_json_num(&j, v);
    snprintf(text, size, "%s", b.text);
    pdl_buf_free(&b);
}

static int digits_of(const char *text)
{
    int n = 0;
    bool leading = true;

    for (; *text && *text != 'e'; text++) {
        if (*text < '0' || *text > '9')
            continue;
        leading = leading && *text == '0';
        n += !leading;
    }
    return n;
}

static void doubles_read_back_the_same(void **state)
{
    struct pdl_rng rng = {.key = 5};
    char text[40];
    union {
        uint64_t bits;
        double v;
    } x;

    (void)state;
    for (int i = 0; i < 20000; i++) {
        x.bits = pdl_rng_u64(&rng);
        if (i % 8 == 0) /* the small ones, which have fewer digits */
            x.bits &= 0x800fffffffffffffull >> pdl_rng_below(&rng, 52);
        if (!isfinite(x.v))
            continue;
        print_number(x.v, text, sizeof text);
        assert_true(strtod(text, NULL) == x.v);
        if (fabs(x.v) < DBL_MIN && x.v != 0) {
            char shorter[40];

            snprintf(shorter, sizeof shorter, "%.*e", digits_of(text) - 2, x.v);
            assert_true(digits_of(text) < 2 || strtod(shorter, NULL) != x.v);
        }
    }
}

static void short_numbers_stay_short(void **state)
{
    static const struct {
        double v;
        const char *want;
    } cases[] = {
        {0, "0"},           {-0.0, "-0"},
        {1, "1"},           {0.1, "0.1"},
        {1e-5, "1e-05"},    {1.0 / 3, "0.3333333333333333"},
        {1e22, "1e+22"},    {8178368512.0, "8178368512"},
        {5e-324, "5e-324"}, {DBL_MAX, "1.7976931348623157e+308"},
    };
    char text[40];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        print_number(cases[i].v, text, sizeof text);
        assert_string_equal(text, cases[i].want);
    }
}

static void nesting_deeper_than_any_document_works(void **state)
{
    struct pdl_buf b;
    struct pdl_json j;
    json_t *root;

    (void)state;
    pdl_buf_init(&b);
    pdl_json_init(&j, &b.sink);
    for (int i = 0; i < 70; i++)
        pdl_json_array(&j);
    for (int i = 0; i < 70; i++)
        pdl_json_end(&j);
    root = json_loads(b.text, 0, NULL);
    assert_non_null(root);
    json_decref(root);
    pdl_buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layout_is_fixed),
        cmocka_unit_test(text_is_escaped),
        cmocka_unit_test(doubles_read_back_the_same),
        cmocka_unit_test(short_numbers_stay_short),
        cmocka_unit_test(nesting_deeper_than_any_document_works),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
