/* Any bytes as a CIFAR file: refused in one line, or readable to the end. */
#include "fuzz_io_array.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pdl_err err = {"", ""};
    struct io_array x, y;
    enum pdl_status st = io_cifar_parse(
        (struct pdl_bytes){(const char *)data, size}, "x", &x, &y, &err);

    fuzz_message(st, &err);
    if (st == PDL_OK) {
        fuzz_array(&x);
        fuzz_array(&y);
        if (io_array_max(&y) > 99)
            abort();
    }
    return 0;
}
