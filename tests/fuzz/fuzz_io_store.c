/* Any bytes as the file of a store: refused in one line, or every sample in it
 * is read, and new ones find room. The checksum of the header is set right:
 * what a fuzzer cannot reach by chance is what is looked at here. */
#include "fuzz_io_array.h"
#include "store.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
#include <xxhash.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fix_sum(unsigned char *p, size_t size)
{
    struct store_header h;

    if (size < sizeof h)
        return;
    memcpy(&h, p, sizeof h);
    h.sum = XXH3_64bits(&h, offsetof(struct store_header, sum));
    memcpy(p, &h, sizeof h);
}

static void read_all(pdl_store *s)
{
    struct pdl_store_info info;
    void *record;

    pdl_store_describe(s, &info);
    if (info.capacity > 1 << 16 || info.record_bytes > 1 << 20)
        return;
    record = malloc((size_t)info.record_bytes);
    for (int64_t i = 0; record && i < info.capacity; i++) {
        int64_t x = pdl_store_at(s, i);

        if (x >= 0)
            (void)pdl_store_get(s, x, record, NULL);
    }
    free(record);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char path[64];
    struct pdl_err err = {"", ""};
    unsigned char *copy = malloc(size + 1);
    pdl_store *s = NULL;
    enum pdl_status st;
    FILE *f;

    if (!*path)
        snprintf(path, sizeof path, "/tmp/paradl-fuzz-%d.store", (int)getpid());
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    if (size > 0 && data[size - 1] != 'x') {
        fix_sum(copy, size);
        if (size > STORE_HEADER)
            fix_sum(copy + STORE_HEADER, size - STORE_HEADER);
    }
    f = fopen(path, "wb");
    if (f) {
        fwrite(copy, 1, size, f);
        fclose(f);
        st = pdl_store_open(path, NULL, 0, 0, &s, &err);
        fuzz_message(st, &err);
        if (st == PDL_OK)
            read_all(s);
        pdl_store_close(s);
        unlink(path);
    }
    free(copy);
    return 0;
}
