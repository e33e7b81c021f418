/* SPDX-License-Identifier: Apache-2.0
 *
 * The document tree under construction: what the YAML and the JSON reader
 * have in common. Refuses duplicate keys, NUL bytes and deep nesting. */
#include "base_priv.h"

#include <string.h>
#include <xxhash.h>

void base_doc_begin(struct base_doc_builder *b, pdl_arena *a, const char *file,
                    struct pdl_err *err)
{
    *b = (struct base_doc_builder){.arena = a, .file = file, .err = err};
}

static enum pdl_status no_memory(struct base_doc_builder *b)
{
    return pdl_fail(b->err, PDL_ENOMEM, "%s: too large to hold in memory",
                    b->file);
}

/* Adds the node below the innermost open one, under its waiting key. */
static struct pdl_doc *add(struct base_doc_builder *b, enum pdl_doc_kind kind,
                           int line, int col)
{
    struct pdl_doc *d = PDL_NEW(b->arena, struct pdl_doc, 1);
    struct frame *f;

    if (!d)
        return NULL;
    *d = (struct pdl_doc){
        .kind = kind, .line = line, .col = col, .file = b->file};
    if (b->depth == 0) {
        b->root = d;
        return d;
    }
    f = &b->stack[b->depth - 1];
    if (f->last)
        f->last->next = d;
    else
        f->node->child = d;
    f->last = d;
    f->node->count++;
    d->key = f->key;
    d->key_line = f->key_line;
    d->key_col = f->key_col;
    f->key = NULL;
    return d;
}

static bool insert(const char **keys, size_t cap, const char *key)
{
    size_t i = XXH3_64bits(key, strlen(key)) & (cap - 1);

    while (keys[i] && strcmp(keys[i], key) != 0)
        i = (i + 1) & (cap - 1);
    if (keys[i])
        return false;
    keys[i] = key;
    return true;
}

static enum pdl_status set_key(struct base_doc_builder *b, struct frame *f,
                               const char *key, int line, int col)
{
    if (2 * f->nkeys >= f->cap) {
        size_t cap = f->cap ? 4 * f->cap : 16;
        const char **grown = PDL_NEW(b->arena, const char *, cap);

        if (!grown)
            return no_memory(b);
        for (size_t i = 0; i < f->cap; i++)
            if (f->keys[i])
                insert(grown, cap, f->keys[i]);
        f->keys = grown;
        f->cap = cap;
    }
    if (!insert(f->keys, f->cap, key))
        return pdl_fail(b->err, PDL_EPARSE, "%s:%d:%d: '%.60s' is set twice",
                        b->file, line, col, key);
    f->nkeys++;
    f->key = key;
    f->key_line = line;
    f->key_col = col;
    return PDL_OK;
}

enum pdl_status base_doc_scalar(struct base_doc_builder *b, const char *text,
                                size_t len, bool quoted, int line, int col)
{
    struct frame *f = b->depth ? &b->stack[b->depth - 1] : NULL;
    const char *copy;
    struct pdl_doc *d;

    if (text && memchr(text, '\0', len))
        return pdl_fail(b->err, PDL_EPARSE, "%s:%d:%d: text with a NUL byte",
                        b->file, line, col);
    if (!text && f && f->node->kind == PDL_DOC_MAP && !f->key)
        return pdl_fail(b->err, PDL_EPARSE, "%s:%d:%d: a key must be text",
                        b->file, line, col);
    copy = pdl_arena_strndup(b->arena, text ? text : "", text ? len : 0);
    if (!copy)
        return no_memory(b);
    if (f && f->node->kind == PDL_DOC_MAP && !f->key)
        return set_key(b, f, copy, line, col);
    d = add(b, text ? PDL_DOC_SCALAR : PDL_DOC_NULL, line, col);
    if (!d)
        return no_memory(b);
    d->text = copy;
    d->quoted = quoted;
    return PDL_OK;
}

enum pdl_status base_doc_open(struct base_doc_builder *b,
                              enum pdl_doc_kind kind, int line, int col)
{
    struct frame *f = b->depth ? &b->stack[b->depth - 1] : NULL;
    struct pdl_doc *d;

    if (b->depth == BASE_DOC_DEPTH)
        return pdl_fail(b->err, PDL_EPARSE,
                        "%s:%d:%d: nested deeper than %d levels", b->file, line,
                        col, BASE_DOC_DEPTH);
    if (f && f->node->kind == PDL_DOC_MAP && !f->key)
        return pdl_fail(b->err, PDL_EPARSE, "%s:%d:%d: a key must be text",
                        b->file, line, col);
    d = add(b, kind, line, col);
    if (!d)
        return no_memory(b);
    b->stack[b->depth++] = (struct frame){.node = d};
    return PDL_OK;
}

void base_doc_close(struct base_doc_builder *b)
{
    b->depth--;
}
