/* Shared by the files of calibrate: measurements of the machine, each printed
 * by rank 0 as one part of a JSON object. */
#ifndef RUN_CALIBRATE_H
#define RUN_CALIBRATE_H

#include "paradl/comm.h"
#include "run_priv.h"

struct calibration {
    pdl_comm *comm;
    int rank, ranks;
    int64_t threads;
    double turns; /* ranks that share a processor take turns; 1: none do */
    double seconds;
    bool progress;         /* a line of it on standard error */
    struct pdl_json *json; /* rank 0's; NULL elsewhere */
    struct run_quiet *quiet;
    const char *device; /* of the only rank; NULL: the host */
    bool *large;        /* it wants more work than a processor */
};

/* While probes trained: time that passed, and that they had a processor; the
 * sums over operations of median and lower quartile. */
struct run_quiet {
    double wall_s, cpu_s, median_s, quartile_s;
    double clock_hz; /* of a device, under load: the sum over probes */
    int probes, capped, hot;
};

/* How often to do again what is done `full` times, however long it takes:
 * less where a measurement may take less than 20 ms, but once. */
int run_repeats(const struct calibration *c, int full);
/* Is item i of `all` measured? As many are left out as run_repeats leaves out,
 * spread evenly: what shows that it works need not know all of the machine. */
bool run_chosen(const struct calibration *c, int i, int all);

typedef void run_work(void *ctx);

/* Median time of `work`, which keeps all threads busy, in c->seconds, on all
 * ranks at once, begun together: the mean of their medians. */
enum pdl_status run_time_all(const struct calibration *c, run_work *work,
                             void *ctx, double *out, struct pdl_err *err);
/* {"name", "value", "unit"} of the open list of facts. */
void run_fact(const struct calibration *c, const char *name, double value,
              const char *unit);

/* The parts. Collective. */
enum pdl_status run_calibrate_device(const struct calibration *c,
                                     struct pdl_err *err);
enum pdl_status run_calibrate_memory(const struct calibration *c,
                                     struct pdl_err *err);
enum pdl_status run_calibrate_peak(const struct calibration *c,
                                   struct pdl_err *err);
enum pdl_status run_calibrate_compute(const struct calibration *c,
                                      struct pdl_err *err);
enum pdl_status run_calibrate_train(const struct calibration *c,
                                    struct pdl_err *err);
enum pdl_status run_calibrate_messages(const struct calibration *c,
                                       struct pdl_err *err);

#endif
