/* Names of algorithms with parameters, for every collective (the first byte):
 * one message, or an algorithm of that collective. */
#include "paradl/coll.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pdl_coll_job job = {.alg = NULL};
    struct pdl_err err = {"", ""};
    const struct pdl_collective *c;
    int n = 0;
    char *spec;

    while (pdl_collective_at(n))
        n++;
    if (size == 0)
        return 0;
    c = pdl_collective_at(data[0] % n);
    spec = strndup((const char *)data + 1, size - 1);
    if (spec && pdl_alg_parse(c->name, spec, &job, &err) != PDL_OK) {
        if (!*err.msg || strchr(err.msg, '\n'))
            abort();
    } else if (spec && (!job.alg || job.alg->collective != c)) {
        abort();
    }
    free(spec);
    return 0;
}
