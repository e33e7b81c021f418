/* The options of `bench`: `paradl` checks them, `paradl-run` follows them. */
#ifndef RUN_BENCH_OPTIONS_H
#define RUN_BENCH_OPTIONS_H

#include "paradl/base.h"

struct bench_options {
    int64_t ranks, iterations, ranks_per_node;
    const char *size, *algorithm, *transport, *against, *type, *op, *profile;
    double seconds, timeout;
    bool in_place, fixed_order, tune, table;
};

#define AT(field) offsetof(struct bench_options, field)
// clang-format off
static const struct pdl_opt bench_opts[] = {
    {"ranks", 'n', PDL_OPT_COUNT, AT(ranks), "P", NULL,
     "number of ranks, on this machine or in this Slurm job (2)"},
    {"size", 's', PDL_OPT_TEXT, AT(size), "BYTES[..BYTES]", NULL,
     "bytes of each rank's buffer, each twice the one before (4KiB..64MiB)"},
    {"algorithm", 'a', PDL_OPT_TEXT, AT(algorithm), "ALGORITHM", NULL,
     "the algorithm with its parameters, FILE.coll (of allreduce), or auto (auto)"},
    {"transport", 't', PDL_OPT_TEXT, AT(transport), "T",
     "auto|p2p|window|cma|staged|memory",
     "how ranks reach each other; memory: threads of one process (auto)"},
    {"against", 0, PDL_OPT_TEXT, AT(against), "WHAT", "mpi",
     "time MPI's own too, turn by turn in the same process"},
    {"type", 0, PDL_OPT_TEXT, AT(type), "TYPE",
     "float32|float64|bf16|fp16|int32|int64", "of the elements (float32)"},
    {"op", 0, PDL_OPT_TEXT, AT(op), "OP", "sum|max|min|avg",
     "of the reduction (sum)"},
    {"in-place", 0, PDL_OPT_FLAG, AT(in_place), NULL, NULL,
     "the result overwrites the input"},
    {"fixed-order", 0, PDL_OPT_FLAG, AT(fixed_order), NULL, NULL,
     "sum in the order of ranks: the same bits everywhere"},
    {"iterations", 0, PDL_OPT_COUNT, AT(iterations), "N", NULL,
     "of each size (as many as fit the seconds, 5 to 1000)"},
    {"seconds", 0, PDL_OPT_TIME, AT(seconds), "TIME", NULL,
     "for each size (0.5s)"},
    {"learn", 0, PDL_OPT_FLAG, AT(tune), NULL, NULL,
     "time every algorithm and write the best into --profile"},
    {"profile", 0, PDL_OPT_TEXT, AT(profile), "FILE", NULL,
     "the table of choices (default: $PARADL_PROFILE)"},
    {"table", 0, PDL_OPT_FLAG, AT(table), NULL, NULL,
     "print the table of choices that auto follows, and stop"},
    {"ranks-per-node", 0, PDL_OPT_COUNT, AT(ranks_per_node), "K", NULL,
     "pretend nodes of K ranks"},
    {"timeout", 0, PDL_OPT_TIME, AT(timeout), "TIME", NULL,
     "give up on a rank that does not answer (300s)"},
};
// clang-format on
#undef AT

enum { NBENCH_OPTS = sizeof bench_opts / sizeof bench_opts[0] };

#endif
