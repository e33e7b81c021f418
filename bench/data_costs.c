/* SPDX-License-Identifier: Apache-2.0
 *
 * What samples cost beside training, in processor time: the bookkeeping of a
 * sampler over 1.28 million samples, reads from a store against reads of the
 * same file in order, staging against reading the source and writing a file.
 *     ninja bench_data_costs && ./bench_data_costs [FOLDER] */
#include "paradl/io.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N = 1281167, BATCH = 8192, SAMPLES = 20000, TIMES = 5 };

static double best(double a, double b)
{
    return a > 0 && a < b ? a : b;
}

static void die(const struct pdl_err *err)
{
    fprintf(stderr, "%s\n", err->msg);
    exit(1);
}

/* ---- a sampler ----------------------------------------------------------- */

static void bookkeeping(const char *deal, const char *hide)
{
    struct pdl_sampler_options o = {.samples = N,
                                    .batch = BATCH,
                                    .epochs = 30,
                                    .workers = 512,
                                    .deal = deal,
                                    .hide = hide};
    static int64_t ids[BATCH];
    static double loss[BATCH];
    static bool right[BATCH];
    double saw = 0, next = 0;
    struct pdl_err err = {"", ""};
    pdl_sampler *s = NULL;

    if (pdl_sampler_create(&o, &s, &err) != PDL_OK)
        die(&err);
    pdl_sampler_next(s);
    for (int t = 0; t < TIMES; t++) {
        double from = pdl_cpu_s();

        for (int64_t i = 0; i + BATCH <= N; i += BATCH) {
            for (int64_t k = 0; k < BATCH; k++) {
                uint32_t x = (uint32_t)(i + k) * 2654435761U;

                ids[k] = i + k;
                loss[k] = (double)x * 1e-9;
                right[k] = x & 1;
            }
            pdl_sampler_saw_all(s, BATCH, ids, loss, right);
        }
        saw = best(saw, pdl_cpu_s() - from);
        from = pdl_cpu_s();
        pdl_sampler_next(s);
        next = best(next, pdl_cpu_s() - from);
    }
    printf("%-10s %-10s next epoch %6.1f ms, results %4.1f ns a sample\n", deal,
           hide, 1e3 * next, 1e9 * saw / N);
    pdl_sampler_destroy(s);
}

/* ---- a store -------------------------------------------------------------- */

/* CIFAR's files, made up: 3073 bytes a sample. */
static void make_source(const char *folder)
{
    static unsigned char record[3073];
    char path[4096];
    FILE *f;

    snprintf(path, sizeof path, "%s/cifar", folder);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/cifar/data_batch_1.bin", folder);
    f = fopen(path, "wb");
    for (int i = 0; f && i < SAMPLES; i++) {
        for (size_t k = 1; k < sizeof record; k++)
            record[k] = (unsigned char)(i * 7 + (int)k * 13);
        record[0] = (unsigned char)(i % 10);
        fwrite(record, 1, sizeof record, f);
    }
    if (!f || fclose(f) != 0)
        exit(1);
}

/* A file from end to end, in the pieces in which samples are read. */
static double sequential(const char *path, size_t piece)
{
    char *buf = malloc(piece);
    double cpu = 0;

    for (int t = 0; t < TIMES; t++) {
        int fd = open(path, O_RDONLY);
        double from = pdl_cpu_s();

        while (buf && fd >= 0 && read(fd, buf, piece) > 0)
            ;
        cpu = best(cpu, pdl_cpu_s() - from);
        close(fd);
    }
    free(buf);
    return cpu;
}

static double read_store(pdl_store *s, size_t bytes, bool shuffled)
{
    char *buf = malloc(bytes);
    double cpu = 0;

    for (int t = 0; t < TIMES; t++) {
        double from = pdl_cpu_s();

        for (int64_t i = 0; buf && i < SAMPLES; i++)
            (void)pdl_store_get(s, shuffled ? i * 7919 % SAMPLES : i, buf,
                                NULL);
        cpu = best(cpu, pdl_cpu_s() - from);
    }
    free(buf);
    return cpu;
}

static double write_file(const char *path, size_t bytes)
{
    char *zero = calloc(1, bytes);
    double cpu = 0;

    for (int t = 0; t < TIMES; t++) {
        double from = pdl_cpu_s();
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);

        for (int i = 0; zero && i < SAMPLES; i++)
            if (write(fd, zero, bytes) < 0)
                exit(1);
        close(fd);
        cpu = best(cpu, pdl_cpu_s() - from);
    }
    free(zero);
    return cpu;
}

/* A new store every time; the last one stays open. */
static double stage(const char *path, const pdl_io *io, pdl_store **s)
{
    static int64_t ids[SAMPLES];
    struct pdl_store_fill f = {
        .source = io, .threads = 1, .samples = ids, .n = SAMPLES};
    struct pdl_err err = {"", ""};
    double cpu = 0;

    for (int64_t i = 0; i < SAMPLES; i++)
        ids[i] = i;
    for (int t = 0; t < TIMES; t++) {
        double from;

        pdl_store_close(*s);
        unlink(path);
        if (pdl_store_open(path, io, 0, SAMPLES, s, &err) != PDL_OK)
            die(&err);
        from = pdl_cpu_s();
        if (pdl_store_fill(*s, &f, &err) != PDL_OK)
            die(&err);
        cpu = best(cpu, pdl_cpu_s() - from);
    }
    return cpu;
}

/* What the source itself takes: every sample read and turned into numbers. */
static double read_source(const pdl_io *io)
{
    const struct pdl_dataset *d = pdl_io_describe(io);
    struct pdl_read r = {.nsamples = 1, .box = pdl_field_box(&d->input)};
    static float x[3072];
    double cpu = 0;

    for (int t = 0; t < 3; t++) {
        double from = pdl_cpu_s();

        for (int64_t i = 0; i < SAMPLES; i++) {
            r.samples = &i;
            (void)pdl_io_input(io, &r, x, NULL);
        }
        cpu = best(cpu, pdl_cpu_s() - from);
    }
    return cpu;
}

static void stores(const char *folder)
{
    char path[4096], plain[4096], source[4096];
    struct pdl_err err = {"", ""};
    struct pdl_store_info info;
    pdl_store *s = NULL;
    pdl_io *io = NULL;
    double staged, order, shuffled, seq, src, out, bytes;

    make_source(folder);
    snprintf(source, sizeof source, "%s/cifar", folder);
    snprintf(path, sizeof path, "%s/bench.store", folder);
    snprintf(plain, sizeof plain, "%s/bench.plain", folder);
    if (pdl_io_open(source, NULL, &io, &err) != PDL_OK)
        die(&err);
    staged = stage(path, io, &s);
    pdl_store_describe(s, &info);
    bytes = (double)info.record_bytes * SAMPLES;
    src = read_source(io);
    out = write_file(plain, (size_t)info.record_bytes);
    seq = sequential(path, (size_t)info.record_bytes);
    order = read_store(s, (size_t)info.record_bytes, false);
    shuffled = read_store(s, (size_t)info.record_bytes, true);
    printf("store, %lld bytes a sample: file in order %.2f GB/s; samples in "
           "order %.2f GB/s, shuffled %.2f GB/s\n",
           (long long)info.record_bytes, bytes / seq * 1e-9,
           bytes / order * 1e-9, bytes / shuffled * 1e-9);
    printf("staging %.1f MB/s; the source is read at %.1f MB/s, a file written "
           "at %.1f MB/s\n",
           bytes / staged * 1e-6, bytes / src * 1e-6, bytes / out * 1e-6);
    pdl_store_close(s);
    pdl_io_close(io);
    unlink(path);
    unlink(plain);
}

int main(int argc, char **argv)
{
    bookkeeping("global", "kakurenbo");
    bookkeeping("global", "infobatch");
    bookkeeping("partial", "kakurenbo");
    bookkeeping("pair", "none");
    stores(argc > 1 ? argv[1] : ".");
    return 0;
}
