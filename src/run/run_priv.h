/* paradl-run: commands that run on many ranks. A command is one file with one
 * const struct pdl_cmd; to add one: write the file, declare it here, add one
 * line in main.c. `paradl` has a command of the same name that checks the
 * command line and starts this one. */
#ifndef RUN_PRIV_H
#define RUN_PRIV_H

#include "paradl/base.h"

enum {
    EXIT_OK = 0,
    EXIT_NO = 1,
    EXIT_USAGE = 2,
    EXIT_INPUT = 3,
    EXIT_ENV = 4,
    EXIT_BUG = 5,
    EXIT_INTR = 130,
};

extern const struct pdl_cmd run_bench, run_calibrate, run_train, run_evaluate,
    run_diff, run_federate, run_data_show, run_data_stage, run_data_check;

/* parent.c: ends with whoever started it; the rank as the starter has it */
void run_watch_parent(void);
/* From now on a signal asks to save and stop; what it sets. */
void run_catch_signals(void);
const volatile int *run_stop_asked(void);
/* After MPI_Init: ends the process where the launcher is another MPI's. */
void run_same_mpi(void);
const char *run_rank(void);     /* NULL: no starter */
struct pdl_sink *run_out(void); /* standard output */
int run_exit_code(enum pdl_status st);
/* Prints "paradl: message (hint)" and returns the exit code. */
int run_fail(enum pdl_status st, const struct pdl_err *err);
/* The same for what every rank finds wrong: the first one says it. */
int run_fail_all(enum pdl_status st, const struct pdl_err *err);

#endif
