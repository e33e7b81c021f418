/* int64 arithmetic that says when it overflows, against 128-bit arithmetic. */
#include "paradl/base.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdint.h>

__extension__ typedef __int128 wide;

/* Numbers of every magnitude and sign, the limits among them. */
static int64_t any(struct pdl_rng *r)
{
    uint64_t bits = pdl_rng_u64(r) >> pdl_rng_below(r, 64);

    if (pdl_rng_below(r, 16) == 0)
        return pdl_rng_below(r, 2) ? INT64_MAX : INT64_MIN;
    return pdl_rng_below(r, 2) ? (int64_t)(bits >> 1) : -(int64_t)(bits >> 1);
}

static bool fits(wide v)
{
    return v >= INT64_MIN && v <= INT64_MAX;
}

static void sums_and_products_agree_with_128_bits(void **state)
{
    struct pdl_rng rng = {.key = 2};
    int overflows = 0;

    (void)state;
    for (int i = 0; i < 200000; i++) {
        int64_t a = any(&rng), b = any(&rng), got = 77;
        wide sum = (wide)a + b, product = (wide)a * b;

        assert_int_equal(pdl_add64(a, b, &got), fits(sum));
        assert_true(got == (fits(sum) ? (int64_t)sum : 77));
        got = 77;
        assert_int_equal(pdl_mul64(a, b, &got), fits(product));
        assert_true(got == (fits(product) ? (int64_t)product : 77));
        overflows += !fits(product);
    }
    assert_true(overflows > 1000 && overflows < 199000);
}

static void products_of_dimensions(void **state)
{
    static const struct {
        int n;
        int64_t dims[4];
        bool ok;
        int64_t want;
    } cases[] = {
        {0, {0}, true, 1},
        {3, {3, 224, 224}, true, 150528},
        {2, {INT64_MAX, 1}, true, INT64_MAX},
        {2, {INT64_MAX, 2}, false, 0},
        {2, {-1, 5}, false, 0},
        {2, {0, -5}, false, 0},
        /* zero in whatever order: an empty tensor has no elements */
        {3, {0, INT64_MAX, INT64_MAX}, true, 0},
        {3, {INT64_MAX, INT64_MAX, 0}, true, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t got = 77;

        assert_int_equal(pdl_prod64(cases[i].dims, cases[i].n, &got),
                         cases[i].ok);
        assert_true(got == (cases[i].ok ? cases[i].want : 77));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_and_products_agree_with_128_bits),
        cmocka_unit_test(products_of_dimensions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
