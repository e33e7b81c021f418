/* Launch files of other programs: the first byte chooses the format. */
#include "paradl/report.h"

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pdl_launch out;
    struct pdl_err err;
    pdl_arena *a;

    if (size < 1 || size > 65536)
        return 0;
    a = pdl_arena_create(PDL_ARENA_DEFAULT);
    for (int i = 0; a && pdl_launch_reader_at(i); i++)
        if ((data[0] < 0xf0 ? data[0] % 3 : 3 + data[0] % 2) == i)
            pdl_launch_read(
                a, pdl_launch_reader_at(i)->name,
                (struct pdl_bytes){(const char *)data + 1, size - 1}, "fuzz",
                data[0] / 3 % 4 * 8, &out, &err);
    pdl_arena_destroy(a);
    return 0;
}
