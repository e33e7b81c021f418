/* Any bytes as an array file: refused in one line, or readable to the end. */
#include "fuzz_io_array.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pdl_err err = {"", ""};
    struct io_array a;
    enum pdl_status st = io_npy_parse(
        (struct pdl_bytes){(const char *)data, size}, "x", &a, &err);

    fuzz_message(st, &err);
    if (st == PDL_OK)
        fuzz_array(&a);
    return 0;
}
