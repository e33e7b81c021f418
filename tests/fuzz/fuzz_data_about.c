/* Any text as the description of a data set: refused in one line, or numbers
 * that can be reckoned with. */
#include "paradl/data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pdl_arena *a = pdl_arena_create((size_t)16 << 20);
    struct pdl_bytes in = {(const char *)data, size};
    struct pdl_err err = {"", ""};
    struct pdl_data_about x;
    enum pdl_status st;

    if (!a)
        return 0;
    st = pdl_data_about_read(a, in, "x", &x, &err);
    if (st != PDL_OK && (!*err.msg || strchr(err.msg, '\n')))
        abort();
    if (st == PDL_OK &&
        (x.samples < 1 || x.files < 0 || !(x.bytes >= 0) || isinf(x.bytes) ||
         !(x.load_s >= 0) || !(x.exchange_s >= 0) || !x.name))
        abort();
    pdl_arena_destroy(a);
    return 0;
}
