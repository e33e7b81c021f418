/* measure: runs and layers that were measured, fits to them, and the intervals
 * that follow. */
#ifndef ORACLE_MEASURE_H
#define ORACLE_MEASURE_H

#include "paradl/oracle.h"

/* Half of an interval where nothing was fitted: 80 % of 650 published runs
 * (tests/data/oracle/published.json) are within exp(0.138) of their
 * projections. */
#define ORACLE_GUESS_ERROR .138

/* fit.c: -2 log of the posterior density, but for a constant. */
double oracle_misfit(struct pdl_system *sys, const struct pdl_fit_param *param,
                     int n, pdl_fit_cost cost, void *ctx, int rows);

#endif
