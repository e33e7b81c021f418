/* Files of layer times: rows, or one message; every row that is read has a
 * time on a PE that is described and on one that is not. */
#include "paradl/oracle.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct pdl_pe pe = {
        .name = "pe",
        .memory_bytes_per_s = 1e12,
        .peak_flop_per_s = {1e12, 1e12, 1e12, 1e12, 1e12, 1e12},
        .l2_bytes = 1 << 25,
        .units = 100,
    };
    pdl_arena *a = pdl_arena_create(64 << 20);
    struct pdl_bytes in = {(const char *)data, size};
    struct pdl_row_filter all = {.n = 0};
    struct pdl_err err = {"", ""};
    struct pdl_layer_times t;
    const struct pdl_doc *doc;

    if (!a)
        return 0;
    if (pdl_doc_json(a, in, "f", &doc, &err) == PDL_OK) {
        if (pdl_layers_read(a, doc, &all, &t, &err) != PDL_OK) {
            if (!*err.msg)
                abort();
        } else {
            for (int i = 0; i < t.n; i++)
                if (!(pdl_layer_seconds(&pe, &t.row[i]) >= 0))
                    abort();
        }
    }
    pdl_arena_destroy(a);
    return 0;
}
