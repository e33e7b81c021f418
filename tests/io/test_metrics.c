/* Measurements: a run that was killed and resumed leaves the file of a run
 * that was not. */
#include "fixtures.h"
#include "events.h"

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

static size_t bytes_of(const char *name, char *to, size_t size)
{
    FILE *f = fopen(fx(name), "rb");
    size_t n;

    assert_non_null(f);
    n = fread(to, 1, size, f);
    fclose(f);
    return n;
}

/* The check value of CRC-32C (iSCSI, RFC 3720 B.4), and the tags and values
 * where TensorBoard looks for them. */
static void events_are_what_tensorboard_reads(void **state)
{
    static const unsigned char value[] = {0x0a, 0x0b, 0x0a, 0x04, 'l', 'o', 's',
                                          's',  0x15, 0,    0,    0,   0x3f};
    char text[4096], broken[4096];
    int64_t step = -1, at = 0;
    size_t n;

    (void)state;
    assert_int_equal(io_crc32c("123456789", 9), 0xe3069283);
    run("c.tfevents", -1, 1, 2);
    n = bytes_of("c.tfevents", text, sizeof text);
    at = io_events_record(text, text + n, &step);
    assert_true(at > 0 && memcmp(text + at - 4 - 13, "brain.Event:2", 13) == 0);
    assert_int_equal(io_events_record(text + at, text + n, &step),
                     (int64_t)n - at);
    assert_int_equal(step, 1);
    for (size_t i = (size_t)at; i + sizeof value <= n; i++)
        if (memcmp(text + i, value, sizeof value) == 0)
            step = -7;
    assert_int_equal(step, -7);
    for (size_t i = (size_t)at; i < n; i++) { /* any bit */
        memcpy(broken, text, n);
        broken[i] ^= 4;
        assert_int_equal(io_events_record(broken + at, broken + n, &step), 0);
        assert_int_equal(io_events_record(text + at, text + i, &step), 0);
    }
}

static void events_go_on_where_the_run_does(void **state)
{
    char a[8192];
    int64_t step, want = 0;
    size_t n;

    (void)state;
    run("r.tfevents", -1, 0, 20);
    run("r.tfevents", 9, 10, 40);
    n = bytes_of("r.tfevents", a, sizeof a);
    assert_true(n < sizeof a);
    for (const char *p = a + io_events_record(a, a + n, &step); p < a + n;
         want++) {
        int64_t k = io_events_record(p, a + n, &step);

        assert_true(k > 0);
        assert_int_equal(step, want);
        p += k;
    }
    assert_int_equal(want, 40);
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

static void remarks_are_rows_of_json_lines_only(void **state)
{
    static const char *const one[] = {"loss"};
    static const char *const names[] = {"m.jsonl", "m.csv"};
    double loss = 2;

    (void)state;
    for (int k = 0; k < 2; k++)
        for (int64_t resume = -1; resume < 3; resume += 3) {
            pdl_metrics *m = NULL;

            assert_int_equal(
                pdl_metrics_open(fx(names[k]), one, 1, resume, &m, NULL),
                PDL_OK);
            assert_int_equal(pdl_metrics_add(m, 3, &loss, NULL), PDL_OK);
            assert_int_equal(pdl_metrics_remark(m, 3, "slow_kernel", "lrn",
                                                "share", .5, NULL),
                             PDL_OK);
            assert_int_equal(pdl_metrics_remark(m, 2, "slow_kernel", "lrn",
                                                "share", .5, NULL),
                             PDL_EINVAL);
            assert_int_equal(pdl_metrics_close(m, NULL), PDL_OK);
        }
    assert_string_equal(
        content("m.jsonl"),
        "{\"step\": 3,\"loss\": 2}\n"
        "{\"step\": 3,\"slow_kernel\": \"lrn\",\"share\": 0.5}\n");
    assert_string_equal(content("m.csv"), "step,loss\n3,2\n");
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
    assert_int_equal(pdl_metrics_add(m, 1, v, &err), PDL_EINVAL);
    assert_int_equal(pdl_metrics_add(m, 2, v, &err), PDL_OK); /* a second row */
    assert_int_equal(pdl_metrics_back(m, 1, &err), PDL_OK);
    assert_int_equal(pdl_metrics_last(m), 1);
    assert_int_equal(pdl_metrics_add(m, 2, v, &err), PDL_OK);
    assert_int_equal(pdl_metrics_close(m, &err), PDL_OK);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        T(events_are_what_tensorboard_reads),
        T(events_go_on_where_the_run_does),
        T(rows_are_what_was_measured),
        T(a_resumed_run_leaves_the_same_file),
        T(remarks_are_rows_of_json_lines_only),
        T(a_new_run_starts_a_new_file),
        T(mistakes_are_told),
    };
#undef T

    return cmocka_run_group_tests(tests, NULL, NULL);
}
