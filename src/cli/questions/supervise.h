/* Ranks that train, looked after: told to stop when this program is, started
 * again when one is lost. */
#ifndef CLI_SUPERVISE_H
#define CLI_SUPERVISE_H

#include "cli/questions/handover.h"

struct cli_supervised {
    const struct pdl_cmd *cmd;
    const struct pdl_args *args;
    int64_t ranks;          /* 0: one process, without a launcher */
    const char *checkpoint; /* where ranks begin again; NULL: they do not */
    bool *resume;           /* of the options: what begins again has it */
    int64_t restarts;
};

/* Runs it to its end; an exit code. The folder must stay until then. */
int cli_supervise(const struct cli_supervised *s, const struct cli_handover *h);

#endif
