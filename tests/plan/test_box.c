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

/* Where an item lies in memory. */
static int64_t at_of(const struct pdl_box *w, const int64_t *i, bool last)
{
    int64_t at = 0;

    for (int d = 0; d < w->ndims; d++)
        if (!last || d != 1)
            at = at * (w->hi[d] - w->lo[d]) + i[d] - w->lo[d];
    return last ? at * (w->hi[1] - w->lo[1]) + i[1] - w->lo[1] : at;
}

static void a_run_is_as_long_as_items_lie_side_by_side(void **state)
{
    struct pdl_rng rng = {.key = 3};
    int runs = 0;

    (void)state;
    for (int t = 0; t < 20000; t++) {
        struct pdl_box w = {.ndims = 3}, p = {.ndims = 3};
        bool last = pick(&rng, 0, 1), in[64] = {false};
        int64_t i[3], longest = 0, n = 0, run;

        for (int d = 0; d < 3; d++) {
            w.lo[d] = pick(&rng, 0, 2);
            w.hi[d] = w.lo[d] + pick(&rng, 1, 4);
            p.lo[d] = pick(&rng, w.lo[d], w.hi[d] - 1);
            p.hi[d] = pick(&rng, p.lo[d] + 1, w.hi[d]);
        }
        for (i[0] = p.lo[0]; i[0] < p.hi[0]; i[0]++)
            for (i[1] = p.lo[1]; i[1] < p.hi[1]; i[1]++)
                for (i[2] = p.lo[2]; i[2] < p.hi[2]; i[2]++)
                    in[at_of(&w, i, last)] = true;
        for (int64_t k = 0; k < 64; k++) {
            n = in[k] ? n + 1 : 0;
            longest = n > longest ? n : longest;
        }
        run = pdl_box_run(&w, &p, last);
        assert_true(pdl_box_volume(&p) % run == 0);
        /* whole parts may touch each other by chance; one run is never two */
        assert_true(run <= longest);
        assert_int_equal(run == pdl_box_volume(&p),
                         longest == pdl_box_volume(&p));
        runs += run == pdl_box_volume(&p);
    }
    assert_true(runs > 1000 && runs < 19000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_tile_the_whole_in_order),
        cmocka_unit_test(a_split_of_huge_sizes_does_not_overflow),
        cmocka_unit_test(intersection_holds_exactly_the_common_items),
        cmocka_unit_test(a_run_is_as_long_as_items_lie_side_by_side),
        cmocka_unit_test(windows_name_the_items_that_are_read),
        cmocka_unit_test(windows_name_the_readers_of_items),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
