/* Data that change under a run, or hold numbers that are none: one line with
 * the name of the file, and no signal. */
#include "datasets.h"

#include <pthread.h>

/* 64 float samples of 1024 numbers, several pages a file. */
enum { SAMPLES = 64, EACH = 1024 };
static float x[SAMPLES * EACH];
static unsigned char file[sizeof x + 4096];

static int start_up(void **state)
{
    static int64_t y[SAMPLES];

    (void)state;
    fx_begin();
    for (int i = 0; i < SAMPLES * EACH; i++)
        x[i] = (float)i;
    fx_folder("npy");
    fx_write("npy/x_train.npy", file,
             fx_npy(file, "<f4", "64, 1024", x, sizeof x));
    for (int i = 0; i < SAMPLES; i++)
        y[i] = i % 10;
    fx_write("npy/y_train.npy", file, fx_npy(file, "<i8", "64,", y, sizeof y));
    return 0;
}

static int clean_up(void **state)
{
    (void)state;
    fx_end();
    return 0;
}

static enum pdl_status read_one(const pdl_io *io, int64_t sample,
                                struct pdl_err *err)
{
    const struct pdl_dataset *d = pdl_io_describe(io);
    struct pdl_read r = {
        .samples = &sample, .nsamples = 1, .box = pdl_field_box(&d->input)};
    float out[EACH];

    return pdl_io_input(io, &r, out, err);
}

static void a_file_that_shrinks_is_one_line(void **state)
{
    struct pdl_err err = {"", ""};
    pdl_io *io = open_ok(fx("npy"), NULL);

    (void)state;
    assert_int_equal(read_one(io, SAMPLES - 1, &err), PDL_OK);
    assert_int_equal(truncate(fx("npy/x_train.npy"), 8192), 0);
    for (int again = 0; again < 3; again++) {
        assert_int_equal(read_one(io, SAMPLES - 1, &err), PDL_EIO);
        if (!strstr(err.msg, "x_train.npy: has become shorter") ||
            !strstr(err.msg, "8192 bytes now"))
            fail_msg("%s", err.msg);
    }
    assert_int_equal(read_one(io, 0, &err), PDL_OK); /* what is there */
    pdl_io_close(io);
}

static void *reads(void *ctx)
{
    struct pdl_err err = {"", ""};
    int64_t wrong = 0;

    for (int i = 0; i < 200; i++) {
        enum pdl_status st = read_one(ctx, i % SAMPLES, &err);

        wrong += st != (i % SAMPLES == 0 ? PDL_OK : PDL_EIO);
    }
    return (void *)(intptr_t)wrong;
}

static void every_thread_has_its_own_answer(void **state)
{
    pdl_io *io = open_ok(fx("npy"), NULL);
    pthread_t t[4];

    (void)state;
    assert_int_equal(truncate(fx("npy/x_train.npy"), 4096), 0);
    assert_int_equal(read_one(io, 0, NULL), PDL_EIO); /* its end is gone */
    fx_write("npy/x_train.npy", file, 8000);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&t[i], NULL, reads, io), 0);
    for (int i = 0; i < 4; i++) {
        void *wrong;

        assert_int_equal(pthread_join(t[i], &wrong), 0);
        assert_null(wrong);
    }
    pdl_io_close(io);
}

static void a_number_that_is_none_names_sample_and_file(void **state)
{
    static const float none[] = {NAN, INFINITY, -INFINITY};
    struct pdl_augment g = {.channels = 0};
    struct pdl_err err = {"", ""};

    (void)state;
    for (int i = 0; i < 3; i++) {
        pdl_io *io;

        x[17 * EACH + 5] = none[i];
        fx_write("npy/x_train.npy", file,
                 fx_npy(file, "<f4", "64, 1024", x, sizeof x));
        io = open_ok(fx("npy"), NULL);
        assert_int_equal(read_one(io, 16, &err), PDL_OK);
        assert_int_equal(read_one(io, 17, &err), PDL_EPARSE);
        if (!strstr(err.msg, "x_train.npy: sample 17 ") ||
            !strstr(err.msg, i == 0 ? "a NaN" : "an infinite number"))
            fail_msg("%s", err.msg);
        /* nor do means hide it */
        assert_int_equal(pdl_io_moments(io, 0, 1000, &g, &err), PDL_EPARSE);
        assert_non_null(strstr(err.msg, "sample 17 "));
        pdl_io_close(io);
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, start_up, clean_up)
    const struct CMUnitTest tests[] = {
        T(a_file_that_shrinks_is_one_line),
        T(every_thread_has_its_own_answer),
        T(a_number_that_is_none_names_sample_and_file),
    };
#undef T

    return cmocka_run_group_tests(tests, NULL, NULL);
}
