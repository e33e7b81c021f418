/* The reader of design questions: what it accepts is whole, what it refuses
 * has a message. */
#include "paradl/design.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pdl_arena *a = pdl_arena_create((size_t)64 << 20);
    struct pdl_bytes in = {(const char *)data, size};
    struct pdl_err err = {"", ""};
    struct pdl_question q;

    if (a && pdl_question_read(a, in, "fuzz", &q, &err) == PDL_OK) {
        if (q.nworkloads < 1 || q.ndesigns < 1)
            abort();
        for (int i = 0; i < q.nworkloads; i++)
            if (!q.workload[i].model || q.workload[i].batch < 1)
                abort();
        for (int i = 0; i < q.ndesigns; i++)
            if (!q.design[i].system || !q.design[i].label ||
                q.design[i].pes < 1)
                abort();
    } else if (!*err.msg) {
        abort();
    }
    pdl_arena_destroy(a);
    return 0;
}
