/* The index of weights in several files: refused in one line, or every tensor
 * can be read. The one file there is holds a tensor "w" of two numbers. */
#include "fuzz_io_array.h"

#include <stdio.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_all(const pdl_weights *w)
{
    float x[2];

    for (int i = 0; i < pdl_weights_count(w); i++) {
        const struct pdl_ckpt_tensor *t = pdl_weights_tensor(w, i);
        struct pdl_box whole = {.ndims = 1, .hi = {2}};

        if (t->rank != 1 || t->bytes != sizeof x ||
            pdl_weights_read(w, i, &whole, x, NULL) != PDL_OK)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char header[] =
        "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}";
    char file[sizeof header - 1 + 16] = {(char)(sizeof header - 1)};
    char folder[48], index[64], part[64];
    struct pdl_err err = {"", ""};
    pdl_weights *w = NULL;

    memcpy(file + 8, header, sizeof header - 1);
    snprintf(folder, sizeof folder, "/tmp/paradl-fuzz-XXXXXX");
    if (!mkdtemp(folder))
        return 0;
    snprintf(part, sizeof part, "%s/a", folder);
    snprintf(index, sizeof index, "%s/i.json", folder);
    if (pdl_file_write(part, file, sizeof file, NULL) == PDL_OK &&
        pdl_file_write(index, (const char *)data, size, NULL) == PDL_OK) {
        enum pdl_status st = pdl_weights_open(index, &w, &err);

        fuzz_message(st, &err);
        if (st == PDL_OK)
            read_all(w);
        pdl_weights_close(w);
    }
    unlink(part);
    unlink(index);
    rmdir(folder);
    return 0;
}
