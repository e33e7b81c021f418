/* Traffic of any order: what matches what, what is refused and by which words,
 * little memory, and interrupts. */
#include "allreduce_traffic.h"

/* Rank 0 sends messages of 1, 2, 3 MB to rank 1, all at once; rank 1 receives
 * the last one first. Order of operations, not of readiness, matches them. */
static int64_t three(void *ctx, int rank)
{
    (void)ctx;
    return rank < 2 ? 3 : 0;
}

static void crossed_op(void *ctx, int rank, int64_t i,
                       struct pdl_traffic_op *out)
{
    (void)ctx;
    *out = rank == 0 ? (struct pdl_traffic_op){.send_to = 1,
                                               .recv_from = -1,
                                               .send_bytes = 1000000 * (i + 1)}
                     : (struct pdl_traffic_op){.send_to = -1,
                                               .recv_from = 0,
                                               .recv_bytes = 1000000 * (i + 1),
                                               .nafter = i == 1,
                                               .after = {0}};
}

static void messages_match_in_the_order_of_operations(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_net *net = anchor_net(a, "ft64");
    struct pdl_traffic t = {.nranks = 3, .nops = three, .op = crossed_op};
    struct pdl_sim_result out = run(a, net, &t, NULL);

    (void)state;
    /* 1 and 3 MB share a link: 1 MB done at 160 us; 2 MB starts then, waits
     * 2 us, meanwhile 3 MB is alone: 25 kB; then both share */
    assert_true(fabs(out.time_s - (2e-6 + 6e6 / 12.5e9)) < 1e-12);
    assert_true(out.finish_s[2] == 0);
    t.window = 1; /* one after the other */
    out = run(a, net, &t, NULL);
    assert_true(fabs(out.time_s - (6e-6 + 6e6 / 12.5e9)) < 1e-12);
    pdl_arena_destroy(a);
}

/* Operation 2 waits for nothing and is complete before operation 1 begins, in
 * a moment when nothing is under way: it must not be done again. */
static void ahead_op(void *ctx, int rank, int64_t i, struct pdl_traffic_op *out)
{
    static const int64_t bytes[] = {50000, 20000, 10000};

    (void)ctx;
    *out = (struct pdl_traffic_op){.send_to = rank ? -1 : 1,
                                   .recv_from = rank ? 0 : -1,
                                   .send_bytes = bytes[i],
                                   .recv_bytes = bytes[i],
                                   .nafter = i == 1,
                                   .after = {0}};
}

static void nothing_is_done_twice(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_net *net = anchor_net(a, "ft64");
    struct pdl_traffic t = {.nranks = 2, .nops = three, .op = ahead_op};
    struct pdl_sim_result out = run(a, net, &t, NULL);

    (void)state;
    assert_int_equal(out.messages, 3);
    assert_true(fabs(out.time_s - (4e-6 + 8e4 / 12.5e9)) < 1e-15);
    pdl_arena_destroy(a);
}

/* ---- what is refused --------------------------------------------------------- */

enum wrong { LOST_SEND, LOST_RECV, CYCLE, BYTES, PEER, AFTER, NWRONG };

static int64_t one(void *ctx, int rank)
{
    (void)rank;
    return *(enum wrong *)ctx == AFTER ? 2 : 1;
}

static void wrong_op(void *ctx, int rank, int64_t i, struct pdl_traffic_op *out)
{
    int right = (rank + 1) % 4, left = (rank + 3) % 4;

    exchange(i, right, left, 100, 100, out);
    switch (*(enum wrong *)ctx) {
    case LOST_SEND:
        out->recv_from = rank == 2 ? -1 : left;
        break;
    case LOST_RECV:
        out->send_to = rank == 1 ? -1 : right;
        break;
    case CYCLE: /* all receive from the right, nobody sends there */
        out->recv_from = right;
        break;
    case BYTES:
        out->send_bytes = rank == 3 ? 101 : 100;
        break;
    case PEER:
        out->send_to = rank == 2 ? 4 : right;
        break;
    default:
        out->nafter = 1;
        out->after[0] = i;
        break;
    }
}

static void wrong_traffic_is_named(void **state)
{
    static const char *const says[NWRONG] = {
        [LOST_SEND] = "rank 1 operation 0: rank 2 never receives its 100 bytes",
        [LOST_RECV] = "rank 2 operation 0: rank 1 never sends the 100 bytes it "
                      "waits for",
        [CYCLE] = "rank 0 operation 0: rank 1 never receives its 100 bytes",
        [BYTES] = "rank 3 operation 0 sends 101 bytes to rank 0, whose "
                  "operation 0 receives 100",
        [PEER] = "rank 2 operation 0: sends 100 bytes to 4 and receives 100 "
                 "from 1, of 4 ranks",
        [AFTER] = "rank 0 operation 0 waits for operation 0",
    };
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_net *net = anchor_net(a, "ft64");

    (void)state;
    for (enum wrong w = 0; w < NWRONG; w++)
        for (int events_only = 0; events_only < 2; events_only++) {
            struct pdl_sim_config config = {.events_only = events_only};
            struct pdl_traffic t = {
                .nranks = 4, .ctx = &w, .nops = one, .op = wrong_op};
            struct pdl_sim_result out;
            struct pdl_err err = {"", ""};

            assert_int_equal(pdl_sim_run(a, net, &t, &config, &out, &err),
                             PDL_EINVAL);
            assert_string_equal(err.msg, says[w]);
        }
    pdl_arena_destroy(a);
}

static void too_many_ranks_are_refused(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_net *net = anchor_net(a, "ft64");
    struct allreduce job = {65, 1000, false};
    struct pdl_traffic t = traffic_of("ring", &job);
    struct pdl_sim_result out;
    int hosts[65] = {0};

    (void)state;
    assert_int_equal(pdl_sim_run(a, net, &t, NULL, &out, NULL), PDL_EINVAL);
    t.host_of_rank = hosts; /* all on one host: takes no time */
    assert_int_equal(pdl_sim_run(a, net, &t, NULL, &out, NULL), PDL_OK);
    assert_true(out.time_s == 0 && out.messages == 65 * 128);
    hosts[64] = 64;
    assert_int_equal(pdl_sim_run(a, net, &t, NULL, &out, NULL), PDL_EINVAL);
    pdl_arena_destroy(a);
}

/* Little memory fails cleanly at every size until it is enough. */
static void starving_fails_cleanly(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_net *net = anchor_net(a, "torus64");
    struct allreduce job = {64, 6400, false};
    struct pdl_traffic t = traffic_of("recursive-doubling", &job);
    struct pdl_sim_config config = {.links = true, .critical_path = true};
    enum pdl_status st = PDL_ENOMEM;
    struct pdl_sim_result out;
    int failed = 0;

    (void)state;
    for (size_t limit = 64; st == PDL_ENOMEM; limit += limit / 8 + 64) {
        config.memory_limit = limit;
        st = pdl_sim_run(a, net, &t, &config, &out, NULL);
        failed += st == PDL_ENOMEM;
    }
    assert_int_equal(st, PDL_OK);
    assert_true(failed > 10);
    pdl_arena_destroy(a);
}

static void an_interrupt_stops_the_run(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_net *net = anchor_net(a, "ft64");
    struct allreduce job = {64, 640001, false};
    struct pdl_traffic t = traffic_of("ring", &job);
    volatile int stop = 1;
    struct pdl_sim_config config = {.interrupt = &stop};
    struct pdl_sim_result out;

    (void)state;
    assert_int_equal(pdl_sim_run(a, net, &t, &config, &out, NULL), PDL_EINTR);
    config.events_only = true;
    assert_int_equal(pdl_sim_run(a, net, &t, &config, &out, NULL), PDL_EINTR);
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_match_in_the_order_of_operations),
        cmocka_unit_test(nothing_is_done_twice),
        cmocka_unit_test(wrong_traffic_is_named),
        cmocka_unit_test(too_many_ranks_are_refused),
        cmocka_unit_test(starving_fails_cleanly),
        cmocka_unit_test(an_interrupt_stops_the_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
