/* Shared by the tests of CCPE 2021: allreduces in a row as SMPI timed them.
 *
 * One rule for all rows of all sweeps. The author's program fills a buffer and
 * calls MPI_Allreduce 1000 times without a barrier; what was logged is the
 * simulated time of the whole program (smpi/display-timing), here over the
 * number of calls. So we run calls in a row and take the whole time over their
 * number: 100 of them, all 1000 with PDL_CALLS=1000 (half an hour).
 *
 * Under SMPI a program's own computing counts, scaled here by 5e10/9.3e12, but
 * only what lies between MPI calls: the messages inside one MPI_Allreduce
 * follow each other at once. Between two calls of the loop that is the loop
 * and two readings of a clock, some 0.2 us: 1 ns of simulated time. It adds
 * nothing, but never twice the same it keeps ranks from staying in step for
 * ever. The flat ring of 1 to 32 MiB is the same within 0.01 % for 0.3, 1 and
 * 3 ns. */
#ifndef CCPE_PAPER_H
#define CCPE_PAPER_H

#include "coll_paper.h"

#include <stdlib.h>

static const double JITTER = 1e-9;

static int all_calls(void)
{
    const char *text = getenv("PDL_CALLS");
    long n = text ? strtol(text, NULL, 10) : 0;

    return n > 0 && n <= 1000 ? (int)n : 100;
}

/* One of many allreduces in a row on the first p hosts (0: all), as SMPI
 * times them. */
struct paper_run {
    const char *topology, *alg;
    int p;
    int64_t bytes;
    double density;
    int calls; /* 0: all_calls() */
    double jitter_s, start_s;
    uint64_t seed;
    enum pdl_energy energy;
};

static void paper_run(const struct paper_run *run, double *time_s,
                      double *energy_j)
{
    int calls = run->calls ? run->calls : all_calls();
    pdl_arena *a = pdl_arena_create((size_t)8 << 30);
    const struct pdl_net *net = network(a, run->topology);
    struct pdl_coll_job job =
        job_on(net, "allreduce", run->alg, run->p, run->bytes, run->density);
    struct pdl_sim_config config = {.share = PDL_SHARE_RTT,
                                    .wire = PDL_WIRE_SMPI,
                                    .weight_s = PDL_WEIGHT_S_SMPI,
                                    .energy = run->energy};
    struct pdl_traffic_loop loop = {.times = calls,
                                    .jitter_s = run->jitter_s,
                                    .start_s = run->start_s,
                                    .seed = run->seed};
    struct pdl_sim_result got;
    struct pdl_traffic traffic;
    struct pdl_err err = {"", ""};

    pdl_coll_traffic(&job, NULL, &loop.once);
    pdl_traffic_repeat(&loop, &traffic);
    if (pdl_sim_run(a, net, &traffic, &config, &got, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    pdl_arena_destroy(a);
    *time_s = got.time_s / calls;
    *energy_j = got.energy_j / calls;
}

static void compare(const char *what, double got, double want, double tolerance)
{
    double off = got / want - 1;

    print_message("%-28s %9.4f, published %9.4f %+6.2f %%\n", what, got, want,
                  100 * off);
    if (!(fabs(off) <= tolerance))
        fail_msg("%s: %.6g, published %.6g (%+.2f %%, allowed %.2f %%)", what,
                 got, want, 100 * off, 100 * tolerance);
}

#endif
