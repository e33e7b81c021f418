/* SPDX-License-Identifier: Apache-2.0
 *
 * The k elements of largest magnitude in little more than one reading.
 *
 * 1. A sample of whole cache lines gives a magnitude that a few more than k
 *    elements should reach (k + 4 standard deviations).
 * 2. One pass collects the elements that reach it, in order
 *    (topk_collect.c).
 * 3. Of these candidates a histogram of the upper 15 bits of the magnitude
 *    and one of the lower 16 in the bucket where the k-th is give the k-th
 *    magnitude exactly; what is above and the first of the equal are kept.
 *
 * When the sample was misleading (too few or too many candidates: repeated
 * values, an order that matches the sample's) step 3 is done on the whole
 * array instead: three readings, always right. This is the radix select of
 * common use; that a sampled threshold suffices for gradients is from Lin et
 * al., Deep Gradient Compression, ICLR 2018.
 *
 * Magnitudes are compared as the integers that their bits are. */
#include "comm_topk.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 16, HIGH = 1 << 15, LOW = 1 << 16, TABLES = 4 };
enum { MIN_SAMPLE = 4096, MIN_LINES = MIN_SAMPLE / LINE, WANTED_HITS = 512 };
enum { ROOM = 2 * COMM_TOPK_BLOCK }; /* beyond cap, for comm_collect */

struct pdl_topk {
    int64_t dim, k, cap; /* cap: candidates that fit */
    enum pdl_topk_how how;
    struct pdl_rng rng;
    uint32_t *index;
    float *value;
    uint32_t *count; /* TABLES histograms of LOW buckets */
};

/* What is taken: all above, and the first `equal` of those equal to it. */
struct cut {
    uint32_t magnitude;
    int64_t equal;
};

/* ---- histograms ------------------------------------------------------- */

/* Several tables, so that equal neighbours do not wait for each other. */
static void add_up(uint32_t *count, int64_t buckets)
{
    for (int t = 1; t < TABLES; t++)
        for (int64_t b = 0; b < buckets; b++)
            count[b] += count[(int64_t)t * LOW + b];
}

static void count_high(uint32_t *count, const float *x, int64_t n)
{
    memset(count, 0, sizeof *count * (size_t)TABLES * LOW);
    for (int64_t i = 0; i < n; i++)
        count[(i % TABLES) * LOW + (comm_magnitude(x[i]) >> 16)]++;
    add_up(count, HIGH);
}

static void count_low(uint32_t *count, const float *x, int64_t n, uint32_t high)
{
    memset(count, 0, sizeof *count * (size_t)TABLES * LOW);
    for (int64_t i = 0; i < n; i++) {
        uint32_t m = comm_magnitude(x[i]);

        if (m >> 16 == high)
            count[(i % TABLES) * LOW + (m & 0xffff)]++;
    }
    add_up(count, LOW);
}

/* The bucket of the k-th from above; *k becomes its place in the bucket. */
static uint32_t bucket_of(const uint32_t *count, int64_t buckets, int64_t *k)
{
    int64_t b = buckets - 1;

    for (; b > 0 && count[b] < *k; b--)
        *k -= count[b];
    return (uint32_t)b;
}

/* The k-th largest of n, 1 <= k <= n. */
static struct cut cut_at(uint32_t *count, const float *x, int64_t n, int64_t k)
{
    uint32_t high, low;

    count_high(count, x, n);
    high = bucket_of(count, HIGH, &k);
    count_low(count, x, n, high);
    low = bucket_of(count, LOW, &k);
    return (struct cut){high << 16 | low, k};
}

/* ---- collecting ------------------------------------------------------- */

/* Keeps what the cut takes of n elements: of the whole array, or of those
 * already kept, in place. */
static int64_t keep(pdl_topk *t, bool whole, const float *x, int64_t n,
                    struct cut c)
{
    int64_t got = 0;

    for (int64_t i = 0; i < n; i++) {
        uint32_t m = comm_magnitude(x[i]);

        if (m < c.magnitude || (m == c.magnitude && c.equal-- <= 0))
            continue;
        t->index[got] = whole ? (uint32_t)i : t->index[i];
        t->value[got++] = x[i];
    }
    return got;
}

/* ---- the sample ------------------------------------------------------- */

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* As many lines as should have WANTED_HITS of the k elements, but no more
 * than one in 16 of the array. */
static int64_t sample_lines(const pdl_topk *t)
{
    double lines = (double)t->dim / (double)t->k * WANTED_HITS / LINE;

    return smaller((int64_t)fmax(lines, MIN_LINES), t->dim / LINE / 16);
}

/* A magnitude that is reached by about k elements, or, exact, very likely by
 * at least k. One line at random in each of equal stretches. */
static uint32_t sampled_magnitude(pdl_topk *t, const float *x, const float *add)
{
    int64_t lines = sample_lines(t), stretch;
    double hits = (double)t->k / (double)t->dim * (double)(lines * LINE);
    int64_t rank = (int64_t)ceil(
        t->how == PDL_TOPK_EXACT ? hits + 4 * sqrt(hits) + 4 : hits);

    if (rank >= lines * LINE)
        return 0;
    stretch = t->dim / LINE / lines;
    memset(t->count, 0, sizeof *t->count * HIGH);
    for (int64_t l = 0; l < lines; l++) {
        int64_t at = l * stretch;

        at += (int64_t)pdl_rng_below(&t->rng, (uint64_t)stretch);
        for (int64_t i = at * LINE; i < (at + 1) * LINE; i++)
            t->count[comm_magnitude(add ? x[i] + add[i] : x[i]) >> 16]++;
    }
    return bucket_of(t->count, HIGH, &rank) << 16;
}

/* ---- selecting -------------------------------------------------------- */

/* Is the number of candidates one to go on with? */
static bool usable(const pdl_topk *t, int64_t got, uint32_t m)
{
    if (t->how == PDL_TOPK_EXACT)
        return got >= t->k;
    return got >= 0 && (got >= t->k / 2 || m == 1);
}

static int64_t select_all(pdl_topk *t, const float *x)
{
    return keep(t, true, x, t->dim, cut_at(t->count, x, t->dim, t->k));
}

/* What a sampled selection promises, after falling back. */
static int64_t without_zeros(pdl_topk *t, int64_t n)
{
    return keep(t, false, t->value, n, (struct cut){1, n});
}

static int64_t take(pdl_topk *t, float *x, const float *add)
{
    bool sampled = t->how == PDL_TOPK_SAMPLED;
    uint32_t m = sampled_magnitude(t, x, add);
    int64_t got, most = sampled ? 2 * t->k : t->k;

    m = sampled && m == 0 ? 1 : m;
    got = comm_collect(&(struct comm_collect){.x = x,
                                              .sum = x,
                                              .add = add,
                                              .n = t->dim,
                                              .cap = t->cap,
                                              .magnitude = m,
                                              .index = t->index,
                                              .value = t->value});
    if (!usable(t, got, m))
        got = sampled ? without_zeros(t, select_all(t, x)) : select_all(t, x);
    else if (got > most)
        got = keep(t, false, t->value, got,
                   cut_at(t->count, t->value, got, t->k));
    return got;
}

void comm_topk_take(pdl_topk *t, float *x, const float *add,
                    struct pdl_sparse *out)
{
    out->dim = t->dim;
    out->index = t->index;
    out->value = t->value;
    out->n = t->k > 0 ? take(t, x, add) : 0;
    if (t->k == 0 && add)
        comm_reduce(x, add, t->dim, PDL_COMM_F32, PDL_COMM_SUM);
}

void pdl_topk_select(pdl_topk *t, const float *x, struct pdl_sparse *out)
{
    comm_topk_take(t, (float *)x, NULL, out); /* without add only read */
}

/* ---- life ------------------------------------------------------------- */

enum pdl_status pdl_topk_create(int64_t dim, int64_t k, enum pdl_topk_how how,
                                uint64_t seed, pdl_topk **out,
                                struct pdl_err *err)
{
    pdl_topk *t;

    if (dim < 0 || dim > UINT32_MAX)
        return pdl_fail(err, PDL_EINVAL,
                        "a sparse vector has 0 to 2^32 - 1 elements, not "
                        "%" PRId64,
                        dim);
    if (k < 0 || k > dim)
        return pdl_fail(err, PDL_EINVAL,
                        "cannot take %" PRId64 " of %" PRId64 " elements", k,
                        dim);
    t = calloc(1, sizeof *t);
    if (!t)
        return pdl_fail(err, PDL_ENOMEM, "no memory to select elements");
    *t = (pdl_topk){.dim = dim, .k = k, .how = how, .rng = {.key = seed}};
    t->cap = smaller(2 * k + MIN_SAMPLE, dim);
    t->index = malloc((size_t)(t->cap + ROOM) * sizeof *t->index);
    t->value = malloc((size_t)(t->cap + ROOM) * sizeof *t->value);
    t->count = malloc(sizeof *t->count * (size_t)TABLES * LOW);
    if (!t->index || !t->value || !t->count) {
        pdl_topk_destroy(t);
        return pdl_fail(err, PDL_ENOMEM,
                        "no memory to select %" PRId64 " elements", k);
    }
    *out = t;
    return PDL_OK;
}

void pdl_topk_destroy(pdl_topk *t)
{
    if (!t)
        return;
    free(t->index);
    free(t->value);
    free(t->count);
    free(t);
}
