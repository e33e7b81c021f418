/* The system file's reader; what it accepts must be a fixed point. */
#include "fuzz_system.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pdl_arena *a = pdl_arena_create((size_t)64 << 20);
    struct pdl_bytes in = {(const char *)data, size};
    struct pdl_err err = {"", ""};
    struct pdl_system sys;

    if (a && pdl_system_read(a, in, "fuzz", &sys, &err) == PDL_OK)
        fuzz_fixed_point(a, &sys);
    else if (!*err.msg)
        fuzz_fail("failed without a message", "");
    pdl_arena_destroy(a);
    return 0;
}
