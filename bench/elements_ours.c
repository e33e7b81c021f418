/* Reductions and selections of 32 M elements on one core against a plain
 * reading of the gradient: wall time, median of 7, taken in turn. */
#include "comm_priv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { RUNS = 7 };
static const int64_t count = 1 << 25;

struct data {
    float *x, *y, *z;
    pdl_topk *exact, *sampled;
    pdl_feedback *feedback;
    int64_t n;
    double sink;
};

static void read_all(struct data *d)
{
    const uint64_t *u = (const uint64_t *)(const void *)d->x;
    uint64_t a[8] = {0};

    for (int64_t i = 0; i < count / 2; i += 8)
        for (int j = 0; j < 8; j++)
            a[j] ^= u[i + j];
    for (int j = 0; j < 8; j++)
        d->sink += (double)(a[j] & 1);
}

#define REDUCE(name, bytes, type, op)                                  \
    static void name(struct data *d)                                   \
    {                                                                  \
        comm_reduce3(d->z, d->x, d->y, count * 4 / (bytes), type, op); \
    }
REDUCE(sum_f32, 4, PDL_COMM_F32, PDL_COMM_SUM)
REDUCE(max_f32, 4, PDL_COMM_F32, PDL_COMM_MAX)
REDUCE(sum_f64, 8, PDL_COMM_F64, PDL_COMM_SUM)
REDUCE(sum_bf16, 2, PDL_COMM_BF16, PDL_COMM_SUM)
REDUCE(sum_fp16, 2, PDL_COMM_F16, PDL_COMM_SUM)
REDUCE(max_fp16, 2, PDL_COMM_F16, PDL_COMM_MAX)
REDUCE(sum_i64, 8, PDL_COMM_I64, PDL_COMM_SUM)

static void exact(struct data *d)
{
    struct pdl_sparse out;

    pdl_topk_select(d->exact, d->x, &out);
    d->n = out.n;
}

static void sampled(struct data *d)
{
    struct pdl_sparse out;

    pdl_topk_select(d->sampled, d->x, &out);
    d->n = out.n;
}

static void feedback(struct data *d)
{
    struct pdl_sparse out;

    pdl_feedback_step(d->feedback, d->x, &out);
    d->n = out.n;
}

static const struct row {
    const char *what;
    void (*run)(struct data *d);
    double traffic; /* bytes read and written, of the gradient's */
} rows[] = {
    {"read", read_all, 1},
    {"sum float32, c = a + b", sum_f32, 3},
    {"max float32", max_f32, 3},
    {"sum float64", sum_f64, 3},
    {"sum bf16", sum_bf16, 3},
    {"sum fp16", sum_fp16, 3},
    {"max fp16", max_fp16, 3},
    {"sum int64", sum_i64, 3},
    {"top-k 0.78 %, exact", exact, 1},
    {"top-k 0.78 %, sampled", sampled, 1},
    {"error feedback and exact top-k", feedback, 3},
};
enum { NROWS = sizeof rows / sizeof rows[0] };

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static void fill(struct data *d)
{
    struct pdl_rng r = {.key = 1};

    for (int64_t i = 0; i < count; i += 2) {
        double u = sqrt(-2 * log(1 - pdl_rng_unit(&r)));
        double v = 2 * acos(-1) * pdl_rng_unit(&r);

        d->x[i] = (float)(u * cos(v));
        d->x[i + 1] = (float)(u * sin(v));
        d->y[i] = d->y[i + 1] = d->x[i];
        d->z[i] = d->z[i + 1] = 0;
    }
}

int main(void)
{
    size_t bytes = (size_t)count * sizeof(float);
    struct data d = {aligned_alloc(64, bytes),
                     aligned_alloc(64, bytes),
                     aligned_alloc(64, bytes),
                     NULL,
                     NULL,
                     NULL,
                     0,
                     0};
    double s[NROWS][RUNS];
    int64_t k = count / 128;

    if (!d.x || !d.y || !d.z ||
        pdl_topk_create(count, k, PDL_TOPK_EXACT, 1, &d.exact, NULL) ||
        pdl_topk_create(count, k, PDL_TOPK_SAMPLED, 1, &d.sampled, NULL) ||
        pdl_feedback_create(count, k, PDL_TOPK_EXACT, 1, &d.feedback, NULL))
        return 1;
    fill(&d);
    for (int i = 0; i < RUNS; i++)
        for (int r = 0; r < NROWS; r++) {
            double start = pdl_clock_s();

            rows[r].run(&d);
            s[r][i] = pdl_clock_s() - start;
        }
    for (int r = 0; r < NROWS; r++) {
        qsort(s[r], RUNS, sizeof s[r][0], ascending);
        printf("%s: %.2f ms, %.1f GB/s, %.2f readings"
               "  (128 MiB, one core, wall, median of %d)\n",
               rows[r].what, s[r][RUNS / 2] * 1e3,
               rows[r].traffic * (double)bytes / s[r][RUNS / 2] / 1e9,
               s[r][RUNS / 2] / s[0][RUNS / 2], RUNS);
    }
    return d.sink < 0;
}
