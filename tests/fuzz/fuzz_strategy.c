#include "paradl/plan.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Whatever parses must print and parse again to the same strategy. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pdl_arena *a = pdl_arena_create(1 << 22);
    char *text = a ? pdl_arena_strndup(a, (const char *)data, size) : NULL;
    struct pdl_strategy s, again;
    struct pdl_mesh m;
    struct pdl_buf b;

    if (text && pdl_strategy_parse(a, text, &s, NULL) == PDL_OK) {
        (void)pdl_mesh_make(&s, &m, NULL);
        pdl_buf_init(&b);
        pdl_strategy_print(&s, &b.sink);
        if (pdl_strategy_parse(a, b.text, &again, NULL) != PDL_OK ||
            !pdl_strategy_equal(&s, &again))
            abort();
        pdl_buf_free(&b);
    }
    pdl_arena_destroy(a);
    return 0;
}
