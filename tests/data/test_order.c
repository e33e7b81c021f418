/* The order of an epoch: a bijection for every number of samples, the same
 * whoever asks, and no order likelier than another. */
#include "paradl/data.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct pdl_order order(const char *how, uint64_t seed, int64_t epoch,
                              int64_t n)
{
    struct pdl_order o;

    pdl_order_begin(&o, pdl_shuffle_find(how, NULL), seed, epoch, n);
    return o;
}

/* Every sample once, and find undoes at. */
static bool is_bijection(const struct pdl_order *o)
{
    char *seen = calloc((size_t)o->n, 1);
    bool ok = seen != NULL;

    for (int64_t i = 0; ok && i < o->n; i++) {
        int64_t s = o->how->at(o, i);

        ok = s >= 0 && s < o->n && !seen[s] && o->how->find(o, s) == i;
        if (ok)
            seen[s] = 1;
    }
    free(seen);
    return ok;
}

static void every_order_is_a_bijection_at_every_size(void **state)
{
    (void)state;
    for (int k = 0; pdl_shuffle_at(k); k++)
        for (int64_t n = 1; n <= 2100; n += n < 1100 ? 1 : 43) {
            struct pdl_order o;

            pdl_order_begin(&o, pdl_shuffle_at(k), 17, n % 5, n);
            assert_true(is_bijection(&o));
        }
}

static int64_t at_folded(const struct pdl_order *o, int64_t i)
{
    return i / 2 + o->n % 2;
}

static void a_wrong_order_is_no_bijection(void **state)
{
    struct pdl_shuffle folded = *pdl_shuffle_find("none", NULL);
    struct pdl_order o = order("none", 1, 0, 10);

    (void)state;
    folded.at = at_folded;
    o.how = &folded;
    assert_false(is_bijection(&o));
}

static void huge_sets_can_be_asked_at_any_place(void **state)
{
    struct pdl_rng r = {.key = 3};

    (void)state;
    for (int t = 0; t < 3000; t++) {
        int bits = 1 + (int)pdl_rng_below(&r, 62);
        int64_t n = 1 + (int64_t)(pdl_rng_u64(&r) >> (64 - bits));
        struct pdl_order o = order("global", pdl_rng_u64(&r), t, n);
        int64_t i = (int64_t)pdl_rng_below(&r, (uint64_t)n);
        int64_t s = pdl_order_at(&o, i);

        assert_true(s >= 0 && s < n);
        assert_true(pdl_order_find(&o, s) == i);
    }
}

/* Ranks deal a batch among themselves: whatever their number, the batch is
 * the same samples in the same order. */
static void the_order_does_not_know_of_ranks(void **state)
{
    enum { N = 1000, B = 48 };
    struct pdl_batching b = {.samples = N, .batch = B};
    int64_t want[B], got[B];

    (void)state;
    for (int64_t i = 0; i < pdl_batch_count(&b); i++) {
        for (int p = 1; p <= 7; p++) {
            int64_t lo, hi;

            pdl_batch_range(&b, i, &lo, &hi);
            for (int r = p - 1; r >= 0; r--) { /* each for itself */
                struct pdl_order o = order("global", 5, 2, N);

                for (int64_t k = B * r / p; k < B * (r + 1) / p; k++)
                    got[k] = pdl_order_at(&o, lo + k);
            }
            if (p == 1)
                memcpy(want, got, sizeof want);
            assert_memory_equal(want, got, sizeof want);
        }
    }
}

static void seeds_and_epochs_give_other_orders(void **state)
{
    struct pdl_order a = order("global", 1, 0, 1000);
    struct pdl_order b = order("global", 1, 1, 1000);
    struct pdl_order c = order("global", 2, 0, 1000);
    int ab = 0, ac = 0;

    (void)state;
    for (int64_t i = 0; i < 1000; i++) {
        ab += pdl_order_at(&a, i) == pdl_order_at(&b, i);
        ac += pdl_order_at(&a, i) == pdl_order_at(&c, i);
    }
    assert_true(ab < 10 && ac < 10); /* one fixed point on average */
}

/* A resumed run, another machine: the order is part of the file format. */
static void the_order_is_what_it_always_was(void **state)
{
    static const int64_t want[] = {487, 1503, 1044, 166, 1048, 423, 1462, 1104};
    struct pdl_order o = order("global", 42, 3, 1797);

    (void)state;
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++)
        assert_int_equal(pdl_order_at(&o, (int64_t)i), want[i]);
}

/* ---- no order is likelier than another ---- */

static int rank_of_permutation(const struct pdl_order *o)
{
    int n = (int)o->n, rank = 0;
    int64_t s[8];

    for (int i = 0; i < n; i++)
        s[i] = pdl_order_at(o, i);
    for (int i = 0; i < n; i++) {
        int smaller = 0;

        for (int j = i + 1; j < n; j++)
            smaller += s[j] < s[i];
        rank = rank * (n - i) + smaller;
    }
    return rank;
}

/* Deviation of chi-squared from its mean in standard deviations. */
static double sigmas(const int *count, int cells, double expected)
{
    double chi = 0;

    for (int i = 0; i < cells; i++)
        chi += (count[i] - expected) * (count[i] - expected) / expected;
    return (chi - (cells - 1)) / sqrt(2.0 * (cells - 1));
}

static void all_orders_of_a_few_samples_are_equally_likely(void **state)
{
    static const int factorial[] = {1, 1, 2, 6, 24, 120, 720, 5040};
    enum { EACH = 60 };
    int count[5040];

    (void)state;
    for (int n = 2; n <= 7; n++) {
        memset(count, 0, sizeof count);
        for (int e = 0; e < EACH * factorial[n]; e++) {
            struct pdl_order o = order("global", 9, e, n);

            count[rank_of_permutation(&o)]++;
        }
        assert_true(fabs(sigmas(count, factorial[n], EACH)) < 5);
    }
}

/* Where a sample lands over epochs, and how far neighbours are torn apart. */
static void samples_land_everywhere_and_leave_their_neighbours(void **state)
{
    enum { N = 100, EPOCHS = 20000 };
    int place[N] = {0}, gap[N] = {0};

    (void)state;
    for (int e = 0; e < EPOCHS; e++) {
        struct pdl_order o = order("global", 11, e, N);
        int64_t a = pdl_order_find(&o, 40), b = pdl_order_find(&o, 41);

        place[a]++;
        gap[(b - a + N) % N]++;
    }
    assert_true(fabs(sigmas(place, N, (double)EPOCHS / N)) < 5);
    assert_int_equal(gap[0], 0);
    assert_true(fabs(sigmas(gap + 1, N - 1, (double)EPOCHS / (N - 1))) < 5);
}

static void the_count_sees_a_biased_order(void **state)
{
    int count[6] = {0};

    (void)state;
    for (int e = 0; e < 600; e++) /* two of six orders */
        count[e % 2]++;
    assert_true(sigmas(count, 6, 100) > 5);
}

/* ---- batches and descriptions ---- */

static void batches_cover_an_epoch_once(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= 60; n++)
        for (int64_t size = 1; size <= 64; size++)
            for (int keep = 0; keep <= 1; keep++) {
                struct pdl_batching b = {n, size, keep};
                int64_t count = pdl_batch_count(&b), at = 0, lo, hi;

                for (int64_t i = 0; i < count; i++) {
                    pdl_batch_range(&b, i, &lo, &hi);
                    assert_true(lo == at && hi > lo && hi - lo <= size);
                    assert_true(hi - lo == size || (keep && i == count - 1));
                    at = hi;
                }
                assert_true(keep ? at == n : n - at < size);
            }
}

static void a_step_knows_its_epoch(void **state)
{
    struct pdl_batching b = {.samples = 10, .batch = 4, .keep_last = true};
    int64_t epoch, index;

    (void)state;
    pdl_batch_locate(&b, 0, &epoch, &index);
    assert_true(epoch == 0 && index == 0);
    pdl_batch_locate(&b, 8, &epoch, &index);
    assert_true(epoch == 2 && index == 2);
    b.keep_last = false;
    pdl_batch_locate(&b, 8, &epoch, &index);
    assert_true(epoch == 4 && index == 0);
}

static void orders_are_found_by_name(void **state)
{
    struct pdl_err err = {"", ""};

    (void)state;
    for (int i = 0; pdl_shuffle_at(i); i++)
        assert_ptr_equal(pdl_shuffle_find(pdl_shuffle_at(i)->name, NULL),
                         pdl_shuffle_at(i));
    assert_null(pdl_shuffle_find("globl", &err));
    assert_string_equal(err.hint, "did you mean 'global'?");
}

static void descriptions_are_checked(void **state)
{
    struct pdl_dataset good = {
        .name = "d",
        .input = {.rank = 3, .dim = {1, 8, 8}},
        .target = {.integer = true},
        .classes = 10,
        .nsplits = 2,
        .split = {{"train", 9}, {"test", 1}},
    };
    struct pdl_dataset bad = good;
    struct pdl_err err;

    (void)state;
    assert_int_equal(pdl_dataset_check(&good, &err), PDL_OK);
    assert_int_equal(pdl_dataset_split(&good, "test"), 1);
    assert_int_equal(pdl_dataset_split(&good, "val"), -1);
    bad.split[1].name = "train";
    assert_int_equal(pdl_dataset_check(&bad, &err), PDL_EPARSE);
    bad = good;
    bad.split[1].samples = 0;
    assert_int_equal(pdl_dataset_check(&bad, &err), PDL_EPARSE);
    bad = good;
    bad.input.dim[0] = bad.input.dim[1] = (int64_t)1 << 40;
    assert_int_equal(pdl_dataset_check(&bad, &err), PDL_EPARSE);
    bad = good;
    bad.input.dim[2] = 0;
    assert_int_equal(pdl_dataset_check(&bad, &err), PDL_EPARSE);
    bad = good;
    bad.classes = (int64_t)1 << 32;
    assert_int_equal(pdl_dataset_check(&bad, &err), PDL_EPARSE);
    bad = good;
    bad.nsplits = 0;
    assert_int_equal(pdl_dataset_check(&bad, &err), PDL_EPARSE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_order_is_a_bijection_at_every_size),
        cmocka_unit_test(a_wrong_order_is_no_bijection),
        cmocka_unit_test(huge_sets_can_be_asked_at_any_place),
        cmocka_unit_test(the_order_does_not_know_of_ranks),
        cmocka_unit_test(seeds_and_epochs_give_other_orders),
        cmocka_unit_test(the_order_is_what_it_always_was),
        cmocka_unit_test(all_orders_of_a_few_samples_are_equally_likely),
        cmocka_unit_test(samples_land_everywhere_and_leave_their_neighbours),
        cmocka_unit_test(the_count_sees_a_biased_order),
        cmocka_unit_test(batches_cover_an_epoch_once),
        cmocka_unit_test(a_step_knows_its_epoch),
        cmocka_unit_test(orders_are_found_by_name),
        cmocka_unit_test(descriptions_are_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
