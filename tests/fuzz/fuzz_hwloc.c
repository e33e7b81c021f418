/* The hwloc importer on arbitrary bytes. */
#include "fuzz_system.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
const char *__lsan_default_suppressions(void);

/* libhwloc 2.9 itself forgets objects of files it refuses half way. */
const char *__lsan_default_suppressions(void)
{
    return "leak:libhwloc";
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pdl_import how = {.np = 0};

    fuzz_import("hwloc", data, size, &how);
    return 0;
}
