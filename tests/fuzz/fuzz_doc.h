/* Readers of document trees: any bytes give a tree or one message, in bounded
 * memory; a tree has as many children as it says, and places from 1. */
#ifndef FUZZ_DOC_H
#define FUZZ_DOC_H

#include "paradl/base.h"

#include <stdlib.h>
#include <string.h>

static void walk(const struct pdl_doc *d, int depth)
{
    int n = 0;

    if (depth > 64 || d->line < 1 || d->col < 1)
        abort();
    if (d->kind == PDL_DOC_SCALAR && !d->text)
        abort();
    for (const struct pdl_doc *c = d->child; c; c = c->next, n++) {
        if ((d->kind == PDL_DOC_MAP) != (c->key != NULL))
            abort();
        if (c->key && c->kind != PDL_DOC_NULL && pdl_doc_get(d, c->key) != c)
            abort(); /* a key set twice */
        walk(c, depth + 1);
    }
    if (n != d->count)
        abort();
}

typedef enum pdl_status fuzz_doc_read(pdl_arena *a, struct pdl_bytes in,
                                      const char *name,
                                      const struct pdl_doc **out,
                                      struct pdl_err *err);

static int fuzz_doc(fuzz_doc_read *read, const uint8_t *data, size_t size)
{
    pdl_arena *a = pdl_arena_create(16 << 20);
    const struct pdl_doc *d = NULL;
    struct pdl_err err = {"", ""};
    struct pdl_bytes in = {(const char *)data, size};

    if (!a)
        return 0;
    if (read(a, in, "f", &d, &err) == PDL_OK)
        walk(d, 0);
    else if (!*err.msg || d)
        abort();
    pdl_arena_destroy(a);
    return 0;
}

#endif
