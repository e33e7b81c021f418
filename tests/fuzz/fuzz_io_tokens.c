/* Any bytes as a tokens file: refused in one line, or every sample can be read. */
#include "fuzz_io_array.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pdl_io_options opt = {.sequence = 4, .max_bytes = 1 << 24};
    struct pdl_err err = {"", ""};
    pdl_io *io = NULL;
    enum pdl_status st =
        io_open_memory("x", (struct pdl_bytes){(const char *)data, size},
                       &io_format_tokens, &opt, &io, &err);

    fuzz_message(st, &err);
    if (st == PDL_OK)
        fuzz_samples(io);
    pdl_io_close(io);
    return 0;
}
