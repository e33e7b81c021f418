/* Any bytes as a csv file: refused in one line, or every sample can be read. */
#include "fuzz_io_array.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_format(&io_format_csv, data, size);
}
