/* Any bytes as a JPEG image: decoded to so many pixels, or one line. */
#include "fuzz_io_array.h"
#include "images.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned char planes[3 * 24 * 24];
    struct pdl_err err = {"", ""};

    fuzz_message(io_jpeg_decode((struct pdl_bytes){(const char *)data, size},
                                "x", 24, planes, &err),
                 &err);
    return 0;
}
