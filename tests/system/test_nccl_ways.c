/* What NCCL's tuner expects: by hand from its tables, against measured rates,
 * and what is refused. */
#include "paradl/system.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct asked {
    struct pdl_nccl_way list[PDL_NCCL_WAYS];
    int n;
};

static struct asked ask(const char *system, const char *collective,
                        int64_t ranks, int64_t per_node, int64_t bytes)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_err err = {"", ""};
    struct pdl_system sys;
    struct asked r = {.n = 0};

    if (pdl_system_open(a, system, &sys, &err) != PDL_OK ||
        pdl_nccl_ways(&sys, collective, ranks, per_node, bytes, r.list, &r.n,
                      &err) != PDL_OK)
        fail_msg("%s: %s", system, err.msg);
    pdl_arena_destroy(a);
    return r;
}

static const struct pdl_nccl_way *
way(const struct asked *r, const char *algorithm, const char *protocol)
{
    for (int i = 0; i < r->n; i++)
        if (strcmp(r->list[i].algorithm, algorithm) == 0 &&
            strcmp(r->list[i].protocol, protocol) == 0)
            return &r->list[i];
    return NULL;
}

/* One row a way: 18 links of 20.6 GB/s are 12 channels of 30 in a node, eight
 * adapters of 50 GB/s behind PCIe 5 are eight of 45 between nodes. */
static const struct hand {
    const char *system, *collective;
    int64_t ranks, per_node, bytes;
    const char *algorithm, *protocol;
    double latency_s, bytes_per_s;
} hands[] = {
    /* 14 hops; half of 360 is more than LL's 141 */
    {"dgx-h100", "allreduce", 8, 0, 1024, "ring", "LL", 6.6e-6 + 14 * .6e-6,
     141e9 * 8 / 14},
    {"dgx-h100", "allreduce", 8, 0, 1 << 30, "ring", "Simple",
     8.4e-6 + 14 * 3.4e-6, 360e9 * 8 / 14},
    {"dgx-h100", "allreduce", 8, 0, 1 << 30, "ring", "LL128",
     14e-6 + 14 * 1.9e-6, .92 * 360e9 * 8 / 14},
    /* eight heads of 40, .85 of seven of them, both ways */
    {"dgx-h100", "allreduce", 8, 0, 1 << 30, "nvls", "Simple", 25e-6,
     8 * 40e9 * .85 * 7 / 8 * 2 * 8 / 14},
    /* 28 hops of a microsecond, which posting takes, two to the other node */
    {"dgx-h100", "allreduce", 16, 0, 1024, "ring", "LL",
     6.6e-6 + 28 * 1e-6 + 2 * 2.7e-6, 39e9 * 16 / 30},
    /* seven hops and one to the other node, up and down; 1 KiB: four doublings
     * of 64 bytes, .9 of the rate; the rate of LL by the CPU, Intel's */
    {"dgx-h100", "allreduce", 16, 0, 1024, "tree", "LL",
     6.8e-6 + 2 * (7 * .6e-6 + 5e-6), 39e9 * .9 / 2},
    {"dgx-h100", "allreduce", 16, 0, 1 << 30, "nvls-tree", "Simple",
     25e-6 + 2 * 20.9e-6, 8 * 57.7e9 * 16 / 30},
    /* AMD's host: two microseconds to post, three times that by Simple */
    {"dgx-a100", "allgather", 16, 0, 1 << 30, "ring", "Simple",
     8.4e-6 + 14 * 6e-6 + 14e-6, 192e9 * 16 / 15},
    /* one rank a node behind its own PCIe: a channel of 24 GB/s */
    {"dgx-a100", "reduce-scatter", 8, 1, 1 << 20, "pat", "Simple",
     8e-6 + 3 * 14e-6 / 3.5 + 8 * 2.8e-6, .75 * 24e9},
};

static void ways_are_priced_as_by_hand(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof hands / sizeof hands[0]; i++) {
        const struct hand *h = &hands[i];
        struct asked r =
            ask(h->system, h->collective, h->ranks, h->per_node, h->bytes);
        const struct pdl_nccl_way *w = way(&r, h->algorithm, h->protocol);

        assert_non_null(w);
        if (fabs(w->latency_s / h->latency_s - 1) > 1e-9 ||
            fabs(w->bytes_per_s / h->bytes_per_s - 1) > 1e-9)
            fail_msg("row %zu: %g s, %g GB/s; by hand %g s, %g GB/s", i,
                     w->latency_s, w->bytes_per_s / 1e9, h->latency_s,
                     h->bytes_per_s / 1e9);
    }
}

/* Bus rates of large allreduces that were measured (sources with the systems'
 * own numbers), and how far off the tuner's expectation may be. */
static void large_allreduces_are_as_fast_as_measured(void **state)
{
    static const struct {
        const char *system, *algorithm;
        int64_t ranks;
        double measured, within;
    } cases[] = {
        {"dgx-a100", "ring", 8, 232.5e9, .04},
        {"dgx-a100", "ring", 64, 192e9, .01},
        {"dgx-h100", "ring", 8, 370e9, .03},
        {"dgx-h100", "nvls", 8, 480e9, .02},
        {"dgx-h200", "nvls", 8, 482e9, .02},
        {"dgx-b200", "ring", 8, 682e9, .06},
        {"dgx-b200", "nvls", 8, 838e9, .12},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t p = cases[i].ranks;
        struct asked r =
            ask(cases[i].system, "allreduce", p, 0, (int64_t)1 << 34);
        const struct pdl_nccl_way *w = way(&r, cases[i].algorithm, "Simple");
        double bus;

        assert_non_null(w);
        bus = w->bytes_per_s * 2 * (double)(p - 1) / (double)p;
        if (fabs(bus / cases[i].measured - 1) > cases[i].within)
            fail_msg("%s %s: %.1f GB/s of %.1f", cases[i].system,
                     cases[i].algorithm, bus / 1e9, cases[i].measured / 1e9);
    }
}

static void the_quickest_is_first_and_protocols_change_with_size(void **state)
{
    struct asked small = ask("dgx-a100", "allreduce", 8, 0, 1024);
    struct asked large = ask("dgx-a100", "allreduce", 8, 0, 1 << 30);
    struct asked pcie = ask("aws-g4dn", "allreduce", 2, 1, 1 << 20);

    (void)state;
    for (int i = 1; i < small.n; i++)
        assert_true(small.list[i - 1].seconds <= small.list[i].seconds);
    assert_string_equal(small.list[0].protocol, "LL");
    assert_string_equal(large.list[0].protocol, "Simple");
    assert_null(way(&large, "nvls", "Simple")); /* Ampere's switch adds not */
    assert_null(way(&large, "pat", "Simple"));
    assert_null(way(&pcie, "ring", "LL128"));
    assert_non_null(way(&pcie, "ring", "Simple"));
}

static void what_nccl_does_not_run_on_is_refused(void **state)
{
    static const struct {
        const char *system, *collective;
        int64_t ranks, per_node;
        const char *why;
    } cases[] = {
        {"dgx-h100", "alltoall", 8, 0, "not alltoall"},
        {"dgx-h100", "allreduce", 12, 0, "12 ranks are not nodes of 8"},
        {"dgx-h100", "allreduce", 1, 0, "1 ranks are not"},
        {"dgx-h100", "allreduce", 32, 16, "at most 8 a node"},
        {"fugaku", "allreduce", 8, 0, "NCCL has no rates for"},
    };
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pdl_nccl_way list[PDL_NCCL_WAYS];
        struct pdl_err err = {"", ""};
        struct pdl_system sys;
        int n = -1;

        assert_int_equal(pdl_system_open(a, cases[i].system, &sys, &err),
                         PDL_OK);
        assert_int_equal(
            pdl_nccl_ways(&sys, cases[i].collective, cases[i].ranks,
                          cases[i].per_node, 1024, list, &n, &err),
            PDL_EINVAL);
        if (!strstr(err.msg, cases[i].why) || n != -1)
            fail_msg("row %zu: '%s'", i, err.msg);
    }
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ways_are_priced_as_by_hand),
        cmocka_unit_test(large_allreduces_are_as_fast_as_measured),
        cmocka_unit_test(the_quickest_is_first_and_protocols_change_with_size),
        cmocka_unit_test(what_nccl_does_not_run_on_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
