/* Any bytes as a profile: refused in one line, or a table that names an
 * algorithm for whatever is asked and reads back as it is written. */
#include "comm_core.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void reads_back(pdl_arena *a, const struct pdl_comm_table *t)
{
    struct pdl_err err = {"", ""};
    struct pdl_comm_table again = {NULL, 0};
    struct pdl_buf text;

    pdl_buf_init(&text);
    pdl_comm_table_print(t, &text.sink);
    if (comm_table_parse(a, (struct pdl_bytes){text.text, text.len}, "again",
                         &again, &err) != PDL_OK)
        abort();
    if (comm_table_mark(&again) != comm_table_mark(t))
        abort();
    pdl_buf_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pdl_arena *a = pdl_arena_create(64 << 20);
    struct pdl_bytes in = {(const char *)data, size};
    struct pdl_comm_table t = {NULL, 0};
    struct pdl_err err = {"", ""};

    if (!a)
        return 0;
    if (comm_table_parse(a, in, "f", &t, &err) != PDL_OK) {
        if (!*err.msg || strchr(err.msg, '\n'))
            abort();
    } else if (t.n > 0) {
        for (int n = 1; n < 70; n += 3)
            comm_table_find(&t, comm_collectives[n % 5], n,
                            (int64_t)1 << n % 60);
        reads_back(a, &t);
    }
    pdl_arena_destroy(a);
    return 0;
}
