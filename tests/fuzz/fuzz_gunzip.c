/* gunzip: any bytes give at most the bound, or one message. */
#include "paradl/base.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { MAX = 1 << 20 };
    pdl_arena *a = pdl_arena_create(4 << 20);
    struct pdl_bytes in = {(const char *)data, size}, out = {NULL, 0};
    struct pdl_err err = {"", ""};

    if (!a)
        return 0;
    if (pdl_gunzip(a, in, "f", MAX, &out, &err) == PDL_OK) {
        if (out.len > MAX || (out.data != in.data && out.data[out.len] != 0))
            abort();
    } else if (!*err.msg) {
        abort();
    }
    pdl_arena_destroy(a);
    return 0;
}
