/* SimGrid platform files: whatever is accepted is a network that holds
 * together and is read back the same after being written. */
#include "paradl/net.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void again(pdl_arena *a, const struct pdl_net *net)
{
    const struct pdl_net *back = NULL;
    struct pdl_err err = {"", ""};
    struct pdl_buf text;

    pdl_buf_init(&text);
    if (net->nhosts <= 256 &&
        pdl_net_write_simgrid(net, &text.sink, &err) == PDL_OK &&
        pdl_net_read_simgrid(a, (struct pdl_bytes){text.text, text.len},
                             "again.xml", &back, &err) == PDL_OK &&
        (back->nhosts != net->nhosts || back->nlinks != net->nlinks))
        abort();
    pdl_buf_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pdl_arena *a = pdl_arena_create((size_t)16 << 20);
    struct pdl_bytes in = {(const char *)data, size};
    const struct pdl_net *net = NULL;
    struct pdl_err err = {"", ""};

    if (!a)
        return 0;
    if (pdl_net_read_simgrid(a, in, "p.xml", &net, &err) != PDL_OK) {
        if (!*err.msg)
            abort();
    } else {
        if (pdl_net_check(net, 2000, &err) != PDL_OK)
            abort();
        again(a, net);
    }
    pdl_arena_destroy(a);
    return 0;
}
