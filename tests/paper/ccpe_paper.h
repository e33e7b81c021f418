/* Shared by the tests of CCPE 2021: allreduces in a row as SMPI timed them.
 *
 * The author's program fills a buffer and calls MPI_Allreduce 1000 times
 * without a barrier; what was logged is the simulated time of the whole program
 * (smpi/display-timing), here over the number of calls.
 *
 * Under SMPI a program's own computing counts, scaled here by 5e10/9.3e12, but
 * only what lies between MPI calls: the messages inside one MPI_Allreduce
 * follow each other at once. It is the host's time and never twice the same, so
 * a logged time is one draw. Two pauses are drawn (exponential):
 *   - between two calls of the loop, the loop and two readings of a clock, some
 *     0.2 us: 1 ns of simulated time (JITTER);
 *   - before the first call the buffer is filled, 9.06 us of simulated time a
 *     MiB (set_up_ms() in test_coll_ccpe_more.c: five logs of 128 MiB are late
 *     by 1.146 to 1.176 ms). Those five differ by a standard deviation of 13
 *     us; that of the largest of 64 exponential pauses is 1.28 of their mean:
 *     10 us, 0.9 % of the filling. Two logs of one program differ by 19 us: 0.9
 *     %. So ranks start 1 % of the filling apart (START). */
#ifndef CCPE_PAPER_H
#define CCPE_PAPER_H

#include "coll_paper.h"

#include <stdlib.h>

static const double JITTER = 1e-9;
static const double START = .01 * 9.06e-6; /* for each MiB */
enum { FEW_CALLS = 12, ALL_CALLS = 1000 };

static double start_of(int64_t bytes)
{
    return START * (double)bytes / (1 << 20);
}

/* Operation i of a rank of a program made from ours. */
typedef void paper_op(const struct pdl_traffic *ours, int rank, int64_t i,
                      struct pdl_traffic_op *out);

/* One of many allreduces in a row on the first p hosts (0: all), as SMPI
 * times them. */
struct paper_run {
    const char *topology, *alg;
    int p;
    int64_t bytes;
    double density;
    int calls; /* 0: FEW_CALLS */
    double jitter_s, start_s;
    uint64_t seed;
    enum pdl_energy energy;
    paper_op *another; /* what ranks do instead; NULL: the algorithm */
};

struct changed {
    struct pdl_traffic ours;
    paper_op *another;
};

static void changed_op(void *ctx, int rank, int64_t i,
                       struct pdl_traffic_op *out)
{
    struct changed *c = ctx;

    c->another(&c->ours, rank, i, out);
}

static int64_t changed_nops(void *ctx, int rank)
{
    struct changed *c = ctx;

    return c->ours.nops(c->ours.ctx, rank);
}

static void paper_run(const struct paper_run *run, double *time_s,
                      double *energy_j)
{
    int calls = run->calls ? run->calls : FEW_CALLS;
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
    struct changed other = {.another = run->another};
    struct pdl_sim_result got;
    struct pdl_traffic traffic;
    struct pdl_err err = {"", ""};

    pdl_coll_traffic(&job, NULL, &loop.once);
    if (run->another) {
        other.ours = loop.once;
        loop.once =
            (struct pdl_traffic){.nranks = other.ours.nranks,
                                 .ctx = &other,
                                 .nops = changed_nops,
                                 .op = changed_op,
                                 .host_of_rank = other.ours.host_of_rank,
                                 .window = other.ours.window};
    }
    pdl_traffic_repeat(&loop, &traffic);
    if (pdl_sim_run(a, net, &traffic, &config, &got, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    pdl_arena_destroy(a);
    *time_s = got.time_s / calls;
    *energy_j = got.energy_j / calls;
}

/* The line of the page; ms or, where joule, the energy. */
static inline void show(const struct paper_run *run, const char *what,
                        bool joule, double got, double want, double most)
{
    char command[256];

    snprintf(command, sizeof command,
             "paradl simulate allreduce -a %s -t %s -s %lldMiB --model smpi%s",
             run->alg, run->topology, (long long)(run->bytes >> 20),
             joule ? " --energy plugin" : "");
    figure(joule ? "CCPE 2021: energy of links" : "CCPE 2021: allreduces", what,
           joule ? "J" : "ms", got, want, most, command);
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
