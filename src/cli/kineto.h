/* A projection beside a measured trace. */
#ifndef CLI_KINETO_H
#define CLI_KINETO_H

#include "projection.h"

struct cli_joined {
    const char *path; /* NULL: nobody asks */
    struct pdl_trace trace;
    int64_t steps;
    int lane;
    double projected[PDL_TRACE_CLASSES]; /* busy seconds of a step */
};

/* steps 0: as many as the trace has marks for, else one. */
enum pdl_status cli_kineto(pdl_arena *a, const struct cli_job *j,
                           const char *path, int64_t steps,
                           struct cli_joined *out, struct pdl_err *err);
void cli_kineto_json(struct pdl_json *w, const struct cli_job *j,
                     const struct cli_joined *x);
void cli_kineto_text(const struct cli_job *j, const struct cli_joined *x);

#endif
