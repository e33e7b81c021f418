/* The nccl-topo importer on arbitrary bytes. */
#include "fuzz_system.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pdl_import how = {.np = 0};

    fuzz_import("nccl-topo", data, size, &how);
    return 0;
}
