/* Any bytes as an ONNX file: refused in one line, or a sound model. */
#include "paradl/model.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pdl_arena *a = pdl_arena_create((size_t)64 << 20);
    struct pdl_model_options opt = {.dims = NULL};
    const struct pdl_model *m = NULL;
    struct pdl_model_totals t;
    struct pdl_err err = {"", ""};
    struct pdl_bytes in = {(const char *)data, size};
    enum pdl_status st;

    if (!a)
        return 0;
    st = pdl_model_onnx(a, in, "fuzz.onnx", &opt, &m, &err);
    if (st != PDL_OK) {
        if (!*err.msg || strchr(err.msg, '\n') ||
            (st != PDL_EPARSE && st != PDL_ENOMEM))
            abort();
    } else {
        if (pdl_model_check(m, &err) != PDL_OK)
            abort();
        if (pdl_model_totals(m, &t, &err) == PDL_OK &&
            (t.parameters < 0 || t.buffers < 0 || t.forward_flops < 0))
            abort();
    }
    pdl_arena_destroy(a);
    return 0;
}
