/* measure: runs and layers that were measured, fits to them, and the intervals
 * that follow. */
#ifndef ORACLE_MEASURE_H
#define ORACLE_MEASURE_H

#include "paradl/oracle.h"

/* Runs of one campaign that share all features, and how far off they are in
 * the mean. */
struct oracle_evidence {
    const char *campaign, *key;
    int runs;
    double error;
};
extern const struct oracle_evidence oracle_evidence[];
extern const int oracle_nevidence;

/* The largest part of the peak that a measured run has. */
struct oracle_reached {
    const char *arch, *precision;
    double mfu;
};
extern const struct oracle_reached oracle_reached[];
extern const int oracle_nreached;

/* runs.c: "data+filter", or "serial" */
void oracle_axes(const struct pdl_strategy *s, char *buf, size_t size);

/* fit.c: -2 log of the posterior density, but for a constant. */
double oracle_misfit(struct pdl_system *sys, const struct pdl_fit_param *param,
                     int n, pdl_fit_cost cost, void *ctx, int rows);

#endif
