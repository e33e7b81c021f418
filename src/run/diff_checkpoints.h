/* Two runs by their checkpoints, for diff-run. */
#ifndef RUN_DIFF_CHECKPOINTS_H
#define RUN_DIFF_CHECKPOINTS_H

#include "paradl/train.h"

/* The first step and tensor in which the runs that saved in a and b differ by
 * more than tolerance times the tensor's largest value. */
enum pdl_status run_diff_checkpoints(const char *a, const char *b,
                                     double tolerance, struct pdl_train_diff *d,
                                     struct pdl_err *err);

#endif
