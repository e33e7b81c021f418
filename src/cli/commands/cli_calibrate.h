/* Between the files of the calibrate command. */
#ifndef CLI_CALIBRATE_H
#define CLI_CALIBRATE_H

#include "cli/cli_priv.h"
#include "paradl/oracle.h"

struct cli_calibrate_options {
    const char *fit, *select, *base, *output, *name, *without, *collective;
    const char *leave_out, *start, *device;
    int64_t ranks, threads, most, rounds;
    double seconds;
};

/* The system that this machine is, measured (calibrate_machine.c); returns an
 * exit code. */
int cli_calibrate_machine(const struct pdl_args *args);

enum { CLI_MEASURE_ROUNDS = 9 }; /* at most */

/* What was measured, as it came (calibrate_measure.c). */
struct cli_measurement {
    pdl_arena *a;
    const struct pdl_doc *machine; /* paradl.measurement/1 */
    struct cli_bench_runs {
        const char *collective, *sizes;
        int64_t ranks;
        int rounds;
        const struct pdl_doc *round[CLI_MEASURE_ROUNDS];
    } bench[64];
    int nbench;
};
/* A PE that is a device, from its facts and rows (calibrate_device.c). */
void cli_fill_device(pdl_arena *a, const struct pdl_doc *machine,
                     struct pdl_system *sys);
/* How it went: its clock, and whether its power was at the limit. */
void cli_print_device(const struct pdl_doc *machine,
                      const struct pdl_system *sys, struct pdl_sink *out);
/* Starts the measurements; messages go to standard error. */
enum pdl_status cli_measure(const struct cli_calibrate_options *o, bool quiet,
                            struct cli_measurement *m, struct pdl_err *err);

/* Fits pe.kernels to pe.profile (calibrate_kernels.c). */
struct cli_kernels {
    int rows;
    double before, after; /* mean |log(projected / measured)| */
};
void cli_fit_kernels(struct pdl_system *sys, struct cli_kernels *out);

/* How far to trust it (calibrate_trust.c): the system's projection_error. */
struct cli_trust {
    int probes;
    double error;          /* 80 % of probes' steps are within exp(this) */
    double others, spread; /* part of the processors; median by quartile - 1 */
};
void cli_calibrate_trust(pdl_arena *a, const struct pdl_doc *machine,
                         struct pdl_system *sys, struct cli_trust *out);

#endif
