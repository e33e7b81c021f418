/* Lowering and pricing: CPU time, median of 20, and the largest memory.
 *   oracle_ours MODEL SYSTEM STRATEGY BATCH PRECISION   in the library
 *   oracle_ours --command PROGRAM ARG...                as a command
 *   oracle_ours --search MODEL SYSTEM PES BATCH         the whole space */
#include "paradl/oracle.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RUNS = 20 };

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static double median(double *x)
{
    qsort(x, RUNS, sizeof x[0], ascending);
    return x[RUNS / 2];
}

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + 1e-6 * (double)t.tv_usec;
}

/* User and system time of one run, and its resident memory. */
static int run(char **argv, double *cpu, long *kib)
{
    struct rusage use;
    int status, null = open("/dev/null", O_WRONLY);
    pid_t child = fork();

    if (child == 0) {
        dup2(null, 1);
        execv(argv[0], argv);
        _exit(127);
    }
    close(null);
    if (child < 0 || wait4(child, &status, 0, &use) < 0 || !WIFEXITED(status) ||
        WEXITSTATUS(status) > 1)
        return fprintf(stderr, "%s failed\n", argv[0]), 1;
    *cpu = seconds(use.ru_utime) + seconds(use.ru_stime);
    *kib = use.ru_maxrss > *kib ? use.ru_maxrss : *kib;
    return 0;
}

static int command(int argc, char **argv)
{
    double cpu[RUNS];
    long kib = 0;

    for (int i = 0; i < RUNS; i++)
        if (run(argv, &cpu[i], &kib))
            return 1;
    printf("paradl");
    for (int i = 1; i < argc; i++)
        printf(" %s", argv[i]);
    printf(": %.1f ms CPU, %.1f MiB\n", 1e3 * median(cpu), kib / 1024.0);
    return 0;
}

/* Calculon, one core, the same model, PEs and batch: configurations a second
 * over 7,474,752 of them (its own space), quiet; and one evaluation as its
 * search is shipped. */
static const double CALCULON = 2389, SHIPPED = 94;

/* Every point priced on one core: of the whole space, or with whole weights
 * alone (ZeRO 0 and 1), which is what Calculon's space has. */
static int price_all(char **argv, const struct pdl_model *m,
                     const struct pdl_system *sys, int most_zero)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_oracle_options opt = {.optimizer_slots = 2,
                                     .precision = PDL_PREC_BF16};
    struct pdl_search_options so = {.pes = atoll(argv[2]),
                                    .batch = atoll(argv[3]),
                                    .most_zero = most_zero,
                                    .basic = most_zero > 0,
                                    .one_order = true,
                                    .threads = 1,
                                    .exhaustive = true};
    struct pdl_search_result r;
    struct pdl_err err = {"", ""};
    double start = pdl_cpu_s(), rate, took;

    if (pdl_search(a, m, sys, &opt, &so, &r, &err) != PDL_OK)
        return fprintf(stderr, "%s\n", err.msg), 1;
    took = pdl_cpu_s() - start;
    rate = (double)r.evaluated / took;
    printf("%s on %s PEs, ZeRO 0 to %d: %lld points priced in full, %.0f a "
           "second on one core (CPU), %.1f times Calculon's %.0f (%.0f times "
           "its %.0f as shipped)\n",
           argv[0], argv[2], most_zero ? most_zero : 3, (long long)r.evaluated,
           rate, rate / CALCULON, CALCULON, rate / SHIPPED, SHIPPED);
    printf("%s on %s PEs: of its %.2f s, %.2f s (clock) priced %lld pieces\n",
           argv[0], argv[2], took, r.pieces_s, (long long)r.pieces);
    pdl_arena_destroy(a);
    return 0;
}

/* The whole space of a transformer: every point priced on one core; then with
 * bounds, on all. */
static int search(char **argv)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_oracle_options opt = {.optimizer_slots = 2,
                                     .precision = PDL_PREC_BF16};
    struct pdl_search_options so = {.pes = atoll(argv[2]),
                                    .batch = atoll(argv[3])};
    struct pdl_search_result r;
    struct pdl_err err = {"", ""};
    const struct pdl_model *m;
    struct pdl_system sys;
    double start;

    if (pdl_zoo_build(a, argv[0], &m, &err) != PDL_OK ||
        pdl_system_open(a, argv[1], &sys, &err) != PDL_OK ||
        pdl_system_for_pes(a, &sys, so.pes, &err) != PDL_OK)
        return fprintf(stderr, "%s\n", err.msg), 1;
    if (price_all(argv, m, &sys, 1) != 0 || price_all(argv, m, &sys, 0) != 0)
        return 1;
    start = pdl_clock_s();
    if (pdl_search(a, m, &sys, &opt, &so, &r, &err) != PDL_OK)
        return fprintf(stderr, "%s\n", err.msg), 1;
    printf("%s on %s PEs: %lld points in %.2f s on %d cores: %lld fit, %lld "
           "priced, %lld excluded\n",
           argv[0], argv[2], (long long)r.points, pdl_clock_s() - start,
           pdl_cores(), (long long)r.feasible, (long long)r.evaluated,
           (long long)r.pruned);
    pdl_arena_destroy(a);
    return 0;
}

int main(int argc, char **argv)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_strategy *s = PDL_NEW(a, struct pdl_strategy, 1);
    struct pdl_oracle_options opt = {.optimizer_slots = 1};
    struct pdl_err err = {"", ""};
    const struct pdl_model *m;
    struct pdl_system sys;
    struct rusage use;
    double lower[RUNS], both[RUNS];
    int nops = 0;

    if (argc > 2 && strcmp(argv[1], "--command") == 0)
        return command(argc - 2, argv + 2);
    if (argc > 5 && strcmp(argv[1], "--search") == 0)
        return search(argv + 2);
    if (argc < 6)
        return 2;
    opt.precision = pdl_precision_find(argv[5]);
    if (pdl_zoo_build(a, argv[1], &m, &err) != PDL_OK ||
        pdl_system_open(a, argv[2], &sys, &err) != PDL_OK ||
        pdl_strategy_parse(a, argv[3], s, &err) != PDL_OK)
        return fprintf(stderr, "%s\n", err.msg), 1;
    for (int i = 0; i < RUNS; i++) {
        pdl_arena *b = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_plan_options po = {.batch = atoll(argv[4])};
        const struct pdl_plan *p;
        struct pdl_projection x;
        double start = pdl_cpu_s();

        if (pdl_plan_lower(b, m, s, &po, &p, &err) != PDL_OK)
            return fprintf(stderr, "%s\n", err.msg), 1;
        lower[i] = pdl_cpu_s() - start;
        if (pdl_project(p, &sys, &opt, &x, &err) != PDL_OK)
            return fprintf(stderr, "%s\n", err.msg), 1;
        both[i] = pdl_cpu_s() - start;
        nops = p->nops;
        pdl_arena_destroy(b);
    }
    getrusage(RUSAGE_SELF, &use);
    printf("%-10s %-42s %6d operations %7.3f ms lowering %7.3f ms with "
           "pricing %5.1f MiB\n",
           argv[1], argv[3], nops, 1e3 * median(lower), 1e3 * median(both),
           use.ru_maxrss / 1024.0);
    pdl_arena_destroy(a);
    return 0;
}
