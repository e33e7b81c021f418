/* Splits, boxes and windows against an item-by-item count: thousands of
 * random small cases, uneven and empty parts included. */
#include "paradl/plan.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

static int64_t pick(struct pdl_rng *r, int64_t lo, int64_t hi)
{
    return lo + (int64_t)pdl_rng_below(r, (uint64_t)(hi - lo + 1));
}

static void parts_tile_the_whole_in_order(void **state)
{
    struct pdl_rng rng = {.key = 1};

    (void)state;
    for (int t = 0; t < 20000; t++) {
        int64_t n = pick(&rng, 0, 40), u = pick(&rng, 1, 6);
        int64_t p = pick(&rng, 1, 12), at = 0, smallest = n, largest = 0;

        for (int64_t i = 0; i < p; i++) {
            int64_t lo, hi;

            pdl_split(n, u, p, i, &lo, &hi);
            assert_true(lo == at && hi >= lo && hi <= n);
            assert_true(lo % u == 0 || lo == n);
            at = hi;
            if (hi - lo < smallest)
                smallest = hi - lo;
            if (hi - lo > largest)
                largest = hi - lo;
        }
        assert_true(at == n);
        assert_true(largest - smallest <= 2 * u - 1);
    }
}

static void a_split_of_huge_sizes_does_not_overflow(void **state)
{
    int64_t lo, hi, n = INT64_C(1) << 61;

    (void)state;
    pdl_split(n, 1, 1 << 20, (1 << 20) - 1, &lo, &hi);
    assert_true(hi == n && lo == n - (n >> 20));
}

static bool inside(const struct pdl_box *b, const int64_t *at)
{
    for (int d = 0; d < b->ndims; d++)
        if (at[d] < b->lo[d] || at[d] >= b->hi[d])
            return false;
    return true;
}

static void intersection_holds_exactly_the_common_items(void **state)
{
    struct pdl_rng rng = {.key = 2};

    (void)state;
    for (int t = 0; t < 20000; t++) {
        struct pdl_box a = {.ndims = 3}, b = {.ndims = 3}, c;
        int64_t count = 0, at[3];
        bool any;

        for (int d = 0; d < 3; d++) {
            a.lo[d] = pick(&rng, 0, 5);
            a.hi[d] = pick(&rng, 0, 6);
            b.lo[d] = pick(&rng, 0, 5);
            b.hi[d] = pick(&rng, 0, 6);
        }
        any = pdl_box_intersect(&a, &b, &c);
        for (at[0] = 0; at[0] < 6; at[0]++)
            for (at[1] = 0; at[1] < 6; at[1]++)
                for (at[2] = 0; at[2] < 6; at[2]++) {
                    bool both = inside(&a, at) && inside(&b, at);

                    assert_true(both == (any && inside(&c, at)));
                    count += both;
                }
        assert_true(pdl_box_volume(&c) == count && any == (count > 0));
    }
}

/* Does output item o read input item i? */
static bool reads(const struct pdl_window *w, int64_t o, int64_t i)
{
    for (int64_t k = 0; k < w->kernel; k++)
        if (o * w->stride - w->pad + k * w->dilation == i)
            return true;
    return false;
}

static struct pdl_window random_window(struct pdl_rng *rng)
{
    struct pdl_window w = {.kernel = pick(rng, 1, 5),
                           .stride = pick(rng, 1, 4),
                           .dilation = pick(rng, 1, 3)};
    int64_t reach = (w.kernel - 1) * w.dilation + 1;
    int64_t high;

    w.pad = pick(rng, 0, reach - 1);
    high = pick(rng, 0, reach - 1);
    w.in = pick(rng, 1, 14);
    while (w.in + w.pad + high < reach)
        w.in++;
    w.out = (w.in + w.pad + high - reach) / w.stride + 1;
    return w;
}

/* The ranges are hulls: they hold every item that is read, and with
 * dilation 1 and stride <= kernel no end could be cut. */
static void windows_name_the_items_that_are_read(void **state)
{
    struct pdl_rng rng = {.key = 3};

    (void)state;
    for (int t = 0; t < 20000; t++) {
        struct pdl_window w = random_window(&rng);
        int64_t lo = pick(&rng, 0, w.out - 1), hi = pick(&rng, lo, w.out);
        int64_t first, last, f = w.in, l = 0;

        pdl_window_reads(&w, lo, hi, &first, &last);
        for (int64_t o = lo; o < hi; o++)
            for (int64_t i = 0; i < w.in; i++)
                if (reads(&w, o, i)) {
                    f = i < f ? i : f;
                    l = i + 1 > l ? i + 1 : l;
                }
        if (l == 0) {
            assert_true(last >= first);
            continue;
        }
        assert_true(first <= f && last >= l);
        if (w.dilation == 1)
            assert_true(first == f && last == l);
    }
}

static void windows_name_the_readers_of_items(void **state)
{
    struct pdl_rng rng = {.key = 4};

    (void)state;
    for (int t = 0; t < 20000; t++) {
        struct pdl_window w = random_window(&rng);
        int64_t lo = pick(&rng, 0, w.in - 1), hi = pick(&rng, lo, w.in);
        int64_t first, last, f = w.out, l = 0;

        pdl_window_readers(&w, lo, hi, &first, &last);
        for (int64_t o = 0; o < w.out; o++)
            for (int64_t i = lo; i < hi; i++)
                if (reads(&w, o, i)) {
                    f = o < f ? o : f;
                    l = o + 1 > l ? o + 1 : l;
                }
        if (l == 0)
            continue;
        assert_true(first <= f && last >= l);
        if (w.dilation == 1 && w.stride <= w.kernel)
            assert_true(first == f && last == l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_tile_the_whole_in_order),
        cmocka_unit_test(a_split_of_huge_sizes_does_not_overflow),
        cmocka_unit_test(intersection_holds_exactly_the_common_items),
        cmocka_unit_test(windows_name_the_items_that_are_read),
        cmocka_unit_test(windows_name_the_readers_of_items),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
