/* Topology texts: whatever is accepted is a network that holds together. The
 * arena is small so that no input may spend long on a large one. */
#include "paradl/net.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool names_a_file(const char *text)
{
    return strstr(text, ".xml") != NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pdl_arena *a = pdl_arena_create((size_t)1 << 20);
    char *text = malloc(size + 1);
    const struct pdl_net *net = NULL;
    struct pdl_err err = {"", ""};
    struct pdl_metrics m;

    if (a && text) {
        memcpy(text, data, size);
        text[size] = '\0';
        if (!names_a_file(text)) {
            if (pdl_net_make(a, text, &net, &err) != PDL_OK) {
                if (!*err.msg)
                    abort();
            } else {
                if (pdl_net_check(net, 2000, &err) != PDL_OK)
                    abort();
                if (net->nhosts <= 64 && net->nlinks <= 2000)
                    pdl_net_metrics(a, net, &m, &err);
            }
        }
    }
    free(text);
    pdl_arena_destroy(a);
    return 0;
}
