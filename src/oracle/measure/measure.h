/* measure: runs and layers that were measured, fits to them, and the intervals
 * that follow. */
#ifndef ORACLE_MEASURE_H
#define ORACLE_MEASURE_H

#include "paradl/oracle.h"

/* fit.c: -2 log of the posterior density, but for a constant. */
double oracle_misfit(struct pdl_system *sys, const struct pdl_fit_param *param,
                     int n, pdl_fit_cost cost, void *ctx, int rows);

#endif
