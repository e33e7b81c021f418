/* Two projections compared figure by figure: seconds to 1e-9 of the step, bytes
 * as they are. */
#ifndef TESTS_ORACLE_FIGURES_H
#define TESTS_ORACLE_FIGURES_H

#include "paradl/oracle.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define SECONDS(f)                                    \
    {                                                 \
#f, offsetof(struct pdl_projection, f), false \
    }
#define BYTES(f)                                     \
    {                                                \
#f, offsetof(struct pdl_projection, f), true \
    }
static const struct {
    const char *name;
    size_t at;
    bool whole;
} fields[] = {
    SECONDS(step_s),
    SECONDS(forward_s),
    SECONDS(backward_s),
    SECONDS(update_s),
    SECONDS(recompute_s),
    SECONDS(bubble_s),
    SECONDS(gradient_comm_s),
    SECONDS(layer_comm_s),
    SECONDS(halo_s),
    SECONDS(p2p_s),
    SECONDS(exposed_comm_s),
    SECONDS(io_s),
    SECONDS(layer_between_s),
    SECONDS(compute_s),
    SECONDS(comm_s),
    SECONDS(samples_per_s),
    SECONDS(tokens_per_s),
    SECONDS(mfu),
    SECONDS(contention),
    SECONDS(epoch_s),
    BYTES(allocated_bytes),
    BYTES(reserved_bytes),
    BYTES(peak_bytes),
    BYTES(weights_bytes),
    BYTES(gradients_bytes),
    BYTES(optimizer_bytes),
    BYTES(activations_bytes),
    BYTES(workspace_bytes),
    BYTES(comm_buffers_bytes),
    BYTES(capacity_bytes),
    BYTES(host_bytes),
    BYTES(pes),
    BYTES(batch),
};

/* The first figure that differs; NULL: none. Seconds to 1e-9 of the step. */
static const char *differs(const struct pdl_projection *a,
                           const struct pdl_projection *b)
{
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        const char *x = (const char *)a + fields[i].at;
        const char *y = (const char *)b + fields[i].at;
        double u, v;

        if (fields[i].whole) {
            if (memcmp(x, y, sizeof(int64_t)) != 0)
                return fields[i].name;
            continue;
        }
        memcpy(&u, x, sizeof u);
        memcpy(&v, y, sizeof v);
        if (fabs(u - v) > 1e-9 * fmax(fabs(v), i == 0 ? 0 : b->step_s))
            return fields[i].name;
    }
    return a->feasible == b->feasible ? NULL : "feasible";
}

static void every(const struct pdl_projection *a,
                  const struct pdl_projection *b)
{
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        double u, v;

        if (fields[i].whole)
            continue;
        memcpy(&u, (const char *)a + fields[i].at, sizeof u);
        memcpy(&v, (const char *)b + fields[i].at, sizeof v);
        if (fabs(u - v) > 1e-9 * fabs(v))
            print_message("    %s %.12g %.12g\n", fields[i].name, u, v);
    }
}

#endif
