/* Selection against a full sort, and the promise of error feedback. */
#include "comm_priv.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- inputs ----------------------------------------------------------- */

static double gauss(struct pdl_rng *r)
{
    return sqrt(-2 * log(1 - pdl_rng_unit(r))) *
           cos(2 * acos(-1) * pdl_rng_unit(r));
}

static void fill_gauss(float *x, int64_t n)
{
    struct pdl_rng r = {.key = 3};

    for (int64_t i = 0; i < n; i++)
        x[i] = (float)gauss(&r);
}

static void fill_equal(float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = i % 2 ? 0.5F : -0.5F;
}

static void fill_zeros(float *x, int64_t n)
{
    memset(x, 0, (size_t)n * sizeof *x);
}

static void fill_few(float *x, int64_t n)
{
    fill_zeros(x, n);
    for (int64_t i = 5; i < n; i += 997)
        x[i] = 1.0F / (float)i;
}

/* Large ones all in one place: a sample sees too much or nothing of them. */
static void fill_clustered(float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = i > n / 3 && i < n / 3 + n / 50 ? (float)i : -1e-3F;
}

static void fill_rising(float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)i;
}

static void fill_levels(float *x, int64_t n)
{
    struct pdl_rng r = {.key = 9};

    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(pdl_rng_below(&r, 7)) - 3;
}

static void fill_odd(float *x, int64_t n)
{
    fill_gauss(x, n);
    for (int64_t i = 0; i < n; i += 101)
        x[i] = i % 2 ? NAN : (i % 3 ? INFINITY : 1e-42F);
}

static const struct input {
    const char *name;
    void (*fill)(float *x, int64_t n);
} inputs[] = {
    {"normal", fill_gauss},        {"all equal", fill_equal},
    {"zeros", fill_zeros},         {"few", fill_few},
    {"clustered", fill_clustered}, {"rising", fill_rising},
    {"seven levels", fill_levels}, {"infinities and NaN", fill_odd},
};
enum { NINPUTS = sizeof inputs / sizeof inputs[0] };

static const int64_t dims[] = {0, 1, 15, 16, 17, 255, 4096, 70001, 1 << 18};
enum { NDIMS = sizeof dims / sizeof dims[0] };

/* ---- reference -------------------------------------------------------- */

struct entry {
    uint32_t magnitude, index;
};

static int larger_first(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;

    if (x->magnitude != y->magnitude)
        return x->magnitude > y->magnitude ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

static uint32_t magnitude(float f)
{
    uint32_t u;

    memcpy(&u, &f, sizeof u);
    return u & 0x7fffffff;
}

/* Which are wanted: a byte for each element. */
static char *by_sorting(const float *x, int64_t n, int64_t k)
{
    struct entry *e = calloc((size_t)n + 1, sizeof *e);
    char *want = calloc((size_t)n + 1, 1);

    assert_true(e && want);
    for (int64_t i = 0; i < n; i++)
        e[i] = (struct entry){magnitude(x[i]), (uint32_t)i};
    qsort(e, (size_t)n, sizeof *e, larger_first);
    for (int64_t i = 0; i < k; i++)
        want[e[i].index] = 1;
    free(e);
    return want;
}

/* Mistakes in what was selected of x. */
static int64_t mistakes(const float *x, const char *want, int64_t k,
                        const struct pdl_sparse *got)
{
    int64_t bad = got->n != k;

    for (int64_t i = 0; i < got->n; i++) {
        bad += !want[got->index[i]];
        bad += i > 0 && got->index[i - 1] >= got->index[i];
        bad += memcmp(&x[got->index[i]], &got->value[i], sizeof *x) != 0;
    }
    return bad;
}

/* ---- tests ------------------------------------------------------------ */

static void check_exact(const struct input *in, int64_t n, int64_t k)
{
    float *x = calloc((size_t)n + 1, sizeof *x);
    struct pdl_sparse got;
    pdl_topk *t;
    char *want;

    assert_non_null(x);
    in->fill(x, n);
    want = by_sorting(x, n, k);
    assert_int_equal(pdl_topk_create(n, k, PDL_TOPK_EXACT, 1, &t, NULL),
                     PDL_OK);
    for (int again = 0; again < 3; again++) {
        pdl_topk_select(t, x, &got);
        if (mistakes(x, want, k, &got) != 0)
            fail_msg("%s: %lld of %lld", in->name, (long long)k, (long long)n);
    }
    pdl_topk_destroy(t);
    free(want);
    free(x);
}

static void an_exact_selection_is_the_head_of_a_sort(void **state)
{
    (void)state;
    for (int i = 0; i < NINPUTS; i++)
        for (int d = 0; d < NDIMS; d++) {
            int64_t n = dims[d];
            int64_t ks[] = {0, n > 0, n / 128, n / 3, n};

            for (int k = 0; k < 5; k++)
                check_exact(&inputs[i], n, ks[k]);
        }
}

static void a_sampled_selection_takes_all_above_a_magnitude(void **state)
{
    (void)state;
    for (int i = 0; i < NINPUTS; i++)
        for (int d = 0; d < NDIMS; d++) {
            int64_t n = dims[d], k = n / 100, above = 0;
            float *x = calloc((size_t)n + 1, sizeof *x);
            uint32_t least = UINT32_MAX;
            struct pdl_sparse got;
            pdl_topk *t;

            assert_non_null(x);
            inputs[i].fill(x, n);
            assert_int_equal(
                pdl_topk_create(n, k, PDL_TOPK_SAMPLED, 5, &t, NULL), PDL_OK);
            pdl_topk_select(t, x, &got);
            assert_in_range(got.n, 0, 2 * k);
            for (int64_t j = 0; j < got.n; j++)
                least = magnitude(got.value[j]) < least
                            ? magnitude(got.value[j])
                            : least;
            for (int64_t j = 0; j < n; j++)
                above += magnitude(x[j]) > least;
            assert_true(least > 0);
            assert_true(above <= got.n);
            if (inputs[i].fill == fill_gauss && n == 1 << 18)
                assert_in_range(got.n, k * 8 / 10, k * 12 / 10);
            pdl_topk_destroy(t);
            free(x);
        }
}

static void check_conserved(const struct input *in, enum pdl_topk_how how,
                            int64_t n, int64_t k)
{
    float *g = calloc((size_t)n + 1, sizeof *g);
    float *before = calloc((size_t)n + 1, sizeof *before), *residual;
    struct pdl_sparse sent;
    pdl_feedback *f;

    assert_true(g && before);
    assert_int_equal(pdl_feedback_create(n, k, how, 2, &f, NULL), PDL_OK);
    residual = pdl_feedback_residual(f);
    for (int step = 0; step < 4; step++) {
        in->fill(g, n);
        for (int64_t i = 0; i < n; i++) {
            g[i] *= 1.0F / (float)(step + 3);
            before[i] = residual[i] + g[i]; /* what there is to send */
        }
        pdl_feedback_step(f, g, &sent);
        if (how == PDL_TOPK_EXACT)
            assert_int_equal(sent.n, k);
        for (int64_t i = 0; i < sent.n; i++) {
            uint32_t at = sent.index[i];

            assert_memory_equal(&sent.value[i], &before[at], sizeof *g);
            assert_int_equal(magnitude(residual[at]), 0);
            before[at] = 0;
        }
        assert_memory_equal(residual, before, (size_t)n * sizeof *g);
    }
    pdl_feedback_destroy(f);
    free(g);
    free(before);
}

static void what_is_sent_and_what_is_kept_are_all_there_was(void **state)
{
    (void)state;
    for (int i = 0; i < NINPUTS; i++)
        for (int d = 0; d < NDIMS; d++) {
            check_conserved(&inputs[i], PDL_TOPK_EXACT, dims[d], dims[d] / 100);
            check_conserved(&inputs[i], PDL_TOPK_SAMPLED, dims[d],
                            dims[d] / 100);
        }
    check_conserved(&inputs[0], PDL_TOPK_EXACT, 1000, 1000);
}

static void impossible_selections_are_refused(void **state)
{
    pdl_topk *t;
    pdl_feedback *f;
    struct pdl_err err;

    (void)state;
    assert_int_equal(pdl_topk_create(10, 11, PDL_TOPK_EXACT, 0, &t, &err),
                     PDL_EINVAL);
    assert_string_equal(err.msg, "cannot take 11 of 10 elements");
    assert_int_equal(
        pdl_topk_create(INT64_C(1) << 32, 1, PDL_TOPK_EXACT, 0, &t, &err),
        PDL_EINVAL);
    assert_int_equal(pdl_feedback_create(-1, 0, PDL_TOPK_EXACT, 0, &f, &err),
                     PDL_EINVAL);
    pdl_topk_destroy(NULL);
    pdl_feedback_destroy(NULL);
}

static void the_check_sees_a_wrong_selection(void **state)
{
    static const float x[] = {3, 1, 2};
    uint32_t index[] = {0, 1};
    float value[] = {3, 1};
    struct pdl_sparse got = {3, 2, index, value};
    char *want = by_sorting(x, 3, 2);

    (void)state;
    assert_int_not_equal(mistakes(x, want, 2, &got), 0);
    index[1] = 2;
    assert_int_not_equal(mistakes(x, want, 2, &got), 0);
    value[1] = 2;
    assert_int_equal(mistakes(x, want, 2, &got), 0);
    free(want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_exact_selection_is_the_head_of_a_sort),
        cmocka_unit_test(a_sampled_selection_takes_all_above_a_magnitude),
        cmocka_unit_test(what_is_sent_and_what_is_kept_are_all_there_was),
        cmocka_unit_test(impossible_selections_are_refused),
        cmocka_unit_test(the_check_sees_a_wrong_selection),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
