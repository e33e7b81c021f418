/* Files of measured runs: rows, or one message; what is kept can be ranked. */
#include "paradl/oracle.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pdl_arena *a = pdl_arena_create(64 << 20);
    struct pdl_bytes in = {(const char *)data, size};
    struct pdl_row_filter all = {.n = 0};
    struct pdl_err err = {"", ""};
    const struct pdl_doc *doc;
    struct pdl_runs runs;

    if (!a)
        return 0;
    if (pdl_doc_json(a, in, "f", &doc, &err) == PDL_OK) {
        if (pdl_runs_read(a, doc, &all, &runs, &err) != PDL_OK) {
            if (!*err.msg)
                abort();
        } else {
            for (int i = 0; i < runs.n; i++)
                if (!(runs.run[i].step_s > 0 ||
                      runs.run[i].allocated_bytes > 0 ||
                      runs.run[i].reserved_bytes > 0 ||
                      runs.run[i].device_bytes > 0) ||
                    runs.run[i].batch < 1 || !runs.run[i].axes)
                    abort();
        }
    }
    pdl_arena_destroy(a);
    return 0;
}
