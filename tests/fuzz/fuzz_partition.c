/* Ways to divide samples among clients: any text makes a partition in which
 * nobody has a sample twice, or gives one message. */
#include "paradl/data.h"

#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 200, CLIENTS = 13, CLASSES = 10 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct pdl_partition *p)
{
    char seen[SAMPLES] = {0};

    for (int64_t c = 0; c < CLIENTS; c++) {
        if (p->group[c] < 0 || p->group[c] >= p->groups ||
            p->first[c + 1] < p->first[c])
            abort();
        for (int64_t i = p->first[c]; i < p->first[c + 1]; i++) {
            int64_t x = p->sample[i];

            if (x < 0 || x >= SAMPLES || seen[x]++)
                abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pdl_partition_options o = {
        .samples = SAMPLES, .clients = CLIENTS, .classes = CLASSES, .seed = 3};
    pdl_arena *a = pdl_arena_create(16 << 20);
    struct pdl_err err = {"", ""};
    char *text = calloc(size + 1, 1);
    int32_t labels[SAMPLES];
    struct pdl_partition p;

    if (!a || !text) {
        free(text);
        pdl_arena_destroy(a);
        return 0;
    }
    memcpy(text, data, size);
    for (int i = 0; i < SAMPLES; i++)
        labels[i] = i * 7 % CLASSES;
    o.labels = labels;
    o.how = text;
    if (pdl_partition_make(a, &o, &p, &err) == PDL_OK)
        check(&p);
    else if (!*err.msg)
        abort();
    free(text);
    pdl_arena_destroy(a);
    return 0;
}
