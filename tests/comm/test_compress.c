/* Compressed sums on virtual ranks, and the codes they are made of. */
#include "compress_checks.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Odd ones too: what must survive or be seen. */
static void fill(float *x, int64_t n, int kind)
{
    for (int64_t i = 0; i < n; i++) {
        float g = gradient(1, kind, i);

        x[i] = kind == 0         ? g
               : i % 97 == kind  ? 0
               : i % 113 == kind ? ldexpf(g, -120)
               : i % 31 == 3     ? -0.0f
                                 : ldexpf(g, (int)(i % 40) - 20);
    }
}

static void a_code_loses_no_more_than_it_says(void **state)
{
    static float x[DIM], y[DIM];
    static const struct {
        const char *name;
        double error; /* of the largest of 256 near it */
        double bytes; /* of 4 */
        double least; /* what is smaller may be lost */
    } rows[] = {{"int8", .5 / 127, 1.02, 0},
                {"bf16", 1 / 256., 2, 0},
                {"fp16", 1 / 2048., 2, 3e-8},
                {"sign", 1, .142, 0},
                {"lossless", 0, 4.01, 0}};

    (void)state;
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        int64_t bytes = 0;

        fill(x, DIM, 0);
        assert_int_equal(
            pdl_compress_apply(rows[k].name, x, DIM, y, &bytes, NULL), PDL_OK);
        assert_true((double)bytes <= rows[k].bytes * DIM + 64);
        for (int64_t i = 0; i < DIM; i++) {
            double near = ldexp(1, -9 - (int)((i < 256 ? 0 : i - 256) / 700));

            if (fabs(x[i] - y[i]) >
                fmax(rows[k].error * near * 1.01, rows[k].least))
                fail_msg("%s: %g became %g", rows[k].name, x[i], y[i]);
        }
    }
}

static void lossless_is_lossless(void **state)
{
    static float x[DIM], y[DIM];
    int64_t bytes = 0;

    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        fill(x, DIM, kind);
        x[7] = NAN;
        x[8] = INFINITY;
        x[9] = -ldexpf(1, -149);
        for (int64_t n = 1; n <= DIM; n = n * 3 + 1) {
            assert_int_equal(
                pdl_compress_apply("lossless", x, n, y, &bytes, NULL), PDL_OK);
            assert_memory_equal(x, y, (size_t)n * sizeof *x);
        }
    }
    fill(x, DIM, 0); /* exponents within 14 of each other are four bits */
    pdl_compress_apply("lossless", x, DIM, y, &bytes, NULL);
    assert_true((double)bytes < 3.6 * DIM);
    for (int64_t i = 0; i < DIM; i += 2) /* as behind a rectifier */
        x[i] = 0;
    pdl_compress_apply("lossless", x, DIM, y, &bytes, NULL);
    assert_memory_equal(x, y, sizeof x);
    assert_true((double)bytes < 3.6 * DIM);
}

static void what_is_not_a_number_is_seen(void **state)
{
    static const char *const names[] = {"int8", "bf16", "fp16", "sign"};
    float x[600], y[600];
    int64_t bytes;

    (void)state;
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        for (int i = 0; i < 600; i++)
            x[i] = 1;
        x[300] = NAN;
        pdl_compress_apply(names[k], x, 600, y, &bytes, NULL);
        assert_true(isnan(y[300]) && y[0] == 1 && y[599] == 1);
    }
}

/* Bytes from elsewhere: cut short, or with other lengths inside. */
static void bad_bytes_are_refused(void **state)
{
    static const struct comm_codec *const codecs[] = {
        &comm_codec_int8, &comm_codec_bf16, &comm_codec_fp16, &comm_codec_sign,
        &comm_codec_lossless};
    static float x[DIM], y[DIM];
    static uint8_t coded[8 * DIM];

    (void)state;
    fill(x, DIM, 1);
    for (size_t k = 0; k < sizeof codecs / sizeof codecs[0]; k++) {
        int64_t n = codecs[k]->encode(x, DIM, coded);

        assert_true(codecs[k]->decode(coded, n, DIM, y));
        for (int64_t cut = 0; cut < n; cut += 977)
            assert_false(codecs[k]->decode(coded, cut, DIM, y));
        assert_false(codecs[k]->decode(coded, n + 1, DIM, y));
        for (int64_t at = 0; at < n; at += 61) /* no harm, whatever it says */
            for (int bit = 0; bit < 8; bit++) {
                uint8_t was = coded[at];

                coded[at] ^= (uint8_t)(1 << bit);
                codecs[k]->decode(coded, n, DIM, y);
                coded[at] = was;
            }
    }
}

static int body(pdl_comm *c, void *ctx)
{
    int bad = 0;

    (void)ctx;
    for (int i = 0; pdl_compressor_at(i); i++) {
        uint64_t hash, all[2];
        struct pdl_err err = {"", ""};
        int64_t mine[2], most[2];

        bad |= check_way(c, pdl_compressor_at(i), &hash);
        mine[0] = (int64_t)(hash >> 1);
        mine[1] = -mine[0];
        pdl_comm_allreduce(c, mine, most, 2, PDL_COMM_I64, PDL_COMM_MAX, &err);
        all[0] = (uint64_t)most[0];
        all[1] = (uint64_t)-most[1];
        if (all[0] != all[1]) {
            fprintf(stderr, "%s: ranks have different sums\n",
                    pdl_compressor_at(i)->name);
            bad = 1;
        }
    }
    return bad;
}

static void nothing_is_lost_on_any_number_of_ranks(void **state)
{
    (void)state;
    for (int n = 1; n <= 5; n += n < 3 ? 1 : 2)
        assert_int_equal(on_ranks(n, NULL, body, NULL), 0);
}

/* A matrix of rank one is its two factors, whatever their number. */
static int rank_one(pdl_comm *c, void *ctx)
{
    enum { SIDE = 40 };
    float g[SIDE * SIDE], sum[SIDE * SIDE];
    struct pdl_err err = {"", ""};
    pdl_compress *x = NULL;
    int bad =
        said(pdl_compress_create(c, SIDE * SIDE, "powersgd", 2, 5, &x, &err),
             "powersgd", &err);

    (void)ctx;
    for (int i = 0; i < SIDE * SIDE; i++)
        g[i] = (float)(i / SIDE + 1) * (float)(i % SIDE - 7) / 64;
    if (!bad) {
        pdl_compress_take(x, g);
        bad |= said(pdl_compress_start(x, &err), "start", &err);
        bad |= said(pdl_compress_wait(x, &err), "wait", &err);
        pdl_compress_put(x, sum);
    }
    for (int i = 0; i < SIDE * SIDE && !bad; i++)
        bad |= fabsf(sum[i] - (float)pdl_comm_size(c) * g[i]) > 1e-3f;
    pdl_compress_destroy(x);
    return bad;
}

static void powersgd_finds_the_factors(void **state)
{
    (void)state;
    assert_int_equal(on_ranks(3, NULL, rank_one, NULL), 0);
}

/* Two matrices of low rank, a vector that goes as it is, and a gap between
 * them that holds no number. */
enum { ROWS = 60, COLS = 40, WIDE = 90, SHORT = 7, HOLE = 5 };
static const struct pdl_compress_part parts[] = {
    {0, ROWS, COLS},
    {ROWS * COLS, 1, SHORT},
    {ROWS * COLS + SHORT + HOLE, COLS, WIDE},
};
enum { LAID_OUT = ROWS * COLS + SHORT + HOLE + COLS * WIDE };

static double laid_out(int rank, int64_t i)
{
    int64_t at = i - parts[2].begin;

    if (i < ROWS * COLS)
        return (double)(i / COLS + 1) *
               cos((double)(rank + 1) * (double)(i % COLS));
    if (i < ROWS * COLS + SHORT)
        return (double)(i * 3 + rank);
    return at < 0 ? NAN
                  : sin((double)(at / WIDE + rank)) * (double)(at % WIDE - 30);
}

static int factor_each(pdl_comm *c, void *ctx)
{
    float *g = calloc(LAID_OUT, sizeof *g),
          *sum = calloc(LAID_OUT, sizeof *sum);
    struct pdl_err err = {"", ""};
    pdl_compress *x = NULL;
    int bad, p = pdl_comm_size(c);

    (void)ctx;
    bad = pdl_compress_create(c, LAID_OUT, "powersgd", 4, 3, &x, &err) ||
          pdl_compress_shape(x, 3, parts, &err);
    for (int64_t i = 0; i < LAID_OUT; i++)
        g[i] = (float)laid_out(pdl_comm_rank(c), i);
    if (!bad) {
        pdl_compress_take(x, g);
        bad = pdl_compress_start(x, &err) || pdl_compress_wait(x, &err);
    }
    if (!bad)
        pdl_compress_put(x, sum);
    for (int64_t i = 0; !bad && i < LAID_OUT; i++) {
        double want = 0;

        for (int r = 0; r < p; r++)
            want += laid_out(r, i);
        if (isnan(want) ? sum[i] != 0 : !(fabs(sum[i] - want) < 2e-3))
            bad = 1, fprintf(stderr, "%d: %g, not %g\n", (int)i, sum[i], want);
    }
    /* two factors of 4 columns for each, and the vector */
    bad |= p == 2 && pdl_compress_sent(x) !=
                         4 * (4 * (ROWS + COLS + COLS + WIDE) + SHORT);
    pdl_compress_destroy(x);
    free(g);
    free(sum);
    return bad;
}

static void powersgd_factors_each_matrix(void **state)
{
    (void)state;
    assert_int_equal(on_ranks(2, NULL, factor_each, NULL), 0);
    assert_int_equal(on_ranks(3, NULL, factor_each, NULL), 0);
}

static void factors_that_save_little_are_not_made(void **state)
{
    (void)state;
    assert_int_equal(pdl_coll_factors(500, 800, 4), 4);
    assert_int_equal(pdl_coll_factors(20, 25, 4), 4);
    assert_int_equal(pdl_coll_factors(10, 25, 4), 0);
    assert_int_equal(pdl_coll_factors(1, 1000000, 4), 0);
    assert_int_equal(pdl_coll_factors(3, 1000000, 1), 1);
}

static int refuse(pdl_comm *c, void *ctx)
{
    static const struct pdl_compress_part outside[] = {{3, 2, 4}};
    pdl_compress *x = NULL;
    struct pdl_err err = {"", ""};

    (void)ctx;
    if (pdl_compress_create(c, 9, "powersgd", 2, 0, &x, &err) != PDL_OK ||
        pdl_compress_shape(x, 1, outside, &err) != PDL_EINVAL)
        return 1;
    pdl_compress_destroy(x);
    return pdl_compress_create(c, 9, "zip", 0, 0, &x, &err) != PDL_EINVAL ||
           pdl_compress_create(c, 9, "topk", 2, 0, &x, &err) != PDL_EINVAL ||
           pdl_compress_create(c, 9, "powersgd", 0, 0, &x, &err) !=
               PDL_EINVAL ||
           pdl_compress_create(c, 0, "int8", 0, 0, &x, &err) != PDL_EINVAL;
}

static void what_there_is_not_is_refused(void **state)
{
    (void)state;
    assert_int_equal(on_ranks(1, NULL, refuse, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_code_loses_no_more_than_it_says),
        cmocka_unit_test(lossless_is_lossless),
        cmocka_unit_test(what_is_not_a_number_is_seen),
        cmocka_unit_test(bad_bytes_are_refused),
        cmocka_unit_test(nothing_is_lost_on_any_number_of_ranks),
        cmocka_unit_test(powersgd_finds_the_factors),
        cmocka_unit_test(powersgd_factors_each_matrix),
        cmocka_unit_test(factors_that_save_little_are_not_made),
        cmocka_unit_test(what_there_is_not_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
