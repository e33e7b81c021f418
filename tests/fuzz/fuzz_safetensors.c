/* Any bytes as a safetensors file: refused in one line, or sound counts. The
 * last two bytes say how much longer the file is than what is given. */
#include "paradl/model.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pdl_arena *a = pdl_arena_create((size_t)64 << 20);
    const struct pdl_model *m = NULL;
    struct pdl_model_totals t;
    struct pdl_err err = {"", ""};
    int64_t more = 0;

    if (!a)
        return 0;
    if (size >= 2) {
        more = data[size - 1] << 8 | data[size - 2];
        size -= 2;
    }
    if (pdl_model_safetensors(a, (struct pdl_bytes){(const char *)data, size},
                              (int64_t)size + more, "x.safetensors", &m,
                              &err) != PDL_OK) {
        if (!*err.msg || strchr(err.msg, '\n') || m)
            abort();
    } else {
        if (pdl_model_check(m, &err) != PDL_OK)
            abort();
        if (pdl_model_totals(m, &t, &err) == PDL_OK &&
            (t.parameters < 0 || t.buffers < 0))
            abort();
    }
    pdl_arena_destroy(a);
    return 0;
}
