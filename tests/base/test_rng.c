/* Philox: the known answers of its authors' library (Random123, kat_vectors)
 * and the properties that users rely on. */
#include "paradl/base.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>

static void known_answers(void **state)
{
    /* counter 0..3, key 0..1, answer 0..3, as listed */
    static const struct {
        uint32_t ctr[4], key[2], want[4];
    } cases[] = {
        {{0, 0, 0, 0},
         {0, 0},
         {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const uint32_t *c = cases[i].ctr, *k = cases[i].key;
        struct pdl_rng4 got =
            pdl_philox((uint64_t)k[1] << 32 | k[0], (uint64_t)c[3] << 32 | c[2],
                       (uint64_t)c[1] << 32 | c[0]);

        for (int w = 0; w < 4; w++)
            assert_int_equal(got.v[w], cases[i].want[w]);
    }
}

static void streams_are_functions_of_key_stream_and_place(void **state)
{
    struct pdl_rng a = {.key = 7, .stream = 3}, b = {.key = 7, .stream = 4};
    struct pdl_rng jump = {.key = 7, .stream = 3, .next = 500};
    uint64_t x = 0;
    int same = 0;

    (void)state;
    for (int i = 0; i <= 500; i++) {
        x = pdl_rng_u64(&a);
        same += x == pdl_rng_u64(&b);
    }
    assert_true(x == pdl_rng_u64(&jump));
    assert_int_equal(same, 0);
}

/* Chi-squared over the buckets; 5 sigma on either side. A generator that
 * takes x % n of a 64-bit x would be off by 1/3 for the last n. */
static void below_is_unbiased(void **state)
{
    static const uint64_t ns[] = {1, 2, 3, 10, 1000, 3ull << 62};

    (void)state;
    for (size_t i = 0; i < sizeof ns / sizeof ns[0]; i++) {
        enum { BUCKETS = 10, DRAWS = 100000 };
        struct pdl_rng rng = {.key = 11, .stream = i};
        uint64_t n = ns[i], k = n < BUCKETS ? n : BUCKETS;
        double counts[BUCKETS] = {0}, chi2 = 0;

        for (int d = 0; d < DRAWS; d++) {
            uint64_t x = pdl_rng_below(&rng, n);

            assert_true(x < n);
            counts[(uint64_t)((double)x / (double)n * (double)k)]++;
        }
        for (uint64_t b = 0; b < k; b++)
            chi2 += pow(counts[b] - (double)DRAWS / (double)k, 2) /
                    ((double)DRAWS / (double)k);
        assert_true(fabs(chi2 - (double)(k - 1)) <=
                    5 * sqrt(2 * (double)k) + 1e-9);
    }
}

static void units_fill_the_half_open_interval(void **state)
{
    struct pdl_rng rng = {.key = 12};
    double sum = 0, low = 1, high = 0;
    enum { N = 100000 };

    (void)state;
    for (int i = 0; i < N; i++) {
        double u = pdl_rng_unit(&rng);

        assert_true(u >= 0 && u < 1);
        sum += u;
        low = fmin(low, u);
        high = fmax(high, u);
    }
    assert_true(fabs(sum / N - 0.5) < 5 * sqrt(1 / 12.0 / N));
    assert_true(low < 1e-3 && high > 1 - 1e-3);
}

static void many_words_are_those_of_single_counters(void **state)
{
    static const uint64_t firsts[] = {
        0, 1, 2, 3, 4, 31, 1000003, UINT64_C(0xffffffff) * 4 - 5};
    uint32_t out[101];

    (void)state;
    for (size_t f = 0; f < sizeof firsts / sizeof firsts[0]; f++)
        for (int64_t n = 0; n <= 101; n += n < 10 ? 1 : 13) {
            pdl_philox_words(77, 5, firsts[f], n, out);
            for (int64_t i = 0; i < n; i++) {
                uint64_t w = firsts[f] + (uint64_t)i;

                assert_int_equal(out[i], pdl_philox(77, 5, w / 4).v[w % 4]);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_words_are_those_of_single_counters),
        cmocka_unit_test(known_answers),
        cmocka_unit_test(streams_are_functions_of_key_stream_and_place),
        cmocka_unit_test(below_is_unbiased),
        cmocka_unit_test(units_fill_the_half_open_interval),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
