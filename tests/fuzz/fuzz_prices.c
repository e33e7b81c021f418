/* The reader of prices: what it accepts says where it comes from, what it
 * refuses has a message. */
#include "paradl/design.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pdl_arena *a = pdl_arena_create((size_t)64 << 20);
    struct pdl_bytes in = {(const char *)data, size};
    struct pdl_err err = {"", ""};
    struct pdl_prices p;

    if (a && pdl_prices_read(a, in, "fuzz", &p, &err) == PDL_OK) {
        for (int i = 0; i < p.n; i++)
            if (!*p.item[i].source || !(p.item[i].low <= p.item[i].value) ||
                !(p.item[i].value <= p.item[i].high) ||
                pdl_price_find(&p, p.item[i].item) != &p.item[i])
                abort();
    } else if (!*err.msg) {
        abort();
    }
    pdl_arena_destroy(a);
    return 0;
}
