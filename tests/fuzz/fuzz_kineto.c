/* Traces: any bytes give sums that are sound, or one message with a place. */
#include "paradl/oracle.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pdl_bytes in = {(const char *)data, size};
    struct pdl_kineto k;
    struct pdl_err err = {"", ""};

    if (pdl_kineto_bytes(in, "f", &k, &err) == PDL_OK) {
        if (k.kernels < 1 || k.exposed_s < -1e-6 || k.idle_s < 0)
            abort();
    } else if (!*err.msg) {
        abort();
    }
    return 0;
}
