/* Slurm's topology.conf. */
#include "paradl/system.h"

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pdl_arena *a = pdl_arena_create(64 << 20);
    struct pdl_switches out;
    struct pdl_err err;

    if (a && size < 65536 &&
        pdl_switches_read(a, (struct pdl_bytes){(const char *)data, size},
                          "fuzz", &out, &err) == PDL_OK)
        pdl_switches_find(&out, "n1");
    pdl_arena_destroy(a);
    return 0;
}
