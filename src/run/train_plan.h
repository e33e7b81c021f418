/* The plan that a run executes, from its file. */
#ifndef RUN_TRAIN_PLAN_H
#define RUN_TRAIN_PLAN_H

#include "paradl/plan.h"

struct train_plan {
    const struct pdl_plan *plan;
    struct pdl_plan_head head;
    const char *strategy; /* as text */
    uint64_t hash;
};

/* Reads, parses and checks a plan file. Where MPI runs, rank 0 reads and the
 * others get its bytes, so that all run the same plan wherever the file is.
 * hash: in hexadecimal, what the bytes must have; NULL: any. */
enum pdl_status train_plan_read(pdl_arena *a, const char *path,
                                const char *hash, bool mpi,
                                struct train_plan *out, struct pdl_err *err);

#endif
