/* Pauses before operations, and traffic run several times in a row: values by
 * hand on two hosts and a star (1 GB/s, 1 us a cable). */
#include "net_cases.h"

#include <string.h>

enum { MB = 1000000 };

/* Rank 0 sends 1 MB to rank 1 three times; before the k-th message it
 * computes for k ms. */
static int64_t three(void *ctx, int rank)
{
    (void)ctx;
    (void)rank;
    return 3;
}

static void computing(void *ctx, int rank, int64_t i,
                      struct pdl_traffic_op *out)
{
    const double *unit = ctx;

    *out =
        (struct pdl_traffic_op){.send_to = rank == 0 ? 1 : -1,
                                .recv_from = rank == 0 ? -1 : 0,
                                .send_bytes = MB,
                                .recv_bytes = MB,
                                .nafter = i > 0,
                                .after = {i - 1},
                                .compute_s = rank == 0 ? *unit * (double)i : 0};
}

static struct pdl_sim_result run(const struct pdl_traffic *t, bool events)
{
    pdl_arena *a = pdl_arena_create((size_t)1 << 30);
    const struct pdl_net *net;
    struct pdl_sim_config config = {.events_only = events};
    struct pdl_sim_result r;
    struct pdl_err err = {"", ""};

    assert_int_equal(
        pdl_net_make(a, "star:hosts=4,bw=1GB/s,lat=1us,backbone=1TB/s", &net,
                     &err),
        PDL_OK);
    if (pdl_sim_run(a, net, t, &config, &r, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    pdl_arena_destroy(a);
    return r;
}

static double alone(void)
{
    double none = 0;
    struct pdl_traffic t = {
        .nranks = 2, .ctx = &none, .nops = three, .op = computing, .window = 1};

    return run(&t, false).time_s;
}

static void a_pause_delays_its_message(void **state)
{
    double unit = 1e-3;
    struct pdl_traffic t = {
        .nranks = 2, .ctx = &unit, .nops = three, .op = computing, .window = 1};

    (void)state;
    assert_true(fabs(run(&t, false).time_s - alone() - 3e-3) < 1e-12);
    assert_true(fabs(run(&t, true).time_s - alone() - 3e-3) < 1e-12);
}

static void a_pause_that_is_no_time_is_refused(void **state)
{
    double bad[] = {-1, NAN, INFINITY};

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct pdl_traffic t = {.nranks = 2,
                                .ctx = &bad[i],
                                .nops = three,
                                .op = computing,
                                .window = 1};
        pdl_arena *a = pdl_arena_create((size_t)1 << 30);
        const struct pdl_net *net;
        struct pdl_sim_result r;
        struct pdl_err err = {"", ""};

        assert_int_equal(pdl_net_make(a, "star:hosts=4", &net, &err), PDL_OK);
        assert_int_equal(pdl_sim_run(a, net, &t, NULL, &r, &err), PDL_EINVAL);
        assert_non_null(strstr(err.msg, "computes for"));
        pdl_arena_destroy(a);
    }
}

/* Rank r sends to every other at once: nothing waits for anything. */
static int64_t others(void *ctx, int rank)
{
    (void)ctx;
    (void)rank;
    return 3;
}

static void to_others(void *ctx, int rank, int64_t i,
                      struct pdl_traffic_op *out)
{
    (void)ctx;
    *out = (struct pdl_traffic_op){.send_to = (rank + 1 + (int)i) % 4,
                                   .recv_from = (rank + 3 - (int)i) % 4,
                                   .send_bytes = MB,
                                   .recv_bytes = MB};
}

static void turns_do_not_overlap_on_a_rank(void **state)
{
    struct pdl_traffic once = {
        .nranks = 4, .nops = others, .op = to_others, .window = 3};
    struct pdl_traffic many;
    double t = run(&once, false).time_s;

    (void)state;
    for (int times = 1; times <= 5; times += 2) {
        struct pdl_traffic_loop loop = {.once = once, .times = times};
        struct pdl_sim_result r;

        pdl_traffic_repeat(&loop, &many);
        r = run(&many, false);
        assert_true(fabs(r.time_s - times * t) < 1e-12 * times);
        assert_int_equal(r.messages, 12 * times);
    }
}

static void a_chain_repeated_is_a_longer_chain(void **state)
{
    double unit = 1e-3;
    struct pdl_traffic_loop loop = {.once = {.nranks = 2,
                                             .ctx = &unit,
                                             .nops = three,
                                             .op = computing,
                                             .window = 1},
                                    .times = 7};
    struct pdl_traffic many;

    (void)state;
    pdl_traffic_repeat(&loop, &many);
    assert_true(fabs(run(&many, false).time_s - 7 * (alone() + 3e-3)) < 1e-11);
}

/* The mean of the pauses is the jitter, the same seed gives the same times,
 * and another one others. */
static void jitter_pauses_for_its_mean(void **state)
{
    double none = 0;
    struct pdl_traffic_loop loop = {.once = {.nranks = 2,
                                             .ctx = &none,
                                             .nops = three,
                                             .op = computing,
                                             .window = 1},
                                    .times = 3000,
                                    .jitter_s = 1e-3};
    struct pdl_traffic many;
    double first, mean;

    (void)state;
    pdl_traffic_repeat(&loop, &many);
    first = run(&many, false).time_s;
    assert_true(run(&many, true).time_s == first);
    /* a turn begins after the longer of two pauses: 1.5 means */
    mean = (first - 3000 * alone()) / 3000;
    assert_true(fabs(mean / 1.5e-3 - 1) < 0.05);
    loop.seed = 1;
    assert_true(run(&many, false).time_s != first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pause_delays_its_message),
        cmocka_unit_test(a_pause_that_is_no_time_is_refused),
        cmocka_unit_test(turns_do_not_overlap_on_a_rank),
        cmocka_unit_test(a_chain_repeated_is_a_longer_chain),
        cmocka_unit_test(jitter_pauses_for_its_mean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
