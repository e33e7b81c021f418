/* Text into markup: hostile names stay text, numbers have a point. */
#include "report_priv.h"

#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void check_text(const char *in, const char *want)
{
    struct pdl_buf b;

    pdl_buf_init(&b);
    pdl_puts(&b.sink, "");
    report_text(&b.sink, in);
    assert_string_equal(b.text ? b.text : "", want);
    pdl_buf_free(&b);
}

static void names_cannot_become_markup(void **state)
{
    (void)state;
    check_text("<script>alert(1)</script>",
               "&lt;script&gt;alert(1)&lt;/script&gt;");
    check_text("a&b\"c'd", "a&amp;b&quot;c&#39;d");
    check_text("", "");
    check_text(NULL, "");
    check_text("z\xc3\xbcrich \xe2\x82\xac \xf0\x9f\x98\x80",
               "z\xc3\xbcrich \xe2\x82\xac \xf0\x9f\x98\x80");
}

#define FFFD "\xef\xbf\xbd"

static void what_is_no_text_is_replaced(void **state)
{
    static const struct {
        const char *in, *want;
    } cases[] = {
        {"a\x01"
         "b",
         "a" FFFD "b"},
        {"\x1b[31m", FFFD "[31m"},
        {"\xff", FFFD},
        {"\xc0\xaf", FFFD FFFD},                   /* overlong */
        {"\xe0\x80\xaf", FFFD FFFD FFFD},          /* overlong */
        {"\xed\xa0\x80", FFFD FFFD FFFD},          /* surrogate */
        {"\xf4\x90\x80\x80", FFFD FFFD FFFD FFFD}, /* past the last */
        {"\xef\xbf\xbf", FFFD FFFD FFFD},          /* no character */
        {"cut \xe2\x82", "cut " FFFD FFFD},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_text(cases[i].in, cases[i].want);
}

static void long_names_are_cut_in_the_middle(void **state)
{
    struct pdl_buf b;

    (void)state;
    pdl_buf_init(&b);
    assert_true(report_short(&b.sink, "abcdefghij", 7));
    assert_string_equal(b.text, "abcd\xe2\x80\xa6ij");
    pdl_buf_free(&b);
    pdl_buf_init(&b);
    assert_false(report_short(&b.sink, "<>", 7));
    assert_string_equal(b.text, "&lt;&gt;");
    pdl_buf_free(&b);
}

static void numbers_have_a_point_in_every_locale(void **state)
{
    static const struct {
        double v;
        const char *want;
    } cases[] = {
        {0, "0"},       {-0.04, "0"}, {1.25, "1.3"},           {-3.5, "-3.5"},
        {1000, "1000"}, {NAN, "0"},   {1e300, "1000000000000"}};
    struct pdl_buf b;

    (void)state;
    setlocale(LC_ALL, "de_DE.UTF-8"); /* where it exists */
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pdl_buf_init(&b);
        report_num(&b.sink, cases[i].v);
        assert_string_equal(b.text, cases[i].want);
        pdl_buf_free(&b);
    }
    setlocale(LC_ALL, "C");
}

static void data_cannot_end_the_script_element(void **state)
{
    static const char json[] = "{\"a\": \"</script><b>\"}";
    struct pdl_buf b;

    (void)state;
    pdl_buf_init(&b);
    report_json(&b.sink, (struct pdl_bytes){json, sizeof json - 1});
    assert_string_equal(b.text, "{\"a\": \"\\u003c/script>\\u003cb>\"}");
    pdl_buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_cannot_become_markup),
        cmocka_unit_test(what_is_no_text_is_replaced),
        cmocka_unit_test(long_names_are_cut_in_the_middle),
        cmocka_unit_test(numbers_have_a_point_in_every_locale),
        cmocka_unit_test(data_cannot_end_the_script_element),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
