/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a run. A wrong file is usually wrong on every rank: that is one
 * line, not one a rank. But a disk, a folder that is not mounted or a damaged
 * block may be one rank's own trouble: it then waits a little for the others
 * to end too and, if they do not, takes the job down, because MPI would let
 * them wait for ever. */
#include "train_end.h"
#include "run_priv.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CODES = 256 };
static const double patience_s = 5;

bool run_leave_code(int rc)
{
    const char *path = getenv("PARADL_RC");
    char text[16];

    if (!path || !*path)
        return false;
    snprintf(text, sizeof text, "%d\n", rc);
    return pdl_file_write(path, text, strlen(text), NULL) == PDL_OK;
}

bool run_may_restart(enum pdl_status st)
{
    return run_exit_code(st) == EXIT_ENV;
}

/* False: the others do not come. */
static bool wait_for_all(MPI_Request *all, bool patient)
{
    double until = pdl_clock_s() + patience_s;
    int done = 0;

    if (patient)
        return MPI_Wait(all, MPI_STATUS_IGNORE) == MPI_SUCCESS;
    while (!done && pdl_clock_s() < until) {
        MPI_Test(all, &done, MPI_STATUS_IGNORE);
        if (!done)
            usleep(1000);
    }
    return done != 0;
}

int run_end_together(MPI_Comm ranks, enum pdl_status st,
                     const struct pdl_err *err)
{
    int rc = run_exit_code(st), first = INT_MAX, mine = INT_MAX, rank;
    MPI_Request all;

    MPI_Comm_rank(ranks, &rank);
    if (st != PDL_OK)
        mine = rank * CODES + rc;
    MPI_Iallreduce(&mine, &first, 1, MPI_INT, MPI_MIN, ranks, &all);
    /* NOLINTBEGIN(clang-analyzer-optin.mpi.MPI-Checker): it is waited for */
    if (!wait_for_all(&all, st == PDL_OK)) {
        run_fail(st, err);
        if (!run_may_restart(st))
            run_leave_code(rc);
        MPI_Abort(MPI_COMM_WORLD, rc);
        return rc;
    }
    if (first == INT_MAX)
        return EXIT_OK;
    if (first == mine)
        run_fail(st, err);
    return first % CODES;
    /* NOLINTEND(clang-analyzer-optin.mpi.MPI-Checker) */
}
