/* The networks that calibrate trains for a few steps. */
#ifndef RUN_CALIBRATE_PROBES_H
#define RUN_CALIBRATE_PROBES_H

#include "paradl/plan.h"

struct run_probe {
    const struct pdl_plan *plan; /* of one rank */
    const char *optimizer;
    int slots; /* arrays that it keeps for a weight */
    bool bf16;
    int number;
};
/* Those of the host, or larger ones for devices. */
int run_probes(bool device);
/* cache: a rank's share of the last one; some networks are larger than it. */
enum pdl_status run_probe_open(pdl_arena *a, bool device, int which,
                               int64_t cache, struct run_probe *out,
                               struct pdl_err *err);

#endif
