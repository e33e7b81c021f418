/* Traces of PyTorch's profiler. */
#include "paradl/report.h"

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_trace out;
    struct pdl_err err;

    if (a)
        pdl_trace_read(a, (struct pdl_bytes){(const char *)data, size}, "fuzz",
                       &out, &err);
    pdl_arena_destroy(a);
    return 0;
}
