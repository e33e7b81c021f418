/* How a run of several ranks ends when something went wrong. */
#ifndef RUN_TRAIN_END_H
#define RUN_TRAIN_END_H

#include "paradl/base.h"

#include <mpi.h>

/* Called by every MPI rank with how it fared; the communicator is of all
 * ranks and used for nothing else. What all ranks come to see, one
 * of them says, the lowest; a rank that is alone with its failure says it and
 * ends the job, since the others may be waiting for it in an exchange. Returns
 * the exit code, the same on all ranks. */
int run_end_together(MPI_Comm ranks, enum pdl_status st,
                     const struct pdl_err *err);
/* Leaves the exit code where `paradl train` looks for it (PARADL_RC): mpirun
 * turns any but 0 into noise. True when somebody looks. */
bool run_leave_code(int rc);
/* A lost rank or the like: no code is left, so that `paradl train` starts the
 * ranks again. */
bool run_may_restart(enum pdl_status st);

#endif
