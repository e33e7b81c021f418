/* Reductions against a scalar reference in double precision. The reference
 * knows a 16-bit float only as a list of the values it can take. */
#include "comm_priv.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 1031, BYTES = 8 };

/* ---- 16-bit floats, the slow way -------------------------------------- */

struct half {
    int mantissa, bias;
};
static const struct half bf16 = {7, 127}, fp16 = {10, 15};

static double half_value(struct half h, uint16_t u)
{
    int e = (u & 0x7fff) >> h.mantissa, m = u & ((1 << h.mantissa) - 1);
    int top = (0x7fff >> h.mantissa);
    double v = e == 0 ? ldexp(m, 1 - h.bias - h.mantissa)
                      : ldexp((1 << h.mantissa) + m, e - h.bias - h.mantissa);

    if (e == top)
        v = m ? (double)NAN : (double)INFINITY;
    return u & 0x8000 ? -v : v;
}

/* The nearest of all values, the even one of two; what is half a step past
 * the largest is infinite. */
static uint16_t half_nearest(struct half h, double x)
{
    uint16_t lo = 0, hi = (uint16_t)(0x7fff & ~((1 << h.mantissa) - 1));
    double a = fabs(x), below, above;
    uint16_t sign = signbit(x) ? 0x8000 : 0, inf = hi;

    if (isnan(x))
        return 0x7fff;
    while (hi - lo > 1) {
        uint16_t mid = (uint16_t)((lo + hi) / 2);

        if (half_value(h, mid) <= a)
            lo = mid;
        else
            hi = mid;
    }
    below = half_value(h, lo);
    above = hi == inf ? 2 * below - half_value(h, (uint16_t)(lo - 1))
                      : half_value(h, hi);
    if (isinf(a) || a - below > above - a ||
        (a - below == above - a && (lo & 1)))
        lo = hi;
    return lo | sign;
}

/* ---- any type as double ----------------------------------------------- */

static double get(enum pdl_comm_type type, const void *array, int64_t i)
{
    const char *at = (const char *)array + i * comm_type_bytes(type);
    float f;
    double d;
    int32_t i32;
    int64_t i64;
    uint16_t u;

    switch (type) {
    case PDL_COMM_F32:
        memcpy(&f, at, sizeof f);
        return f;
    case PDL_COMM_F64:
        memcpy(&d, at, sizeof d);
        return d;
    case PDL_COMM_I32:
        memcpy(&i32, at, sizeof i32);
        return i32;
    case PDL_COMM_I64:
        memcpy(&i64, at, sizeof i64);
        return (double)i64;
    default:
        memcpy(&u, at, sizeof u);
        return half_value(type == PDL_COMM_BF16 ? bf16 : fp16, u);
    }
}

static void put(enum pdl_comm_type type, void *array, int64_t i, double v)
{
    char *at = (char *)array + i * comm_type_bytes(type);
    uint16_t u = 0;
    float f = (float)v;
    int32_t i32;
    int64_t i64;

    switch (type) {
    case PDL_COMM_F32:
        memcpy(at, &f, sizeof f);
        return;
    case PDL_COMM_F64:
        memcpy(at, &v, sizeof v);
        return;
    case PDL_COMM_I32:
        i32 = (int32_t)v;
        memcpy(at, &i32, sizeof i32);
        return;
    case PDL_COMM_I64:
        i64 = (int64_t)v;
        memcpy(at, &i64, sizeof i64);
        return;
    default:
        u = half_nearest(type == PDL_COMM_BF16 ? bf16 : fp16, v);
        memcpy(at, &u, sizeof u);
    }
}

static double reference(enum pdl_comm_op op, double x, double y)
{
    if (op == PDL_COMM_SUM || op == PDL_COMM_AVG)
        return x + y;
    if (isnan(x) || isnan(y))
        return NAN;
    if (x == y)
        return (op == PDL_COMM_MAX) == !signbit(x) ? x : y;
    return (op == PDL_COMM_MAX) == (x > y) ? x : y;
}

static bool same(enum pdl_comm_type type, const void *a, const void *b,
                 int64_t i)
{
    double x = get(type, a, i), y = get(type, b, i);

    if (isnan(x) || isnan(y))
        return isnan(x) && isnan(y);
    return x == y && signbit(x) == signbit(y);
}

/* ---- inputs ----------------------------------------------------------- */

static bool is_int(enum pdl_comm_type type)
{
    return type == PDL_COMM_I32 || type == PDL_COMM_I64;
}

/* Values of every magnitude, among them the special ones. */
static double drawn(struct pdl_rng *r, enum pdl_comm_type type)
{
    static const double special[] = {0.0, -0.0, INFINITY, -INFINITY, NAN};
    double sign = pdl_rng_below(r, 2) ? 1 : -1;
    double range = type == PDL_COMM_F16 ? 34 : 60;

    if (is_int(type))
        return sign * (double)pdl_rng_below(r, 1 << 30);
    if (pdl_rng_below(r, 16) == 0)
        return special[pdl_rng_below(r, 5)];
    return sign * exp2((pdl_rng_unit(r) - 0.65) * range);
}

/* Room for N elements and room before, to start unaligned. */
static void *array(void **free_me, int64_t skip)
{
    *free_me = malloc((N + 16) * BYTES);
    assert_non_null(*free_me);
    memset(*free_me, 0x5a, (N + 16) * BYTES);
    return (char *)*free_me + skip * BYTES;
}

static int64_t check(enum pdl_comm_type type, enum pdl_comm_op op, int64_t n,
                     int64_t skip)
{
    struct pdl_rng r = {.key = 7, .stream = (uint64_t)(type * 4 + op)};
    void *f[4], *a = array(&f[0], skip), *b = array(&f[1], 0);
    void *d = array(&f[2], 1), *w = array(&f[3], 1);
    int64_t bad = 0, bytes = comm_type_bytes(type);

    for (int64_t i = 0; i < n; i++) {
        put(type, a, i, drawn(&r, type));
        put(type, b, i, drawn(&r, type));
        put(type, w, i, reference(op, get(type, a, i), get(type, b, i)));
    }
    pdl_comm_combine(d, a, b, n, type, op);
    for (int64_t i = 0; i < n; i++)
        bad += !same(type, d, w, i);
    comm_reduce(a, b, n, type, op);
    for (int64_t i = 0; i < n; i++)
        bad += !same(type, a, w, i);
    bad += ((char *)d)[n * bytes] != 0x5a; /* and not one further */
    for (int i = 0; i < 4; i++)
        free(f[i]);
    return bad;
}

static void every_type_and_operation_equals_the_reference(void **state)
{
    static const int64_t counts[] = {0, 1, 3, 15, 16, 17, 64, 1000, N};

    (void)state;
    for (int t = 0; t < PDL_NCOMM_TYPES; t++)
        for (int op = PDL_COMM_SUM; op <= PDL_COMM_AVG; op++)
            for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
                for (int64_t skip = 0; skip < 2; skip++)
                    assert_int_equal(
                        check((enum pdl_comm_type)t, (enum pdl_comm_op)op,
                              counts[c], skip),
                        0);
}

/* Adding 0 brings every 16-bit float through both conversions; adding half
 * of the last bit and a little less, the same and a little more, through
 * every rounding. */
static void every_16_bit_float_is_read_and_rounded_right(void **state)
{
    static const enum pdl_comm_type types[] = {PDL_COMM_BF16, PDL_COMM_F16};
    static const double parts[] = {0, 0.25, 0.4999, 0.5, 0.5001, 0.75};
    static uint16_t a[65536], b[65536], d[65536], w[65536];

    (void)state;
    for (int t = 0; t < 2; t++)
        for (int p = 0; p < 6; p++) {
            struct half h = t ? fp16 : bf16;

            for (int u = 0; u < 65536; u++) {
                double v = half_value(h, (uint16_t)u), step, next;

                next = half_value(h, (uint16_t)(u ^ 1));
                step = isfinite(next) && isfinite(v) ? fabs(next - v) : 0;
                a[u] = (uint16_t)u;
                b[u] = half_nearest(h, v * 0 + step * parts[p]);
                w[u] = half_nearest(h, v + half_value(h, b[u]));
            }
            pdl_comm_combine(d, a, b, 65536, types[t], PDL_COMM_SUM);
            for (int64_t u = 0; u < 65536; u++)
                assert_true(same(types[t], d, w, u));
        }
}

static void sums_of_integers_wrap_round(void **state)
{
    int32_t a = INT32_MAX, b = 1;
    int64_t c = INT64_MIN, d = -1;

    (void)state;
    comm_reduce(&a, &b, 1, PDL_COMM_I32, PDL_COMM_SUM);
    comm_reduce(&c, &d, 1, PDL_COMM_I64, PDL_COMM_SUM);
    assert_int_equal(a, INT32_MIN);
    assert_true(c == INT64_MAX);
}

static void a_scaled_array_is_divided(void **state)
{
    static const double in[] = {9, -9, 0, 1, 1000, -3};

    (void)state;
    for (int t = 0; t < PDL_NCOMM_TYPES; t++) {
        enum pdl_comm_type type = (enum pdl_comm_type)t;
        char a[6 * BYTES], w[6 * BYTES];

        for (int64_t i = 0; i < 6; i++) {
            put(type, a, i, in[i]);
            put(type, w, i, is_int(type) ? trunc(in[i] / 4) : in[i] / 4);
        }
        comm_scale(a, 6, type, 4);
        for (int64_t i = 0; i < 6; i++)
            assert_true(same(type, a, w, i));
    }
}

/* The comparison used above sees a wrong last bit, sign of zero and NaN. */
static void the_comparison_sees_the_smallest_difference(void **state)
{
    float a[] = {1, 0.0F, NAN, 1}, b[] = {1.0000001F, -0.0F, 1, 1};

    (void)state;
    assert_false(same(PDL_COMM_F32, a, b, 0));
    assert_false(same(PDL_COMM_F32, a, b, 1));
    assert_false(same(PDL_COMM_F32, a, b, 2));
    assert_true(same(PDL_COMM_F32, a, b, 3));
    assert_int_equal(half_nearest(fp16, 65519), 0x7bff);
    assert_int_equal(half_nearest(fp16, 65520), 0x7c00);
    assert_int_equal(half_nearest(bf16, 1 + 1.0 / 256), 0x3f80);
    assert_int_equal(half_nearest(bf16, 1 + 3.0 / 256), 0x3f82);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_and_operation_equals_the_reference),
        cmocka_unit_test(every_16_bit_float_is_read_and_rounded_right),
        cmocka_unit_test(sums_of_integers_wrap_round),
        cmocka_unit_test(a_scaled_array_is_divided),
        cmocka_unit_test(the_comparison_sees_the_smallest_difference),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
