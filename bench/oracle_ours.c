/* Lowering and pricing in the library: CPU time, median of 20.
 * oracle_ours MODEL SYSTEM STRATEGY BATCH PRECISION */
#include "paradl/oracle.h"

#include <stdio.h>
#include <stdlib.h>

enum { RUNS = 20 };

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_strategy *s = PDL_NEW(a, struct pdl_strategy, 1);
    struct pdl_oracle_options opt = {.optimizer_slots = 1};
    struct pdl_err err = {"", ""};
    const struct pdl_model *m;
    struct pdl_system sys;
    double lower[RUNS], both[RUNS];
    int nops = 0;

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
    qsort(lower, RUNS, sizeof lower[0], ascending);
    qsort(both, RUNS, sizeof both[0], ascending);
    printf("%-12s %-10s %6d operations  %8.3f ms lowering  %8.3f ms with "
           "pricing\n",
           argv[1], argv[3], nops, 1e3 * lower[RUNS / 2], 1e3 * both[RUNS / 2]);
    pdl_arena_destroy(a);
    return 0;
}
