/* Folders and files for the tests of io: one small data set in every format,
 * made from the same numbers. */
#ifndef FIXTURES_H
#define FIXTURES_H

#include "paradl/io.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A folder of this process, removed by fx_end. */
static char fx_dir[64];

static inline const char *fx_begin(void)
{
    snprintf(fx_dir, sizeof fx_dir, "/tmp/paradl-io-XXXXXX");
    assert_non_null(mkdtemp(fx_dir));
    return fx_dir;
}

static inline int fx_remove_one(const char *path, const struct stat *sb,
                                int flag, struct FTW *at)
{
    (void)sb;
    (void)flag;
    (void)at;
    return remove(path);
}

static inline void fx_remove(const char *path)
{
    nftw(path, fx_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static inline void fx_end(void)
{
    fx_remove(fx_dir);
}

/* A path in the folder; four at a time. */
static inline const char *fx(const char *name)
{
    static char path[4][256];
    static int k;

    k = (k + 1) % 4;
    snprintf(path[k], sizeof path[k], "%s/%s", fx_dir, name);
    return path[k];
}

static inline void fx_write(const char *name, const void *data, size_t len)
{
    FILE *f = fopen(fx(name), "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

static inline void fx_text(const char *name, const char *text)
{
    fx_write(name, text, strlen(text));
}

static inline void fx_folder(const char *name)
{
    assert_int_equal(mkdir(fx(name), 0777), 0);
}

/* ---- the same numbers everywhere ---- */

static inline unsigned char fx_pixel(int64_t sample, int64_t element)
{
    return (unsigned char)(sample * 31 + element * 7 + element / 5);
}

static inline size_t fx_be32(unsigned char *p, int64_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (unsigned char)(v >> (24 - 8 * i));
    return 4;
}

/* An IDX file of n samples of h x w (0: labels, sample % 10). */
static inline size_t fx_idx(unsigned char *p, int n, int h, int w)
{
    size_t len = 4;

    memset(p, 0, 4);
    p[2] = 8;
    p[3] = h ? 3 : 1;
    len += fx_be32(p + len, n);
    if (h) {
        len += fx_be32(p + len, h);
        len += fx_be32(p + len, w);
    }
    for (int i = 0; i < n; i++)
        for (int e = 0; e < (h ? h * w : 1); e++)
            p[len++] = (unsigned char)(h ? fx_pixel(i, e) : (i * 3 + 1) % 10);
    return len;
}

/* CIFAR records; labels 1 or 2 bytes. */
static inline size_t fx_cifar(unsigned char *p, int n, int labels)
{
    size_t len = 0;

    for (int i = 0; i < n; i++) {
        if (labels == 2)
            p[len++] = (unsigned char)(i % 20);
        p[len++] = (unsigned char)(i % (labels == 2 ? 100 : 10));
        for (int e = 0; e < 3072; e++)
            p[len++] = fx_pixel(i, e);
    }
    return len;
}

/* A NumPy file: header padded to 64, then the data as given. */
static inline size_t fx_npy(unsigned char *p, const char *descr,
                            const char *shape, const void *data, size_t bytes)
{
    char header[119];
    int n = snprintf(header, sizeof header,
                     "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }",
                     descr, shape);

    memset(header + n, ' ', sizeof header - (size_t)n);
    header[117] = '\n';
    memcpy(p, "\x93NUMPY\x01\x00\x76\x00", 10);
    memcpy(p + 10, header, 118);
    memcpy(p + 128, data, bytes);
    return 128 + bytes;
}

static inline struct pdl_box fx_all(const struct pdl_field *f)
{
    return pdl_field_box(f);
}

#endif
