/* Measurements: a run that was killed and resumed leaves the file of a run
 * that was not. */
#include "fixtures.h"

#include <math.h>

static const char *const columns[] = {"loss", "samples_per_s"};

static int begin(void **state)
{
    (void)state;
    fx_begin();
    return 0;
}

static int end(void **state)
{
    (void)state;
    fx_end();
    return 0;
}

static const char *content(const char *name)
{
    static char text[2][4096];
    static int k;
    FILE *f = fopen(fx(name), "rb");

    k = !k;
    assert_non_null(f);
    text[k][fread(text[k], 1, sizeof text[k] - 1, f)] = '\0';
    fclose(f);
    return text[k];
}

static void run(const char *name, int64_t resume, int64_t from, int64_t to)
{
    struct pdl_err err = {"", ""};
    pdl_metrics *m = NULL;

    if (pdl_metrics_open(fx(name), columns, 2, resume, &m, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    for (int64_t s = from; s < to; s++) {
        double v[2] = {1.0 / (double)(s + 1), s == 3 ? (double)NAN : 100};

        assert_int_equal(pdl_metrics_add(m, s, v, &err), PDL_OK);
    }
    assert_int_equal(pdl_metrics_close(m, NULL), PDL_OK);
}

static void rows_are_what_was_measured(void **state)
{
    (void)state;
    run("a.jsonl", -1, 0, 4);
    assert_string_equal(
        content("a.jsonl"),
        "{\"step\": 0,\"loss\": 1,\"samples_per_s\": 100}\n"
        "{\"step\": 1,\"loss\": 0.5,\"samples_per_s\": 100}\n"
        "{\"step\": 2,\"loss\": 0.3333333333333333,"
        "\"samples_per_s\": 100}\n"
        "{\"step\": 3,\"loss\": 0.25,\"samples_per_s\": null}\n");
    run("a.csv", -1, 0, 4);
    assert_string_equal(content("a.csv"), "step,loss,samples_per_s\n0,1,100\n"
                                          "1,0.5,100\n"
                                          "2,0.3333333333333333,100\n"
                                          "3,0.25,\n");
}

static void a_resumed_run_leaves_the_same_file(void **state)
{
    static const char *const names[] = {"x.jsonl", "x.csv"};
    static const char *const whole[] = {"y.jsonl", "y.csv"};

    (void)state;
    for (int k = 0; k < 2; k++) {
        FILE *f;

        run(whole[k], -1, 0, 20);
        run(names[k], -1, 0, 13);
        f = fopen(fx(names[k]), "ab"); /* died in the middle of a line */
        fputs("{\"step\": 13,\"lo", f);
        fclose(f);
        run(names[k], 9, 10, 20); /* the checkpoint was of step 9 */
        assert_string_equal(content(names[k]), content(whole[k]));
    }
}

static void a_new_run_starts_a_new_file(void **state)
{
    (void)state;
    run("a.csv", -1, 0, 9);
    run("a.csv", -1, 0, 1);
    assert_string_equal(content("a.csv"), "step,loss,samples_per_s\n0,1,100\n");
    run("b.csv", 5, 6, 7); /* resumed without its old file */
    assert_string_equal(content("b.csv"),
                        "step,loss,samples_per_s\n6,0.14285714285714285,100\n");
}

static void mistakes_are_told(void **state)
{
    static const char *const other[] = {"accuracy"};
    struct pdl_err err = {"", ""};
    pdl_metrics *m = NULL;
    double v[2] = {0, 0};

    (void)state;
    assert_int_equal(pdl_metrics_open(fx("a.xls"), columns, 2, -1, &m, &err),
                     PDL_EINVAL);
    assert_int_equal(pdl_metrics_open(fx("no/a.csv"), columns, 2, -1, &m, &err),
                     PDL_EIO);
    run("a.csv", -1, 0, 3);
    assert_int_equal(pdl_metrics_open(fx("a.csv"), other, 1, 2, &m, &err),
                     PDL_EPARSE);
    assert_non_null(strstr(err.msg, "other columns"));
    assert_null(m);
    assert_int_equal(pdl_metrics_open(fx("a.csv"), columns, 2, 2, &m, &err),
                     PDL_OK);
    assert_int_equal(pdl_metrics_add(m, 2, v, &err), PDL_EINVAL);
    assert_int_equal(pdl_metrics_close(m, &err), PDL_OK);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        T(rows_are_what_was_measured),
        T(a_resumed_run_leaves_the_same_file),
        T(a_new_run_starts_a_new_file),
        T(mistakes_are_told),
    };
#undef T

    return cmocka_run_group_tests(tests, NULL, NULL);
}
