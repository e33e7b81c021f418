/* The best plan on so many PEs, as the price of a job. */
#ifndef CLI_BEST_H
#define CLI_BEST_H

#include "cli/questions/projection.h"

/* Opens a job for the question's PEs and batch (for the framework that `plan`
 * would take, if none is named), searches and prices the best plan; to be
 * closed, whatever it returns. *strategy lives as long as the arena. PDL_EINVAL
 * where nothing fits. */
enum pdl_status cli_best(pdl_arena *a, const struct cli_question *q,
                         struct cli_job *j, const char **strategy,
                         struct pdl_err *err);

#endif
