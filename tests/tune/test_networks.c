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

/* By its definition: faster than all that cost less, by what is noticed, and
 * than all that cost as much; of equals the first. */
static bool on_front(const struct pdl_networks *x, int k)
{
    const struct pdl_network_point *n = &x->list[k];

    for (int i = 0; i < x->n; i++) {
        double more = x->list[i].cost - n->cost;

        if (more < -.01 && x->list[i].seconds * .999 <= n->seconds)
            return false;
        if (fabs(more) <= .01 && (x->list[i].seconds < n->seconds ||
                                  (x->list[i].seconds == n->seconds && i < k)))
            return false;
    }
    return isfinite(n->seconds);
}

static void nothing_of_the_front_is_left_out(void **state)
{
    static const struct {
        const char *collective;
        int64_t bytes;
        bool shared;
    } cases[] = {{"reduce-scatter", 1 << 16, false},
                 {"allreduce", 1 << 10, false},
                 {"allreduce", 1 << 20, false},
                 {"allreduce", 1 << 20, true},
                 {"alltoall", 1 << 16, false}};

    (void)state;
    for (int i = 0; i < effort(2, 5, 5); i++) {
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
        const struct pdl_network_point *last = NULL;

        ask.exhaustive = true;
        y = search(a, &ask, NULL, 0);
        assert_int_equal(x.n, y.n);
        assert_true(x.simulated < y.simulated);
        for (int k = 0; k < x.n; k++) {
            assert_string_equal(x.list[k].spec, y.list[k].spec);
            assert_int_equal(y.list[k].front, on_front(&y, k));
            assert_int_equal(x.list[k].front, y.list[k].front);
            if (!y.list[k].front)
                continue;
            assert_true(x.list[k].seconds == y.list[k].seconds);
            assert_string_equal(x.list[k].by[0], y.list[k].by[0]);
            assert_true(!last || last->cost + .01 < y.list[k].cost);
            last = &y.list[k];
        }
        assert_non_null(last);
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
    struct pdl_demand all = {.collective = "send",
                             .name = "pairs",
                             .members = 2,
                             .groups = 8,
                             .host = far,
                             .bytes = 1 << 20,
                             .times = 1};
    struct pdl_demand one = all;
    struct pdl_network_rival r[2] = {{.spec = "fat-tree:down=8x2,up=1x1"},
                                     {.spec = "fat-tree:down=8x2,up=1x8"}};
    struct pdl_network_ask ask = {
        .hosts = 16, .radix = 16, .demand = &all, .ndemands = 1};
    double alone, eight, full;

    (void)state;
    one.groups = 1;
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

/* Two that cost and take the same, both on the front of no third: which is
 * kept, and by which of equal algorithms, is no matter of threads. */
static void threads_do_not_change_the_answer(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_demand d = {.collective = "reduce-scatter",
                           .name = "all",
                           .members = 16,
                           .groups = 1,
                           .bytes = 1 << 16,
                           .times = 1};
    struct pdl_network_ask ask = {
        .hosts = 16, .radix = 8, .demand = &d, .ndemands = 1, .threads = 1};
    struct pdl_networks one = search(a, &ask, NULL, 0);

    (void)state;
    for (int i = 0; i < effort(8, 16, 32); i++) {
        struct pdl_networks x;

        ask.threads = 3 * i + 2;
        x = search(a, &ask, NULL, 0);
        assert_int_equal(x.n, one.n);
        for (int k = 0; k < x.n; k++) {
            assert_string_equal(x.list[k].spec, one.list[k].spec);
            assert_int_equal(x.list[k].front, one.list[k].front);
            assert_true(x.list[k].seconds == one.list[k].seconds);
            if (x.list[k].front)
                assert_string_equal(x.list[k].by[0], one.list[k].by[0]);
        }
    }
    pdl_arena_destroy(a);
}

static volatile int now;

static bool stop_at_the_third(void *ctx, int64_t done, int64_t total)
{
    (void)ctx;
    (void)total;
    now = done >= 3;
    return true;
}

static void who_stops_it_has_what_was_found(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_demand d = {.collective = "allreduce",
                           .name = "all",
                           .members = 16,
                           .groups = 1,
                           .bytes = 1 << 20,
                           .times = 1};
    struct pdl_network_rival r = {.spec = "torus:4x4"};
    struct pdl_network_ask ask = {.hosts = 16,
                                  .radix = 8,
                                  .demand = &d,
                                  .ndemands = 1,
                                  .threads = 1,
                                  .progress = stop_at_the_third,
                                  .interrupt = &now};
    struct pdl_networks x;
    int front = 0;

    (void)state;
    now = 0;
    x = search(a, &ask, &r, 1);
    for (int k = 0; k < x.n; k++)
        front += x.list[k].front;
    assert_true(x.stopped && front > 0);
    assert_true(isinf(r.is.seconds) && r.winner < 0);
    now = 1; /* before the first: nothing is begun */
    ask.progress = NULL;
    x = search(a, &ask, &r, 1);
    assert_true(x.stopped && x.simulated == 0);
    pdl_arena_destroy(a);
}

/* ---- of a plan ---------------------------------------------------------- */

struct lowered {
    pdl_arena *arena;
    pdl_job *job;
    struct pdl_demand *d;
    int n;
};

static struct lowered lower(const char *strategy, int64_t node)
{
    struct lowered x = {.arena = pdl_arena_create(PDL_ARENA_DEFAULT),
                        .job = pdl_job_create()};
    struct pdl_err err = {"", ""};
    const char *left = NULL;

    pdl_job_set(x.job, "model", "gpt2", NULL);
    pdl_job_set(x.job, "system", "dgx-h100", NULL);
    pdl_job_set(x.job, "batch", "32", NULL);
    pdl_job_set(x.job, "strategy", strategy, NULL);
    if (pdl_job_lower(x.job, &err) != PDL_OK ||
        pdl_plan_demands(x.arena, pdl_job_plan(x.job), node, &x.d, &x.n, &left,
                         &err) != PDL_OK)
        fail_msg("%s: %s", strategy, err.msg);
    assert_null(left);
    return x;
}

static void forget(struct lowered *x)
{
    pdl_job_destroy(x->job);
    pdl_arena_destroy(x->arena);
}

static const struct pdl_demand *named(const struct lowered *x, const char *name)
{
    for (int i = 0; i < x->n; i++)
        if (strcmp(x->d[i].name, name) == 0)
            return &x->d[i];
    fail_msg("no %s", name);
    return NULL;
}

static void a_plan_sends_what_its_groups_exchange(void **state)
{
    struct lowered x = lower("pipe=2(m=8),data=4,tensor=2", 2);
    int reduces = 0, sends = 0;

    (void)state;
    for (int i = 0; i < x.n; i++) {
        /* tensor ranks are neighbours in a node of two: left out */
        assert_int_equal(x.d[i].members * x.d[i].groups, 16);
        if (strcmp(x.d[i].collective, "send") == 0) {
            assert_int_equal(x.d[i].members, 2);
            sends++;
        } else {
            assert_int_equal(x.d[i].members, 4);
            assert_int_equal(x.d[i].host[1] - x.d[i].host[0], 2);
            reduces++;
        }
    }
    assert_true(sends > 0 && reduces > 0);
    forget(&x);
}

static double weights_of(const struct pdl_plan *p)
{
    double sum = 0;

    for (int t = 0; t < p->ntensors; t++)
        if (p->tensors[t].kind == PDL_PLAN_WEIGHT)
            sum += (double)pdl_plan_elements(p, t, 0) *
                   pdl_dtype_bits(p->tensors[t].dtype) / 8;
    return sum;
}

/* Each stage has gradients of its own weights, and exchanges no others. */
static void stages_exchange_their_own_gradients(void **state)
{
    static const char *const cases[] = {"data=4", "pipe=2(m=4),data=4",
                                        "pipe=4(m=4),data=4"};

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct lowered x = lower(cases[i], 1);
        const struct pdl_demand *d = named(&x, "allreduce of gradients over 4");
        double sum = 0;

        assert_int_equal(d->groups, 1 << i);
        for (int g = 0; g < d->groups; g++)
            sum += d->times * (double)d->each[g];
        /* the mean of a group's is cut to whole bytes */
        assert_true(fabs(sum - weights_of(pdl_job_plan(x.job))) <=
                    d->times * d->groups);
        forget(&x);
    }
}

/* The stages together exchange what one does alone, each its part; and all
 * boundaries are passed at once, by 8 micro-batches each way. */
static void stages_work_at_the_same_time(void **state)
{
    struct lowered x = lower("pipe=4(m=8),tensor=4", 1),
                   whole = lower("tensor=4", 1);
    const struct pdl_demand *sum = named(&x, "allreduce over 4"),
                            *one = named(&whole, "allreduce over 4"),
                            *ahead = named(&x, "send over 4"),
                            *back = named(&x, "send back over 4");
    double bytes = 0;

    (void)state;
    for (int g = 0; g < sum->groups; g++)
        bytes += sum->times * (double)sum->each[g];
    assert_int_equal(sum->groups, 4);
    assert_true(fabs(bytes - one->times * (double)one->bytes) <
                5 * one->times * 8);
    assert_true(sum->times < 8 * one->times / 2);
    assert_int_equal(ahead->times, 8);
    assert_int_equal(back->times, 8);
    for (int g = 0; g < ahead->groups; g++)
        for (int j = 0; j < 4; j++) {
            int64_t there = ahead->each[4 * g + j],
                    here = back->each[4 * g + j];

            assert_int_equal(there, j < 3 ? ahead->bytes : 0);
            assert_int_equal(here, j > 0 ? back->bytes : 0);
        }
    assert_int_equal((ahead->ahead + back->ahead) % 4, 0);
    forget(&x);
    forget(&whole);
}

/* Interleaved, the last lane sends to the first; around a ring, all send. */
static void rings_are_closed(void **state)
{
    struct lowered x = lower("pipe=2(interleaved,m=8,v=2),data=2", 1),
                   ring = lower("context=4", 1);
    const struct pdl_demand *d = named(&x, "send over 2"),
                            *r = named(&ring, "rotate over 4");

    (void)state;
    assert_true(d->each[0] > 0 && d->each[1] > 0 && d->times == 16);
    /* keys with values go forward and backward to three others, and their
     * gradients home */
    assert_int_equal(r->times, 12 * (3 + 3 + 4));
    for (int j = 0; j < 4; j++)
        assert_int_equal(r->each[j], r->bytes);
    forget(&x);
    forget(&ring);
}

/* What one group of all ranks exchanges is as if it had been asked without a
 * plan, so that algorithms of a network serve it too. */
static void a_group_of_all_is_in_order(void **state)
{
    struct lowered x = lower("data=12", 1);
    struct pdl_network_rival r = {.spec = "kautz:d=3", .algorithm = "kautz"};
    struct pdl_network_ask ask = {
        .hosts = 12, .radix = 8, .demand = x.d, .ndemands = x.n};

    (void)state;
    assert_int_equal(x.n, 1);
    assert_null(x.d[0].host);
    search(x.arena, &ask, &r, 1);
    assert_true(isfinite(r.is.seconds));
    forget(&x);
}

/* Two groups of unlike bytes take as long as the larger alone, where no link
 * is shared. */
static void groups_have_their_own_bytes(void **state)
{
    static const int hosts[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    static const int64_t each[2] = {1 << 20, 1 << 24};
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_demand both = {.collective = "allreduce",
                              .name = "both",
                              .members = 4,
                              .groups = 2,
                              .host = hosts,
                              .bytes = 1 << 24,
                              .each = each,
                              .times = 1},
                      large = both;
    struct pdl_network_rival r = {.spec = "star:hosts=8", .algorithm = "ring"};
    struct pdl_network_ask ask = {
        .hosts = 8, .radix = 8, .demand = &both, .ndemands = 1};
    double two;

    (void)state;
    search(a, &ask, &r, 1);
    two = r.is.seconds;
    large.groups = 1;
    large.each = &each[1];
    ask.demand = &large;
    search(a, &ask, &r, 1);
    assert_true(fabs(two / r.is.seconds - 1) < 1e-6);
    large.each = &each[0];
    search(a, &ask, &r, 1);
    assert_true(r.is.seconds < two / 8);
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_of_the_front_is_left_out),
        cmocka_unit_test(groups_at_once_share_what_they_cross),
        cmocka_unit_test(threads_do_not_change_the_answer),
        cmocka_unit_test(who_stops_it_has_what_was_found),
        cmocka_unit_test(groups_have_their_own_bytes),
        cmocka_unit_test(a_plan_sends_what_its_groups_exchange),
        cmocka_unit_test(stages_exchange_their_own_gradients),
        cmocka_unit_test(stages_work_at_the_same_time),
        cmocka_unit_test(rings_are_closed),
        cmocka_unit_test(a_group_of_all_is_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
