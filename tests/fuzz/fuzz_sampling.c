/* Ways to shuffle and hide samples: any text makes a sampler whose first two
 * epochs list samples of the data set, or gives one message. */
#include "paradl/data.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(pdl_sampler *s)
{
    for (int e = 0; e < 2; e++) {
        pdl_sampler_next(s);
        if (pdl_sampler_batches(s) < 1)
            abort();
        for (int64_t p = 0; p < pdl_sampler_batches(s) * 12; p++) {
            int64_t x = pdl_sampler_at(s, p);

            if (x < 0 || x >= 100)
                abort();
            pdl_sampler_saw(s, x, (double)(x % 9) / 9, x % 2 == 0);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pdl_sampler_options o = {.samples = 100, .batch = 12, .epochs = 4};
    struct pdl_err err = {"", ""};
    char *text = calloc(size + 1, 1), *split;
    pdl_sampler *s = NULL;

    if (!text)
        return 0;
    memcpy(text, data, size);
    split = strchr(text, ' ');
    o.deal = text;
    if (split) {
        *split = '\0';
        o.hide = split + 1;
    }
    if (pdl_sampler_create(&o, &s, &err) == PDL_OK)
        walk(s);
    else if (!*err.msg)
        abort();
    pdl_sampler_destroy(s);
    free(text);
    return 0;
}
