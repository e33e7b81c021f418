/* paradl validate MODEL --strategy S: a few training steps run here beside
 * their projection. */
#ifndef CLI_VALIDATE_HERE_H
#define CLI_VALIDATE_HERE_H

#include "cli/cli_priv.h"

struct cli_here_options {
    const char *model, *strategy, *system, *dim, *precision, *optimizer;
    const char *device; /* NULL: the host */
    int64_t ranks, batch, steps;
    bool cpu_times;
    const char *command; /* for a page; NULL: not said */
};
/* page: gets the JSON too; NULL: none is asked for */
int cli_validate_here(const struct cli_here_options *o, bool json,
                      struct pdl_buf *page);

#endif
