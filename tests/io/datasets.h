/* A small data set in every format, written from known numbers when a group of
 * tests begins, and how to open and read it. */
#ifndef IO_DATASETS_H
#define IO_DATASETS_H

#include "fixtures.h"

#include <math.h>
#include <zlib.h>
#ifdef PDL_HAVE_HDF5
#include <hdf5.h>
#endif

static unsigned char buf[1 << 20];

static inline pdl_io *open_ok(const char *path,
                              const struct pdl_io_options *opt)
{
    struct pdl_err err = {"", ""};
    pdl_io *io = NULL;

    if (pdl_io_open(path, opt, &io, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    return io;
}

static inline void input_of(const pdl_io *io, int split, int64_t sample,
                            void *dst)
{
    const struct pdl_dataset *d = pdl_io_describe(io);
    struct pdl_read r = {.split = split,
                         .samples = &sample,
                         .nsamples = 1,
                         .box = fx_all(&d->input)};

    assert_int_equal(pdl_io_input(io, &r, dst, NULL), PDL_OK);
}

static inline int32_t label_of(const pdl_io *io, int split, int64_t sample)
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

static inline void gzip(const char *name, size_t len)
{
    gzFile f = gzopen(fx(name), "wb");

    assert_non_null(f);
    assert_int_equal(gzwrite(f, buf, (unsigned)len), len);
    assert_int_equal(gzclose(f), Z_OK);
}

static inline void make_idx(void)
{
    fx_folder("idx");
    fx_write("idx/train-images-idx3-ubyte", buf, fx_idx(buf, 12, 5, 7));
    fx_write("idx/train-labels-idx1-ubyte", buf, fx_idx(buf, 12, 0, 0));
    gzip("idx/t10k-images-idx3-ubyte.gz", fx_idx(buf, 4, 5, 7));
    gzip("idx/t10k-labels-idx1-ubyte.gz", fx_idx(buf, 4, 0, 0));
}

static inline void make_cifar(void)
{
    fx_folder("cifar");
    fx_write("cifar/data_batch_1.bin", buf, fx_cifar(buf, 7, 1));
    fx_write("cifar/data_batch_2.bin", buf, fx_cifar(buf, 5, 1));
    fx_write("cifar/test_batch.bin", buf, fx_cifar(buf, 3, 1));
    fx_write("cifar100.bin", buf, fx_cifar(buf, 30, 2));
}

static inline void make_npy(void)
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

static inline void make_tokens(void)
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

static inline void make_text(void)
{
    size_t n = 0;

    for (int i = 0; i < 60; i++)
        n += (size_t)snprintf((char *)buf + n, 64,
                              "First Citizen: line %d,\nspeak.\n", i);
    fx_write("play.txt", buf, n);
    fx_text("table.csv", "a,b,c\n1,2,0.5\n-4,5,1\n0,0,2.25\n");
}

#ifdef PDL_HAVE_HDF5
static inline void h5_array(hid_t f, const char *name, hid_t type, int ndims,
                            const hsize_t *dim, const void *data)
{
    hid_t s = H5Screate_simple(ndims, dim, NULL);
    hid_t d =
        H5Dcreate2(f, name, type, s, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);

    assert_true(H5Dwrite(d, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0);
    H5Dclose(d);
    H5Sclose(s);
}

static inline void make_hdf5(void)
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

static inline int begin(void **state)
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

static inline int end(void **state)
{
    (void)state;
    fx_end();
    return 0;
}

/* ---- what the tests of all formats walk ---- */

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
    {NULL, "images"}, /* test_images.c makes those */
    {NULL, "webdataset"},
#ifdef PDL_HAVE_HDF5
    {"a.h5", "hdf5"},
#else
    {NULL, "hdf5"},
#endif
};
enum { NFIXTURES = sizeof fixtures / sizeof fixtures[0] };

static inline pdl_io *open_fixture(int i)
{
    static const struct pdl_io_options opt = {.sequence = 24};
    const char *path = fixtures[i].path;

    if (!path)
        return NULL;
    if (strcmp(path, "digits") != 0 && strcmp(path, "synthetic") != 0)
        path = fx(path);
    return open_ok(path, &opt);
}

#endif
