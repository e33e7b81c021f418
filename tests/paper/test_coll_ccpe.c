/* Nguyen et al., CCPE 2021: time and link energy of an allreduce on Tsubame3,
 * as the author's program logged them from SimGrid 3.19 (256 GPUs unless said;
 * the mean of 1000 calls of MPI_Allreduce in a row, without a barrier).
 *
 * Energies as SimGrid's plugin samples them, from the first use of a link on.
 * Not compared: binomial-binomial (see the test of its bound in
 * test_coll_ccpe_more.c) and 1 MiB of two others, whose energies are not in
 * the published table.
 *
 * 47 of 48 times are within 1 % when all ranks start at once. The other one,
 * binomial-ring of 1 MiB, has two lasting states, and when the ranks start
 * decides which (test_coll_ccpe_more.c). The author's own program has the
 * same two: built from its sources and run with SimGrid 3.19 it took 0.7131
 * or 0.7249 ms a call, from run to run. So a row may be tried again with
 * starts drawn apart, and it is counted: one row of 48 may need it. */
#include "ccpe_paper.h"

enum { NALGS = 6 };

static const char *const algs[NALGS] = {"ring",          "ring-ring",
                                        "ring-rab",      "ring-rdb",
                                        "binomial-ring", "binomial-binomial"};

static const struct row {
    int mib;
    double ms[NALGS], joule[NALGS];
} rows[] = {
    // clang-format off
    {1,   {1.00508, 0.37501, 0.261207, 0.628079, 0.713186, 1.25033},
          {6.595, 3.458, 2.426}},
    {2,   {1.50473, 0.619716, 0.487771, 1.20697, 1.16174, 2.40809},
          {9.903, 5.727, 4.535, 11.190, 6.008}},
    {4,   {2.57118, 1.16057, 0.926743, 2.36476, 2.75589, 4.72361},
          {16.919, 10.737, 8.623, 21.928, 14.220}},
    {8,   {3.69864, 2.02446, 1.78955, 4.68029, 4.45851, 9.35469},
          {24.492, 18.773, 16.660, 43.404, 23.074}},
    {16,  {9.32531, 4.45857, 3.50368, 9.31139, 7.86373, 18.6168},
          {61.485, 41.276, 32.628, 86.356, 40.783}},
    {32,  {14.262, 7.86385, 6.90898, 18.5736, 14.6742, 37.1411},
          {94.738, 72.992, 64.352, 172.259, 76.201}},
    {64,  {25.8397, 14.6745, 13.7196, 37.098, 28.2951, 74.1896},
          {171.632, 136.422, 127.799, 344.065, 147.036}},
    {128, {48.9952, 28.2955, 27.3408, 74.1467, 55.5369, 148.286},
          {325.627, 263.280, 254.693, 687.677, 288.706}},
    // clang-format on
};

/* The program fills its buffer before the first call: 9 us of simulated time a
 * MiB (see set_up_ms() in test_coll_ccpe_more.c), and some percent of it more
 * or less. */
static const double START = 0.3e-6;
enum { STARTS = 12 };

/* Time and energy from ranks that start together; where that is not the log,
 * from the first of some starts apart that is. */
static int run_row(const struct paper_run *together, double want, double *s,
                   double *j)
{
    for (int i = 0; i < STARTS; i++) {
        struct paper_run run = *together;

        run.start_s = i ? START : 0;
        run.seed = (uint64_t)i;
        paper_run(&run, s, j);
        if (fabs(1e3 * *s / want - 1) <= 0.01)
            return i;
    }
    return STARTS;
}

/* The flat ring has eight times the messages of the others: without `make
 * paper` or PDL_LONG=1 only the sizes where it is not smooth. */
static bool left_out(int mib, int alg)
{
    return alg == 0 && (mib == 4 || mib == 8 || mib >= 64) &&
           !getenv("PDL_PAPER") && !getenv("PDL_LONG");
}

/* How many times were not reached from ranks that start together. */
static int check_row(const struct row *row)
{
    int apart = 0;

    for (int k = 0; k < NALGS; k++) {
        struct paper_run run = {.topology = "tsubame3:nodes=64",
                                .alg = algs[k],
                                .bytes = (int64_t)row->mib << 20,
                                .jitter_s = JITTER,
                                .energy = PDL_ENERGY_PLUGIN};
        char what[64];
        double s, j;
        int start;

        if (left_out(row->mib, k)) {
            print_message("%s %d MiB: left to make paper\n", algs[k], row->mib);
            continue;
        }
        start = run_row(&run, row->ms[k], &s, &j);
        if (start > 0)
            print_message("%s %d MiB: start %d of those apart\n", algs[k],
                          row->mib, start);
        apart += start > 0;
        snprintf(what, sizeof what, "%s %d MiB ms", algs[k], row->mib);
        compare(what, 1e3 * s, row->ms[k], 0.01);
        if (!(row->joule[k] > 0))
            continue;
        snprintf(what, sizeof what, "%s %d MiB J", algs[k], row->mib);
        compare(what, j, row->joule[k], 0.02);
    }
    return apart;
}

static void times_and_energies_up_to_16_mib(void **state)
{
    int apart = 0;

    (void)state;
    for (int i = 0; i < 5; i++)
        apart += check_row(&rows[i]);
    assert_int_equal(apart, 1);
}

static void times_and_energies_from_32_mib(void **state)
{
    (void)state;
    for (int i = 5; i < 8; i++)
        assert_int_equal(check_row(&rows[i]), 0);
}

/* 32 MiB on 32 to 256 GPUs. "Up to 45 % faster with up to 23 % less energy"
 * is ring-ring against ring. */
static void times_and_energies_by_network_size(void **state)
{
    static const struct {
        int nodes;
        double ms[3], joule[3]; /* ring, ring-ring, ring-rab */
    } sizes[] = {
        // clang-format off
        {8,  {11.5863, 6.24865, 6.20659}, {9.1738, 7.0341, 6.9872}},
        {16, {12.1047, 6.74008, 6.60376}, {20.1209, 15.6896, 15.3782}},
        {32, {12.8692, 7.13709, 6.80179}, {42.7295, 33.2011, 31.6784}},
        {64, {14.2619, 7.86399, 6.90911}, {94.7571, 72.9931, 64.3531}},
        // clang-format on
    };

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char net[32], what[64];
        double s[3], j[3];

        snprintf(net, sizeof net, "tsubame3:nodes=%d", sizes[i].nodes);
        for (int k = 0; k < 3; k++) {
            struct paper_run run = {.topology = net,
                                    .alg = algs[k],
                                    .bytes = 32 << 20,
                                    .jitter_s = JITTER,
                                    .energy = PDL_ENERGY_PLUGIN};

            paper_run(&run, &s[k], &j[k]);
            snprintf(what, sizeof what, "%s P=%d", algs[k], 4 * sizes[i].nodes);
            compare(what, 1e3 * s[k], sizes[i].ms[k], 0.01);
            compare(what, j[k], sizes[i].joule[k], 0.02);
        }
        assert_true(fabs((1 - s[1] / s[0]) - 0.45) < 0.015);
        assert_true(fabs((1 - j[1] / j[0]) - 0.23) < 0.015);
    }
}

/* The tester: without any noise the flat ring of 2 MiB stays in step and is
 * far from the log. */
static void ranks_in_step_are_too_fast(void **state)
{
    struct paper_run run = {.topology = "tsubame3:nodes=64",
                            .alg = "ring",
                            .bytes = 2 << 20,
                            .calls = 3};
    double s, j;

    (void)state;
    paper_run(&run, &s, &j);
    assert_true(1e3 * s < 0.83 * rows[1].ms[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_and_energies_up_to_16_mib),
        cmocka_unit_test(times_and_energies_from_32_mib),
        cmocka_unit_test(times_and_energies_by_network_size),
        cmocka_unit_test(ranks_in_step_are_too_fast),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
