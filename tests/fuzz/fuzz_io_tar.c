/* Any bytes as a tar file of samples: refused in one line, or samples whose
 * images lie within it. Sums of headers are set right, or nothing is reached. */
#include "fuzz_io_array.h"
#include "images.h"

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fix_sums(unsigned char *p, size_t size)
{
    for (size_t at = 0; at + 512 <= size; at += 512) {
        unsigned sum = 0;

        if (memcmp(p + at + 257, "ustar", 5) != 0)
            continue;
        memset(p + at + 148, ' ', 8);
        for (size_t i = 0; i < 512; i++)
            sum += p[at + i];
        snprintf((char *)p + at + 148, 8, "%06o", sum);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pdl_err err = {"", ""};
    unsigned char *copy = malloc(size + 1);
    pdl_io *io = calloc(1, sizeof *io);
    struct io_images *s = NULL;
    int32_t most = -1;
    enum pdl_status st;

    if (!copy || !io)
        abort();
    memcpy(copy, data, size);
    fix_sums(copy, size);
    io->path = "x";
    io->opt.side = 8;
    io->arena = pdl_arena_create(1 << 20);
    s = io->arena ? io_images_new(io, &err) : NULL;
    if (s) {
        st = io_tar_index(io, (struct pdl_bytes){(const char *)copy, size}, "x",
                          0, &most, &err);
        fuzz_message(st, &err);
        for (int64_t i = 0; st == PDL_OK && i < s->split[0].n; i++) {
            const struct io_image *x = &s->split[0].image[i];

            if (x->label < 0 || x->label > most ||
                x->data.data < (const char *)copy ||
                x->data.data + x->data.len > (const char *)copy + size)
                abort();
        }
    }
    pdl_io_close(io);
    free(copy);
    return 0;
}
