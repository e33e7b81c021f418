/* Shared by the files of bench. */
#ifndef RUN_BENCH_H
#define RUN_BENCH_H

#include "bench_options.h"
#include "paradl/comm.h"
#include "run_priv.h"

enum { BENCH_MAX_SIZES = 64 };

struct bench_row {
    int64_t bytes, iterations, wrong;
    const char *algorithm, *transport;
    double ours_s, ours_min_s; /* of the slowest rank; median, best */
    double mpi_s;              /* 0: not measured */
    double limit_s;            /* all ranks copy their buffers */
};

struct bench {
    const struct bench_options *o;
    pdl_comm *comm;
    int ranks;
    bool mpi; /* started by it */
    enum pdl_comm_type type;
    enum pdl_comm_op op;
    int64_t size; /* of an element */
    int nsizes;
    int64_t sizes[BENCH_MAX_SIZES];
    struct bench_row row[BENCH_MAX_SIZES];
    struct pdl_comm_probe probe;
};

/* One size: times, limits and wrong elements (bench_measure.c). */
enum pdl_status run_bench_size(struct bench *b, int i, struct pdl_err *err);
void run_bench_print(const struct bench *b, bool json);
/* The profile that auto follows: --profile, or $PARADL_PROFILE; none is an
 * empty table (bench_tune.c). */
enum pdl_status run_bench_profile(pdl_arena *a, const struct bench_options *o,
                                  struct pdl_comm_table *out,
                                  struct pdl_err *err);
/* Times the algorithms at every size and writes the best into the profile. */
enum pdl_status run_bench_tune(struct bench *b,
                               const struct pdl_comm_options *opt,
                               struct pdl_err *err);
/* What auto takes, by size. */
void run_bench_table(const struct bench *b, bool json);

#endif
