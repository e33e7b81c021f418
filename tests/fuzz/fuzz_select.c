/* Conditions on rows of measurements: one message, or conditions on known keys
 * that any value can be held against. */
#include "paradl/oracle.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const keys[] = {"model", "axes", "pes", NULL};
    pdl_arena *a = pdl_arena_create(1 << 20);
    char *text = a ? pdl_arena_strndup(a, (const char *)data, size) : NULL;
    struct pdl_err err = {"", ""};
    struct pdl_row_filter s;

    if (text) {
        if (pdl_row_filter_parse(a, text, keys, &s, &err) != PDL_OK) {
            if (!*err.msg || strchr(err.msg, '\n'))
                abort();
        } else {
            for (int i = 0; i < s.n; i++)
                (void)pdl_row_filter_has(&s, s.key[i], "vgg16_bn:image=224");
        }
    }
    pdl_arena_destroy(a);
    return 0;
}
