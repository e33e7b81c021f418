/* A walk over the elements of a box, with the place of each in several arrays:
 * dimensions of neighbouring storage are joined, so that the innermost is a run
 * as long as it can be. */
#ifndef TRAIN_CPU_WALK_H
#define TRAIN_CPU_WALK_H

#include "train/backends/cpu/cpu.h"

enum { CPU_WALK_MOST = 12, CPU_WALK_PIECE = 1024 };

struct cpu_walk {
    int n, ndims; /* arrays, dimensions: the last is the run */
    int64_t count[PDL_BOX_DIMS];
    int64_t stride[CPU_WALK_MOST][PDL_BOX_DIMS];
    int64_t first[CPU_WALK_MOST];
    int64_t kept; /* of the dimensions, after train_cpu_walk_sum */
    bool columns; /* of a sum: the run is of results, not of summands */
};

/* The box, in its own dimensions. */
void train_cpu_walk_begin(struct cpu_walk *w, const struct pdl_box *box);
/* Another array: dimension d of the box is its map[d]; -1: it is stretched. */
void train_cpu_walk_add(struct cpu_walk *w, const struct pdl_box *box,
                        const struct train_array *a, const int *map);
/* Ends it: in the order of storage of array `by`. */
void train_cpu_walk_end(struct cpu_walk *w, int by);
/* Ends it: dimensions in which array `into` is not stretched come first, so
 * that every element of it is one sum. */
void train_cpu_walk_sum(struct cpu_walk *w, int by, int into);

/* Pieces of at most CPU_WALK_PIECE elements of a run. */
typedef void cpu_walk_fn(const void *ctx, const int64_t *at, int64_t n);
void train_cpu_walk(const struct cpu_walk *w, cpu_walk_fn *fn, const void *ctx);
/* Piece by piece, only of the given dimensions [from, to) from `at` on. */
struct cpu_walk_at {
    int64_t index[PDL_BOX_DIMS], at[CPU_WALK_MOST];
};
void train_cpu_walk_start(const struct cpu_walk *w, int from, int to,
                          int64_t number, const int64_t *base,
                          struct cpu_walk_at *p);
void train_cpu_walk_next(const struct cpu_walk *w, int from, int to,
                         struct cpu_walk_at *p);
int64_t train_cpu_walk_count(const struct cpu_walk *w, int from, int to);

#endif
