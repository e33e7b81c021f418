/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory: a copy and McCalpin's triad a = b + s c, by one rank alone and by
 * all at once, in bytes read and written a second, the best of some turns, as
 * his STREAM has it. The arrays are several times what the caches hold. */
#include "calibrate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TURNS = 15 };

struct arrays {
    float *a, *b, *c;
    int64_t n;
};

static void copy(void *ctx)
{
    struct arrays *x = ctx;

    memcpy(x->a, x->b, (size_t)x->n * sizeof(float));
}

static void triad(void *ctx)
{
    struct arrays *x = ctx;
    float *restrict a = x->a;
    const float *restrict b = x->b, *restrict c = x->c;

#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < x->n; i++)
        a[i] = b[i] + 3.0F * c[i];
}

static const struct {
    const char *alone, *all;
    run_work *work;
    double streams;
} kinds[] = {
    {"copy_1", "copy_all", copy, 2},
    {"triad_1", "triad_all", triad, 3},
};

/* The shortest of some turns, each as long as its slowest rank takes. */
static enum pdl_status shortest(const struct calibration *c, int k, bool all,
                                struct arrays *x, double *out,
                                struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;
    double best = INFINITY;
    int turns = run_repeats(c, TURNS);

    for (int i = 0; st == PDL_OK && i < turns; i++) {
        double took = 0, most = 0, start;

        st = pdl_comm_barrier(c->comm, err);
        start = pdl_clock_s();
        if (st == PDL_OK && (all || c->rank == 0)) {
            kinds[k].work(x);
            took = pdl_clock_s() - start;
        }
        if (st == PDL_OK)
            st = pdl_comm_allreduce(c->comm, &took, &most, 1, PDL_COMM_F64,
                                    PDL_COMM_MAX, err);
        best = st == PDL_OK && most < best ? most : best;
    }
    *out = best;
    return st;
}

static enum pdl_status one_kind(const struct calibration *c, int k,
                                struct arrays *x, struct pdl_err *err)
{
    double bytes = kinds[k].streams * (double)x->n * sizeof(float);
    double alone = 1, all = 1;
    enum pdl_status st = shortest(c, k, false, x, &alone, err);

    if (st == PDL_OK)
        st = shortest(c, k, true, x, &all, err);
    if (st != PDL_OK)
        return st;
    run_fact(c, kinds[k].alone, bytes / alone, "B/s");
    run_fact(c, kinds[k].all, bytes * c->ranks / all, "B/s");
    return PDL_OK;
}

static int64_t array_bytes(int ranks)
{
    struct pdl_cache l = pdl_last_cache(PDL_CACHES);
    int64_t least = 16 << 20, all = l.bytes * pdl_cores() / l.cpus;
    int64_t bytes = all > 0 ? 4 * all / ranks : 64 << 20;

    bytes = bytes < least ? least : bytes;
    return bytes > 16 * least ? 16 * least : bytes;
}

enum pdl_status run_calibrate_memory(const struct calibration *c,
                                     struct pdl_err *err)
{
    int64_t bytes = array_bytes(c->ranks);
    struct arrays x = {
        aligned_alloc(64, (size_t)bytes), aligned_alloc(64, (size_t)bytes),
        aligned_alloc(64, (size_t)bytes), bytes / (int64_t)sizeof(float)};
    enum pdl_status st = PDL_OK;

    if (!x.a || !x.b || !x.c)
        st = pdl_fail(err, PDL_ENOMEM, "no memory to measure memory");
    for (int64_t i = 0; st == PDL_OK && i < x.n; i++) {
        x.a[i] = 0;
        x.b[i] = x.c[i] = 1;
    }
    for (int k = 0; st == PDL_OK && k < 2; k++)
        st = one_kind(c, k, &x, err);
    free(x.a);
    free(x.b);
    free(x.c);
    return st;
}
