/* Networks for a traffic: what is left out is never on the front, groups that
 * run at once share the network, and what a plan sends is its own groups. */
#include "paradl/coll.h"
#include "paradl/job.h"
#include "paradl/tune.h"

#include "effort.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

static struct pdl_networks search(pdl_arena *a, struct pdl_network_ask *ask,
                                  struct pdl_network_rival *rivals, int n)
{
    struct pdl_networks r = {.n = 0};
    struct pdl_err err = {"", ""};

    ask->bytes_per_s = 12.5e9;
    ask->latency_s = 1e-6;
    if (pdl_network_search(a, ask, rivals, n, &r, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    return r;
}

static void nothing_of_the_front_is_left_out(void **state)
{
    static const struct {
        const char *collective;
        int64_t bytes;
        bool shared;
    } cases[] = {{"allreduce", 1 << 20, false},
                 {"allreduce", 1 << 20, true},
                 {"alltoall", 1 << 16, false}};

    (void)state;
    for (int i = 0; i < effort(1, 3, 3); i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_demand d = {.collective = cases[i].collective,
                               .name = "all",
                               .members = 16,
                               .groups = 1,
                               .bytes = cases[i].bytes,
                               .times = 1};
        struct pdl_network_ask ask = {.hosts = 16,
                                      .radix = 8,
                                      .shared = cases[i].shared,
                                      .demand = &d,
                                      .ndemands = 1};
        struct pdl_networks x = search(a, &ask, NULL, 0), y;
        double least = INFINITY;

        ask.exhaustive = true;
        y = search(a, &ask, NULL, 0);
        assert_int_equal(x.n, y.n);
        assert_true(x.simulated < y.simulated);
        for (int k = 0; k < x.n; k++) {
            assert_string_equal(x.list[k].spec, y.list[k].spec);
            assert_int_equal(y.list[k].front, y.list[k].seconds < least * .999);
            assert_int_equal(x.list[k].front, y.list[k].front);
            if (y.list[k].front)
                assert_true(x.list[k].seconds == y.list[k].seconds);
            least = fmin(least, y.list[k].seconds);
        }
        assert_true(isfinite(least));
        pdl_arena_destroy(a);
    }
}

/* One allreduce as `paradl simulate` has it; two groups at once on one tapered
 * tree are slower than each alone would be, and no faster than half. */
static void groups_at_once_share_what_they_cross(void **state)
{
    static const int far[16] = {0, 8,  1, 9,  2, 10, 3, 11,
                                4, 12, 5, 13, 6, 14, 7, 15};
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_demand all = {"send", "pairs", 2, 8, far, 1 << 20, 1};
    struct pdl_demand one = {"send", "a pair", 2, 1, far, 1 << 20, 1};
    struct pdl_network_rival r[2] = {{.spec = "fat-tree:down=8x2,up=1x1"},
                                     {.spec = "fat-tree:down=8x2,up=1x8"}};
    struct pdl_network_ask ask = {
        .hosts = 16, .radix = 16, .demand = &all, .ndemands = 1};
    double alone, eight, full;

    (void)state;
    search(a, &ask, r, 2);
    eight = r[0].is.seconds;
    full = r[1].is.seconds;
    ask.demand = &one;
    search(a, &ask, r, 2);
    alone = r[0].is.seconds;
    assert_true(eight > 7 * alone && eight < 8.01 * alone);
    assert_true(full < 1.3 * alone);
    pdl_arena_destroy(a);
}

static void a_plan_sends_what_its_groups_exchange(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    pdl_job *j = pdl_job_create();
    struct pdl_demand *d = NULL;
    struct pdl_err err = {"", ""};
    const char *left;
    int n = 0, reduces = 0, sends = 0;

    (void)state;
    pdl_job_set(j, "model", "gpt2", NULL);
    pdl_job_set(j, "system", "dgx-h100", NULL);
    pdl_job_set(j, "batch", "32", NULL);
    pdl_job_set(j, "strategy", "pipe=2(m=8),data=4,tensor=2", NULL);
    if (pdl_job_lower(j, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(
        pdl_plan_demands(a, pdl_job_plan(j), 2, &d, &n, &left, &err), PDL_OK);
    assert_null(left);
    for (int i = 0; i < n; i++) {
        /* tensor ranks are neighbours in a node of two: left out */
        assert_int_equal(d[i].members * d[i].groups, 16);
        if (strcmp(d[i].collective, "send") == 0) {
            assert_int_equal(d[i].members, 2);
            sends++;
        } else {
            assert_int_equal(d[i].members, 4);
            assert_int_equal(d[i].host[1] - d[i].host[0], 2);
            reduces++;
        }
    }
    assert_true(sends > 0 && reduces > 0);
    pdl_job_destroy(j);
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_of_the_front_is_left_out),
        cmocka_unit_test(groups_at_once_share_what_they_cross),
        cmocka_unit_test(a_plan_sends_what_its_groups_exchange),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
