/* Simulated times against the logs of the sparse allreduces of IPCCC 2019
 * (T. T. Nguyen, Wahib, Takano; SimGrid 3.19): 45 set-ups of six algorithms on
 * three clusters, each as the CLI does by default: every message is a call to
 * MPI of a program that adds up itself. */
#include "coll_paper.h"

#include <stdlib.h>
#include <string.h>

enum { ALGORITHMS = 6 };

static const char *const algorithms[ALGORITHMS] = {
    "sparse-ring-ring:k=4", "ring", "ring-ring:k=4",
    "sparse-ring",          "ssar", "dsar"};

static const struct {
    const char *name, *topology;
} clusters[] = {{"abci", "abci:nodes=68"},
                {"dgx1", "dgx1-cluster:nodes=36"},
                {"dgx2", "dgx2-cluster:nodes=18"}};

/* Ranks, Mi elements, 1 / density, ms of sparse ring-ring, and how many percent
 * shorter that is than each of the others. */
static const struct row {
    const char *cluster;
    int ranks, elements, sparsity;
    double ms, shorter[ALGORITHMS - 1];
} rows[] = {
    // clang-format off
    {"abci",  4,  32, 128,   0.815, {72.4, 72.4, -1.9, -45.3, 24.4}},
    {"abci",  8,  32, 128,   2.356, {89.8, 84.3, 47.7, 41.8, 90.2}},
    {"abci", 16,  32, 128,   5.296, {80.7, 75.5, 43.9, 46.8, 87.3}},
    {"abci", 32,   4, 128,   3.876, {72.4, 35.5, 65.2, -20.3, 40.5}},
    {"abci", 32,   8, 128,   4.970, {70.5, 43.8, 61.1, 12.3, 61.3}},
    {"abci", 32,  16, 128,   7.013, {68.9, 51.7, 53.3, 33.4, 72.5}},
    {"abci", 32,  32, 512,   5.270, {84.4, 79.6, 59.5, 14.3, 89.5}},
    {"abci", 32,  32, 256,   7.221, {78.7, 72.1, 52.6, 34.9, 85.6}},
    {"abci", 32,  32, 128,  10.823, {68.1, 58.2, 43.3, 46.4, 78.6}},
    {"abci", 32,  32,  64,  16.996, {49.8, 34.3, 33.1, 52.1, 67.0}},
    {"abci", 32,  32,  32,  22.725, {32.9, 12.2, 26.7, 60.3, 57.2}},
    {"abci", 32,  32,  16,  24.594, {27.4, 4.9, 25.1, 69.1, 56.3}},
    {"abci", 32,  64, 128,  18.445, {67.4, 62.0, 31.4, 53.6, 81.7}},
    {"abci", 32, 128, 128,  34.053, {66.6, 63.8, 20.9, 57.2, 83.1}},
    {"abci", 64,  32, 128,  25.013, {51.8, 33.1, 33.7, 34.7, 54.5}},
    {"dgx1",  4,  32, 128,   0.917, {82.1, 82.2, -1.6, -39.4, 49.5}},
    {"dgx1",  8,  32, 128,   1.780, {58.7, 79.3, 2.0, -3.3, 47.6}},
    {"dgx1", 16,  32, 128,   3.976, {85.5, 73.5, 57.6, 48.6, 83.5}},
    {"dgx1", 32,   4, 128,   3.585, {74.1, 27.7, 67.4, -19.5, 23.3}},
    {"dgx1", 32,   8, 128,   4.294, {74.3, 36.8, 65.8, 17.1, 53.1}},
    {"dgx1", 32,  16, 128,   5.498, {75.4, 47.5, 63.0, 42.3, 69.7}},
    {"dgx1", 32,  32, 512,   4.414, {86.9, 75.2, 65.6, 21.5, 87.6}},
    {"dgx1", 32,  32, 256,   5.601, {83.4, 68.6, 62.9, 44.3, 84.3}},
    {"dgx1", 32,  32, 128,   7.790, {76.9, 56.3, 58.7, 57.1, 78.3}},
    {"dgx1", 32,  32,  64,  11.442, {66.1, 35.8, 54.6, 64.0, 68.7}},
    {"dgx1", 32,  32,  32,  14.907, {55.8, 16.4, 51.6, 70.7, 60.4}},
    {"dgx1", 32,  32,  16,  16.093, {52.3, 9.7, 50.6, 77.2, 59.7}},
    {"dgx1", 32,  64, 128,  12.393, {78.0, 61.9, 53.8, 65.2, 82.6}},
    {"dgx1", 32, 128, 128,  21.281, {79.1, 65.6, 50.3, 69.9, 85.0}},
    {"dgx1", 64,  32, 128,  14.905, {68.2, 31.0, 61.0, 58.3, 65.3}},
    {"dgx2",  4,  32, 128,   2.298, {87.9, 87.9, -0.7, -20.5, 81.4}},
    {"dgx2",  8,  32, 128,   5.706, {86.5, 88.3, 9.6, 6.1, 84.2}},
    {"dgx2", 16,  32, 128,  16.794, {81.0, 83.9, 2.6, 17.4, 78.5}},
    {"dgx2", 32,   4, 128,   7.169, {63.5, 55.8, 49.5, -58.4, -41.9}},
    {"dgx2", 32,   8, 128,  10.102, {62.2, 64.3, 37.2, -25.7, -1.4}},
    {"dgx2", 32,  16, 128,  16.872, {61.6, 68.0, 19.3, -11.7, 14.8}},
    {"dgx2", 32,  32, 512,  10.616, {87.6, 89.5, 36.4, -21.5, 72.7}},
    {"dgx2", 32,  32, 256,  17.456, {79.6, 82.8, 19.0, -9.4, 55.2}},
    {"dgx2", 32,  32, 128,  29.284, {65.9, 71.1, 6.6, 0.1, 25.5}},
    {"dgx2", 32,  32,  64,  49.945, {41.8, 50.9, 7.0, 3.5, -24.8}},
    {"dgx2", 32,  32,  32,  66.895, {22.2, 34.2, 9.3, 19.5, -62.4}},
    {"dgx2", 32,  32,  16,  73.299, {14.5, 27.9, 8.8, 36.1, -68.1}},
    {"dgx2", 32,  64, 128,  54.892, {67.7, 72.6, 7.0, 5.4, 29.8}},
    {"dgx2", 32, 128, 128, 107.533, {68.3, 73.0, 7.1, 7.4, 31.1}},
    {"dgx2", 64,  32, 128,  52.276, {40.3, 50.9, 9.9, -15.2, -40.9}},
    // clang-format on
};

/* Five of the 270 are not within 5 %: ssar on four ranks is 8 to 10 % short,
 * where a sixth of the time is the program's own; the flat sparse ring on 64
 * ranks of ABCI 8 % long; sparse ring-ring on DGX-2 with 8 Mi elements or at
 * 1/512 5.3 % long. */
static double allowed(const struct row *r, int a)
{
    if (a == 4 && r->ranks == 4)
        return .11;
    if (a == 3 && r->ranks == 64 && strcmp(r->cluster, "abci") == 0)
        return .09;
    if (a == 0 && strcmp(r->cluster, "dgx2") == 0 &&
        (r->elements == 8 || r->sparsity == 512))
        return .06;
    return .05;
}

static const char *topology_of(const struct row *r)
{
    for (size_t i = 0; i < sizeof clusters / sizeof clusters[0]; i++)
        if (strcmp(clusters[i].name, r->cluster) == 0)
            return clusters[i].topology;
    return "";
}

static const int *seats(pdl_arena *a, const struct pdl_net *net)
{
    int *host = PDL_NEW(a, int, net->nhosts);

    for (int i = 0; i < net->nhosts; i++)
        host[i] = pdl_net_seat(net, i);
    return host;
}

static double milliseconds(const struct row *r, int alg, bool in_order)
{
    pdl_arena *a = pdl_arena_create((size_t)8 << 30);
    const struct pdl_net *net = network(a, topology_of(r));
    struct pdl_coll_job job =
        job_on(net, "allreduce", algorithms[alg], r->ranks,
               (int64_t)r->elements << 22, 1.0 / r->sparsity);
    struct pdl_sim_config config = {.share = PDL_SHARE_RTT,
                                    .wire = PDL_WIRE_SMPI,
                                    .weight_s = PDL_WEIGHT_S_SMPI};
    struct pdl_traffic_loop loop = {
        .times = 1, .start_s = PDL_SMPI_APART_S, .work_s = 1e-9};
    struct pdl_sim_result got;
    struct pdl_traffic traffic;
    struct pdl_err err = {"", ""};

    job.dense_s_per_byte = PDL_SMPI_DENSE_S_PER_BYTE;
    job.pairs_s_per_byte = PDL_SMPI_PAIRS_S_PER_BYTE;
    pdl_coll_traffic(&job, in_order ? seats(a, net) : NULL, &loop.once);
    pdl_traffic_repeat(&loop, &traffic);
    if (pdl_sim_run(a, net, &traffic, &config, &got, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    pdl_arena_destroy(a);
    return 1e3 * got.time_s;
}

static double published(const struct row *r, int alg)
{
    return alg == 0 ? r->ms : r->ms / (1 - r->shorter[alg - 1] / 100);
}

static void show(const struct row *r, const char *alg, double got, double want,
                 double most)
{
    char what[96], command[256];

    snprintf(what, sizeof what, "%s P=%d %d Mi 1/%d %s", r->cluster, r->ranks,
             r->elements, r->sparsity, alg);
    snprintf(command, sizeof command,
             "paradl simulate allreduce -a %s -t %s -n %d -s %dMiB --density "
             "%.9g --model smpi",
             alg, topology_of(r), r->ranks, 4 * r->elements, 1.0 / r->sparsity);
    figure("IPCCC 2019: sparse allreduces", what, "ms", got, want, most,
           command);
}

/* make check has every seventh of the times. */
static void all_six_algorithms_are_as_logged(void **state)
{
    int every = getenv("PDL_PAPER") ? 1 : 7, beyond = 0;
    int n = (int)(sizeof rows / sizeof rows[0]) * ALGORITHMS;

    (void)state;
    for (int i = 0; i < n; i += every) {
        const struct row *r = &rows[i / ALGORITHMS];
        int alg = i % ALGORITHMS;
        double got = milliseconds(r, alg, true), want = published(r, alg);
        double off = got / want - 1;

        print_message("%s P=%d %d Mi 1/%d %s: %.3f ms, logged %.3f %+.1f %%\n",
                      r->cluster, r->ranks, r->elements, r->sparsity,
                      algorithms[alg], got, want, 100 * off);
        show(r, algorithms[alg], got, want, allowed(r, alg));
        beyond += fabs(off) > .05;
        if (!(fabs(off) <= allowed(r, alg)))
            fail_msg("%+.1f %%, allowed %.0f %%", 100 * off,
                     100 * allowed(r, alg));
    }
    print_message("beyond 5 %%: %d\n", beyond);
}

/* Ranks in the order of the GPUs' numbers are not what was run. */
static void another_order_of_ranks_is_seen(void **state)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i].cluster, "dgx1") == 0 && rows[i].ranks == 8)
            assert_true(milliseconds(&rows[i], 1, false) >
                        1.5 * published(&rows[i], 1));
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_six_algorithms_are_as_logged),
        cmocka_unit_test(another_order_of_ranks_is_seen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
