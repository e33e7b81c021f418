/* Shared inside paradl-run: the commands that need MPI or kernels. A command
 * is one file with one const struct pdl_cmd; to add one: write the file,
 * declare it here, add one line in main.c. */
#ifndef RUN_PRIV_H
#define RUN_PRIV_H

#include "paradl/base.h"

/* The same exit codes as paradl's. */
enum { RUN_OK, RUN_NO, RUN_USAGE, RUN_INPUT, RUN_ENV, RUN_BUG, RUN_INTR = 130 };

int run_train(const struct pdl_args *args);

struct pdl_sink *run_out(void); /* standard output */
/* Prints "paradl: message (hint)" and returns the exit code. */
int run_fail(enum pdl_status st, const struct pdl_err *err);
/* What an orderly end means. mpirun turns any code but 0 into noise, so where
 * paradl supervises (PARADL_RC names a file) the code goes there. */
int run_finish(int rc);

#endif
