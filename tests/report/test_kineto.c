/* Traces of PyTorch's profiler: a small one written by hand, whose sums are
 * known; the public sample where it is there; and what is no trace. */
#include "paradl/report.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#define HAND PDL_SOURCE_DIR "/tests/data/report/kineto_two_steps.json"
#define PUBLIC \
    PDL_SOURCE_DIR "/../shared/data/samples/kineto/alexnet_trace.json.gz"

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-12;
}

static enum pdl_status read(const char *text, struct pdl_trace *out,
                            struct pdl_err *err)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    enum pdl_status st = pdl_trace_read(
        a, (struct pdl_bytes){text, strlen(text)}, "t.json", out, err);

    pdl_arena_destroy(a);
    return st;
}

static void read_file(const char *path, struct pdl_trace *out)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_err err = {"", ""};
    struct pdl_bytes map, text;

    if (pdl_file_map(path, &map, &err) != PDL_OK ||
        pdl_gunzip(a, map, path, 1 << 28, &text, &err) != PDL_OK ||
        pdl_trace_read(a, text, path, out, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    pdl_file_unmap(&map);
    pdl_arena_destroy(a);
}

/* Times of 2025 in nanoseconds need more digits than a double has. */
static void phases_add_up_to_the_nanosecond(void **state)
{
    struct pdl_trace t;

    (void)state;
    read_file(HAND, &t);
    assert_int_equal(t.steps, 2);
    assert_int_equal(t.rank, 1);
    assert_int_equal(t.ranks, 4);
    assert_true(near(t.busy_s[PDL_TRACE_PRODUCT], 300.999e-6));
    assert_true(near(t.busy_s[PDL_TRACE_ATTENTION], 99e-6));
    assert_true(near(t.busy_s[PDL_TRACE_ALLREDUCE], 250e-6));
    assert_true(near(t.busy_s[PDL_TRACE_REDUCE_SCATTER], 60e-6));
    assert_true(near(t.busy_s[PDL_TRACE_COPY], 10e-6));
    assert_true(near(t.busy_s[PDL_TRACE_OTHER], 40e-6));
    assert_true(near(t.busy_s[PDL_TRACE_UPDATE], 100e-6));
    assert_int_equal(t.calls[PDL_TRACE_PRODUCT], 1);
    assert_true(near(t.span_s, 1999.999e-6));
    assert_true(near(t.compute_s, 539.999e-6));
    /* allreduce 400 to 550, the copy, reduce-scatter */
    assert_true(near(t.exposed_s, 220e-6));
    assert_true(near(t.span_s, t.compute_s + t.exposed_s + t.idle_s));
}

static void the_public_sample_is_read(void **state)
{
    struct pdl_trace t;
    FILE *f = fopen(PUBLIC, "rb");

    (void)state;
    if (!f) {
        print_message("SKIPPED: no public trace at %s\n", PUBLIC);
        skip();
    }
    fclose(f);
    read_file(PUBLIC, &t);
    assert_int_equal(t.rank, 0);
    assert_int_equal(t.calls[PDL_TRACE_COPY], 19);
    assert_true(t.calls[PDL_TRACE_CONVOLUTION] > 0);
    assert_true(t.calls[PDL_TRACE_PRODUCT] > 0);
    assert_true(t.compute_s > 0 && t.idle_s > 0);
}

static void what_is_no_trace_is_refused_in_one_line(void **state)
{
    static const char *const wrong[] = {
        "",
        "{",
        "[]",
        "{}",
        "{\"traceEvents\": 3}",
        "{\"traceEvents\": [}",
        "{\"traceEvents\": [{\"ph\": \"X\"}",
        "{\"traceEvents\": [{\"ph\": \"X\" \"cat\": 1}]}",
        "{\"traceEvents\": []} x",
        "{\"a\": [[[[}",
        "{\"a\": \"",
        "nonsense",
        "{\"traceEvents\": [{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": "
        "\"k\", \"ts\": 99999999999999999999, \"dur\": 1}]}"};

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct pdl_err err = {"", ""};
        struct pdl_trace t;

        if (read(wrong[i], &t, &err) != PDL_EPARSE)
            fail_msg("accepted: %s", wrong[i]);
        assert_true(strlen(err.msg) > 0 && !strchr(err.msg, '\n'));
    }
}

static void deep_nesting_is_refused(void **state)
{
    char text[4096] = "{\"a\": ";
    struct pdl_err err = {"", ""};
    struct pdl_trace t;
    size_t n = strlen(text);

    (void)state;
    memset(text + n, '[', 1000);
    assert_int_equal(read(text, &t, &err), PDL_EPARSE);
    assert_non_null(strstr(err.msg, "deep"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(phases_add_up_to_the_nanosecond),
        cmocka_unit_test(the_public_sample_is_read),
        cmocka_unit_test(what_is_no_trace_is_refused_in_one_line),
        cmocka_unit_test(deep_nesting_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
