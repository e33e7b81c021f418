/* Shared by the files of bench. */
#ifndef RUN_BENCH_H
#define RUN_BENCH_H

#include "options/bench_options.h"
#include "paradl/coll.h"
#include "paradl/comm.h"
#include "run_priv.h"

enum { BENCH_MAX_SIZES = 64 };

struct bench_row {
    int64_t bytes, iterations, wrong;
    const char *algorithm, *transport;
    /* of the slowest rank; median, best, a quarter is faster */
    double ours_s, ours_min_s, ours_quartile_s;
    double mpi_s;            /* 0: not measured */
    double limit_s;          /* all ranks copy what they get */
    int64_t signals, worked; /* of the rank with the most: see comm.h */
};

/* Elements [at, at + count) of a buffer hold what `rank` has from `place` on;
 * rank -1: what all have, reduced. */
struct bench_part {
    int64_t at, count;
    int rank;
    int64_t place;
};

struct bench;

/* One size's vectors; x.in == x.out: in place. */
struct bench_buffers {
    const struct bench *b;
    int64_t count; /* elements of the whole vector */
    char *in, *out;
    int *counts, *begins; /* the cut into a block a rank, as MPI wants it */
};

/* A collective as it is measured (bench_collectives.c). */
struct bench_collective {
    const char *name;
    bool reduces;
    bool in_place; /* it has one buffer */
    int passes;    /* the bus carries passes * (P-1)/P of it; 0: all */
    struct bench_part (*input)(const struct bench_buffers *x);
    /* the i-th part of what must come out; false: no more */
    bool (*result)(const struct bench_buffers *x, int i,
                   struct bench_part *out);
    enum pdl_status (*ours)(const struct bench_buffers *x, struct pdl_err *err);
    enum pdl_status (*mpis)(const struct bench_buffers *x, struct pdl_err *err);
};

struct bench {
    const struct bench_options *o;
    const struct bench_collective *coll;
    const char *algorithm; /* as the communicator is asked; NULL: auto */
    const struct pdl_coll_program *program; /* instead, from a file */
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

const struct bench_collective *run_bench_collective(const char *name);
double run_bench_bus_factor(const struct bench *b);
void run_bench_blocks(struct bench_buffers *x); /* fills counts, begins */
/* Values of a turn, and how many are not what they must be
 * (bench_values.c). */
void run_bench_write(const struct bench *b, char *to,
                     const struct bench_part *part, int64_t turn);
int64_t run_bench_wrong(const struct bench *b, const char *from,
                        const struct bench_part *part, int64_t turn);

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
