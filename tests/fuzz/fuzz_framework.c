/* The reader of framework files: what it accepts can be shown, what it refuses
 * has a message. */
#include "paradl/oracle.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pdl_arena *a = pdl_arena_create((size_t)64 << 20);
    struct pdl_bytes in = {(const char *)data, size};
    struct pdl_err err = {"", ""};
    const struct pdl_framework *f = NULL;
    const struct pdl_habit *h;

    if (a && pdl_framework_read(a, in, "fuzz", &f, &err) == PDL_OK) {
        for (int i = 0; (h = pdl_framework_habit(f, i)) != NULL; i++)
            if (!h->value || !h->kind || !h->source)
                abort();
        for (int i = 0; (h = pdl_framework_ability(f, i)) != NULL; i++)
            if (!h->key || !h->value)
                abort();
    } else if (!*err.msg) {
        abort();
    }
    pdl_arena_destroy(a);
    return 0;
}
