/* --memory of train: what does not fit is decided by block. */
#ifndef CLI_DECIDE_H
#define CLI_DECIDE_H

#include "cli/questions/handover.h"

/* Are there blocks to decide on? */
bool cli_decides(const struct pdl_args *args);
/* The job, set up but for a system, gets a strategy whose plan the runtime can
 * run within --memory: as it is where that fits, else with what the oracle
 * decides. What was decided is said. The arena outlives the job. */
enum pdl_status cli_decide(pdl_arena *a, const struct pdl_args *args,
                           pdl_job *j, struct pdl_err *err);

#endif
