/* bfloat16: the nearest, ties to even, by the definition; what is no number
 * stays none; many at once are as one by one. */
#include "paradl/base.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

static float of(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;

    memcpy(&f, &u, sizeof f);
    return f;
}

/* Every neighbour is tried: none is nearer, and of two as near it is the even
 * one. */
static void is_the_nearest(float f)
{
    uint16_t h = pdl_to_bf16(f);
    double own = fabs((double)of(h) - f);

    for (int d = -1; d <= 1; d += 2) {
        double other = fabs((double)of((uint16_t)(h + d)) - f);

        if (isfinite(other) && (other < own || (other == own && h % 2 == 1)))
            fail_msg("%a became %a", (double)f, (double)of(h));
    }
}

static void what_is_rounded_is_the_nearest(void **state)
{
    struct pdl_rng r = {.key = 5};

    (void)state;
    for (int i = 0; i < 100000; i++) {
        uint32_t u = (uint32_t)pdl_rng_u64(&r);
        float f;

        if (i % 3 == 0) /* a tie */
            u = (u & 0xffff0000) | 0x8000;
        memcpy(&f, &u, sizeof f);
        if (isfinite(f) && fabsf(f) < 3e38F && fabsf(f) > 1e-37F)
            is_the_nearest(f);
    }
    assert_int_equal(pdl_to_bf16(1), 0x3f80);
    assert_int_equal(pdl_to_bf16(-0.0F), 0x8000);
    assert_int_equal(pdl_to_bf16(INFINITY), 0x7f80);
    assert_int_equal(pdl_to_bf16(3.4e38F), 0x7f80);
    assert_true(isnan(of(pdl_to_bf16(NAN))));
}

static void many_are_as_one_by_one(void **state)
{
    enum { N = 1003 };
    float f[N];
    uint16_t h[N];
    struct pdl_rng r = {.key = 6};

    (void)state;
    for (int i = 0; i < N; i++) {
        uint32_t u = (uint32_t)pdl_rng_u64(&r);

        u = i % 50 == 0 ? u | 0x7f800001 : u; /* no number */
        memcpy(&f[i], &u, sizeof f[i]);
    }
    pdl_narrow(f, N, h);
    for (int i = 0; i < N; i++)
        assert_int_equal(h[i], pdl_to_bf16(f[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_rounded_is_the_nearest),
        cmocka_unit_test(many_are_as_one_by_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
