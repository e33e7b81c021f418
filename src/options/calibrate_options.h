/* The options of paradl-run calibrate: what `paradl calibrate` asks of it. */
#ifndef RUN_CALIBRATE_OPTIONS_H
#define RUN_CALIBRATE_OPTIONS_H

#include "paradl/base.h"

struct run_calibrate_options {
    double seconds;
    int64_t threads;
    bool progress;
    const char *device;
};

#define AT(field) offsetof(struct run_calibrate_options, field)
// clang-format off
static const struct pdl_opt run_calibrate_opts[] = {
    {"seconds", 0, PDL_OPT_TIME, AT(seconds), "TIME", NULL,
     "for each measurement (0.1s; below 20ms fewer are made)"},
    {"threads", 0, PDL_OPT_INT, AT(threads), "T", NULL,
     "of each rank (1)"},
    {"progress", 0, PDL_OPT_FLAG, AT(progress), NULL, NULL,
     "a line of progress, whatever standard error is"},
    {"device", 0, PDL_OPT_TEXT, AT(device), "NAME", NULL,
     "of one rank, instead of the host: cuda, cuda:1"},
};
// clang-format on
#undef AT

enum {
    RUN_CALIBRATE_NOPTS =
        sizeof run_calibrate_opts / sizeof run_calibrate_opts[0]
};

#endif
