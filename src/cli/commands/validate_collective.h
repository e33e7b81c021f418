/* validate --collective (validate_collective.c). */
#ifndef CLI_VALIDATE_COLLECTIVE_H
#define CLI_VALIDATE_COLLECTIVE_H

#include "cli/cli_priv.h"

struct cli_collective_options {
    const char *collective, *system, *size, *algorithm;
    int64_t ranks;
    double seconds;
};

int cli_validate_collective(const struct cli_collective_options *o, bool json);

#endif
