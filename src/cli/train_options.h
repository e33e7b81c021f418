/* The options of train: one table, read by paradl (which supervises) and by
 * paradl-run (which trains). */
#ifndef TRAIN_OPTIONS_H
#define TRAIN_OPTIONS_H

#include "paradl/base.h"

struct cli_train_options {
    const char *data, *strategy, *plan, *optimizer, *schedule, *precision;
    const char *backend, *dim, *checkpoint, *trace, *log, *load, *save;
    int64_t ranks, batch, epochs, steps, seed, every, keep, warmup, threads;
    int64_t sequence, restarts, log_every, lr_every, samples;
    double lr, lr_last, lr_gamma, clip, label_smoothing;
    bool resume, virtual_ranks, augment, raw, allow_empty, mean_squares;
    bool progress;
};

extern const struct pdl_cmd cli_train_command; /* run is set by each program */

#endif
