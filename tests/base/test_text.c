/* Text for people: messages, tables, progress, did-you-mean, sinks. */
#include "paradl/base.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

/* ---- messages ------------------------------------------------------------ */

static void messages_cannot_command_the_terminal(void **state)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"a\x1b[2Jb\r\n\x7f", "a?[2Jb???"},
        {"\xc3\xa4 \xe2\x82\xac", "\xc3\xa4 \xe2\x82\xac"},
        {"\xc2\x9b", "??"},          /* CSI above 127 */
        {"\xc2\xa0", "\xc2\xa0"},    /* the first that is no control */
        {"x\xff\x80y\xc3", "x??y?"}, /* not UTF-8 */
    };
    struct pdl_err err;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pdl_say(&err, "%s", cases[i].text);
        pdl_hint(&err, "%s", cases[i].text);
        assert_string_equal(err.msg, cases[i].want);
        assert_string_equal(err.hint, cases[i].want);
    }
    pdl_say(&err, "%.2s", "a\xc3\xa4"); /* cut inside a character */
    assert_string_equal(err.msg, "a?");
    assert_string_equal(err.hint, "");
    pdl_say(NULL, "x");
    pdl_hint(NULL, "x");
    assert_int_equal(pdl_fail(NULL, PDL_EIO, "x"), PDL_EIO);
}

static void long_messages_are_cut_not_overrun(void **state)
{
    struct pdl_err err;
    char big[2000];

    (void)state;
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    pdl_say(&err, "%s", big);
    assert_int_equal(strlen(err.msg), sizeof err.msg - 1);
    pdl_hint(&err, "%s", big);
    assert_int_equal(strlen(err.hint), sizeof err.hint - 1);
}

static void every_status_has_a_text(void **state)
{
    (void)state;
    for (int st = PDL_OK; st <= PDL_EWRONG; st++)
        assert_true(strlen(pdl_status_text((enum pdl_status)st)) > 3);
    assert_string_equal(pdl_status_text((enum pdl_status)99), "?");
}

/* ---- sinks --------------------------------------------------------------- */

static bool fail_third(void *ctx, const char *data, size_t len)
{
    (void)data;
    (void)len;
    return ++*(int *)ctx < 3;
}

static void a_sink_latches_its_first_failure(void **state)
{
    int calls = 0;
    struct pdl_sink s = {.write = fail_third, .ctx = &calls};

    (void)state;
    for (int i = 0; i < 10; i++)
        pdl_printf(&s, "%d", i);
    assert_true(s.failed);
    assert_int_equal(calls, 3);
}

static void buffers_grow_and_stay_zero_ended(void **state)
{
    char big[1000];
    struct pdl_buf b;

    (void)state;
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    pdl_buf_init(&b);
    for (int i = 0; i < 100; i++) {
        pdl_printf(&b.sink, "%s%d", big, i % 10); /* longer than its buffer */
        assert_int_equal(strlen(b.text), b.len);
    }
    assert_int_equal(b.len, 100 * 1000);
    assert_int_equal(b.text[b.len - 1], '9');
    pdl_buf_free(&b);
    assert_null(b.text);
}

/* ---- tables -------------------------------------------------------------- */

static const struct pdl_column columns[] = {
    {"name", false}, {"bytes", true}, {"what", false}};

static void assert_table(struct pdl_table *t, int width, const char *want)
{
    struct pdl_buf b;

    pdl_buf_init(&b);
    pdl_table_print(t, width, &b.sink);
    assert_string_equal(b.text, want);
    pdl_buf_free(&b);
}

static void columns_are_as_wide_as_needed(void **state)
{
    pdl_arena *a = pdl_arena_create(1 << 20);
    struct pdl_table t;

    (void)state;
    pdl_table_init(&t, a, columns, 3);
    pdl_table_cell(&t, "conv1");
    pdl_table_cell(&t, "%d", 9408);
    pdl_table_cell(&t, "weights");
    pdl_table_cell(&t, "\xc3\xa4\xc3\xb6\xc3\xbc");
    pdl_table_cell(&t, "1");
    pdl_table_cell(&t, "x");
    assert_table(&t, 0,
                 "name   bytes  what\n"
                 "conv1   9408  weights\n"
                 "\xc3\xa4\xc3\xb6\xc3\xbc        1  x\n");
    pdl_table_cell(&t, "half a row"); /* is not printed */
    assert_int_equal(t.nrows, 2);
    pdl_arena_destroy(a);
}

static void a_narrow_terminal_cuts_names_in_the_middle(void **state)
{
    pdl_arena *a = pdl_arena_create(1 << 20);
    struct pdl_table t;
    struct pdl_buf b;

    (void)state;
    pdl_table_init(&t, a, columns, 3);
    for (int i = 0; i < 50; i++) {
        pdl_table_cell(&t,
                       "layer%d/\xc3\xa4\xc3\xb6\xc3\xbc/attention/query/"
                       "projection/weight/of/a/very/long/name",
                       i);
        pdl_table_cell(&t, "123456789");
        pdl_table_cell(&t, "%s", "what it is, at some length, too");
    }
    for (int width = 80; width >= 40; width--) {
        pdl_buf_init(&b);
        pdl_table_print(&t, width, &b.sink);
        for (char *p = b.text, *end; (end = strchr(p, '\n')); p = end + 1) {
            *end = '\0';
            assert_true(pdl_text_width(p) <= width);
            assert_true(p == b.text || strstr(p, "\xe2\x80\xa6"));
            assert_true(p == b.text || strstr(p, "123456789")); /* whole */
        }
        pdl_buf_free(&b);
    }
    pdl_arena_destroy(a);
}

static void names_from_files_cannot_command_the_terminal(void **state)
{
    static const struct pdl_column one[] = {{"", false}};
    pdl_arena *a = pdl_arena_create(1 << 20);
    struct pdl_table t;

    (void)state;
    pdl_table_init(&t, a, one, 1);
    pdl_table_cell(&t, "a\x1b[31m\nb");
    assert_table(&t, 80, "a?[31m?b\n");
    pdl_arena_destroy(a);
}

static void long_cells_are_kept_whole(void **state)
{
    static const struct pdl_column one[] = {{"", false}};
    pdl_arena *a = pdl_arena_create(1 << 20);
    char big[1500], want[1502];
    struct pdl_table t;

    (void)state;
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    memcpy(want, big, sizeof big);
    memcpy(want + sizeof big - 1, "\n", 2);
    pdl_table_init(&t, a, one, 1);
    pdl_table_cell(&t, "%s", big);
    assert_table(&t, 0, want);
    pdl_arena_destroy(a);
}

static void whole_names_that_are_too_long_stand_above_their_row(void **state)
{
    static const struct pdl_column four[] = {
        {"", false}, {"strategy", false}, {"step", true}, {"note", false}};
    static const char *const cells[] = {
        "*", "data=4,tensor=2", "1 s", "", "", "data=4", "2 s", "much",
    };
    pdl_arena *a = pdl_arena_create(1 << 20);
    struct pdl_table t;

    (void)state;
    pdl_table_init(&t, a, four, 4);
    t.whole = 2;
    for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++)
        pdl_table_cell(&t, "%s", cells[i]);
    assert_table(&t, 0,
                 "   strategy         step  note\n"
                 "*  data=4,tensor=2   1 s\n"
                 "   data=4            2 s  much\n");
    assert_table(&t, 25,
                 "   strategy  step  note\n"
                 "*  data=4,tensor=2\n"
                 "              1 s\n"
                 "   data=4     2 s  much\n");
    assert_table(&t, 12, /* even the name is broken */
                 "   strategy  step  note\n"
                 "*  data=4,\n"
                 "   tensor=2\n"
                 "              1 s\n"
                 "   data=4     2 s  much\n");
    pdl_arena_destroy(a);
}

static void tables_starve_cleanly(void **state)
{
    (void)state;
    for (size_t limit = 0; limit <= 1200; limit += 16) {
        pdl_arena *a = pdl_arena_create(limit);
        struct pdl_table t;
        struct pdl_buf b;

        pdl_table_init(&t, a, columns, 3);
        for (int i = 0; i < 30; i++)
            pdl_table_cell(&t, "%d", i);
        /* 24 and 48 pointers, 30 texts of one unit of 16 bytes */
        assert_int_equal(
            t.status, limit < 24 * 8 + 48 * 8 + 30 * 16 ? PDL_ENOMEM : PDL_OK);
        pdl_buf_init(&b);
        pdl_table_print(&t, 80, &b.sink);
        pdl_buf_free(&b);
        pdl_arena_destroy(a);
    }
}

static void texts_are_broken_before_column_80(void **state)
{
    struct pdl_buf b;
    char word[101];

    (void)state;
    pdl_buf_init(&b);
    pdl_wrap(&b.sink, "short", 4, 0);
    assert_string_equal(b.text, "    short\n");
    b.len = 0;
    memset(word, 'x', 100);
    word[100] = '\0';
    pdl_puts(&b.sink, "at5: ");
    for (int i = 0; i < 3; i++)
        word[99 - 20 * i] = ' ';
    pdl_wrap(&b.sink, word, 5, 5);
    assert_string_equal(b.text,
                        "at5: "
                        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
                        "xxxxxxxxxxx\n"
                        "     xxxxxxxxxxxxxxxxxxx xxxxxxxxxxxxxxxxxxx\n");
    pdl_buf_free(&b);
}

static void words_longer_than_a_line_are_broken(void **state)
{
    struct pdl_buf b;
    char text[200] = "heading of ", *p = text + strlen(text);

    (void)state;
    for (int i = 0; i < 12; i++, p += 10)
        memcpy(p, "abcdefghi,", 11);
    memcpy(p, " end", 5);
    pdl_buf_init(&b);
    pdl_wrap(&b.sink, text, 2, 0);
    assert_string_equal(b.text, "  heading of "
                                "abcdefghi,abcdefghi,abcdefghi,abcdefghi,"
                                "abcdefghi,abcdefghi,\n"
                                "  abcdefghi,abcdefghi,abcdefghi,abcdefghi,"
                                "abcdefghi,abcdefghi, end\n");
    for (p = text; *p; p++)
        *p = *p == ',' ? '+' : *p;
    b.len = 0;
    pdl_wrap(&b.sink, text, 2, 0);
    assert_string_equal(b.text, "  heading of "
                                "abcdefghi+abcdefghi+abcdefghi+abcdefghi+"
                                "abcdefghi+abcdefghi+\n"
                                "  abcdefghi+abcdefghi+abcdefghi+abcdefghi+"
                                "abcdefghi+abcdefghi+ end\n");
    pdl_buf_free(&b);
}

/* ---- progress ------------------------------------------------------------ */

static void progress_waits_then_shows_and_erases(void **state)
{
    struct pdl_progress p;
    struct pdl_buf b;

    (void)state;
    pdl_buf_init(&b);
    pdl_progress_start(&p, &b.sink, true, "layers", 200);
    pdl_progress_step(&p, 1); /* too early */
    assert_int_equal(b.len, 0);
    p.start_s -= 1;
    pdl_progress_step(&p, 50);
    assert_string_equal(b.text, "\r\x1b[Klayers 50/200 (25 %)");
    pdl_progress_step(&p, 51); /* too soon again */
    assert_string_equal(b.text, "\r\x1b[Klayers 50/200 (25 %)");
    b.len = 0;
    p.start_s -= 29; /* half a minute for a quarter */
    p.last_s = 0;
    pdl_progress_step(&p, 50);
    assert_non_null(strstr(b.text, " (25 %), about 90 s left"));
    b.len = 0;
    p.start_s -= 270;
    p.last_s = 0;
    pdl_progress_step(&p, 50);
    assert_non_null(strstr(b.text, " (25 %), about 15 min left"));
    b.len = 0;
    pdl_progress_end(&p);
    assert_string_equal(b.text, "\r\x1b[K");
    b.len = 0;
    pdl_progress_end(&p);
    assert_int_equal(b.len, 0);
    pdl_progress_start(&p, &b.sink, true, "plans", 0);
    p.start_s -= 1;
    pdl_progress_step(&p, 7);
    assert_string_equal(b.text, "\r\x1b[Kplans 7");
    pdl_buf_free(&b);
}

static void progress_is_silent_off_a_terminal(void **state)
{
    struct pdl_progress p;
    struct pdl_buf b;

    (void)state;
    pdl_buf_init(&b);
    pdl_progress_start(&p, &b.sink, false, "layers", 10);
    p.start_s -= 1;
    pdl_progress_step(&p, 5);
    pdl_progress_end(&p);
    assert_int_equal(b.len, 0);
    pdl_buf_free(&b);
}

static void clocks_go_forward(void **state)
{
    double wall = pdl_clock_s(), cpu = pdl_cpu_s();
    volatile double x = 0;

    (void)state;
    for (int i = 0; i < 1000000; i++)
        x += i;
    assert_true(x > 0);
    assert_true(pdl_clock_s() > wall);
    assert_true(pdl_cpu_s() > cpu);
}

/* ---- did you mean -------------------------------------------------------- */

static void slips_are_found_and_strangers_are_not(void **state)
{
    static const char *const words[] = {"ring",         "binomial",
                                        "rabenseifner", "halving-doubling",
                                        "shd",          "ring-ring-pipelined",
                                        "ring-ring"};
    static const struct {
        const char *typed, *want;
    } cases[] = {
        {"rign", "ring"},
        {"rin", "ring"},
        {"rinng", "ring"},
        {"binomal", "binomial"},
        {"rabensiefer", "rabenseifner"},
        {"halving-dubling", "halving-doubling"},
        {"halving", "halving-doubling"}, /* the rest was forgotten */
        {"ring-", "ring-ring"},
        {"ha", NULL}, /* too little of it */
        {"xyz", NULL},
        {"", NULL},
        {"r", NULL},
        {"tree", NULL},
    };
    char big[200];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pdl_suggest s;
        const char *got;

        pdl_suggest_init(&s, cases[i].typed);
        for (size_t k = 0; k < sizeof words / sizeof words[0]; k++)
            pdl_suggest_try(&s, words[k]);
        got = pdl_suggest_best(&s);
        if (!cases[i].want)
            assert_null(got);
        else
            assert_string_equal(got ? got : "(none)", cases[i].want);
    }
    memset(big, 'r', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    struct pdl_suggest s;
    pdl_suggest_init(&s, big);
    pdl_suggest_try(&s, big);
    assert_null(pdl_suggest_best(&s)); /* too long to compare */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_cannot_command_the_terminal),
        cmocka_unit_test(long_messages_are_cut_not_overrun),
        cmocka_unit_test(every_status_has_a_text),
        cmocka_unit_test(a_sink_latches_its_first_failure),
        cmocka_unit_test(buffers_grow_and_stay_zero_ended),
        cmocka_unit_test(columns_are_as_wide_as_needed),
        cmocka_unit_test(a_narrow_terminal_cuts_names_in_the_middle),
        cmocka_unit_test(names_from_files_cannot_command_the_terminal),
        cmocka_unit_test(long_cells_are_kept_whole),
        cmocka_unit_test(whole_names_that_are_too_long_stand_above_their_row),
        cmocka_unit_test(tables_starve_cleanly),
        cmocka_unit_test(words_longer_than_a_line_are_broken),
        cmocka_unit_test(texts_are_broken_before_column_80),
        cmocka_unit_test(progress_waits_then_shows_and_erases),
        cmocka_unit_test(progress_is_silent_off_a_terminal),
        cmocka_unit_test(clocks_go_forward),
        cmocka_unit_test(slips_are_found_and_strangers_are_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
