/* Folders of JPEG files and WebDataset's tar files: the images that were
 * written, scaled, with their classes; what is damaged is one line. */
#include "datasets.h"

#ifdef PDL_HAVE_JPEG

#include "images.h"

#include <jpeglib.h>
#include <sys/stat.h>
#include <unistd.h>

/* A smooth colour picture that says who it is: the class in red, the number in
 * green, a slope from left to right in blue. */
static void fill_row(unsigned char *row, int w, int y, int label, int number)
{
    for (int x = 0; x < w; x++) {
        row[3 * x] = (unsigned char)(40 + label * 60);
        row[3 * x + 1] = (unsigned char)(30 + number * 20);
        row[3 * x + 2] = (unsigned char)(x * 255 / w);
        for (int c = 0; label < 0 && c < 3; c++) /* of nothing in particular */
            row[3 * x + c] = (unsigned char)(x * y * (c + 2) % 251);
    }
}

static size_t make_jpeg(unsigned char *out, size_t room, int w, int h,
                        int label, int number)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr e;
    unsigned char *mem = NULL, *row = malloc((size_t)w * 3);
    unsigned long len = 0;

    c.err = jpeg_std_error(&e);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &mem, &len);
    c.image_width = (JDIMENSION)w;
    c.image_height = (JDIMENSION)h;
    c.input_components = 3;
    c.in_color_space = JCS_RGB;
    jpeg_set_defaults(&c);
    jpeg_set_quality(&c, 95, TRUE);
    jpeg_start_compress(&c, TRUE);
    while (c.next_scanline < c.image_height) {
        fill_row(row, w, (int)c.next_scanline, label, number);
        jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    assert_true(len <= room);
    memcpy(out, mem, len);
    free(mem);
    free(row);
    return len;
}

static void near(float v, int want)
{
    if (fabs((double)v * 255 - want) > 6)
        fail_msg("%g where %d is expected", (double)v * 255, want);
}

static void is_picture(const pdl_io *io, int split, int64_t i, int label,
                       int number)
{
    static float x[3 * 16 * 16];

    assert_int_equal(label_of(io, split, i), label);
    input_of(io, split, i, x);
    near(x[5 * 16 + 3], 40 + label * 60);
    near(x[256 + 2 * 16 + 9], 30 + number * 20);
    assert_true(x[512 + 15] > x[512] + 0.08F);
    assert_true(fabs((double)x[512 + 8] - 0.5) < 0.1); /* the middle */
}

static struct pdl_io_options small(void)
{
    return (struct pdl_io_options){.side = 16};
}

/* ---- folders ---- */

static void make_folders(void)
{
    static const char *const parts[] = {
        "pics",           "pics/train", "pics/train/ape", "pics/train/bee",
        "pics/train/cat", "pics/val",   "pics/val/ape",   "pics/val/cat"};
    static unsigned char mem[1 << 16];
    char name[64];

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        fx_folder(parts[i]);
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < 4; i++) {
            size_t n =
                make_jpeg(mem, sizeof mem, 64 + 40 * i, 48 + 16 * c, c, i);

            snprintf(name, sizeof name, "%s/%02d.JPG", parts[2 + c], i);
            fx_write(name, mem, n);
        }
    fx_write("pics/train/ape/notes.txt", "x", 1);
    fx_write("pics/val/ape/a.jpeg", mem,
             make_jpeg(mem, sizeof mem, 20, 20, 0, 9));
    fx_write("pics/val/cat/a.jpg", mem,
             make_jpeg(mem, sizeof mem, 300, 40, 2, 9));
}

static void folders_are_classes(void **state)
{
    struct pdl_io_options opt = small();
    const struct pdl_dataset *d;
    pdl_io *io;

    (void)state;
    make_folders();
    io = open_ok(fx("pics"), &opt);
    d = pdl_io_describe(io);
    assert_string_equal(d->format, "images");
    assert_int_equal(d->classes, 3);
    assert_int_equal(d->nsplits, 2);
    assert_int_equal(d->split[0].samples, 12);
    assert_string_equal(d->split[1].name, "test");
    assert_int_equal(d->split[1].samples, 2);
    for (int i = 0; i < 12; i++)
        is_picture(io, 0, i, i / 4, i % 4);
    is_picture(io, 1, 0, 0, 9);
    is_picture(io, 1, 1, 2, 9);
    pdl_io_close(io);
    io = open_ok(fx("pics/train"), &opt); /* no splits */
    assert_int_equal(pdl_io_describe(io)->nsplits, 1);
    is_picture(io, 0, 5, 1, 1);
    pdl_io_close(io);
}

/* ---- scaling ---- */

static void decode_plainly(const unsigned char *in, size_t n,
                           unsigned char *rgb)
{
    struct jpeg_decompress_struct j;
    struct jpeg_error_mgr e;

    j.err = jpeg_std_error(&e);
    jpeg_create_decompress(&j);
    jpeg_mem_src(&j, in, n);
    jpeg_read_header(&j, TRUE);
    j.out_color_space = JCS_RGB;
    jpeg_start_decompress(&j);
    while (j.output_scanline < j.output_height) {
        JSAMPROW row = rgb + (size_t)j.output_scanline * j.output_width * 3;

        jpeg_read_scanlines(&j, &row, 1);
    }
    jpeg_finish_decompress(&j);
    jpeg_destroy_decompress(&j);
}

/* 40 x 40, every row the same, with Adobe's mark or without. */
static size_t make_inks(unsigned char *out, size_t room, unsigned char *row,
                        bool adobe)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr e;
    unsigned char *mem = NULL;
    unsigned long len = 0;

    c.err = jpeg_std_error(&e);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &mem, &len);
    c.image_width = c.image_height = 40;
    c.input_components = 4;
    c.in_color_space = JCS_CMYK;
    jpeg_set_defaults(&c);
    jpeg_set_quality(&c, 95, TRUE);
    c.write_Adobe_marker = adobe ? TRUE : FALSE;
    jpeg_start_compress(&c, TRUE);
    while (c.next_scanline < 40)
        jpeg_write_scanlines(&c, &row, 1);
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    assert_true(len <= room);
    memcpy(out, mem, len);
    free(mem);
    return len;
}

/* A pixel of the middle, between four of the image, in float64. */
static double between_four(const unsigned char *rgb, int w, int h, int side,
                           const int at[3])
{
    double step = (double)(w < h ? w : h) / side;
    double y = (h - step * side) / 2 + (at[1] + 0.5) * step - 0.5;
    double x = (w - step * side) / 2 + (at[2] + 0.5) * step - 0.5;
    int i[2], k[2];
    double p, q;

    y = fmin(fmax(y, 0), h - 1);
    x = fmin(fmax(x, 0), w - 1);
    i[0] = (int)y;
    k[0] = (int)x;
    i[1] = i[0] + 1 < h ? i[0] + 1 : i[0];
    k[1] = k[0] + 1 < w ? k[0] + 1 : k[0];
    x -= k[0];
    y -= i[0];
#define AT(a, b) rgb[(i[a] * w + k[b]) * 3 + at[0]]
    p = AT(0, 0) * (1 - x) + AT(0, 1) * x;
    q = AT(1, 0) * (1 - x) + AT(1, 1) * x;
#undef AT
    return p * (1 - y) + q * y;
}

/* Inks instead of colours, as a few images of ImageNet have them. */
static void inks_become_colours(void **state)
{
    static const unsigned char inks[] = {55, 155, 205, 225};
    static unsigned char jpeg[1 << 14], row[4 * 40], out[3 * 20 * 20];
    struct pdl_err err = {"", ""};

    (void)state;
    for (int i = 0; i < 160; i++)
        row[i] = inks[i % 4];
    for (int adobe = 0; adobe < 2; adobe++) {
        size_t n = make_inks(jpeg, sizeof jpeg, row, adobe);
        struct pdl_bytes in = {(const char *)jpeg, n};

        assert_int_equal(io_jpeg_decode(in, "x", 20, out, &err), PDL_OK);
        for (int c = 0; c < 3; c++) {
            int ink = adobe ? inks[c] : 255 - inks[c];
            int black = adobe ? inks[3] : 255 - inks[3];

            assert_true(abs(out[400 * c + 210] - ink * black / 255) < 4);
        }
    }
}

/* Wide, high, of one pixel's width more, and made larger; no halving. */
static void images_are_scaled_between_pixels(void **state)
{
    static const int sizes[][2] = {{190, 60}, {45, 180}, {57, 56}, {9, 9},
                                   {40, 200}, {61, 33},  {1, 7}};
    static unsigned char jpeg[1 << 16], rgb[1 << 17], out[3 * 40 * 40];
    enum { SIDE = 40 };
    struct pdl_err err = {"", ""};

    (void)state;
    for (size_t n = 0; n < sizeof sizes / sizeof sizes[0]; n++) {
        int w = sizes[n][0], h = sizes[n][1], at[3];
        size_t len = make_jpeg(jpeg, sizeof jpeg, w, h, -1, 0);
        struct pdl_bytes in = {(const char *)jpeg, len};

        decode_plainly(jpeg, len, rgb);
        assert_int_equal(io_jpeg_decode(in, "x", SIDE, out, &err), PDL_OK);
        for (int i = 0; i < 3 * SIDE * SIDE; i++) {
            at[0] = i / SIDE / SIDE;
            at[1] = i / SIDE % SIDE;
            at[2] = i % SIDE;
            if (fabs(between_four(rgb, w, h, SIDE, at) - out[i]) > 0.7)
                fail_msg("%dx%d at %d: %d, not %g", w, h, i, out[i],
                         between_four(rgb, w, h, SIDE, at));
        }
    }
}

static void damaged(const char *name, const void *data, size_t n,
                    const char *why)
{
    struct pdl_io_options opt = small();
    struct pdl_err err = {"", ""};
    int64_t i = 0;
    static float x[768];
    pdl_io *io;
    struct pdl_read r = {.nsamples = 1, .samples = &i};

    fx_write(name, data, n);
    io = open_ok(fx("bad"), &opt);
    r.box = fx_all(&pdl_io_describe(io)->input);
    assert_int_equal(pdl_io_input(io, &r, x, &err), PDL_EPARSE);
    assert_non_null(strstr(err.msg, why));
    assert_non_null(strstr(err.msg, "bad/one/a.jpg"));
    assert_null(strchr(err.msg, '\n'));
    pdl_io_close(io);
}

static void damaged_images_are_one_line(void **state)
{
    static unsigned char mem[1 << 16];
    size_t n = make_jpeg(mem, sizeof mem, 100, 100, 1, 1);
    struct pdl_io_options opt = small();
    struct pdl_err err = {"", ""};
    pdl_io *io = NULL;

    (void)state;
    fx_folder("bad");
    fx_folder("bad/one");
    damaged("bad/one/a.jpg", "no picture", 10, "JPEG");
    damaged("bad/one/a.jpg", "\x89PNG\r\n", 6, "Not a JPEG file");
    damaged("bad/one/a.jpg", mem, n / 2, "JPEG");
    fx_folder("pics/val/dog");
    fx_write("pics/val/dog/a.jpg", mem, n);
    assert_int_equal(pdl_io_open(fx("pics"), &opt, &io, &err), PDL_EPARSE);
    assert_non_null(strstr(err.msg, "val/dog: a class"));
}

/* ---- tar ---- */

static size_t put_entry(unsigned char *out, const char *name, const void *data,
                        size_t n)
{
    unsigned sum = 0;

    memset(out, 0, 512 + (n + 511) / 512 * 512);
    snprintf((char *)out, 100, "%s", name);
    snprintf((char *)out + 124, 12, "%011o", (unsigned)n);
    out[156] = '0';
    memcpy(out + 257, "ustar\00000", 8);
    memset(out + 148, ' ', 8);
    for (int i = 0; i < 512; i++)
        sum += out[i];
    snprintf((char *)out + 148, 8, "%06o", sum);
    memcpy(out + 512, data, n);
    return 512 + (n + 511) / 512 * 512;
}

static size_t put_sample(unsigned char *out, int label, int number)
{
    static unsigned char mem[1 << 16];
    char name[64], text[16];
    size_t n = make_jpeg(mem, sizeof mem, 50, 40, label, number), at;

    snprintf(name, sizeof name, "set/%04d.jpg", number);
    at = put_entry(out, name, mem, n);
    snprintf(name, sizeof name, "set/%04d.json", number);
    at += put_entry(out + at, name, "{}", 2);
    snprintf(name, sizeof name, "set/%04d.cls", number);
    snprintf(text, sizeof text, "%d\n", label);
    return at + put_entry(out + at, name, text, strlen(text));
}

static unsigned char tar[1 << 18];

static size_t make_tar(const char *name, int from, int to)
{
    size_t n = 0;

    for (int i = from; i < to; i++)
        n += put_sample(tar + n, i % 3, i);
    memset(tar + n, 0, 1024);
    fx_write(name, tar, n + 1024);
    return n + 1024;
}

static void tar_files_are_shards(void **state)
{
    struct pdl_io_options opt = small();
    const struct pdl_dataset *d;
    pdl_io *io;

    (void)state;
    fx_folder("wds");
    make_tar("wds/train-000.tar", 0, 4);
    make_tar("wds/train-001.tar", 4, 7);
    make_tar("wds/val-000.tar", 7, 9);
    io = open_ok(fx("wds"), &opt);
    d = pdl_io_describe(io);
    assert_string_equal(d->format, "webdataset");
    assert_int_equal(d->classes, 3);
    assert_int_equal(d->split[0].samples, 7);
    assert_int_equal(d->split[1].samples, 2);
    for (int i = 0; i < 7; i++)
        is_picture(io, 0, i, i % 3, i);
    is_picture(io, 1, 1, 8 % 3, 8);
    pdl_io_close(io);
    io = open_ok(fx("wds/train-001.tar"), &opt);
    is_picture(io, 0, 0, 1, 4);
    pdl_io_close(io);
}

static void bad_tar(size_t n, const char *why)
{
    struct pdl_io_options opt = small();
    struct pdl_err err = {"", ""};
    pdl_io *io = NULL;

    fx_write("bad.tar", tar, n);
    assert_int_equal(pdl_io_open(fx("bad.tar"), &opt, &io, &err), PDL_EPARSE);
    assert_non_null(strstr(err.msg, why));
    assert_null(strchr(err.msg, '\n'));
}

static void damaged_tar_files_are_one_line(void **state)
{
    size_t n = make_tar("whole.tar", 0, 2);

    (void)state;
    bad_tar(700, "damaged at byte 0");
    tar[20] ^= 1; /* a name: the header's sum is another */
    bad_tar(n, "damaged at byte 0");
    n = put_entry(tar, "a.jpg", "x", 1);
    memset(tar + n, 0, 1024);
    bad_tar(n + 1024, "no .cls");
    n += put_entry(tar + n, "a.cls", "seven", 5);
    memset(tar + n, 0, 1024);
    bad_tar(n + 1024, "no number of a class");
}

/* ---- into a store ---- */

/* side: of small images records are copied, of large ones written. */
static void holds_what_was_decoded(int64_t side)
{
    struct pdl_io_options opt = {.side = side};
    pdl_io *io = open_ok(fx("wds"), &opt), *over = NULL;
    struct pdl_err err = {"", ""};
    struct pdl_store_info info;
    static float a[3 * 96 * 96], b[3 * 96 * 96];
    int64_t ids[7] = {0, 1, 2, 3, 4, 5, 6}, n = 3 * side * side;
    struct pdl_store_fill f = {
        .source = io, .threads = 2, .samples = ids, .n = 7};
    pdl_store *s = NULL;

    remove(fx("w.store"));
    assert_int_equal(pdl_store_open(fx("w.store"), io, 0, 7, &s, &err), PDL_OK);
    assert_int_equal(pdl_store_fill(s, &f, &err), PDL_OK);
    pdl_store_describe(s, &info);
    assert_string_equal(info.elem, "u8");
    assert_int_equal(info.record_bytes, n + 8);
    assert_int_equal(pdl_io_over_store(io, s, 0, &over, &err), PDL_OK);
    for (int64_t i = 0; i < 7; i++) {
        input_of(io, 0, i, a);
        input_of(over, 0, i, b);
        assert_memory_equal(a, b, (size_t)n * sizeof a[0]);
    }
    pdl_io_close(over);
    pdl_store_close(s);
    pdl_io_close(io);
}

static void a_store_holds_what_was_decoded(void **state)
{
    (void)state;
    holds_what_was_decoded(16);
    holds_what_was_decoded(96);
}

/* Nor does its file grow again, with zeros for samples. */
static void a_file_that_was_cut_takes_no_large_image(void **state)
{
    struct pdl_io_options opt = {.side = 96};
    pdl_io *io = open_ok(fx("wds"), &opt);
    static unsigned char record[3 * 96 * 96 + 8];
    struct pdl_err err = {"", ""};
    pdl_store *s = NULL;
    struct stat sb;

    (void)state;
    remove(fx("w.store"));
    assert_int_equal(pdl_store_open(fx("w.store"), io, 0, 7, &s, &err), PDL_OK);
    assert_int_equal(pdl_store_encode(s, io, 0, 5, record, &err), PDL_OK);
    assert_int_equal(truncate(fx("w.store"), 9000), 0);
    assert_int_equal(pdl_store_put(s, 5, record, &err), PDL_EIO);
    assert_non_null(strstr(err.msg, "has become shorter"));
    assert_int_equal(stat(fx("w.store"), &sb), 0);
    assert_int_equal(sb.st_size, 9000);
    pdl_store_close(s);
    pdl_io_close(io);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folders_are_classes),
        cmocka_unit_test(images_are_scaled_between_pixels),
        cmocka_unit_test(inks_become_colours),
        cmocka_unit_test(damaged_images_are_one_line),
        cmocka_unit_test(tar_files_are_shards),
        cmocka_unit_test(damaged_tar_files_are_one_line),
        cmocka_unit_test(a_store_holds_what_was_decoded),
        cmocka_unit_test(a_file_that_was_cut_takes_no_large_image),
    };

    return cmocka_run_group_tests(tests, begin, end);
}

#else

int main(void)
{
    return 77;
}

#endif
