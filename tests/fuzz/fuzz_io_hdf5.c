/* Any bytes as an HDF5 file: refused in one line, or readable to the end. The
 * reader takes a path (the library opens it by itself, and no nameless file), so
 * the bytes are a file for a moment. Without HDF5 there is nothing to find:
 * still one line. */
#include "fuzz_io_array.h"

#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
const char *__lsan_default_suppressions(void);

/* HDF5 1.10 itself loses memory on some broken files. */
const char *__lsan_default_suppressions(void)
{
    return "leak:libhdf5";
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char magic[] = "\x89HDF\r\n\x1a\n";
    struct pdl_io_options opt = {.max_bytes = 1 << 24};
    struct pdl_err err = {"", ""};
    char path[] = "/tmp/fuzz_hdf5_XXXXXX";
    int fd = mkstemp(path);
    pdl_io *io = NULL;
    enum pdl_status st;

    if (fd < 0)
        return 0;
    /* always the right first bytes: other formats have targets of their own */
    if (write(fd, magic, 8) == 8 && size > 8 &&
        write(fd, data + 8, size - 8) == (ssize_t)(size - 8)) {
        st = pdl_io_open(path, &opt, &io, &err);
        fuzz_message(st, &err);
        if (st == PDL_OK)
            fuzz_samples(io);
        pdl_io_close(io);
    }
    close(fd);
    unlink(path);
    return 0;
}
