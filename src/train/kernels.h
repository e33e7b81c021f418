/* Kernels: one pass of one operator on the parts of tensors a rank holds.
 *
 * A backend is asked once for each operation of a rank's program (make), so
 * that primitives are created, implementations chosen and scratch sizes known
 * before the first step; then it is run every step. What an operand means is
 * what the plan says (src/plan/symbolic_kernels.c runs the same calls in exact
 * arithmetic): the boxes carry global indices, so padding, halos and thin or
 * empty parts are arithmetic on boxes, and no kernel knows of ranks. */
#ifndef TRAIN_KERNELS_H
#define TRAIN_KERNELS_H

#include "paradl/base.h"
#include "paradl/model.h"
#include "paradl/plan.h"

/* The part of a tensor that is at hand. Indices are logical, N first and then
 * the model's order (N,C,H,W), storage is channels last (N,H,W,C) for
 * activations with spatial dimensions and row-major for everything else
 * (weights: as in files, OIHW). */
struct train_array {
    enum pdl_dtype dtype;
    struct pdl_box box;
    bool channels_last;
    int layout; /* 0: as above; else the backend's own (blocked) */
};

/* Random numbers of a kernel depend on these and on global indices only. */
struct train_moment {
    uint64_t seed;
    int64_t step, first_sample; /* index in the epoch of sample 0 of the box */
    bool evaluate;              /* no dropout, running statistics */
};

struct train_call {
    const struct pdl_model *model;
    const struct pdl_node *node; /* NULL: the loss */
    enum pdl_pass pass;
    int part;
    int nin, nout;
    const struct train_array *in, *out; /* shapes only */
};

/* One prepared call. */
struct train_kernel {
    int64_t scratch_bytes;
    const char *implementation; /* "ref", "jit:avx512_core" ... */
    enum pdl_status (*run)(const struct train_kernel *k, void *const *in,
                           void *const *out, void *scratch,
                           const struct train_moment *when,
                           struct pdl_err *err);
};

struct train_backend {
    const char *name, *summary;
    enum pdl_status (*open)(pdl_arena *a, void **state, struct pdl_err *err);
    void (*close)(void *state);
    /* The kernel lives as long as the backend's state. */
    enum pdl_status (*make)(void *state, const struct train_call *call,
                            struct train_kernel **out, struct pdl_err *err);
};

extern const struct train_backend train_ref, train_cpu;

#endif
