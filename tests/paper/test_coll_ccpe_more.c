/* Nguyen et al., CCPE 2021, what the main table does not show: steady states,
 * the pipelined ring-ring, node sizes, another network, and an energy that
 * cannot be.
 *
 * Source: the author's logs (SimGrid 3.19). Node sizes: 32 MiB, phases of rank
 * 0 added up. Pipeline: 128 MiB on 64 GPUs, one call each. */
#include "ccpe_paper.h"

#include <stdlib.h>

static double time_of(const struct paper_run *run)
{
    double s, j;

    paper_run(run, &s, &j);
    return s;
}

/* A ring between nodes of unequal distance can turn in several ways that last:
 * which, is settled by how far apart the ranks start. Where the transfer of a
 * message is about as long as its latency (1 MiB: 4 and 16 KiB a message)
 * they differ by 2 %, elsewhere hardly.
 *
 * ring-ring leaves its first state (0.3697 ms) for the second (0.378) after some
 * of the 1000 calls that the log is the mean of (0.375): some 50 where ranks
 * start together, hundreds where they start as far apart as the program's. */
static void ring_ring_leaves_its_first_state(void **state)
{
    struct paper_run run = {.topology = "tsubame3:nodes=64",
                            .alg = "ring-ring",
                            .bytes = 1 << 20,
                            .calls = 12,
                            .jitter_s = JITTER};
    double first, at_50, later;

    (void)state;
    first = time_of(&run);
    run.calls = 50;
    at_50 = time_of(&run);
    run.calls = 100;
    later = 2 * time_of(&run) - at_50;
    print_message("%.4f ms, later %.4f ms\n", 1e3 * first, 1e3 * later);
    assert_true(later > 1.015 * first && later < 1.03 * first);
}

/* binomial-ring has two states, 0.7131 and 0.7249 ms, that 1000 calls do not
 * leave, and the host's noise decides between them; the log (0.713186) is the
 * first. The author's program itself, built with SimGrid 3.19 and run for 12
 * calls on a loaded machine, came to the first in 5 and to the second in 19 of
 * 25 runs (one had a third, 0.735). */
static void binomial_ring_has_two_states_and_the_log_is_one(void **state)
{
    int seeds = getenv("PDL_PAPER") ? 40 : 8;
    int first = 0, second = 0;

    (void)state;
    for (int seed = 0; seed < seeds; seed++) {
        struct paper_run run = {.topology = "tsubame3:nodes=64",
                                .alg = "binomial-ring",
                                .bytes = 1 << 20,
                                .jitter_s = JITTER,
                                .start_s = start_of(1 << 20),
                                .seed = (uint64_t)seed};
        double ms = 1e3 * time_of(&run);

        first += fabs(ms / 0.713186 - 1) < 0.001;
        second += fabs(ms / 0.7249 - 1) < 0.001;
    }
    print_message("%d of %d draws as logged, %d in the other state\n", first,
                  seeds, second);
    assert_true(first + second >= seeds - seeds / 20);
    assert_true(first >= 1 + seeds / 40 && second >= 1 + seeds / 40);
}

/* The logs of the pipeline count one call from the start of the program: five
 * algorithms without a pipeline are late by the same 1.15 to 1.18 ms in them
 * (setting up 128 MiB, 0.2 s scaled by 5e10/9.3e12). The flat ring is late by
 * 0.76 ms only and is left out; why, is not known. */
static double set_up_ms(void)
{
    static const struct {
        const char *alg;
        double ms;
    } plain[] = {{"binomial-ring", 53.6809},
                 {"ring-ring", 27.5182},
                 {"ring-rab", 27.363},
                 {"ring-rdb", 52.0318},
                 {"binomial-binomial", 102.929}};
    enum { N = sizeof plain / sizeof plain[0] };
    double sum = 0;

    for (int i = 0; i < N; i++) {
        struct paper_run run = {.topology = "tsubame3:nodes=16",
                                .alg = plain[i].alg,
                                .bytes = (int64_t)128 << 20,
                                .calls = 1};
        double late = plain[i].ms - 1e3 * time_of(&run);

        print_message("%-20s late by %.3f ms\n", plain[i].alg, late);
        assert_true(late > 1.14 && late < 1.18);
        sum += late;
    }
    return sum / N;
}

/* The author's program posts all messages of an allgather's ring at once, to
 * the next rank of the ring: also those that pass on what has not come yet.
 * That is a race, and no program of ours; but its messages are ours with other
 * receivers, so that it can be timed. */
static void to_the_next(void *ctx, int rank, int64_t i,
                        struct pdl_traffic_op *out)
{
    const struct pdl_traffic *ours = ctx;
    int k = 4, p = ours->nranks, node = rank - rank % k;

    ours->op(ours->ctx, rank, i, out);
    if (out->send_to < 0 && out->recv_from < 0)
        return; /* a join */
    if (out->send_to / k == rank / k) {
        out->send_to = node + (rank + 1) % k;
        out->recv_from = node + (rank + k - 1) % k;
    } else {
        out->send_to = (rank + k) % p;
        out->recv_from = (rank + p - k) % p;
    }
}

static int64_t as_many(void *ctx, int rank)
{
    const struct pdl_traffic *ours = ctx;

    return ours->nops(ours->ctx, rank);
}

static double time_as_posted(const char *alg)
{
    pdl_arena *a = pdl_arena_create((size_t)8 << 30);
    const struct pdl_net *net = network(a, "tsubame3:nodes=16");
    struct pdl_coll_job job =
        job_on(net, "allreduce", alg, 0, (int64_t)128 << 20, 0);
    struct pdl_sim_config config = {.share = PDL_SHARE_RTT,
                                    .wire = PDL_WIRE_SMPI,
                                    .weight_s = PDL_WEIGHT_S_SMPI};
    struct pdl_traffic ours, posted;
    struct pdl_sim_result got;

    pdl_coll_traffic(&job, NULL, &ours);
    posted = ours;
    posted.ctx = &ours;
    posted.nops = as_many;
    posted.op = to_the_next;
    posted.alike = NULL;
    assert_int_equal(pdl_sim_run(a, net, &posted, &config, &got, NULL), PDL_OK);
    pdl_arena_destroy(a);
    return got.time_s;
}

/* As posted within 2 %, and the correct program, whose allgathers go further,
 * within 2.5 %. */
static void pipeline_is_best_with_8_segments(void **state)
{
    static const struct {
        int segments;
        double ms;
    } pipe[] = {
        {2, 25.381}, {4, 24.557}, {8, 24.192}, {16, 24.583}, {32, 26.422}};
    double best = 1, set_up = set_up_ms();
    int at = 0;

    (void)state;
    for (size_t i = 0; i < sizeof pipe / sizeof pipe[0]; i++) {
        char alg[64];
        struct paper_run run = {.topology = "tsubame3:nodes=16",
                                .alg = alg,
                                .bytes = (int64_t)128 << 20,
                                .calls = 1};
        double s;

        snprintf(alg, sizeof alg, "ring-ring-pipelined:k=4,segments=%d",
                 pipe[i].segments);
        compare("as posted", 1e3 * time_as_posted(alg) + set_up, pipe[i].ms,
                0.02);
        s = time_of(&run);
        compare(alg, 1e3 * s + set_up, pipe[i].ms, 0.025);
        if (s < best) {
            best = s;
            at = pipe[i].segments;
        }
    }
    assert_int_equal(at, 8);
}

static const struct size {
    const char *topology, *alg;
    double ms;
} sizes[] = {
    // clang-format off
    {"nvcluster:k=2,nodes=128", "ring",          15.1908},
    {"nvcluster:k=2,nodes=128", "ring-ring:k=2", 13.6048},
    {"nvcluster:k=2,nodes=128", "ring-rab:k=2",  12.6201},
    {"nvcluster:k=2,nodes=128", "ring-rdb:k=2",  58.5239},
    {"nvcluster:k=4,nodes=64",  "ring",          9.9693 },
    {"nvcluster:k=4,nodes=64",  "ring-rab:k=4",  7.5245 },
    {"nvcluster:k=4,nodes=64",  "ring-rdb:k=4",  27.2819},
    {"nvcluster:k=8,nodes=32",  "ring",          9.9693 },
    {"nvcluster:k=8,nodes=32",  "ring-ring:k=8", 4.5734 },
    {"nvcluster:k=8,nodes=32",  "ring-rab:k=8",  4.7898 },
    {"nvcluster:k=8,nodes=32",  "ring-rdb:k=8",  12.9295},
    {"nvcluster:k=16,nodes=16", "ring",           9.9694},
    {"nvcluster:k=16,nodes=16", "ring-ring:k=16", 2.9761},
    {"nvcluster:k=16,nodes=16", "ring-rab:k=16",  3.4173},
    {"nvcluster:k=16,nodes=16", "ring-rdb:k=16",  6.4772},
    /* groups of 2, 8 and 16 ranks on nodes of 4 */
    {"nvcluster:k=4,nodes=64",  "ring-ring:k=2",  9.3011},
    {"nvcluster:k=4,nodes=64",  "ring-ring:k=8",  8.4211},
    {"nvcluster:k=4,nodes=64",  "ring-ring:k=16", 7.0432},
    /* the Dragonfly of the published platform file */
    {"dragonfly-gpu:switches=64", "ring",          41.2519},
    {"dragonfly-gpu:switches=64", "ring-ring:k=4", 36.3216},
    {"dragonfly-gpu:switches=64", "ring-rab:k=4",  31.3971},
    {"dragonfly-gpu:switches=64", "ring-rdb:k=4", 124.3684},
    // clang-format on
};

/* Left out: ring-ring on nodes of 4, whose log has a first phase of 0.97 ms
 * where all others have 0.54 (7.66 ms instead of 8.09). make check has every
 * fourth row: one of each network, none of the flat ring, whose messages are
 * most of all. */
static void times_by_node_size_and_network(void **state)
{
    bool all = getenv("PDL_PAPER") != NULL;

    (void)state;
    for (size_t i = all ? 0 : 1; i < sizeof sizes / sizeof sizes[0];
         i += all ? 1 : 4) {
        struct paper_run run = {.topology = sizes[i].topology,
                                .alg = sizes[i].alg,
                                .bytes = 32 << 20,
                                .calls = 100,
                                .jitter_s = JITTER};
        char what[64];
        double ms;

        snprintf(what, sizeof what, "%s %s", sizes[i].topology, sizes[i].alg);
        ms = 1e3 * time_of(&run);
        compare(what, ms, sizes[i].ms, 0.01);
        show(&run, what, false, ms, sizes[i].ms, .01);
    }
}

/* binomial-binomial: the log has more energy than all the links that one
 * leader a node touches would take at full load all the time, so it counts
 * others. And it has less power for each node the more nodes there are (155,
 * 151, 146, 143 W), though a link's idle power, nine tenths of the sum,
 * cannot shrink. Its sister binomial-ring, with the same trees and leaders,
 * fits within 1 %. */
static void energy_of_binomial_binomial_cannot_be(void **state)
{
    static const struct {
        const char *topology;
        double ms, joule;
    } logged[] = {{"tsubame3:nodes=8", 19.6456, 24.385},
                  {"tsubame3:nodes=16", 25.4853, 61.706},
                  {"tsubame3:nodes=32", 31.3132, 146.009},
                  {"tsubame3:nodes=64", 37.1411, 339.537}};

    (void)state;
    for (size_t i = 0; i < sizeof logged / sizeof logged[0]; i++) {
        pdl_arena *a = pdl_arena_create((size_t)1 << 30);
        const struct pdl_net *net = network(a, logged[i].topology);
        struct pdl_coll_job job =
            job_on(net, "allreduce", "binomial-binomial:k=4", 0, 32 << 20, 0);
        struct pdl_sim_config config = {.share = PDL_SHARE_RTT,
                                        .wire = PDL_WIRE_SMPI,
                                        .weight_s = PDL_WEIGHT_S_SMPI,
                                        .energy = PDL_ENERGY_PLUGIN,
                                        .links = true};
        struct pdl_sim_result got;
        struct pdl_traffic traffic;
        double peak = 0;

        pdl_coll_traffic(&job, NULL, &traffic);
        assert_int_equal(pdl_sim_run(a, net, &traffic, &config, &got, NULL),
                         PDL_OK);
        for (int l = 0; l < net->nlinks; l++)
            if (got.links[l].first_s >= 0)
                peak += net->links[l].peak_w;
        compare(logged[i].topology, 1e3 * got.time_s, logged[i].ms, 0.01);
        print_message("at most %.1f J, log %.1f J\n",
                      1e-3 * peak * logged[i].ms, logged[i].joule);
        assert_true(got.energy_j < 1e-3 * peak * logged[i].ms);
        assert_true(1e-3 * peak * logged[i].ms < 0.7 * logged[i].joule);
        pdl_arena_destroy(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ring_ring_leaves_its_first_state),
        cmocka_unit_test(binomial_ring_has_two_states_and_the_log_is_one),
        cmocka_unit_test(pipeline_is_best_with_8_segments),
        cmocka_unit_test(times_by_node_size_and_network),
        cmocka_unit_test(energy_of_binomial_binomial_cannot_be),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
