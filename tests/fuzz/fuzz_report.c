/* Pages from hostile results: a page or one message, in bounded memory and
 * size, and never half a page. */
#include "paradl/report.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pdl_arena *a = pdl_arena_create(64 << 20);
    struct pdl_err err = {"", ""};
    struct pdl_bytes in = {(const char *)data, size};
    struct pdl_buf page;

    if (!a)
        return 0;
    pdl_buf_init(&page);
    if (pdl_report_html(a, in, "f", &page.sink, &err) != PDL_OK) {
        if (!*err.msg || page.len > 0)
            abort();
    } else if (page.len > PDL_REPORT_MAX_BYTES ||
               !strstr(page.text, "</html>")) {
        abort();
    }
    pdl_buf_free(&page);
    pdl_arena_destroy(a);
    return 0;
}
