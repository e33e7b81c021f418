/* SPDX-License-Identifier: Apache-2.0
 *
 * Element-wise reductions at memory speed.
 *
 * One kernel for each pair of type and operation; the result is the same on
 * every machine:
 *
 * - A sum of bf16 or fp16 is a sum in float rounded once to nearest even. A
 *   float has more than twice the bits of either, so this is the correctly
 *   rounded sum.
 * - Sums of integers wrap round.
 * - max and min of floats follow IEEE 754-2019 maximum and minimum: a NaN on
 *   either side gives a NaN (which one is not said), and -0 < +0, so that the
 *   result does not depend on who is first. Training must see its NaNs.
 *
 * max and min are done on the bits: see ORDERED.
 *
 * Cost: two reads and a write of each element. */
#include "comm_priv.h"
#include "comm_half.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

typedef void reduce_fn(void *dst, const void *a, const void *b, int64_t n);
typedef void scale_fn(void *dst, int64_t n, int divisor);

/* ---- kernels ---------------------------------------------------------- */

/* Arrays of floats are also read as integers here. */
typedef float __attribute__((may_alias)) f32;
typedef double __attribute__((may_alias)) f64;
typedef uint16_t __attribute__((may_alias)) u16;
typedef uint32_t __attribute__((may_alias)) u32;
typedef uint64_t __attribute__((may_alias)) u64;
typedef int16_t __attribute__((may_alias)) i16;
typedef int32_t __attribute__((may_alias)) i32;
typedef int64_t __attribute__((may_alias)) i64;

/* d[i] = expression of x and y. */
#define KERNEL(name, type, expression)                                      \
    MANY_TARGETS static void name(void *dst, const void *a, const void *b,  \
                                  int64_t n)                                \
    {                                                                       \
        type *d = dst;             /* NOLINT(bugprone-macro-parentheses) */ \
        const type *p = a, *q = b; /* NOLINT(bugprone-macro-parentheses) */ \
                                                                            \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++)                 \
        {                                                                   \
            type x = p[i], y = q[i];                                        \
                                                                            \
            d[i] = (type)(expression);                                      \
        }                                                                   \
    }

KERNEL(sum_f32, f32, x + y)
KERNEL(sum_f64, f64, x + y)
KERNEL(sum_bf16, u16, to_bf16(from_bf16(x) + from_bf16(y)))
KERNEL(sum_fp16_plain, u16, to_fp16(from_fp16(x) + from_fp16(y)))
KERNEL(sum_i32, u32, x + y)
KERNEL(sum_i64, u64, x + y)
KERNEL(max_i32, i32, x > y ? x : y)
KERNEL(max_i64, i64, x > y ? x : y)
KERNEL(min_i32, i32, x < y ? x : y)
KERNEL(min_i64, i64, x < y ? x : y)

/* The compilers do not vectorise the conversions of fp16, which processors
 * have instructions for: the same results, thirty times as fast. */
#if defined(__x86_64__)
__attribute__((target("avx2,f16c"))) static void
sum_fp16_f16c(void *dst, const void *a, const void *b, int64_t n)
{
    u16 *d = dst;
    const u16 *p = a, *q = b;
    int64_t i = 0;

    for (; i + 8 <= n; i += 8) {
        __m128i x = _mm_loadu_si128((const __m128i *)(const void *)(p + i));
        __m128i y = _mm_loadu_si128((const __m128i *)(const void *)(q + i));
        __m256 sum = _mm256_add_ps(_mm256_cvtph_ps(x), _mm256_cvtph_ps(y));

        x = _mm256_cvtps_ph(sum, _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128((__m128i *)(void *)(d + i), x);
    }
    sum_fp16_plain(d + i, p + i, q + i, n - i);
}
#endif

static void sum_fp16(void *dst, const void *a, const void *b, int64_t n)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) { /* all of which have f16c */
        sum_fp16_f16c(dst, a, b, n);
        return;
    }
#endif
    sum_fp16_plain(dst, a, b, n);
}

/* The bits of a float as an integer of the same order, and back; ~ changes
 * the sign. Above inf and below ~inf are the NaNs: those on the wrong side
 * change sides first. */
#define ORDERED(type, u) \
    (type)((u) ^ ((type)((u) < 0 ? -1 : 0) & (type)~SIGN_##type))
#define SIGN_i16 INT16_MIN
#define SIGN_i32 INT32_MIN
#define SIGN_i64 INT64_MIN

#define EXTREME(name, type, inf, pick)                                      \
    MANY_TARGETS static void name(void *dst, const void *a, const void *b,  \
                                  int64_t n)                                \
    {                                                                       \
        type *d = dst;             /* NOLINT(bugprone-macro-parentheses) */ \
        const type *p = a, *q = b; /* NOLINT(bugprone-macro-parentheses) */ \
                                                                            \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++)                 \
        {                                                                   \
            type x = ORDERED(type, p[i]), y = ORDERED(type, q[i]);          \
                                                                            \
            pick(type, inf);                                                \
            d[i] = ORDERED(type, x);                                        \
        }                                                                   \
    }
#define LARGEST(type, inf)         \
    x = x < ~(inf) ? (type)~x : x; \
    y = y < ~(inf) ? (type)~y : y; \
    x = x > y ? x : y
#define SMALLEST(type, inf)       \
    x = x > (inf) ? (type)~x : x; \
    y = y > (inf) ? (type)~y : y; \
    x = x < y ? x : y

EXTREME(max_f32, i32, 0x7f800000, LARGEST)
EXTREME(max_f64, i64, 0x7ff0000000000000, LARGEST)
EXTREME(max_bf16, i16, 0x7f80, LARGEST)
EXTREME(max_fp16, i16, 0x7c00, LARGEST)
EXTREME(min_f32, i32, 0x7f800000, SMALLEST)
EXTREME(min_f64, i64, 0x7ff0000000000000, SMALLEST)
EXTREME(min_bf16, i16, 0x7f80, SMALLEST)
EXTREME(min_fp16, i16, 0x7c00, SMALLEST)

#define SCALE(name, type, number, expression)                        \
    MANY_TARGETS static void name(void *dst, int64_t n, int divisor) \
    {                                                                \
        type *d = dst; /* NOLINT(bugprone-macro-parentheses) */      \
        number by = (number)divisor;                                 \
                                                                     \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++)          \
        {                                                            \
            type x = d[i];                                           \
                                                                     \
            d[i] = (type)(expression);                               \
        }                                                            \
    }

SCALE(scale_f32, f32, float, x / by)
SCALE(scale_f64, f64, double, x / by)
SCALE(scale_bf16, u16, float, to_bf16(from_bf16(x) / by))
SCALE(scale_fp16, u16, float, to_fp16(from_fp16(x) / by))
SCALE(scale_i32, i32, int32_t, x / by)
SCALE(scale_i64, i64, int64_t, x / by)

/* ---- table ------------------------------------------------------------ */

static const struct kind {
    const char *name;
    int64_t bytes;
    reduce_fn *op[4]; /* by enum pdl_comm_op */
    scale_fn *scale;
} kinds[PDL_NCOMM_TYPES] = {
// clang-format off
#define ROW(name, text, bytes, t) \
    [PDL_COMM_##name] = {text, bytes, \
        {sum_##t, max_##t, min_##t, sum_##t}, scale_##t}
    ROW(F32,  "float32", 4, f32),
    ROW(F64,  "float64", 8, f64),
    ROW(BF16, "bf16",    2, bf16),
    ROW(F16,  "fp16",    2, fp16),
    ROW(I32,  "int32",   4, i32),
    ROW(I64,  "int64",   8, i64),
#undef ROW
    // clang-format on
};

int64_t comm_type_bytes(enum pdl_comm_type type)
{
    return kinds[type].bytes;
}

const char *comm_type_name(enum pdl_comm_type type)
{
    return kinds[type].name;
}

void comm_reduce(void *dst, const void *src, int64_t n, enum pdl_comm_type type,
                 enum pdl_comm_op op)
{
    kinds[type].op[op](dst, dst, src, n);
}

void pdl_comm_combine(void *dst, const void *a, const void *b, int64_t n,
                      enum pdl_comm_type type, enum pdl_comm_op op)
{
    kinds[type].op[op](dst, a, b, n);
}

void comm_scale(void *dst, int64_t n, enum pdl_comm_type type, int divisor)
{
    kinds[type].scale(dst, n, divisor);
}
