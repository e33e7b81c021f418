/* Any text as the name of a network: refused in one line, or a sound model. */
#include "paradl/model.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pdl_arena *a = pdl_arena_create((size_t)64 << 20);
    const char *spec =
        a ? pdl_arena_strndup(a, (const char *)data, size) : NULL;
    const struct pdl_model *m = NULL;
    struct pdl_model_totals t;
    struct pdl_err err = {"", ""};

    if (spec && pdl_zoo_build(a, spec, &m, &err) != PDL_OK) {
        if (!*err.msg || strchr(err.msg, '\n') || m)
            abort();
    } else if (spec) {
        if (pdl_model_check(m, &err) != PDL_OK)
            abort();
        if (pdl_model_totals(m, &t, &err) == PDL_OK && t.parameters < 0)
            abort();
    }
    pdl_arena_destroy(a);
    return 0;
}
