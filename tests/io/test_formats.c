/* Every format against the numbers that were written, parts of samples
 * against the whole, and files that are wrong. */
#include "fixtures.h"

#include <math.h>
#include <zlib.h>
#ifdef PDL_HAVE_HDF5
#include <hdf5.h>
#endif

static unsigned char buf[1 << 20];

static pdl_io *open_ok(const char *path, const struct pdl_io_options *opt)
{
    struct pdl_err err = {"", ""};
    pdl_io *io = NULL;

    if (pdl_io_open(path, opt, &io, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    return io;
}

static void input_of(const pdl_io *io, int split, int64_t sample, void *dst)
{
    const struct pdl_dataset *d = pdl_io_describe(io);
    struct pdl_read r = {.split = split,
                         .samples = &sample,
                         .nsamples = 1,
                         .box = fx_all(&d->input)};

    assert_int_equal(pdl_io_input(io, &r, dst, NULL), PDL_OK);
}

static int32_t label_of(const pdl_io *io, int split, int64_t sample)
{
    const struct pdl_dataset *d = pdl_io_describe(io);
    struct pdl_read r = {.split = split,
                         .samples = &sample,
                         .nsamples = 1,
                         .box = fx_all(&d->target)};
    int32_t y[256];

    assert_int_equal(pdl_io_target(io, &r, y, NULL), PDL_OK);
    return y[0];
}

/* ---- fixtures, one a format ---- */

static void gzip(const char *name, size_t len)
{
    gzFile f = gzopen(fx(name), "wb");

    assert_non_null(f);
    assert_int_equal(gzwrite(f, buf, (unsigned)len), len);
    assert_int_equal(gzclose(f), Z_OK);
}

static void make_idx(void)
{
    fx_folder("idx");
    fx_write("idx/train-images-idx3-ubyte", buf, fx_idx(buf, 12, 5, 7));
    fx_write("idx/train-labels-idx1-ubyte", buf, fx_idx(buf, 12, 0, 0));
    gzip("idx/t10k-images-idx3-ubyte.gz", fx_idx(buf, 4, 5, 7));
    gzip("idx/t10k-labels-idx1-ubyte.gz", fx_idx(buf, 4, 0, 0));
}

static void make_cifar(void)
{
    fx_folder("cifar");
    fx_write("cifar/data_batch_1.bin", buf, fx_cifar(buf, 7, 1));
    fx_write("cifar/data_batch_2.bin", buf, fx_cifar(buf, 5, 1));
    fx_write("cifar/test_batch.bin", buf, fx_cifar(buf, 3, 1));
    fx_write("cifar100.bin", buf, fx_cifar(buf, 30, 2));
}

static void make_npy(void)
{
    static float x[6 * 2 * 5 * 4];
    static int64_t y[6] = {0, 1, 2, 2, 1, 0};
    unsigned char hwc[2 * 5 * 6 * 3];

    for (int i = 0; i < 240; i++)
        x[i] = (float)i / 8;
    for (size_t i = 0; i < sizeof hwc; i++)
        hwc[i] = (unsigned char)i;
    fx_folder("npy");
    fx_write("npy/x_train.npy", buf,
             fx_npy(buf, "<f4", "6, 2, 5, 4", x, sizeof x));
    fx_write("npy/y_train.npy", buf, fx_npy(buf, "<i8", "6,", y, sizeof y));
    fx_folder("hwc");
    fx_write("hwc/train_images.npy", buf,
             fx_npy(buf, "|u1", "2, 5, 6, 3", hwc, sizeof hwc));
    fx_write("hwc/train_labels.npy", buf, fx_npy(buf, "<i8", "2,", y, 16));
}

static void make_tokens(void)
{
    size_t n = 0;

    fx_folder("tokens");
    for (int i = 0; i < 1000; i++, n += 2) {
        buf[n] = (unsigned char)(i * 37 % 500);
        buf[n + 1] = (unsigned char)(i * 37 % 500 >> 8);
    }
    fx_write("tokens/train.bin", buf, n);
    fx_write("tokens/val.bin", buf, 400);
    memmove(buf + 1024, buf, n);
    memset(buf, 0, 1024);
    memcpy(buf, &(uint32_t){20240520}, 4);
    memcpy(buf + 4, &(uint32_t){1}, 4);
    memcpy(buf + 8, &(uint32_t){1000}, 4);
    fx_write("headed.bin", buf, n + 1024);
    for (int i = 0; i < 1000; i++)
        memcpy(buf + 4 * i, &(uint32_t){(uint32_t)(i * 131) % 128256}, 4);
    fx_write("wide.bin", buf, 4000);
}

static void make_text(void)
{
    size_t n = 0;

    for (int i = 0; i < 60; i++)
        n += (size_t)snprintf((char *)buf + n, 64,
                              "First Citizen: line %d,\nspeak.\n", i);
    fx_write("play.txt", buf, n);
    fx_text("table.csv", "a,b,c\n1,2,0.5\n-4,5,1\n0,0,2.25\n");
}

#ifdef PDL_HAVE_HDF5
static void h5_array(hid_t f, const char *name, hid_t type, int ndims,
                     const hsize_t *dim, const void *data)
{
    hid_t s = H5Screate_simple(ndims, dim, NULL);
    hid_t d =
        H5Dcreate2(f, name, type, s, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);

    assert_true(H5Dwrite(d, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0);
    H5Dclose(d);
    H5Sclose(s);
}

static void make_hdf5(void)
{
    static float x[5 * 2 * 4 * 6 * 3];
    unsigned char small[4 * 6 * 6];
    int32_t y[5] = {3, 0, 1, 2, 3};
    hid_t f;

    for (size_t i = 0; i < sizeof x / sizeof x[0]; i++)
        x[i] = (float)i;
    for (size_t i = 0; i < sizeof small; i++)
        small[i] = (unsigned char)i;
    f = H5Fcreate(fx("a.h5"), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    H5Gclose(H5Gcreate2(f, "/train", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    H5Gclose(H5Gcreate2(f, "/test", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    h5_array(f, "/train/x", H5T_NATIVE_FLOAT, 5, (hsize_t[]){5, 2, 4, 6, 3}, x);
    h5_array(f, "/train/y", H5T_NATIVE_INT32, 1, (hsize_t[]){5}, y);
    h5_array(f, "/test/x", H5T_NATIVE_FLOAT, 5, (hsize_t[]){1, 2, 4, 6, 3}, x);
    h5_array(f, "/test/y", H5T_NATIVE_INT32, 1, (hsize_t[]){1}, y);
    H5Fclose(f);
    f = H5Fcreate(fx("flat.h5"), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    h5_array(f, "/images", H5T_NATIVE_UCHAR, 3, (hsize_t[]){4, 6, 6}, small);
    h5_array(f, "/labels", H5T_NATIVE_INT32, 1, (hsize_t[]){4}, y);
    H5Fclose(f);
}
#endif

static int begin(void **state)
{
    (void)state;
    fx_begin();
    make_idx();
    make_cifar();
    make_npy();
    make_tokens();
    make_text();
#ifdef PDL_HAVE_HDF5
    make_hdf5();
#endif
    return 0;
}

static int end(void **state)
{
    (void)state;
    fx_end();
    return 0;
}

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

static const struct fixture {
    const char *path, *format;
} fixtures[] = {
    {"synthetic", "synthetic"},
    {"idx", "idx"},
    {"cifar", "cifar"},
    {"npy", "npy"},
    {"hwc", "npy"},
    {"tokens", "tokens"},
    {"play.txt", "text"},
    {"digits", "csv"},
#ifdef PDL_HAVE_HDF5
    {"a.h5", "hdf5"},
#else
    {NULL, "hdf5"},
#endif
};
enum { NFIXTURES = sizeof fixtures / sizeof fixtures[0] };

static pdl_io *open_fixture(int i)
{
    static const struct pdl_io_options opt = {.sequence = 24};
    const char *path = fixtures[i].path;

    if (!path)
        return NULL;
    if (strcmp(path, "digits") != 0 && strcmp(path, "synthetic") != 0)
        path = fx(path);
    return open_ok(path, &opt);
}

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

/* ---- augmentation ---- */

/* Crop and flip by hand, pixel by pixel, must be one of the possible ones. */
static void crops_and_flips_are_shifts_of_the_image(void **state)
{
    pdl_io *io = open_fixture(1);
    const struct pdl_dataset *d = pdl_io_describe(io);
    struct pdl_augment g = {.pad = 2, .flip = true, .seed = 1};
    int64_t sample = 3, h = d->input.dim[1], w = d->input.dim[2];
    struct pdl_read r = {.samples = &sample,
                         .nsamples = 1,
                         .box = fx_all(&d->input),
                         .augment = &g};
    float plain[35], x[35];
    int seen[2][5][5] = {{{0}}}, kinds = 0;

    (void)state;
    input_of(io, 0, sample, plain);
    for (g.epoch = 0; g.epoch < 400; g.epoch++) {
        int fits = 0;

        assert_int_equal(pdl_io_input(io, &r, x, NULL), PDL_OK);
        for (int k = 0; k < 50; k++) {
            int64_t down = k / 10 - 2, right = k / 2 % 5 - 2;
            bool same = true;

            for (int64_t i = 0; i < h * w && same; i++) {
                int64_t y = i / w + down;
                int64_t c = (k % 2 ? w - 1 - i % w : i % w) + right;
                bool in = y >= 0 && y < h && c >= 0 && c < w;

                same = x[i] == (in ? plain[y * w + c] : 0);
            }
            fits += same;
            seen[k % 2][down + 2][right + 2] += same;
        }
        assert_int_equal(fits, 1);
    }
    for (int k = 0; k < 50; k++)
        kinds += seen[k % 2][k / 10][k / 2 % 5] > 0;
    assert_int_equal(kinds, 50); /* of 400 draws, all occur */
    pdl_io_close(io);
}

static void augmentation_does_not_depend_on_the_batch(void **state)
{
    pdl_io *io = open_fixture(2);
    const struct pdl_dataset *d = pdl_io_describe(io);
    struct pdl_augment g = {.pad = 4, .flip = true, .seed = 5, .epoch = 2};
    int64_t samples[6] = {4, 1, 9, 0, 11, 3};
    struct pdl_read r = {.samples = samples,
                         .nsamples = 6,
                         .box = fx_all(&d->input),
                         .augment = &g};
    static float all[6 * 3072], one[3072], other[3072];

    (void)state;
    assert_int_equal(pdl_io_input(io, &r, all, NULL), PDL_OK);
    for (int i = 0; i < 6; i++) {
        r.samples = &samples[i];
        r.nsamples = 1;
        assert_int_equal(pdl_io_input(io, &r, one, NULL), PDL_OK);
        assert_memory_equal(one, all + (ptrdiff_t)i * 3072, sizeof one);
    }
    g.epoch++;
    assert_int_equal(pdl_io_input(io, &r, other, NULL), PDL_OK);
    assert_memory_not_equal(one, other, sizeof one);
    pdl_io_close(io);
}

static void normalised_samples_have_mean_0_and_deviation_1(void **state)
{
    pdl_io *io = open_ok("digits", NULL);
    const struct pdl_dataset *d = pdl_io_describe(io);
    struct pdl_augment g = {0};
    double sum = 0, square = 0;

    (void)state;
    assert_int_equal(pdl_io_moments(io, 0, 1 << 20, &g, NULL), PDL_OK);
    for (int64_t s = 0; s < d->split[0].samples; s++) {
        struct pdl_read r = {.samples = &s,
                             .nsamples = 1,
                             .box = fx_all(&d->input),
                             .augment = &g};
        float x[64];

        assert_int_equal(pdl_io_input(io, &r, x, NULL), PDL_OK);
        for (int e = 0; e < 64; e++) {
            sum += x[e];
            square += (double)x[e] * x[e];
        }
    }
    sum /= (double)d->split[0].samples * 64;
    square /= (double)d->split[0].samples * 64;
    assert_true(fabs(sum) < 1e-4 && fabs(square - 1) < 1e-4);
    pdl_io_close(io);
}

/* ---- wrong files ---- */

static void refuse(const char *path, const struct pdl_io_options *opt,
                   enum pdl_status want, const char *words)
{
    struct pdl_err err = {"", ""};
    pdl_io *io = NULL;
    enum pdl_status st = pdl_io_open(path, opt, &io, &err);

    if (st != want || !strstr(err.msg, words))
        fail_msg("%s: %d '%s', not %d '%s'", path, st, err.msg, want, words);
    assert_null(io);
}

static void damaged_files_are_refused_in_one_line(void **state)
{
    size_t n = fx_idx(buf, 12, 5, 7);
    struct pdl_io_options tokens = {.format = "tokens", .sequence = 16};
    struct pdl_io_options cifar = {.format = "cifar"};

    (void)state;
    refuse(fx("nowhere"), NULL, PDL_EIO, "No such file");
    fx_folder("bad");
    refuse(fx("bad"), NULL, PDL_EPARSE, "no data set");
    fx_write("bad/train-images-idx3-ubyte", buf, n - 1);
    refuse(fx("bad"), NULL, PDL_EPARSE, "no file with its labels");
    fx_write("bad/train-labels-idx1-ubyte", buf, fx_idx(buf, 11, 0, 0));
    refuse(fx("bad"), NULL, PDL_EPARSE, "announces 420 bytes");
    fx_write("bad/train-images-idx3-ubyte", buf, fx_idx(buf, 12, 5, 7));
    refuse(fx("bad"), NULL, PDL_EPARSE, "12 inputs but 11 targets");
    fx_text("empty.bin", "");
    refuse(fx("empty.bin"), NULL, PDL_EPARSE, "no data set");
    fx_write("short.bin", "\1\0\2\0", 4);
    refuse(fx("short.bin"), &tokens, PDL_EPARSE, "a sample takes 17");
    fx_write("odd.bin", "\1\0\2\0\3", 5);
    refuse(fx("odd.bin"), &tokens, PDL_EPARSE, "no whole number of tokens");
    memset(buf, 11, 3073);
    fx_write("label.bin", buf, 3073);
    refuse(fx("label.bin"), &cifar, PDL_EPARSE, "no CIFAR file");
    fx_text("ragged.csv", "1,2,3\n4,5\n");
    refuse(fx("ragged.csv"), NULL, PDL_EPARSE, "ragged.csv:2:");
    fx_text("word.csv", "1,2,3\n4,x,6\n");
    refuse(fx("word.csv"), NULL, PDL_EPARSE, "'x' is not a number");
    refuse(fx("idx"), &(struct pdl_io_options){.format = "idxx"}, PDL_EINVAL,
           "'idxx'");
    refuse(fx("idx/train-labels-idx1-ubyte"), NULL, PDL_EPARSE, "one file");
    fx_write("x.h5", "\x89HDF\r\n\x1a\nrubbish", 15);
#ifdef PDL_HAVE_HDF5
    refuse(fx("x.h5"), NULL, PDL_EPARSE, "damaged HDF5");
    refuse(fx("flat.h5"), NULL, PDL_EPARSE, "no data set /x");
#else
    refuse(fx("x.h5"), NULL, PDL_ENOENV, "without HDF5");
#endif
}

/* The arena's limit bounds what a gzip bomb can cost. */
static void a_bomb_does_not_fill_memory(void **state)
{
    struct pdl_io_options opt = {.max_bytes = 1 << 20};
    gzFile f;

    (void)state;
    fx_folder("bomb");
    memset(buf, 0, sizeof buf);
    f = gzopen(fx("bomb/train-images-idx3-ubyte.gz"), "wb9");
    buf[2] = 8;
    buf[3] = 3;
    for (int i = 0; i < 8; i++)
        assert_true(gzwrite(f, buf, sizeof buf) > 0);
    gzclose(f);
    fx_write("bomb/train-labels-idx1-ubyte", buf, fx_idx(buf, 2, 0, 0));
    refuse(fx("bomb"), &opt, PDL_EPARSE, "inflates to more than");
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
        cmocka_unit_test(crops_and_flips_are_shifts_of_the_image),
        cmocka_unit_test(augmentation_does_not_depend_on_the_batch),
        cmocka_unit_test(normalised_samples_have_mean_0_and_deviation_1),
        cmocka_unit_test(damaged_files_are_refused_in_one_line),
        cmocka_unit_test(a_bomb_does_not_fill_memory),
        cmocka_unit_test(mnist_is_mnist),
        cmocka_unit_test(tiny_shakespeare_has_65_characters),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
