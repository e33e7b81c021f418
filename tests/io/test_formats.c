/* Every format against the numbers that were written, and parts of samples
 * against the whole. */
#include "datasets.h"

/* ---- each format says what was written ---- */

static void digits_ship_with_the_program(void **state)
{
    pdl_io *io = open_ok("digits", NULL);
    const struct pdl_dataset *d = pdl_io_describe(io);
    float x[64];
    int count[10] = {0};
    double sum = 0;

    (void)state;
    assert_string_equal(d->format, "csv");
    assert_int_equal(d->classes, 10);
    assert_int_equal(d->input.rank, 3);
    assert_int_equal(d->input.dim[0], 1);
    assert_int_equal(d->input.dim[1], 8);
    assert_int_equal(d->input.dim[2], 8);
    assert_int_equal(d->split[0].samples + d->split[1].samples, 1797);
    assert_int_equal(d->split[1].samples, 359);
    for (int64_t i = 0; i < d->split[1].samples; i++) {
        input_of(io, 1, i, x);
        for (int e = 0; e < 64; e++) {
            assert_true(x[e] >= 0 && x[e] <= 1);
            sum += x[e];
        }
        count[label_of(io, 1, i)]++;
    }
    for (int c = 0; c < 10; c++) /* the held-back part is no one class */
        assert_true(count[c] > 15);
    assert_true(sum / (359.0 * 64) > 0.2 && sum / (359.0 * 64) < 0.4);
    pdl_io_close(io);
}

static void idx_holds_what_was_written(void **state)
{
    pdl_io *io = open_ok(fx("idx"), NULL);
    const struct pdl_dataset *d = pdl_io_describe(io);
    float x[35];

    (void)state;
    assert_string_equal(d->format, "idx");
    assert_int_equal(d->nsplits, 2);
    assert_string_equal(d->split[0].name, "train");
    assert_int_equal(d->split[0].samples, 12);
    assert_string_equal(d->split[1].name, "test");
    assert_int_equal(d->split[1].samples, 4);
    for (int s = 0; s < 2; s++)
        for (int64_t i = 0; i < d->split[s].samples; i++) {
            input_of(io, s, i, x);
            for (int e = 0; e < 35; e++)
                assert_true(fabsf(x[e] - (float)fx_pixel(i, e) / 255) < 1e-6F);
            assert_int_equal(label_of(io, s, i), (i * 3 + 1) % 10);
        }
    pdl_io_close(io);
}

static void cifar_files_follow_one_another(void **state)
{
    pdl_io *io = open_ok(fx("cifar"), NULL);
    const struct pdl_dataset *d = pdl_io_describe(io);
    float x[3072];

    (void)state;
    assert_int_equal(d->split[0].samples, 12);
    assert_int_equal(d->classes, 10);
    for (int64_t i = 0; i < 12; i++) {
        int64_t k = i < 7 ? i : i - 7;

        input_of(io, 0, i, x);
        assert_int_equal(label_of(io, 0, i), k);
        for (int e = 0; e < 3072; e++)
            assert_true(fabsf(x[e] - (float)fx_pixel(k, e) / 255) < 1e-6F);
    }
    pdl_io_close(io);
    io = open_ok(fx("cifar100.bin"), NULL);
    assert_int_equal(pdl_io_describe(io)->classes, 100);
    assert_int_equal(label_of(io, 0, 29), 29);
    pdl_io_close(io);
}

static void numpy_arrays_are_read_in_both_orders(void **state)
{
    pdl_io *io = open_ok(fx("npy"), NULL);
    const struct pdl_dataset *d = pdl_io_describe(io);
    float x[90];

    (void)state;
    assert_int_equal(d->input.dim[0], 2);
    input_of(io, 0, 3, x);
    for (int e = 0; e < 40; e++)
        assert_true(x[e] == (float)(120 + e) / 8);
    assert_int_equal(label_of(io, 0, 3), 2);
    pdl_io_close(io);
    io = open_ok(fx("hwc"), NULL);
    d = pdl_io_describe(io);
    assert_int_equal(d->input.dim[0], 3);
    assert_int_equal(d->input.dim[1], 5);
    assert_int_equal(d->input.dim[2], 6);
    input_of(io, 0, 1, x);
    for (int c = 0; c < 3; c++)
        for (int e = 0; e < 30; e++)
            assert_true(fabsf(x[c * 30 + e] * 255 - (float)(90 + e * 3 + c)) <
                        1e-3F);
    pdl_io_close(io);
}

static void check_tokens(const char *path, uint32_t times, uint32_t classes)
{
    struct pdl_io_options opt = {.sequence = 16, .holdout = -1};
    pdl_io *io = open_ok(path, &opt);
    const struct pdl_dataset *d = pdl_io_describe(io);
    int32_t x[16], y[16];
    int64_t s = 11;
    struct pdl_read r = {
        .samples = &s, .nsamples = 1, .box = fx_all(&d->input)};

    assert_string_equal(d->format, "tokens");
    assert_int_equal(d->split[0].samples, 62); /* (1000 - 1) / 16 */
    assert_int_equal(pdl_io_input(io, &r, x, NULL), PDL_OK);
    assert_int_equal(pdl_io_target(io, &r, y, NULL), PDL_OK);
    for (int t = 0; t < 16; t++) {
        assert_int_equal(x[t], (176 + t) * (int)times % (int)classes);
        assert_int_equal(y[t], (177 + t) * (int)times % (int)classes);
    }
    pdl_io_close(io);
}

static void token_files_of_both_widths_and_with_a_header(void **state)
{
    (void)state;
    check_tokens(fx("tokens"), 37, 500);
    check_tokens(fx("headed.bin"), 37, 500);
    check_tokens(fx("wide.bin"), 131, 128256);
}

static void text_is_a_sequence_of_the_bytes_in_it(void **state)
{
    struct pdl_io_options opt = {.sequence = 8};
    pdl_io *io = open_ok(fx("play.txt"), &opt);
    const struct pdl_dataset *d = pdl_io_describe(io);
    int32_t x[8];

    (void)state;
    assert_string_equal(d->format, "text");
    assert_int_equal(d->nsplits, 2);
    assert_true(d->classes > 20 && d->classes < 40);
    input_of(io, 0, 0, x); /* "First Ci": i, r and the blank */
    assert_true(x[1] == x[7] && x[2] > x[1] && x[5] == 1);
    assert_int_equal(label_of(io, 0, 0), x[1]);
    pdl_io_close(io);
}

static void a_table_of_real_targets_is_a_regression(void **state)
{
    struct pdl_io_options opt = {.holdout = -1};
    pdl_io *io = open_ok(fx("table.csv"), &opt);
    const struct pdl_dataset *d = pdl_io_describe(io);
    int64_t s[3] = {0, 1, 2};
    struct pdl_read r = {
        .samples = s, .nsamples = 3, .box = fx_all(&d->target)};
    float y[3];

    (void)state;
    assert_int_equal(d->classes, 0);
    assert_false(d->target.integer);
    assert_int_equal(d->input.rank, 1);
    assert_int_equal(d->input.dim[0], 2);
    assert_int_equal(d->split[0].samples, 3);
    assert_int_equal(pdl_io_target(io, &r, y, NULL), PDL_OK);
    assert_true(y[0] + y[1] + y[2] == 3.75F);
    pdl_io_close(io);
}

static void hdf5_reads_groups_and_named_arrays(void **state)
{
#ifdef PDL_HAVE_HDF5
    struct pdl_io_options opt = {.input = "images", .target = "labels"};
    pdl_io *io = open_ok(fx("a.h5"), NULL);
    const struct pdl_dataset *d = pdl_io_describe(io);
    float x[144];

    (void)state;
    assert_int_equal(d->nsplits, 2);
    assert_int_equal(d->classes, 4);
    assert_int_equal(d->input.rank, 4);
    input_of(io, 0, 2, x);
    for (int e = 0; e < 144; e++)
        assert_true(x[e] == (float)(288 + e));
    assert_int_equal(label_of(io, 0, 3), 2);
    pdl_io_close(io);
    io = open_ok(fx("flat.h5"), &opt);
    d = pdl_io_describe(io);
    assert_int_equal(d->input.rank, 3);
    input_of(io, 0, 1, x);
    assert_true(fabsf(x[5] * 255 - 41) < 1e-3F);
    pdl_io_close(io);
#else
    (void)state;
    print_message("skipped: built without HDF5\n");
    skip();
#endif
}

static void synthetic_data_look_as_asked(void **state)
{
    struct pdl_dataset like = {
        .input = {true, 1, {12}},
        .target = {true, 1, {12}},
        .classes = 50,
        .nsplits = 1,
        .split = {{"train", 100}},
    };
    struct pdl_io_options opt = {.like = &like, .seed = 4};
    pdl_io *io = open_ok("synthetic", &opt);
    int32_t x[12], again[12];

    (void)state;
    assert_int_equal(pdl_io_describe(io)->split[0].samples, 100);
    input_of(io, 0, 7, x);
    input_of(io, 0, 7, again);
    assert_memory_equal(x, again, sizeof x);
    assert_int_equal(label_of(io, 0, 7), x[1]);
    input_of(io, 0, 8, again);
    assert_memory_not_equal(x, again, sizeof x);
    pdl_io_close(io);
}

/* ---- properties of all formats ---- */

static void every_format_has_a_fixture(void **state)
{
    (void)state;
    for (int i = 0; pdl_format_at(i); i++) {
        bool found = false;

        for (int k = 0; k < NFIXTURES; k++)
            found |= strcmp(fixtures[k].format, pdl_format_at(i)->name) == 0;
        assert_true(found);
    }
}

static int64_t pick(struct pdl_rng *r, int64_t n)
{
    return (int64_t)pdl_rng_below(r, (uint64_t)n);
}

/* Index in the stored box of a place of it. */
static int64_t stored_at(const struct pdl_box *b, const int64_t *at, bool last)
{
    int64_t i = 0;

    for (int k = 0; k < b->ndims; k++) {
        int d = last && b->ndims >= 3 ? (k + 1) % b->ndims : k;

        i = i * (b->hi[d] - b->lo[d]) + at[d] - b->lo[d];
    }
    return i;
}

/* Any box, in either layout, augmented or not, is that part of the whole
 * sample: ranks that share an image see one image. */
static void check_parts(const pdl_io *io, struct pdl_rng *rng)
{
    const struct pdl_dataset *d = pdl_io_describe(io);
    struct pdl_augment g = {.pad = pick(rng, 3),
                            .flip = pick(rng, 2),
                            .channels = 1,
                            .mean = {0.5F},
                            .std = {0.25F},
                            .seed = 9,
                            .epoch = pick(rng, 5)};
    int64_t sample[2] = {pick(rng, d->split[0].samples), 0};
    struct pdl_read whole = {
        .samples = sample, .nsamples = 2, .box = fx_all(&d->input)};
    struct pdl_read part;
    static uint32_t x[8192], y[8192];
    int64_t at[PDL_BOX_DIMS], n = pdl_box_volume(&whole.box), m;
    int k;

    whole.augment = d->input.integer || pick(rng, 3) == 0 ? NULL : &g;
    part = whole;
    part.channels_last = pick(rng, 2) && !d->input.integer;
    for (k = 0; k < d->input.rank; k++) {
        part.box.lo[k] = pick(rng, d->input.dim[k]);
        part.box.hi[k] =
            part.box.lo[k] + 1 + pick(rng, d->input.dim[k] - part.box.lo[k]);
    }
    m = pdl_box_volume(&part.box);
    assert_int_equal(pdl_io_input(io, &whole, x, NULL), PDL_OK);
    assert_int_equal(pdl_io_input(io, &part, y, NULL), PDL_OK);
    for (int s = 0; s < 2; s++) {
        memcpy(at, part.box.lo, sizeof at);
        do {
            assert_true(
                x[s * n + stored_at(&whole.box, at, false)] ==
                y[s * m + stored_at(&part.box, at, part.channels_last)]);
            for (k = d->input.rank - 1; k >= 0; k--) {
                if (++at[k] < part.box.hi[k])
                    break;
                at[k] = part.box.lo[k];
            }
        } while (k >= 0);
    }
}

static void a_part_is_that_part_of_the_whole(void **state)
{
    struct pdl_rng rng = {.key = 2};

    (void)state;
    for (int i = 0; i < NFIXTURES; i++) {
        pdl_io *io = open_fixture(i);

        for (int t = 0; io && t < 300; t++)
            check_parts(io, &rng);
        pdl_io_close(io);
    }
}

static void an_empty_part_or_no_samples_write_nothing(void **state)
{
    pdl_io *io = open_fixture(1);
    const struct pdl_dataset *d = pdl_io_describe(io);
    int64_t sample = 0;
    struct pdl_read r = {
        .samples = &sample, .nsamples = 1, .box = fx_all(&d->input)};
    float x = 42;

    (void)state;
    r.box.hi[1] = 0;
    assert_int_equal(pdl_io_input(io, &r, &x, NULL), PDL_OK);
    r.box = fx_all(&d->input);
    r.nsamples = 0;
    assert_int_equal(pdl_io_input(io, &r, &x, NULL), PDL_OK);
    assert_true(x == 42);
    pdl_io_close(io);
}

static void what_is_not_there_cannot_be_read(void **state)
{
    pdl_io *io = open_fixture(1);
    const struct pdl_dataset *d = pdl_io_describe(io);
    int64_t sample = d->split[0].samples;
    struct pdl_read r = {
        .samples = &sample, .nsamples = 1, .box = fx_all(&d->input)};
    float x[64];

    (void)state;
    assert_int_equal(pdl_io_input(io, &r, x, NULL), PDL_EINVAL);
    sample = 0;
    r.box.hi[2]++;
    assert_int_equal(pdl_io_input(io, &r, x, NULL), PDL_EINVAL);
    r.box.hi[2]--;
    r.split = 2;
    assert_int_equal(pdl_io_input(io, &r, x, NULL), PDL_EINVAL);
    pdl_io_close(io);
}

/* ---- real data, where they are ---- */

#define SHARED PDL_SOURCE_DIR "/../shared/data/datasets/"

static void mnist_is_mnist(void **state)
{
    pdl_io *io;
    struct pdl_augment g = {0};

    (void)state;
    if (access(SHARED "mnist", R_OK) != 0) {
        print_message("skipped: no shared MNIST beside the sources\n");
        skip();
    }
    io = open_ok(SHARED "mnist", NULL);
    assert_int_equal(pdl_io_describe(io)->split[0].samples, 60000);
    assert_int_equal(pdl_io_describe(io)->split[1].samples, 10000);
    assert_int_equal(label_of(io, 0, 0), 5);
    assert_int_equal(pdl_io_moments(io, 0, 60000, &g, NULL), PDL_OK);
    assert_true(fabsf(g.mean[0] - 0.1307F) < 1e-4F);
    assert_true(fabsf(g.std[0] - 0.3081F) < 1e-4F);
    pdl_io_close(io);
}

static void tiny_shakespeare_has_65_characters(void **state)
{
    pdl_io *io;

    (void)state;
    if (access(SHARED "tinyshakespeare.txt", R_OK) != 0) {
        print_message("skipped: no shared text beside the sources\n");
        skip();
    }
    io = open_ok(SHARED "tinyshakespeare.txt", NULL);
    assert_int_equal(pdl_io_describe(io)->classes, 65);
    assert_int_equal(pdl_io_describe(io)->split[0].samples, 3921);
    pdl_io_close(io);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digits_ship_with_the_program),
        cmocka_unit_test(idx_holds_what_was_written),
        cmocka_unit_test(cifar_files_follow_one_another),
        cmocka_unit_test(numpy_arrays_are_read_in_both_orders),
        cmocka_unit_test(token_files_of_both_widths_and_with_a_header),
        cmocka_unit_test(text_is_a_sequence_of_the_bytes_in_it),
        cmocka_unit_test(a_table_of_real_targets_is_a_regression),
        cmocka_unit_test(hdf5_reads_groups_and_named_arrays),
        cmocka_unit_test(synthetic_data_look_as_asked),
        cmocka_unit_test(every_format_has_a_fixture),
        cmocka_unit_test(a_part_is_that_part_of_the_whole),
        cmocka_unit_test(an_empty_part_or_no_samples_write_nothing),
        cmocka_unit_test(what_is_not_there_cannot_be_read),
        cmocka_unit_test(mnist_is_mnist),
        cmocka_unit_test(tiny_shakespeare_has_65_characters),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
