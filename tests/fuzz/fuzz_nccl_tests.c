/* The nccl-tests importer on arbitrary bytes. */
#include "fuzz_system.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pdl_import how = {.np = 8, .nodes = 2, .op = "allreduce"};

    fuzz_import("nccl-tests", data, size, &how);
    return 0;
}
