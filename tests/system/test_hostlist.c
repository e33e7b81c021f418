/* Host lists against what scontrol prints, their limits, and the way back. */
#include "paradl/system.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#define TRUTH PDL_SOURCE_DIR "/tests/data/system/slurm_hostlist_truth.txt"

static const char *joined(pdl_arena *a, const struct pdl_hosts *h)
{
    const char *text = "";

    for (int64_t i = 0; i < h->count; i++)
        text = pdl_arena_printf(a, "%s%s ", text, h->names[i]);
    return text;
}

static void check_expand(pdl_arena *a, const char *in, const char *want)
{
    struct pdl_hosts h;
    struct pdl_err err = {"", ""};
    enum pdl_status st = pdl_hostlist_expand(a, in, &h, &err);

    /* scontrol's own errors, and the garbage it makes of an open bracket */
    if (strstr(want, "nvalid") || strcmp(want, "n] ") == 0) {
        assert_int_equal(st, PDL_EPARSE);
        assert_true(strncmp(err.msg, "host list: '", 12) == 0);
        return;
    }
    if (st != PDL_OK)
        fail_msg("%s: %s", in, err.msg);
    assert_string_equal(joined(a, &h), want);
}

static void check_compress(pdl_arena *a, char *in, const char *want, bool sort)
{
    struct pdl_hosts h;
    struct pdl_err err = {"", ""};
    const char *packed = NULL;

    assert_int_equal(pdl_hostlist_expand(a, in, &h, &err), PDL_OK);
    if (sort)
        pdl_hostlist_sort(&h);
    assert_int_equal(pdl_hostlist_compress(a, &h, &packed, &err), PDL_OK);
    assert_string_equal(packed, want);
}

static void every_line_of_the_truth_table_holds(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_bytes file;
    char *line, *save = NULL;
    int n = 0;

    (void)state;
    assert_int_equal(pdl_file_read(a, TRUTH, 1 << 16, &file, NULL), PDL_OK);
    for (line = strtok_r(pdl_arena_strdup(a, file.data), "\n", &save); line;
         line = strtok_r(NULL, "\n", &save), n++) {
        char *arrow = strstr(line, " => ");

        assert_non_null(arrow);
        *arrow = '\0';
        if (strncmp(line, "hostlist ", 9) == 0)
            check_compress(a, line + 9, arrow + 4, false);
        else if (strncmp(line, "hostlistsorted ", 15) == 0)
            check_compress(a, line + 15, arrow + 4, true);
        else
            check_expand(a, line, arrow + 4);
    }
    assert_int_equal(n, 15);
    pdl_arena_destroy(a);
}

static void bad_lists_are_refused_with_these_words(void **state)
{
    static const struct {
        const char *text, *msg;
    } cases[] = {
        {"", "host list: empty"},
        {"  \n", "host list: empty"},
        {"a,,b", "host list: an empty name"},
        {"a,", "host list: an empty name"},
        {",a", "host list: an empty name"},
        {"n[1-2", "host list: 'n[1-2': a bracket is not closed"},
        {"n[", "host list: 'n[': a bracket is not closed"},
        {"n[]", "host list: 'n[]': a range is number or number-number"},
        {"n[1,]", "host list: 'n[1,]': a range is number or number-number"},
        {"n[1-]", "host list: 'n[1-]': a range is number or number-number"},
        {"n[1 2]", "host list: 'n[1 2]': a range is number or number-number"},
        {"n[3-1]", "host list: 'n[3-1]': a range runs backwards"},
        {"n[a-c]", "host list: 'n[a-c]': a range is number or number-number"},
        {"n[0-3]x", "host list: 'n[0-3]x': text after the last bracket"},
        {"n]", "host list: 'n]': a name has letters, digits, '-', '_', '.'"},
        {"n;rm", "host list: 'n;rm': a name has letters, digits, '-', '_', "
                 "'.'"},
        {"n[0-999999999]", "host list: more than 1048576 hosts"},
        {"n[0-999999][0-999999][0-999999][0-999999]",
         "host list: 'n[0-999999][0-999999][0-999999][0-999999]': too many "
         "hosts"},
        {"n[1-99999999999999999999]",
         "host list: 'n[1-99999999999999999999]': a number has too many "
         "digits"},
        {"n[0-1][0-1][0-1][0-1][0-1][0-1][0-1][0-1][0-1]",
         "host list: 'n[0-1][0-1][0-1][0-1][0-1][0-1][0-1][0-1][0-1]': too "
         "many brackets"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_err err = {"", ""};
        struct pdl_hosts h;

        assert_int_equal(pdl_hostlist_expand(a, cases[i].text, &h, &err),
                         PDL_EPARSE);
        assert_string_equal(err.msg, cases[i].msg);
        pdl_arena_destroy(a);
    }
}

static void random_lists_come_back(void **state)
{
    static const char *const stems[] = {"n", "gpu-", "r0n", "rack1.node", ""};
    struct pdl_rng rng = {.key = 3};

    (void)state;
    for (int round = 0; round < 3000; round++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        const char *names[40];
        struct pdl_hosts h = {names, 0}, again;
        struct pdl_err err = {"", ""};
        const char *packed = NULL;
        int64_t value = 0;

        h.count = 1 + (int64_t)pdl_rng_below(&rng, 40);
        for (int64_t i = 0; i < h.count; i++) {
            value = pdl_rng_below(&rng, 4) ? value + 1
                                           : (int64_t)pdl_rng_below(&rng, 200);
            names[i] = pdl_arena_printf(
                a, "%s%0*lld",
                stems[pdl_rng_below(&rng, 8) ? 0 : pdl_rng_below(&rng, 5)],
                1 + (int)pdl_rng_below(&rng, 3), (long long)value);
        }
        assert_int_equal(pdl_hostlist_compress(a, &h, &packed, &err), PDL_OK);
        if (pdl_hostlist_expand(a, packed, &again, &err) != PDL_OK)
            fail_msg("%s: %s", packed, err.msg);
        assert_string_equal(joined(a, &h), joined(a, &again));
        pdl_arena_destroy(a);
    }
}

static void tasks_per_node_are_counted(void **state)
{
    static const char *const bad[] = {
        "",   "x",     "8(x", "8(x4",   "8(4)",        "8,",
        ",8", "8(x0)", "0",   "8(x4)2", "8(x9999999)", "99999999999"};
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_err err = {"", ""};
    struct pdl_ints t;

    (void)state;
    assert_int_equal(pdl_tasks_expand(a, "8(x4),2", &t, &err), PDL_OK);
    assert_int_equal(t.n, 5);
    assert_int_equal(t.v[3], 8);
    assert_int_equal(t.v[4], 2);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(pdl_tasks_expand(a, bad[i], &t, &err), PDL_EPARSE);
        assert_string_equal(err.hint, "Slurm writes it like 8(x4),2");
    }
    pdl_arena_destroy(a);
}

static void a_starved_arena_is_an_error(void **state)
{
    (void)state;
    for (size_t limit = 0; limit < 4096; limit += 64) {
        pdl_arena *a = pdl_arena_create(limit);
        struct pdl_err err = {"", ""};
        struct pdl_hosts h = {NULL, 0};
        const char *packed;

        if (pdl_hostlist_expand(a, "a[1-9],b[01-03,7]", &h, &err) == PDL_OK) {
            if (pdl_hostlist_compress(a, &h, &packed, &err) != PDL_OK)
                assert_true(*err.msg);
        } else {
            assert_true(*err.msg);
        }
        pdl_arena_destroy(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_line_of_the_truth_table_holds),
        cmocka_unit_test(bad_lists_are_refused_with_these_words),
        cmocka_unit_test(random_lists_come_back),
        cmocka_unit_test(tasks_per_node_are_counted),
        cmocka_unit_test(a_starved_arena_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
