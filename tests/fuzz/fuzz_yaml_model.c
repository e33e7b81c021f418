/* Any bytes as a model in our own format: refused in one line, or a sound
 * model that is written and read back to the same text. */
#include "paradl/model.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void again(const struct pdl_model *m)
{
    pdl_arena *a = pdl_arena_create((size_t)64 << 20);
    const struct pdl_model *back = NULL;
    struct pdl_buf one, two;

    pdl_buf_init(&one);
    pdl_buf_init(&two);
    pdl_model_yaml_write(m, &one.sink);
    if (!a || one.sink.failed ||
        pdl_model_yaml(a, (struct pdl_bytes){one.text, one.len}, "again.yaml",
                       &back, NULL) != PDL_OK)
        abort();
    pdl_model_yaml_write(back, &two.sink);
    if (two.sink.failed || strcmp(one.text, two.text) != 0)
        abort();
    pdl_buf_free(&one);
    pdl_buf_free(&two);
    pdl_arena_destroy(a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pdl_arena *a = pdl_arena_create((size_t)16 << 20);
    const struct pdl_model *m = NULL;
    struct pdl_model_totals t;
    struct pdl_err err = {"", ""};
    struct pdl_bytes in = {(const char *)data, size};

    if (!a)
        return 0;
    if (pdl_model_yaml(a, in, "fuzz.yaml", &m, &err) != PDL_OK) {
        if (!*err.msg || strchr(err.msg, '\n'))
            abort();
    } else {
        if (pdl_model_check(m, &err) != PDL_OK)
            abort();
        for (int i = 0; i < m->nnodes; i++)
            for (int p = PDL_FORWARD; p <= PDL_BACKWARD_WEIGHTS; p++) {
                struct pdl_work w;

                if (pdl_node_work(m, i, (enum pdl_pass)p, 32, PDL_F32, &w,
                                  &err) == PDL_OK &&
                    (w.flops < 0 || w.read_bytes < 0 || w.write_bytes < 0))
                    abort();
            }
        if (pdl_model_totals(m, &t, &err) == PDL_OK && t.parameters < 0)
            abort();
        again(m);
    }
    pdl_arena_destroy(a);
    return 0;
}
