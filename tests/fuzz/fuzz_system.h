/* What the fuzz targets of the system room have in common: an importer's
 * result must be a system that can be written, read and written the same. */
#ifndef FUZZ_SYSTEM_H
#define FUZZ_SYSTEM_H

#include "paradl/system.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void fuzz_fail(const char *what, const char *text)
{
    fprintf(stderr, "%s\n%s\n", what, text);
    abort();
}

/* write(read(write(x))) == write(x) */
static inline void fuzz_fixed_point(pdl_arena *a, const struct pdl_system *sys)
{
    struct pdl_err err = {"", ""};
    struct pdl_system again;
    struct pdl_buf one, two;

    pdl_buf_init(&one);
    pdl_buf_init(&two);
    pdl_system_write(sys, &one.sink);
    if (pdl_system_read(a, (struct pdl_bytes){one.text, one.len}, "again",
                        &again, &err) == PDL_OK) {
        pdl_system_write(&again, &two.sink);
        if (one.len != two.len || memcmp(one.text, two.text, one.len) != 0)
            fuzz_fail("not a fixed point", one.text);
    } else if (!strstr(err.msg, "memory")) {
        fuzz_fail(err.msg, one.text);
    }
    pdl_buf_free(&one);
    pdl_buf_free(&two);
}

static inline void fuzz_import(const char *importer, const uint8_t *data,
                               size_t size, const struct pdl_import *how)
{
    pdl_arena *a = pdl_arena_create((size_t)64 << 20);
    struct pdl_bytes in = {(const char *)data, size};
    struct pdl_err err = {"", ""};
    const struct pdl_importer *im = NULL;
    struct pdl_system sys;

    for (int i = 0; pdl_importer_at(i); i++)
        if (strcmp(pdl_importer_at(i)->name, importer) == 0)
            im = pdl_importer_at(i);
    pdl_system_blank(&sys);
    if (a && im && im->run(a, in, "fuzz", how, &sys, &err) == PDL_OK) {
        if (pdl_system_update(a, &sys, &err) == PDL_OK)
            fuzz_fixed_point(a, &sys);
    } else if (!*err.msg) {
        fuzz_fail("failed without a message", importer);
    }
    pdl_arena_destroy(a);
}

#endif
