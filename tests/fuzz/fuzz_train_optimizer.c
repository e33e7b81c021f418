/* The optimizer a user asks for: one message, or one of ours with settings in
 * their range. */
#include "train/optim/optim.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pdl_arena *a = pdl_arena_create(1 << 20);
    char *text = a ? pdl_arena_strndup(a, (const char *)data, size) : NULL;
    const struct train_optimizer *how = NULL;
    struct train_hyper h;
    struct pdl_err err = {"", ""};

    if (text) {
        if (train_optimizer_parse(a, text, &how, &h, &err) != PDL_OK) {
            if (!*err.msg || strchr(err.msg, '\n'))
                abort();
        } else if (!how || !(h.momentum >= 0 && h.beta1 >= 0 && h.beta2 >= 0 &&
                             h.eps >= 0 && h.weight_decay >= 0)) {
            abort();
        }
    }
    pdl_arena_destroy(a);
    return 0;
}
