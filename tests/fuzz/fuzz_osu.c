/* The osu importer on arbitrary bytes. */
#include "fuzz_system.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pdl_import how = {.np = 8};

    fuzz_import("osu", data, size, &how);
    return 0;
}
