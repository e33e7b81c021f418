/* Any text as the algorithm of a communicator: refused in one line, or the
 * communicator takes what it was asked for. The first byte is the number of
 * ranks. */
#include "comm_core.h"

#include <stdlib.h>

enum { MOST = 9 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pdl_comm *comms[MOST] = {NULL};
    struct pdl_err err = {"", ""};
    struct pdl_comm_options opt = {.algorithm = NULL};
    int n = size > 0 ? 1 + data[0] % MOST : 0;
    char text[128] = "";

    if (n == 0)
        return 0;
    size--;
    memcpy(text, data + 1, size < sizeof text ? size : sizeof text - 1);
    opt.algorithm = text;
    opt.fixed_order = data[0] >= 128;
    if (pdl_comm_create_memory(n, &opt, comms, &err) != PDL_OK) {
        if (!*err.msg || strchr(err.msg, '\n'))
            abort();
        return 0;
    }
    if (!pdl_comm_choice(comms[0], "allreduce", 4096) ||
        !pdl_comm_choice(comms[0], "allgather", 4096))
        abort();
    for (int i = 0; i < n; i++)
        pdl_comm_destroy(comms[i]);
    return 0;
}
